//! What the cache relies on in a server: canaries for its next version. Each fact that is not true
//! any more changes what the cache must do.

use crate::support::*;
use std::time::Duration;

/// A server, a client that tracks with these options, and another one.
fn facts(options: &str, check: impl FnOnce(&RedisServer, &mut Resp, &mut Resp)) {
    let Some(server) = RedisServer::start() else { return };
    let mut tracks = Resp::tracking(server.port, options);
    let mut other = Resp::connect(server.port);
    check(&server, &mut tracks, &mut other);
}

fn invalidates(key: &str) -> String {
    format!("push[invalidate, [{key}]]")
}

const FLUSHED: &str = "push[invalidate, nil]";

#[test]
fn a_change_is_told_once_then_the_key_is_forgotten() {
    facts("", |_, tracks, other| {
        assert_eq!(tracks.ask("GET a"), "nil");
        other.send(&["SET a 1", "SET a 2"]);
        assert_eq!(tracks.rest(), [invalidates("a")]);
        assert_eq!(tracks.ask("GET a"), "2");
        other.ask("SET a 3");
        assert_eq!(tracks.rest(), [invalidates("a")], "a read tracks again");
    });
}

#[test]
fn replies_and_pushes_are_in_order() {
    facts("", |_, tracks, _| {
        tracks.ask("GET a");
        tracks.send(&["SET a own", "GET a", "PING"]);
        assert_eq!(tracks.rest(), ["+OK".into(), invalidates("a"), "own".into(), "+PONG".into()]);
        // Within a transaction: after the replies of all of it.
        tracks.send(&["MULTI", "SET a own", "GET a", "EXEC"]);
        let frames = tracks.rest();
        let executed = frames.iter().position(|frame| frame == "[+OK, own]");
        let told = frames.iter().position(|frame| *frame == invalidates("a"));
        assert!(executed.is_some() && told.is_some(), "{frames:?}");
    });
}

#[test]
fn without_echo_an_own_write_ends_the_tracking() {
    facts("NOLOOP", |_, tracks, other| {
        tracks.ask("GET a");
        assert_eq!(tracks.ask("SET a own"), "+OK");
        other.ask("SET a foreign");
        assert!(tracks.rest().is_empty(), "nothing is told");
        let script = "EVAL redis.call('SET',KEYS[1],'e')_return_redis.call('PTTL',KEYS[1]) 1 a";
        assert_eq!(tracks.ask(script), ":-1");
        other.ask("SET a foreign");
        assert_eq!(tracks.rest(), [invalidates("a")], "a read in the script tracks again");
        tracks.send(&["MULTI", "SET a own", "PTTL a", "EXEC"]);
        tracks.rest();
        other.ask("SET a foreign");
        assert_eq!(tracks.rest(), [invalidates("a")]);
    });
}

#[test]
fn reads_in_scripts_track() {
    facts("", |_, tracks, other| {
        for command in ["EVAL", "EVAL~RO"] {
            tracks.ask(&format!("{command} return_redis.call('GET',KEYS[1]) 1 a"));
            other.ask("SET a 1");
            assert_eq!(tracks.rest(), [invalidates("a")], "{command}");
        }
    });
}

#[test]
fn these_commands_track() {
    facts("", |_, tracks, other| {
        for command in ["PTTL", "EXISTS", "PEXPIRETIME", "STRLEN", "TOUCH", "OBJECT ENCODING"] {
            other.ask("SET t 1");
            tracks.ask(&format!("{command} t"));
            other.ask("SET t 2");
            assert_eq!(tracks.rest(), [invalidates("t")], "{command}");
        }
        tracks.ask("GETEX t");
        other.ask("SET t 3");
        assert!(tracks.rest().is_empty(), "GETEX is a write");
    });
}

#[test]
fn flushes_are_told_to_all() {
    facts("NOLOOP", |server, tracks, other| {
        other.ask("FLUSHALL");
        assert_eq!(tracks.rest(), [FLUSHED], "also if nothing was read");
        tracks.send(&["FLUSHDB"]);
        assert!(tracks.rest().contains(&FLUSHED.to_owned()), "also one's own");
        let mut bcast = Resp::tracking(server.port, "BCAST PREFIX p:");
        other.ask("FLUSHALL");
        assert_eq!(bcast.rest(), [FLUSHED]);
    });
}

/// Not supported, and documented so.
#[test]
fn swapped_databases_are_not_told() {
    facts("", |_, tracks, other| {
        other.send(&["SET a old", "SELECT 1", "SET a new"]);
        other.rest();
        assert_eq!(tracks.ask("GET a"), "old");
        assert_eq!(other.ask("SWAPDB 0 1"), "+OK");
        assert!(tracks.rest().is_empty());
        assert_eq!(tracks.ask("GET a"), "new");
    });
}

