//! The three ways to learn of changes, and servers that have not all.

use crate::support::*;
use cortado_redis::{Coherence, Error, LinkState};
use std::time::Instant;

/// From an acknowledged write to the last old read of a process that has a copy.
#[test]
fn changes_settle_within_a_second() {
    with_server(async |server| {
        for coherence in [Coherence::PerKey, Coherence::Prefix] {
            let of = || texts(server.port, |it| it.coherence(coherence));
            let (writer, reader) = (of(), of());
            let mut longest = ms(0);
            for round in 0..50 {
                let (old, new) = (round.to_string(), (round + 1).to_string());
                writer.insert("k", old.clone()).await.unwrap();
                until("told", async || get(&reader, "k").await.as_ref() == Some(&old)).await;
                kept(&reader, "k", &old).await;
                writer.insert("k", new.clone()).await.unwrap();
                let written = Instant::now();
                loop {
                    let asked = written.elapsed();
                    if get(&reader, "k").await.as_ref() == Some(&new) {
                        break;
                    }
                    longest = longest.max(asked);
                    tokio::task::yield_now().await;
                }
            }
            assert!(longest <= ms(1_000), "{coherence:?}: {longest:?}");
        }
    });
}

/// All of what the server tells at once is heard.
#[test]
fn a_burst_of_changes_is_heard_to_its_end() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.max_capacity(10_000));
        let keys: Vec<String> = (0..3_000).map(|key| key.to_string()).collect();
        for key in &keys {
            cache.insert(key, "old".to_owned()).await.unwrap();
        }
        until("all kept", async || {
            cache.get_many(&keys).await.unwrap();
            keys.iter().all(|key| cache.local().get(key).is_some())
        })
        .await;
        let pushed = cache.stats().pushed_keys;
        let mut burst = redis::pipe();
        keys.iter().for_each(|key| _ = burst.cmd("DEL").arg(format!("t:{key}")).ignore());
        burst.exec(&mut server.raw()).unwrap();
        let deleted = Instant::now();
        until("all gone", async || keys.iter().all(|key| cache.local().get(key).is_none())).await;
        assert!(deleted.elapsed() <= ms(1_000), "{:?}", deleted.elapsed());
        until("all told", async || cache.stats().pushed_keys - pushed == 3_000).await;
        assert_eq!(cache.stats().losses, 0);
    });
}

#[test]
fn by_prefix() {
    with_server(async |server| {
        let by_prefix = |it: TextsBuilder| it.coherence(Coherence::Prefix);
        let (one, two) = (texts(server.port, by_prefix), texts(server.port, by_prefix));
        for round in 0..30 {
            one.insert("k", round.to_string()).await.unwrap();
            until("told", async || get(&two, "k").await == Some(round.to_string())).await;
            two.remove("k").await.unwrap();
            until("gone", async || get(&one, "k").await.is_none()).await;
        }
        let info: String = redis::cmd("INFO").arg("stats").query(&mut server.raw()).unwrap();
        assert!(info.contains("tracking_total_keys:0\r"), "the server remembers nothing: {info}");
        let loads = one.load("l", async { Ok::<_, String>("v".to_owned()) }).await;
        assert_eq!(loads.unwrap(), "v");
        assert_eq!(get(&two, "l").await.as_deref(), Some("v"));
        // The server tells of one's own writes, too: the first copy goes, the next one stays.
        until("kept", async || {
            let there = one.local().get("l").is_some();
            assert_eq!(get(&one, "l").await.as_deref(), Some("v"));
            there
        })
        .await;
    });
}

#[test]
fn by_prefix_loads_of_many_are_one() {
    with_server(async |server| {
        let by_prefix = |it: TextsBuilder| it.coherence(Coherence::Prefix);
        let caches: Vec<_> = (0..3).map(|_| texts(server.port, by_prefix)).collect();
        for round in 0..20 {
            let key = round.to_string();
            let loads = caches.iter().flat_map(|cache| (0..50).map(move |_| cache));
            let loads = loads.map(|cache| {
                cache.load(&key, async {
                    tokio::time::sleep(ms(10)).await;
                    Ok::<_, String>("v".to_owned())
                })
            });
            let values = futures_util::future::join_all(loads).await;
            assert!(values.into_iter().all(|value| value.unwrap() == "v"));
        }
        let loads: u64 = caches.iter().map(|cache| cache.stats().loads).sum();
        assert_eq!(loads, 20);
    });
}

