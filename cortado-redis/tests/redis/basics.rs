//! Each operation, beside another client of the same keys.

use crate::support::*;
use cortado_redis::{LinkState, Loaded};
use redis::Commands;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// The bytes of a value, as another process of this crate writes them.
fn value(text: &str) -> Vec<u8> {
    let mut bytes = b"V1p00000000000000010000000000000".to_vec();
    bytes.push(u8::try_from(text.len()).unwrap());
    bytes.extend(text.bytes());
    bytes
}

#[test]
fn what_another_client_writes_is_seen() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        assert_eq!(get(&cache, "a").await, None);
        other.set::<_, _, ()>("t:a", value("1")).unwrap();
        until("created", async || get(&cache, "a").await.as_deref() == Some("1")).await;
        let fetches = cache.stats().fetches;
        assert_eq!(cache.local().get("a").as_deref(), Some("1"), "a copy is kept");
        assert_eq!(get(&cache, "a").await.as_deref(), Some("1"));
        assert_eq!(cache.stats().fetches, fetches, "and read without the server");
        other.set::<_, _, ()>("t:a", value("2")).unwrap();
        until("changed", async || get(&cache, "a").await.as_deref() == Some("2")).await;
        other.del::<_, ()>("t:a").unwrap();
        until("removed", async || get(&cache, "a").await.is_none()).await;
    });
}

#[test]
fn own_writes_are_seen_and_the_next_change_too() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        for round in 0..20 {
            let own = Some(format!("own {round}"));
            cache.insert("a", format!("own {round}")).await.unwrap();
            assert_eq!(get(&cache, "a").await, own);
            until("kept", async || {
                assert_eq!(get(&cache, "a").await, own);
                cache.local().get("a") == own
            })
            .await;
            other.set::<_, _, ()>("t:a", value("other")).unwrap();
            until("changed", async || get(&cache, "a").await.as_deref() == Some("other")).await;
        }
    });
}

#[test]
fn two_caches_agree() {
    with_server(async |server| {
        let (one, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        let key = "k".to_owned();
        for round in 0..50 {
            let text = round.to_string();
            one.insert(&key, text.clone()).await.unwrap();
            until("told", async || get(&two, "k").await == Some(text.clone())).await;
            assert!(two.remove(&key).await.unwrap());
            until("gone", async || get(&one, "k").await.is_none()).await;
        }
        assert!(!two.remove(&key).await.unwrap());
    });
}

#[test]
fn only_one_inserts_what_is_absent() {
    with_server(async |server| {
        let (one, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        let key = "k".to_owned();
        let (first, second) = tokio::join!(
            one.insert_if_absent(&key, "1".to_owned()),
            two.insert_if_absent(&key, "2".to_owned())
        );
        assert_ne!(first.unwrap(), second.unwrap());
        assert_eq!(get(&one, "k").await, get(&two, "k").await);
        assert!(!one.insert_if_absent(&key, "3".to_owned()).await.unwrap());
    });
}

#[test]
fn lifetimes_are_the_servers() {
    with_server(async |server| {
        let (cache, mut other) =
            (texts(server.port, |it| it.time_to_live(ms(60_000))), server.raw());
        let key = "k".to_owned();
        cache.insert(&key, "by default".to_owned()).await.unwrap();
        let left: i64 = other.pttl("t:k").unwrap();
        assert!((59_000..=60_000).contains(&left), "{left}");
        cache.insert(&key, Loaded::with_ttl("own".to_owned(), ms(90_000))).await.unwrap();
        let left: i64 = other.pttl("t:k").unwrap();
        assert!((89_000..=90_000).contains(&left), "{left}");
        assert!(cache.persist(&key).await.unwrap());
        assert_eq!(other.pttl::<_, i64>("t:k").unwrap(), -1);
        assert!(cache.expire(&key, ms(5_000)).await.unwrap());
        assert!(other.pttl::<_, i64>("t:k").unwrap() <= 5_000);
        assert_eq!(get(&cache, "k").await.as_deref(), Some("own"));
        assert!(cache.expire(&key, Duration::ZERO).await.unwrap());
        assert_eq!(get(&cache, "k").await, None);
        assert!(!cache.expire(&key, ms(5_000)).await.unwrap());
        assert!(!cache.persist(&key).await.unwrap());
        cache.insert(&key, Loaded::for_ever("kept".to_owned())).await.unwrap();
        assert_eq!(other.pttl::<_, i64>("t:k").unwrap(), -1);
        assert!(cache.touch(&key).await.unwrap());
        assert!(!cache.touch("none").await.unwrap());
    });
}

/// The server tells of an expired key only when it comes across it.
#[test]
fn a_copy_ends_with_its_original() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        redis::cmd("DEBUG").arg("SET-ACTIVE-EXPIRE").arg(0).exec(&mut other).unwrap();
        for kept in [ms(0), ms(3_600_000)] {
            let cache = texts(server.port, |it| it.stale_on_error(kept));
            cache.insert("k", Loaded::with_ttl("v".to_owned(), ms(80))).await.unwrap();
            let reader = texts(server.port, |it| it.stale_on_error(kept));
            let begun = std::time::Instant::now();
            let mut last = ms(0);
            while begun.elapsed() < ms(160) {
                for cache in [&cache, &reader] {
                    let asked = begun.elapsed();
                    if get(cache, "k").await.is_some() {
                        last = last.max(asked);
                    }
                }
                tokio::time::sleep(ms(1)).await;
            }
            // The server counts whole milliseconds: so long it has the value itself.
            assert!(last < ms(81), "served {last:?} after the write");
        }
        drop(cache);
    });
}

