//! Each operation, beside another client of the same keys.

use crate::support::*;
use cortado_redis::{Builder, Coherence, Json, LinkState, Loaded, RedisKey, TieredCache};
use redis::Commands;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
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

/// What one process says of a life holds for the copies of all.
#[test]
fn copies_follow_changes_of_lives() {
    with_server(async |server| {
        let (one, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        one.insert("k", "v".to_owned()).await.unwrap();
        for cache in [&one, &two] {
            kept(cache, "k", "v").await;
        }
        assert!(one.expire("k", ms(400)).await.unwrap());
        let begun = std::time::Instant::now();
        for cache in [&one, &two] {
            until("kept anew", async || {
                cache.get("k").await.unwrap();
                cache.local().get("k").is_some() || begun.elapsed() > ms(300)
            })
            .await;
        }
        assert!(two.persist("k").await.unwrap());
        tokio::time::sleep(ms(500)).await;
        for cache in [&one, &two] {
            assert_eq!(get(cache, "k").await.as_deref(), Some("v"), "it lives on");
            kept(cache, "k", "v").await;
        }
        assert!(one.expire("k", ms(100)).await.unwrap());
        for cache in [&one, &two] {
            until("over", async || get(cache, "k").await.is_none()).await;
        }
    });
}

/// The life of a copy counts from before the server was asked.
#[test]
fn a_slow_answer_lengthens_no_life() {
    with_server(async |server| {
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, |it| it);
        assert_eq!(get(&cache, "other").await, None);
        proxy.set(Mode::Delay(ms(200)));
        let mut other = server.raw();
        redis::cmd("DEBUG").arg("SET-ACTIVE-EXPIRE").arg(0).exec(&mut other).unwrap();
        let begun = std::time::Instant::now();
        other.pset_ex::<_, _, ()>("t:k", value("v"), 600).unwrap();
        assert_eq!(get(&cache, "k").await.as_deref(), Some("v"));
        let read = begun.elapsed();
        assert!(read >= ms(200));
        let last = read + last_seen(&cache, "k", "v", ms(800)).await;
        assert!(last <= ms(601), "{last:?} after the write");
        assert!(last >= ms(450), "{last:?} after the write");
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
        let prefixed = texts(server.port, |it| it.coherence(Coherence::Prefix));
        for cache in [&cache, &prefixed] {
            cache.insert("0", "again".to_owned()).await.unwrap();
            kept(cache, "0", "again").await;
            redis::cmd("FLUSHALL").exec(&mut other).unwrap();
            let last = last_seen(cache, "0", "again", ms(1_500)).await;
            assert!(last <= ms(1_000), "{last:?}");
            assert_eq!(get(cache, "0").await, None);
            assert!(cache.stats().flushes >= 1);
        }
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
        let set = |it: TextsBuilder| {
            it.reply_within(Duration::from_millis(200)).connect_within(Duration::from_millis(200))
        };
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, set);
        cache.insert("k", "v".to_owned()).await.unwrap();
        assert_eq!(get(&cache, "unknown").await, None);
        proxy.set(Mode::Delay(Duration::from_millis(20)));
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

#[test]
fn many_reads_are_in_the_order_of_their_keys() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        cache.insert("a", "1".to_owned()).await.unwrap();
        cache.insert("b", "2".to_owned()).await.unwrap();
        let keys = ["b", "none", "a", "b", "none", "a"].map(str::to_owned);
        let values = cache.get_many(&keys).await.unwrap();
        let values: Vec<_> = values.iter().map(|value| value.as_deref()).collect();
        assert_eq!(values, [Some("2"), None, Some("1"), Some("2"), None, Some("1")]);
        assert_eq!(cache.get_many(&[]).await.unwrap(), [None::<String>; 0]);
        other.set::<_, _, ()>("t:bad", "hello").unwrap();
        let keys = ["a", "bad"].map(str::to_owned);
        let failed = cache.get_many(&keys).await;
        assert!(matches!(failed, Err(cortado_redis::Error::Foreign)), "{failed:?}");
    });
}

static ENCODED: AtomicU32 = AtomicU32::new(0);
static DECODED: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, PartialEq, Eq, Hash)]
struct CountedKey(u32);

impl RedisKey for CountedKey {
    fn encode(&self, out: &mut Vec<u8>) {
        ENCODED.fetch_add(1, SeqCst);
        self.0.encode(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        u32::decode(bytes).map(Self)
    }
}

#[derive(Clone, serde::Serialize)]
struct CountedValue(u32);

impl<'de> serde::Deserialize<'de> for CountedValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.fetch_add(1, SeqCst);
        u32::deserialize(deserializer).map(Self)
    }
}

/// A value is decoded when it comes; a hit decodes and encodes nothing.
#[test]
fn hits_decode_and_encode_nothing() {
    with_server(async |server| {
        let cache: TieredCache<CountedKey, CountedValue> =
            TieredCache::builder(at(server.port), "t").build_with_codec(Json);
        let key = CountedKey(7);
        cache.insert(&key, CountedValue(7)).await.unwrap();
        let text: Vec<u8> = server.raw().get("t:7").unwrap();
        assert!(text.ends_with(b"7"), "as JSON, under a key as text");
        until("kept", async || {
            cache.get(&key).await.unwrap();
            cache.local().get(&key).is_some()
        })
        .await;
        let (encoded, decoded) = (ENCODED.load(SeqCst), DECODED.load(SeqCst));
        assert!(decoded <= 3, "{decoded} for the reads until it was kept");
        for _ in 0..100 {
            assert_eq!(cache.get(&key).await.unwrap().map(|it| it.0), Some(7));
            let load = cache.load(&key, async { Ok::<CountedValue, ()>(CountedValue(0)) });
            assert_eq!(load.await.unwrap().0, 7);
        }
        assert_eq!((ENCODED.load(SeqCst), DECODED.load(SeqCst)), (encoded, decoded));
    });
}

#[test]
fn settings_of_the_local_level() {
    with_server(async |server| {
        let with =
            |set: fn(Builder<String, String>) -> Builder<String, String>| texts(server.port, set);
        // A life of its own for copies.
        let cache = with(|it| it.local_ttl(ms(100)));
        cache.insert("k", "v".to_owned()).await.unwrap();
        kept(&cache, "k", "v").await;
        assert!(last_seen(&cache, "k", "v", ms(300)).await <= ms(100));
        assert_eq!(get(&cache, "k").await.as_deref(), Some("v"), "the original lives on");
        // Weights.
        let cache = with(|it| {
            it.max_capacity(10).weigher(|_, value| value.map_or(1, |it| it.len() as u32))
        });
        for key in 0..20 {
            cache.insert(&key.to_string(), "four".to_owned()).await.unwrap();
            get(&cache, &key.to_string()).await;
        }
        until("evicted", async || {
            get(&cache, "19").await;
            cache.local().entry_count() <= 2
        })
        .await;
        // All copies at once.
        let cache = with(|it| it);
        kept(&cache, "k", "v").await;
        cache.local().invalidate_all();
        assert_eq!((cache.local().get("k"), cache.local().entry_count()), (None, 0));
        // "The origin has none" is not kept.
        let cache = with(|it| it.negative_ttl(ms(0)));
        for loads in 1..=3 {
            let none = cache.optionally_load("none", async { Ok::<_, String>(None) }).await;
            assert_eq!((none.unwrap(), cache.stats().loads), (None, loads));
        }
        assert!(!server.raw().exists::<_, bool>("t:none").unwrap());
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
