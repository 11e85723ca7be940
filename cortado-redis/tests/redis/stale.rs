//! Values past their life: in place of errors and slow loads, and until a refresh has come.

use crate::support::*;
use cortado_redis::{LoadError, Loaded};
use redis::Commands;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::sleep;

#[test]
fn a_stale_value_replaces_an_error() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.stale_on_error(ms(60_000)));
        for _ in 0..2 {
            cache.insert("k", Loaded::with_ttl("old".to_owned(), ms(100))).await.unwrap();
            kept(&cache, "k", "old").await;
            sleep(ms(130)).await;
        }
        let failing = || cache.load("k", async { Err::<String, _>("no answer".to_owned()) });
        for _ in 0..10 {
            assert_eq!(failing().await.unwrap(), "old");
        }
        let stats = cache.stats();
        assert_eq!(stats.load_failures, 1, "the origin is not asked each time");
        // A write is seen in spite of that.
        let two = texts(server.port, |it| it);
        two.insert("k", "new".to_owned()).await.unwrap();
        until("new", async || failing().await.unwrap() == "new").await;
        cache.remove("k").await.unwrap();
        assert!(failing().await.is_err(), "what was removed is not served");
    });
}

/// The server tells that a key has expired, and the copy goes.
#[test]
fn a_stale_value_replaces_an_error_after_the_servers_word_too() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.stale_on_error(ms(60_000)));
        let expired = async |key: &str, text: &str| {
            let value = Loaded::with_ttl(text.to_owned(), ms(100));
            cache.insert(key, value).await.unwrap();
            kept(&cache, key, text).await;
            let before = cache.stats().pushed_keys;
            until("told", async || cache.stats().pushed_keys > before).await;
        };
        expired("k", "old").await;
        let failing = async || cache.load("k", async { Err::<String, _>("no answer") }).await;
        assert_eq!(failing().await.unwrap(), "old");
        // What is removed while the loader runs is not returned.
        expired("r", "revoked").await;
        let (begun, removed) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let (begun, removed) = (Arc::new(begun), Arc::new(removed));
        let loading = tokio::spawn({
            let (cache, begun, removed) = (cache.clone(), begun.clone(), removed.clone());
            async move {
                let loader = async move {
                    begun.notify_one();
                    removed.notified().await;
                    Err::<String, _>("no answer")
                };
                cache.load("r", loader).await
            }
        });
        begun.notified().await;
        server.raw().del::<_, ()>("t:r").unwrap();
        removed.notify_one();
        assert!(loading.await.unwrap().is_err());
    });
}

#[test]
fn limits_end_waits_not_loads() {
    with_server(async |server| {
        let limits =
            |it: TextsBuilder| it.stale_on_error(ms(60_000)).soft_limit(ms(50)).hard_limit(ms(60));
        let cache = texts(server.port, limits);
        let slow = load(&cache, "k", "first", ms(200)).await;
        assert!(matches!(slow, Err(LoadError::TimedOut)), "{slow:?}");
        until("stored", async || get(&cache, "k").await.as_deref() == Some("first")).await;
        assert!(cache.expire("k", ms(100)).await.unwrap());
        kept(&cache, "k", "first").await;
        sleep(ms(130)).await;
        assert_eq!(load(&cache, "k", "second", ms(200)).await.unwrap(), "first");
        until("stored", async || get(&cache, "k").await.as_deref() == Some("second")).await;
    });
}

#[test]
fn one_process_refreshes_ahead() {
    with_server(async |server| {
        let ahead = |it: TextsBuilder| it.time_to_live(ms(60_000)).refresh_ahead(ms(59_000));
        let (one, two) = (texts(server.port, ahead), texts(server.port, ahead));
        assert_eq!(load(&one, "k", "1", ms(0)).await.unwrap(), "1");
        assert_eq!(load(&two, "k", "other", ms(0)).await.unwrap(), "1");
        assert_eq!(one.stats().refreshes + two.stats().refreshes, 0);
        assert!(one.expire("k", ms(50_000)).await.unwrap());
        let loads = Arc::new(AtomicU32::new(0));
        let refreshing = |cache: &Texts| {
            let (cache, loads) = (cache.clone(), Arc::clone(&loads));
            async move {
                let loader = async move {
                    let number = loads.fetch_add(1, Ordering::Relaxed);
                    sleep(ms(100)).await;
                    Ok::<_, String>(Loaded::with_ttl(format!("new {number}"), ms(60_000)))
                };
                cache.load("k", loader).await.unwrap()
            }
        };
        for _ in 0..10 {
            for cache in [&one, &two] {
                assert_eq!(refreshing(cache).await, "1", "the present value is returned");
                sleep(ms(2)).await;
            }
        }
        for cache in [&one, &two] {
            until("new", async || get(cache, "k").await.as_deref() == Some("new 0")).await;
        }
        assert_eq!(loads.load(Ordering::Relaxed), 1);
    });
}