#[test]
fn flushes_and_clears_take_everything() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        let keys: Vec<String> = (0..3_000).map(|key| key.to_string()).collect();
        for key in &keys {
            cache.insert(key, key.clone()).await.unwrap();
        }
        let there = cache.get_many(&keys).await.unwrap();
        assert!(there.iter().zip(&keys).all(|(value, key)| value.as_ref() == Some(key)));
        other.set::<_, _, ()>("another:1", "stays").unwrap();
        cache.clear().await.unwrap();
        assert_eq!(cache.get_many(&keys).await.unwrap(), vec![None; keys.len()]);
        assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut other).unwrap(), 1);
        cache.insert(&keys[0], "again".to_owned()).await.unwrap();
        redis::cmd("FLUSHALL").exec(&mut other).unwrap();
        until("flushed", async || get(&cache, "0").await.is_none()).await;
        assert!(cache.stats().flushes >= 1);
    });
}

#[test]
fn names_with_the_servers_wildcards_are_names() {
    with_server(async |server| {
        let cache =
            |name| cortado_redis::TieredCache::<u32, u32>::builder(at(server.port), name).build();
        let (starred, other) = (cache("a*[b]?\\"), cache("axbc"));
        starred.insert(&1, 1).await.unwrap();
        other.insert(&1, 2).await.unwrap();
        starred.clear().await.unwrap();
        assert_eq!(starred.get(&1).await.unwrap(), None);
        assert_eq!(other.get(&1).await.unwrap(), Some(2));
    });
}

#[test]
fn nothing_is_connected_before_it_is_needed() {
    let cache = texts(1, |it| it);
    assert!(matches!(cache.state(), LinkState::Idle));
    assert_eq!(cache.local().get("k"), None);
    with_server(async |server| {
        let cache = texts(server.port, |it| it);
        assert!(matches!(cache.state(), LinkState::Idle));
        cache.ready().await.unwrap();
        assert!(matches!(cache.state(), LinkState::Up));
        assert_eq!(cache.stats().connects, 1);
    });
}

#[test]
fn a_cache_outlives_the_runtime_of_its_connection() {
    let Some(server) = RedisServer::start() else { return };
    let cache = texts(server.port, |it| it);
    for round in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            cache.insert("k", round.to_string()).await.unwrap();
            assert_eq!(get(&cache, "k").await, Some(round.to_string()));
        });
    }
}

/// The call that asks the server for all others may be one whose future is polled no more.
#[test]
fn a_call_that_is_held_holds_nobody_up() {
    with_server(async |server| {
        let set = |it: cortado_redis::Builder<String, String>| {
            it.reply_within(Duration::from_millis(200)).connect_within(Duration::from_millis(200))
        };
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, set);
        cache.insert("k", "v".to_owned()).await.unwrap();
        assert_eq!(get(&cache, "unknown").await, None);
        proxy.set(Mode::Delay(Duration::from_millis(20)));
        let is_pending = async |read: Pin<&mut dyn Future<Output = _>>| {
            let mut read = read;
            poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())).await
        };
        let mut held = pin!(cache.get("k"));
        assert!(is_pending(held.as_mut()).await);
        assert_eq!(get(&cache, "k").await.as_deref(), Some("v"));
        let mut held_too = pin!(cache.get("l"));
        assert!(is_pending(held_too.as_mut()).await);
        let loaded = cache.load("l", async { Ok::<_, String>("v".to_owned()) });
        assert_eq!(loaded.await.unwrap(), "v");
        assert_eq!(held.await.unwrap().as_deref(), Some("v"));
    });
}

/// A process is told of its own writes after their answers: what it keeps must be what the server
/// has.
#[test]
fn writes_that_meet_leave_the_servers_value() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it);
        let key = "k".to_owned();
        for round in 0..300 {
            let writes = (0..8).map(|write| {
                let (cache, key) = (cache.clone(), key.clone());
                tokio::spawn(async move {
                    for _ in 0..write % 3 {
                        tokio::task::yield_now().await;
                    }
                    match write {
                        0 => _ = cache.remove(&key).await.unwrap(),
                        1 => _ = cache.get(&key).await.unwrap(),
                        _ => cache.insert(&key, format!("{round} {write}")).await.unwrap(),
                    }
                })
            });
            for write in writes.collect::<Vec<_>>() {
                write.await.unwrap();
            }
            let here = get(&cache, "k").await;
            cache.local().invalidate("k");
            assert_eq!(here, get(&cache, "k").await, "in round {round}");
        }
    });
}
