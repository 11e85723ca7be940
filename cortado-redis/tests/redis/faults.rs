//! What happens when the connection or the server fails.

use crate::support::*;
use cortado_redis::{Error, LinkState, LoadError, Loaded, Outage};
use redis::Commands;
use std::time::Instant;
use tokio::time::sleep;

#[test]
fn a_dead_connection_is_noticed_within_the_bound() {
    with_server(async |server| {
        for bound in [ms(200), ms(1_000)] {
            let (proxy, cache) = through(&server, |it| it.staleness_bound(bound)).await;
            sleep(bound * 2).await;
            assert_eq!(cache.local().get("k").as_deref(), Some("old"), "heartbeats keep the trust");
            proxy.set(Mode::Silent);
            write(&server, "new").await;
            let last = last_seen(&cache, "k", "old", bound * 2).await;
            assert!(last <= bound, "served {last:?} after the silence; the bound is {bound:?}");
            assert!(last >= ms(20), "{last:?}: something else has ended the trust");
            assert!(cache.get("k").await.unwrap_err().to_string().contains("server"));
            proxy.set(Mode::Pass);
            assert_eq!(first_read(&cache, "k").await.as_deref(), Some("new"));
            write(&server, "old").await;
        }
    });
}

#[test]
fn a_reset_is_distrusted_at_once() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it).await;
        for round in 0..5 {
            let before = if round == 0 { "old".to_owned() } else { (round - 1).to_string() };
            kept(&cache, "k", &before).await;
            proxy.set(Mode::Reset);
            write(&server, &round.to_string()).await;
            let last = last_seen(&cache, "k", &before, ms(300)).await;
            assert!(last <= ms(200), "{last:?}");
            assert!(cache.get("k").await.is_err());
            proxy.set(Mode::Pass);
            assert_eq!(first_read(&cache, "k").await, Some(round.to_string()));
        }
        assert!(cache.stats().losses >= 5);
        // The new connection tracks.
        kept(&cache, "k", "4").await;
        let connects = cache.stats().connects;
        write(&server, "told").await;
        assert!(last_seen(&cache, "k", "4", ms(1_200)).await <= ms(1_000));
        assert_eq!(get(&cache, "k").await.as_deref(), Some("told"));
        assert_eq!(cache.stats().connects, connects);
    });
}

#[test]
fn a_killed_client_comes_back_and_trusts_nothing_of_before() {
    with_server(async |server| {
        let (_proxy, cache) = through(&server, |it| it).await;
        for round in 0..8 {
            let before = if round == 0 { "old".to_owned() } else { (round - 1).to_string() };
            kept(&cache, "k", &before).await;
            let mut other = server.raw();
            let skip = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
            let mut kill = redis::cmd(skip[0]);
            skip[1..].iter().for_each(|word| _ = kill.arg(*word));
            let killed: u32 = kill.query(&mut other).unwrap();
            assert!(killed >= 1);
            write(&server, &round.to_string()).await;
            let last = last_seen(&cache, "k", &before, ms(150)).await;
            assert!(last <= ms(100), "{last:?}");
            until("the loss", async || cache.stats().losses > round).await;
            assert_eq!(get(&cache, "k").await, Some(round.to_string()), "it waits, and is fresh");
        }
    });
}

#[test]
fn a_restarted_server_is_empty() {
    with_server(async |mut server| {
        let cache = texts(server.port, |it| it);
        cache.insert("k", "old".to_owned()).await.unwrap();
        kept(&cache, "k", "old").await;
        server.kill();
        let last = last_seen(&cache, "k", "old", ms(300)).await;
        assert!(last <= ms(200), "{last:?}");
        server.restart();
        assert_eq!(first_read(&cache, "k").await, None);
    });
}

#[test]
fn a_reply_on_its_way_is_overtaken_by_the_change() {
    with_server(async |server| {
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, |it| it);
        // The server has the script then.
        assert_eq!(get(&cache, "other").await, None);
        for round in 0..20 {
            let (old, new) = (format!("old {round}"), format!("new {round}"));
            write(&server, &old).await;
            until("told", async || get(&cache, "k").await.as_ref() == Some(&old)).await;
            cache.local().invalidate("k");
            // The reply and the server's word come in one piece.
            proxy.set(Mode::Hold);
            let reading = tokio::spawn({
                let cache = cache.clone();
                async move { get(&cache, "k").await }
            });
            sleep(ms(20)).await;
            let pushes = cache.stats().pushes;
            write(&server, &new).await;
            sleep(ms(5)).await;
            proxy.set(Mode::Pass);
            assert_eq!(reading.await.unwrap().as_ref(), Some(&old));
            until("told", async || cache.stats().pushes > pushes).await;
            let copy = cache.local().get("k");
            assert!(copy.is_none_or(|copy| copy == new), "the copy stays in round {round}");
        }
    });
}