#[test]
fn by_time() {
    with_server(async |server| {
        let by_time = |it: TextsBuilder| it.coherence(Coherence::Ttl(ms(300)));
        let (one, two) = (texts(server.port, by_time), texts(server.port, by_time));
        one.insert("k", "old".to_owned()).await.unwrap();
        assert_eq!(get(&two, "k").await.as_deref(), Some("old"));
        let written = Instant::now();
        one.insert("k", "new".to_owned()).await.unwrap();
        assert_eq!(get(&one, "k").await.as_deref(), Some("new"), "one's own write is seen");
        let mut last = ms(0);
        until("new", async || {
            let asked = written.elapsed();
            let is_new = get(&two, "k").await.as_deref() == Some("new");
            last = if is_new { last } else { asked };
            is_new
        })
        .await;
        assert!(last <= ms(300), "{last:?}");
        assert_eq!(two.stats().pushes, 0);
    });
}

/// Nothing that was read is worse for the outage.
#[test]
fn by_time_copies_are_used_in_an_outage() {
    with_server(async |mut server| {
        let cache = texts(server.port, |it| it.coherence(Coherence::Ttl(ms(1_000))));
        cache.insert("k", "v".to_owned()).await.unwrap();
        assert_eq!(get(&cache, "k").await.as_deref(), Some("v"));
        server.kill();
        let last = last_seen(&cache, "k", "v", ms(1_300)).await;
        assert!((ms(800)..=ms(1_000)).contains(&last), "{last:?}");
        assert!(matches!(cache.get("k").await, Err(Error::Unavailable(_))));
    });
}

/// Without the server's word, too, no read that a process makes meanwhile leaves what its write
/// replaces.
#[test]
fn by_time_own_writes_are_seen_whatever_reads_meanwhile() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.coherence(Coherence::Ttl(ms(60_000))));
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let cache = cache.clone();
                tokio::spawn(async move {
                    loop {
                        get(&cache, "k").await;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for round in 0..500 {
            cache.insert("k", round.to_string()).await.unwrap();
            assert_eq!(get(&cache, "k").await, Some(round.to_string()));
        }
        readers.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

#[test]
fn by_time_a_load_is_seen_by_its_process() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.coherence(Coherence::Ttl(ms(60_000))));
        let loading = tokio::spawn({
            let cache = cache.clone();
            let loader = async {
                tokio::time::sleep(ms(100)).await;
                Ok::<_, String>("v".to_owned())
            };
            async move { cache.load("k", loader).await }
        });
        until("the lease", async || redis::Commands::exists(&mut server.raw(), "t:k").unwrap())
            .await;
        assert_eq!(get(&cache, "k").await, None, "and that is kept");
        assert_eq!(loading.await.unwrap().unwrap(), "v");
        assert_eq!(get(&cache, "k").await.as_deref(), Some("v"));
    });
}

/// Nobody is told that another process has stored its value.
#[test]
fn by_time_a_load_is_found_by_looking() {
    with_server(async |server| {
        let by_time = |it: TextsBuilder| it.coherence(Coherence::Ttl(ms(300)));
        let (one, two) = (texts(server.port, by_time), texts(server.port, by_time));
        let loading = tokio::spawn(async move {
            let loader = async {
                tokio::time::sleep(ms(150)).await;
                Ok::<_, String>("v".to_owned())
            };
            one.load("k", loader).await.unwrap()
        });
        until("the lease", async || redis::Commands::exists(&mut server.raw(), "t:k").unwrap())
            .await;
        let begun = Instant::now();
        let other = two.load("k", async { Ok::<_, String>("other".to_owned()) }).await;
        assert_eq!(other.unwrap(), "v");
        assert!(begun.elapsed() < ms(2_000), "not by the lease's end, 10 s");
        assert_eq!(loading.await.unwrap(), "v");
    });
}

/// A server that does not let clients track says so when it is asked to.
#[test]
fn a_server_without_tracking_is_an_error_with_a_name() {
    with_server(async |server| {
        let acl = ["SETUSER", "limited", "on", ">secret", "~*", "+@all", "-client|tracking"];
        let mut set = redis::cmd("ACL");
        acl.iter().for_each(|word| _ = set.arg(*word));
        set.exec(&mut server.raw()).unwrap();
        let address = format!("redis://limited:secret@127.0.0.1:{}", server.port);
        let limited = || cortado_redis::Server::at(&address).unwrap();
        let cache = cortado_redis::TieredCache::<String, String>::builder(limited(), "t").build();
        assert!(matches!(cache.ready().await, Err(Error::NoTracking(_))));
        assert!(matches!(cache.get("k").await, Err(Error::NoTracking(_))));
        assert!(matches!(cache.state(), LinkState::Down(Error::NoTracking(_))));
        let by_time = cortado_redis::TieredCache::<String, String>::builder(limited(), "t");
        let by_time = by_time.coherence(Coherence::Ttl(ms(1_000))).build();
        by_time.insert("k", "v".to_owned()).await.unwrap();
        assert_eq!(by_time.get("k").await.unwrap().as_deref(), Some("v"));
    });
}