/// The server has another value by now, and this process has not been told.
#[test]
fn a_refresh_asks_the_server_before_the_origin() {
    with_server(async |server| {
        let ahead = |it: TextsBuilder| it.time_to_live(ms(60_000)).refresh_ahead(ms(60_000));
        let proxy = Proxy::to(server.port).await;
        let (one, two) = (texts(proxy.port, ahead), texts(server.port, |it| it));
        // The server has the script then.
        one.insert("warm", "1".to_owned()).await.unwrap();
        kept(&one, "warm", "1").await;
        assert_eq!(load(&one, "warm", "2", ms(0)).await.unwrap(), "1");
        until("refreshed", async || get(&one, "warm").await.as_deref() == Some("2")).await;
        one.insert("k", "1".to_owned()).await.unwrap();
        kept(&one, "k", "1").await;
        let before = one.stats();
        proxy.set(Mode::Hold);
        two.insert("k", "2".to_owned()).await.unwrap();
        assert_eq!(load(&one, "k", "3", ms(0)).await.unwrap(), "1");
        // The claim is on its way.
        sleep(ms(50)).await;
        proxy.set(Mode::Pass);
        until("told", async || get(&one, "k").await.as_deref() == Some("2")).await;
        sleep(ms(50)).await;
        let stats = one.stats();
        assert!(stats.exchanges > before.exchanges + 1, "a claim and a read");
        assert_eq!((stats.loads, stats.refreshes), (before.loads, before.refreshes));
        assert_eq!(get(&two, "k").await.as_deref(), Some("2"));
    });
}

/// While a loader has just failed, loads get the stale value, and reads what the server has.
#[test]
fn a_read_beside_a_failed_load_finds_nothing() {
    with_server(async |server| {
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, |it| it.stale_on_error(ms(60_000)));
        cache.insert("k", Loaded::with_ttl("old".to_owned(), ms(100))).await.unwrap();
        kept(&cache, "k", "old").await;
        sleep(ms(150)).await;
        let failing = async || cache.load("k", async { Err::<String, _>("no answer") }).await;
        assert_eq!(failing().await.unwrap(), "old");
        proxy.set(Mode::Delay(ms(5)));
        let loads: Vec<_> = (0..4)
            .map(|_| {
                let cache = cache.clone();
                tokio::spawn(async move {
                    for _ in 0..40 {
                        let load = cache.load("k", async { Err::<String, _>("no answer") });
                        assert_eq!(load.await.unwrap(), "old");
                    }
                })
            })
            .collect();
        for _ in 0..40 {
            cache.local().invalidate("k");
            assert_eq!(get(&cache, "k").await, None);
        }
        for load in loads {
            load.await.unwrap();
        }
        assert!(cache.stats().load_failures <= 3, "one a second");
    });
}

/// "The origin has none" may replace an error of a load that takes that, and of no other one.
#[test]
fn a_stale_none_is_no_value() {
    with_server(async |server| {
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, |it| it.stale_on_error(ms(60_000)).negative_ttl(ms(100)));
        let none = async |key: &str, outcome: Result<Option<Loaded<String>>, String>| {
            let loaded = cache.optionally_load(key, async { outcome }).await;
            assert!(loaded.unwrap().is_none_or(|text| text == "v"));
        };
        let failed = || Err("no answer".to_owned());
        let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
        for key in &keys {
            none(key, Ok(None)).await;
            until("kept", async || {
                none(key, Ok(None)).await;
                cache.local().entry_count() > key.parse().unwrap()
            })
            .await;
        }
        sleep(ms(150)).await;
        proxy.set(Mode::Delay(ms(5)));
        for key in &keys {
            // This one fails; the next ones join, and the load with them.
            none(key, failed()).await;
            let load = async {
                sleep(ms(1)).await;
                load(&cache, key, "v", ms(0)).await.unwrap()
            };
            let (_, loaded) = tokio::join!(none(key, failed()), load);
            assert_eq!(loaded, "v");
        }
        assert!(cache.stats().stale_served >= 30);
    });
}

#[test]
fn a_refresh_takes_what_is_newer_and_never_overwrites_it() {
    with_server(async |server| {
        let ahead = |it: TextsBuilder| it.time_to_live(ms(60_000)).refresh_ahead(ms(60_000));
        let (one, two) = (texts(server.port, ahead), texts(server.port, |it| it));
        one.insert("k", "1".to_owned()).await.unwrap();
        kept(&one, "k", "1").await;
        let task = tokio::spawn({
            let one = one.clone();
            async move { load(&one, "k", "loaded", ms(200)).await.unwrap() }
        });
        assert_eq!(task.await.unwrap(), "1");
        until("begun", async || one.stats().refreshes == 1).await;
        two.insert("k", "written".to_owned()).await.unwrap();
        until("overtaken", async || one.stats().overtaken_loads == 1).await;
        for cache in [&one, &two] {
            assert_eq!(get(cache, "k").await.as_deref(), Some("written"));
        }
    });
}