#[test]
fn a_demoted_primary_is_left() {
    with_server(async |server| {
        let Some(primary) = RedisServer::start() else { return };
        let cache = texts(server.port, |it| it.staleness_bound(ms(400)));
        cache.insert("k", "old".to_owned()).await.unwrap();
        kept(&cache, "k", "old").await;
        let follow = primary.port.to_string();
        redis::cmd("REPLICAOF").arg("127.0.0.1").arg(&follow).exec(&mut server.raw()).unwrap();
        let demoted = Instant::now();
        until("distrusted", async || cache.local().get("k").is_none()).await;
        assert!(demoted.elapsed() <= ms(400), "{:?}", demoted.elapsed());
        assert!(cache.insert("k", "new".to_owned()).await.is_err());
        until("left", async || matches!(cache.state(), LinkState::Down(_) | LinkState::Connecting))
            .await;
        redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut server.raw()).unwrap();
        until("healed", async || cache.get("k").await.is_ok()).await;
    });
}

#[test]
fn an_outage_serves_what_is_allowed() {
    with_server(async |mut server| {
        let outage = Outage::ServeStale { at_most: ms(700) };
        let stale = texts(server.port, |it| it.outage(outage).staleness_bound(ms(200)));
        let fails = texts(server.port, |it| it);
        stale.insert("k", "old".to_owned()).await.unwrap();
        assert_eq!(get(&fails, "k").await.as_deref(), Some("old"));
        kept(&stale, "k", "old").await;
        let short = Loaded::with_ttl("old".to_owned(), ms(200));
        stale.insert("short", short).await.unwrap();
        kept(&stale, "short", "old").await;
        server.kill();
        let begun = Instant::now();
        until("distrusted", async || stale.local().get("k").is_none()).await;
        assert_eq!(get(&stale, "k").await.as_deref(), Some("old"));
        assert!(matches!(fails.get("k").await, Err(Error::Unavailable(_))));
        assert!(stale.get("unknown").await.is_err());
        let load = stale.load("unknown", async { Ok::<_, String>("loaded".to_owned()) });
        assert!(matches!(load.await, Err(LoadError::Redis(_))), "no stampede of the origin");
        let kept = stale.load("k", async { Ok::<_, String>("loaded".to_owned()) });
        assert_eq!(kept.await.unwrap(), "old");
        assert!(stale.insert("other", "v".to_owned()).await.is_err(), "a lost write is an error");
        let (mut last, mut last_short) = (ms(0), ms(0));
        while begun.elapsed() < ms(1_500) {
            for (key, last) in [("k", &mut last), ("short", &mut last_short)] {
                let asked = begun.elapsed();
                if stale.get(key).await.is_ok() {
                    *last = asked;
                }
            }
            sleep(ms(2)).await;
        }
        for last in [last, last_short] {
            assert!(last <= ms(200 + 700), "served {last:?} after the outage began");
            assert!(last >= ms(500), "{last:?}");
        }
        assert!(stale.stats().stale_served > 0);
    });
}

#[test]
fn a_slow_server_is_waited_for_so_long() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it).await;
        proxy.set(Mode::Silent);
        let begun = Instant::now();
        assert!(matches!(cache.get("other").await, Err(Error::TimedOut)));
        assert!(begun.elapsed() >= ms(150), "{:?}", begun.elapsed());
        assert!(begun.elapsed() < ms(2_000), "{:?}", begun.elapsed());
    });
}

/// A fork, a slow script: the connection is whole, and all that changes meanwhile is told first.
#[test]
fn a_server_that_stands_still_costs_no_copies() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it.staleness_bound(ms(200))).await;
        cache.insert("other", "1".to_owned()).await.unwrap();
        kept(&cache, "other", "1").await;
        proxy.set(Mode::Silent);
        until("distrusted", async || cache.local().get("other").is_none()).await;
        write(&server, "new").await;
        sleep(ms(300)).await;
        proxy.set(Mode::Pass);
        until("trusted", async || cache.local().get("other").is_some()).await;
        assert_eq!(cache.local().get("k"), None, "the change is told before");
        assert_eq!(get(&cache, "k").await.as_deref(), Some("new"));
        assert_eq!((cache.stats().connects, cache.stats().losses), (1, 0));
    });
}