#[test]
fn all_of_these_are_changes() {
    facts("", |_, tracks, other| {
        other.ask("SET a 1");
        for change in [
            "PEXPIRE a 100000",
            "PERSIST a",
            "GETEX a PX 100000",
            "SET a 1",
            "RENAME a b",
            "RENAME b a",
            "MOVE a 1",
            "SET a 1",
            "DEL a",
            "SET a 1 NX",
            "UNLINK a",
            "APPEND a x",
        ] {
            tracks.ask("GET a");
            other.ask(change);
            assert_eq!(tracks.rest(), [invalidates("a")], "{change}");
        }
        for none in ["SET a 2 NX", "DEL missing"] {
            tracks.send(&["GET a", "GET missing"]);
            tracks.rest();
            other.ask(none);
            assert!(tracks.rest().is_empty(), "{none}");
        }
    });
}

/// So a copy has its own deadline, and a wait for a lease its own limit.
#[test]
fn an_expired_key_is_told_when_the_server_finds_it() {
    facts("", |_, tracks, other| {
        assert_eq!(other.ask("DEBUG SET-ACTIVE-EXPIRE 0"), "+OK");
        other.ask("SET e 1 PX 20");
        tracks.ask("GET e");
        std::thread::sleep(Duration::from_millis(60));
        assert!(tracks.rest().is_empty());
        tracks.send(&["GET e"]);
        assert_eq!(tracks.rest(), ["nil".to_owned(), invalidates("e")], "after the reply");
        other.ask("DEBUG SET-ACTIVE-EXPIRE 1");
        other.ask("SET e 1 PX 500");
        tracks.rest();
        assert_eq!(tracks.ask("GET e"), "1");
        assert_eq!(tracks.next(), invalidates("e"), "in a small database, by itself");
    });
}

/// Its cycle looks at some keys at a time.
#[test]
fn an_expired_key_among_many_is_told_late() {
    facts("", |_, tracks, other| {
        for thousand in 0..100 {
            let sets: Vec<String> =
                (0..1_000).map(|key| format!("SET o{thousand}x{key} 1 PX 600000")).collect();
            other.send(&sets.iter().map(String::as_str).collect::<Vec<_>>());
            (0..1_000).for_each(|_| assert_eq!(other.next(), "+OK"));
        }
        for key in 0..20 {
            other.ask(&format!("SET e{key} 1 PX 100"));
            tracks.ask(&format!("GET e{key}"));
        }
        std::thread::sleep(Duration::from_millis(1_000));
        let told = tracks.rest().iter().filter(|frame| frame.starts_with("push")).count();
        assert!(told < 20, "all are told");
    });
}

/// Pushes to a client that reads 300 keys where the table has room for 100.
fn pushes_of_a_full_table(options: &str, check: impl FnOnce(usize)) {
    facts(options, |_, tracks, other| {
        assert_eq!(other.ask("CONFIG SET tracking-table-max-keys 100"), "+OK");
        for key in 0..300 {
            tracks.send(&[&format!("GET x{key}")]);
        }
        check(tracks.rest().iter().filter(|frame| frame.starts_with("push")).count());
    });
}

#[test]
fn a_full_table_tells_of_what_has_not_changed() {
    pushes_of_a_full_table("", |pushes| assert!(pushes >= 150, "{pushes}"));
}

/// So the cache does not ask for that: a copy would stay when the server forgets its key.
#[test]
fn without_echo_what_own_commands_push_out_is_not_told() {
    pushes_of_a_full_table("NOLOOP", |pushes| assert!(pushes < 100, "{pushes} of 200"));
}

#[test]
fn an_evicted_key_is_told() {
    facts("", |_, tracks, other| {
        let value = "v".repeat(1_000);
        for key in 0..2_000 {
            other.ask(&format!("SET x{key} {value}"));
        }
        for key in 0..2_000 {
            tracks.ask(&format!("STRLEN x{key}"));
        }
        other.ask("CONFIG SET maxmemory-policy allkeys-lru");
        let info = other.ask("INFO memory");
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        let most = used.trim().parse::<u64>().unwrap() - 1_000_000;
        other.ask(&format!("CONFIG SET maxmemory {most}"));
        other.ask("SET more 1");
        let pushes = tracks.rest().iter().filter(|frame| frame.starts_with("push")).count();
        assert!(pushes > 0);
    });
}

/// So a cache has its database to itself, or is told of changes that are none.
#[test]
fn pushes_name_no_database() {
    facts("", |_, tracks, other| {
        tracks.ask("GET a");
        other.send(&["SELECT 3", "SET a 1"]);
        assert_eq!(tracks.rest(), [invalidates("a")]);
    });
}