/// A network that loses a connection without a word to anybody.
#[test]
fn a_connection_that_stays_silent_is_replaced() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it).await;
        proxy.drop_all();
        write(&server, "new").await;
        assert!(last_seen(&cache, "k", "old", ms(1_300)).await <= ms(1_000));
        assert_eq!(first_read(&cache, "k").await.as_deref(), Some("new"));
        assert_eq!((cache.stats().connects, cache.stats().losses), (2, 1));
    });
}

/// Answers that take longer than the bound keep no trust; a server that is demoted is left.
#[test]
fn answers_that_are_slower_than_the_bound() {
    with_server(async |server| {
        let slow = |it: TextsBuilder| {
            it.staleness_bound(ms(100)).reply_within(ms(1_000)).outage(Outage::Fail)
        };
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, slow);
        cache.insert("k", "old".to_owned()).await.unwrap();
        proxy.set(Mode::Delay(ms(130)));
        for _ in 0..3 {
            assert_eq!(get(&cache, "k").await.as_deref(), Some("old"));
        }
        assert_eq!(cache.local().get("k"), None);
        // Its new primary is not there, so the server tells of nothing.
        let cut_off = ["REPLICAOF", "127.0.0.1", "1"];
        redis::cmd(cut_off[0]).arg(&cut_off[1..]).exec(&mut server.raw()).unwrap();
        until("left", async || {
            // It goes on answering.
            let _ = cache.get("k").await;
            cache.stats().losses == 1
        })
        .await;
    });
}

/// A call that joins another one's read gets what was read before it began, but never what is older
/// than a copy may be.
#[test]
fn a_read_that_is_held_gives_nobody_what_it_read_long_ago() {
    with_server(async |server| {
        write(&server, "old").await;
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, |it| it);
        assert_eq!(get(&cache, "other").await, None);
        for is_load in [false, true] {
            let mut held = Box::pin(cache.get("k"));
            proxy.set(Mode::Hold);
            assert!(is_pending(held.as_mut()).await);
            proxy.set(Mode::Pass);
            // The answer is there, and nobody takes it. The next connection tells nothing of it.
            sleep(ms(50)).await;
            let losses = cache.stats().losses;
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("TYPE").arg("normal").exec(&mut server.raw()).unwrap();
            until("the loss", async || cache.stats().losses > losses).await;
            cache.ready().await.unwrap();
            write(&server, "new").await;
            let joins = tokio::spawn({
                let cache = cache.clone();
                async move {
                    match is_load {
                        false => get(&cache, "k").await.unwrap(),
                        true => load(&cache, "k", "loaded", ms(0)).await.unwrap(),
                    }
                }
            });
            sleep(ms(50)).await;
            assert_eq!(held.await.unwrap().as_deref(), Some("old"));
            assert_eq!(joins.await.unwrap(), "new");
            write(&server, "old").await;
            cache.local().invalidate("k");
        }
    });
}

/// Where the bound is long, the server is looked at seldom. One look into a short stall ends
/// nothing.
#[test]
fn a_look_that_is_not_answered_costs_no_copies() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it.staleness_bound(ms(8_000))).await;
        proxy.set(Mode::Silent);
        // Within this time there is a look, and its time is over.
        sleep(ms(2_300)).await;
        proxy.set(Mode::Pass);
        assert_eq!(cache.local().get("k").as_deref(), Some("old"));
        write(&server, "new").await;
        until("told", async || get(&cache, "k").await.as_deref() == Some("new")).await;
        assert_eq!((cache.stats().connects, cache.stats().losses), (1, 0));
    });
}

#[test]
fn a_reconnection_ends_waits() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it).await;
        let lease = [b"L1".as_slice(), &[b'0'; 32]].concat();
        let mut other = server.raw();
        redis::cmd("SET").arg("t:l").arg(lease).arg("PX").arg(60_000).exec(&mut other).unwrap();
        let waits = tokio::spawn({
            let cache = cache.clone();
            async move { cache.load("l", async { Ok::<_, String>("loaded".to_owned()) }).await }
        });
        until("it waits", async || cache.stats().lease_waits == 1).await;
        proxy.set(Mode::Reset);
        until("the loss", async || cache.stats().losses == 1).await;
        let stored = texts(server.port, |it| it);
        stored.insert("l", "stored".to_owned()).await.unwrap();
        proxy.set(Mode::Pass);
        let begun = Instant::now();
        assert_eq!(waits.await.unwrap().unwrap(), "stored");
        assert!(begun.elapsed() < ms(10_000), "not by the lease's end");
    });
}