/// A reply proves that everything before it has been told: the trust in copies rests on it.
#[test]
fn what_was_acknowledged_before_is_told_before_a_reply() {
    for options in ["", "BCAST PREFIX k"] {
        facts(options, |_, tracks, other| {
            for key in 0..200 {
                tracks.ask(&format!("GET k{key}"));
            }
            for key in 0..200 {
                assert_eq!(other.ask(&format!("SET k{key} 1")), "+OK");
            }
            tracks.send(&["PING"]);
            let mut told = 0;
            loop {
                let frame = tracks.next();
                if frame == "+PONG" {
                    break;
                }
                told += frame.matches('k').count();
            }
            assert_eq!(told, 200, "{options}");
        });
    }
}

#[test]
fn the_old_protocol_accepts_tracking_and_tells_nothing() {
    facts("", |server, _, other| {
        let mut old = Resp::old(server.port);
        assert_eq!(old.ask("CLIENT TRACKING ON"), "+OK");
        old.ask("GET a");
        other.ask("SET a 1");
        assert!(old.rest().is_empty());
    });
}

#[test]
fn by_prefix_all_changes_are_told_and_scripts_echo() {
    facts("BCAST PREFIX p: NOLOOP", |server, tracks, other| {
        other.send(&["SET p:1 1", "SET q:1 1"]);
        assert_eq!(tracks.rest(), [invalidates("p:1")], "also what was not read");
        assert_eq!(tracks.ask("SET p:1 own"), "+OK");
        assert!(tracks.rest().is_empty());
        tracks.send(&["EVAL return_redis.call('SET',KEYS[1],'own') 1 p:1"]);
        assert!(tracks.rest().contains(&invalidates("p:1")), "a script's write is nobody's own");
        // As this crate asks for it, one's own writes are told.
        let mut echoes = Resp::tracking(server.port, "BCAST PREFIX e:");
        echoes.send(&["SET e:1 own"]);
        assert!(echoes.rest().contains(&invalidates("e:1")));
        let mut overlaps = Resp::tracking(server.port, "BCAST PREFIX p:");
        assert!(overlaps.ask("CLIENT TRACKING ON BCAST PREFIX p:a").starts_with("-ERR"));
    });
}

#[test]
fn a_killed_client_is_told_by_the_end_of_its_connection() {
    facts("", |_, tracks, other| {
        let id = tracks.ask("CLIENT ID").replace(':', "");
        assert_eq!(other.ask(&format!("CLIENT KILL ID {id}")), ":1");
        assert!(tracks.has_ended());
    });
}

/// So the heartbeat is `ROLE`: a ping of a demoted primary is answered.
#[test]
fn a_demoted_primary_answers_and_tells_nothing() {
    facts("", |_, tracks, other| {
        other.ask("SET a 1");
        tracks.ask("GET a");
        // Its new primary is not there: it is cut off.
        assert_eq!(other.ask("REPLICAOF 127.0.0.1 1"), "+OK");
        assert!(tracks.rest().is_empty());
        assert_eq!(tracks.ask("PING"), "+PONG");
        assert_eq!(tracks.ask("GET a"), "1");
        assert!(tracks.ask("ROLE").starts_with("[slave"));
    });
}

#[test]
fn what_is_tracked_takes_memory() {
    facts("", |server, tracks, other| {
        let memory = |other: &mut Resp| {
            let info = other.ask("INFO memory");
            let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
            used.trim().parse::<i64>().unwrap()
        };
        let mut bytes_a_key = |reader: &mut Resp| {
            let before = memory(other);
            for key in 0..20_000 {
                reader.send(&[&format!("GET key:{key}")]);
                if key % 100 == 99 {
                    (0..100).for_each(|_| _ = reader.next());
                }
            }
            (memory(other) - before) / 20_000
        };
        let first = bytes_a_key(tracks);
        assert!((60..=200).contains(&first), "{first} bytes a key");
        let further = bytes_a_key(&mut Resp::tracking(server.port, ""));
        assert!((40..=110).contains(&further), "{further} bytes a key for a further client");
    });
}

/// Not used: this connection sends nothing else.
#[test]
fn by_opt_in_the_next_command_tracks_alone() {
    facts("OPTIN", |_, tracks, other| {
        tracks.ask("GET t");
        other.ask("SET t 1");
        assert!(tracks.rest().is_empty());
        tracks.send(&["CLIENT CACHING YES", "GET t", "GET u"]);
        tracks.rest();
        other.send(&["SET u 1", "SET t 2"]);
        assert_eq!(tracks.rest(), [invalidates("t")]);
        tracks.send(&["CLIENT CACHING YES", "MULTI", "GET t", "PTTL u", "EXEC"]);
        tracks.rest();
        other.send(&["SET u 1", "SET t 2"]);
        assert_eq!(tracks.rest(), [invalidates("u"), invalidates("t")]);
    });
}