#[test]
fn a_lease_survives_a_lost_connection() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it.lease(ms(1_000))).await;
        let two = texts(server.port, |it| it.lease(ms(1_000)));
        let loading = tokio::spawn(async move {
            let loader = async {
                sleep(ms(2_200)).await;
                Ok::<_, String>("one".to_owned())
            };
            cache.load("l", loader).await
        });
        until("the lease", async || server.raw().exists("t:l").unwrap()).await;
        let other = tokio::spawn(async move {
            two.load("l", async { Ok::<_, String>("two".to_owned()) }).await.unwrap()
        });
        // The first renewal fails, and the second one would be late.
        sleep(ms(280)).await;
        proxy.set(Mode::Reset);
        sleep(ms(250)).await;
        proxy.set(Mode::Pass);
        assert_eq!(other.await.unwrap(), "one");
        assert_eq!(loading.await.unwrap().unwrap(), "one");
    });
}

#[test]
fn a_server_that_refuses_is_an_outage() {
    let Some(server) = RedisServer::with(&["--maxclients", "1"]) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let _only = server.raw();
        let error = texts(server.port, |it| it).get("k").await.unwrap_err();
        assert!(error.is_outage() && matches!(error, Error::Unavailable(_)), "{error:?}");
    });
    let Some(server) = RedisServer::start() else { return };
    runtime.block_on(async {
        let address = format!("redis://nobody:wrong@127.0.0.1:{}", server.port);
        let server = cortado_redis::Server::at(&address).unwrap();
        let cache = cortado_redis::TieredCache::<String, String>::builder(server, "t").build();
        let error = cache.get("k").await.unwrap_err();
        assert!(error.is_outage() && error.to_string().contains("WRONGPASS"), "{error:?}");
    });
}

#[test]
fn keys_that_expire_among_many_are_not_served() {
    with_server(async |server| {
        let mut other = server.raw();
        let mut fill = redis::pipe();
        for number in 0..100_000 {
            fill.cmd("SET").arg(format!("other:{number}")).arg("v").arg("PX").arg(600_000).ignore();
        }
        fill.exec(&mut other).unwrap();
        let cache = texts(server.port, |it| it);
        let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
        let begun = Instant::now();
        for key in &keys {
            cache.insert(key, Loaded::with_ttl("v".to_owned(), ms(1_000))).await.unwrap();
        }
        let written = begun.elapsed();
        for key in &keys {
            kept(&cache, key, "v").await;
        }
        let there = || keys.iter().filter(|key| cache.local().get(*key).is_some()).count();
        assert_eq!(there(), keys.len());
        let pushed = cache.stats().pushed_keys;
        while begun.elapsed() < ms(1_000) + written + ms(200) {
            let (asked, there) = (begun.elapsed(), there());
            assert!(there == 0 || asked <= ms(1_001) + written, "{there} at {asked:?}");
            sleep(ms(1)).await;
        }
        // The server, which counts whole milliseconds, has found some of them at the most.
        assert!(cache.stats().pushed_keys - pushed < 20);
    });
}

#[test]
fn the_primary_that_sentinels_name_is_followed() {
    with_server(async |primary| {
        let follow = ["--replicaof", "127.0.0.1", &primary.port.to_string()];
        let replica = RedisServer::with(&follow).unwrap();
        let sentinel = RedisServer::sentinel(primary.port).unwrap();
        let sentinels = [format!("redis://127.0.0.1:{}", sentinel.port)];
        let by = |name: &str| {
            let addresses = sentinels.iter().map(String::as_str);
            let server = cortado_redis::Server::by_sentinels(addresses, name, "redis://127.0.0.1");
            cortado_redis::TieredCache::<String, String>::builder(server.unwrap(), "t").build()
        };
        assert!(matches!(by("another").get("k").await, Err(Error::Unavailable(_))));
        let cache = by("primary");
        cache.insert("k", "old".to_owned()).await.unwrap();
        // The Sentinel learns of the replica by asking the primary.
        until("a failover", async || {
            let mut raw = sentinel.raw();
            redis::cmd("SENTINEL").arg("FAILOVER").arg("primary").exec(&mut raw).is_ok()
        })
        .await;
        until("the new primary", async || {
            cache.insert("k", "new".to_owned()).await.is_ok()
                && redis::Commands::exists(&mut replica.raw(), "t:k").unwrap_or(false)
                && get(&cache, "k").await.as_deref() == Some("new")
                && replica.raw().get::<_, Vec<u8>>("t:k").unwrap().ends_with(b"new")
        })
        .await;
    });
}
