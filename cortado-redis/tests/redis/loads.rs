//! Loads: one at a time for a key, of all processes; and what breaks them.

use crate::support::*;
use cortado_redis::{LoadError, Loaded};
use redis::Commands;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;

#[test]
fn a_loaded_value_is_stored_and_kept() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        let token = cache
            .load("k", async { Ok::<_, String>(Loaded::with_ttl("v".to_owned(), ms(60_000))) });
        assert_eq!(token.await.unwrap(), "v");
        assert!((59_000..=60_000).contains(&other.pttl::<_, i64>("t:k").unwrap()));
        until("kept", async || {
            assert_eq!(load(&cache, "k", "other", ms(0)).await.unwrap(), "v");
            cache.local().get("k").as_deref() == Some("v")
        })
        .await;
        // Tracked again: the next change is seen.
        other.del::<_, ()>("t:k").unwrap();
        until("removed", async || cache.local().get("k").is_none()).await;
        assert_eq!(load(&cache, "k", "new", ms(0)).await.unwrap(), "new");
        let zero =
            cache.load("z", async { Ok::<_, String>(Loaded::with_ttl("v".to_owned(), ms(0))) });
        assert_eq!(zero.await.unwrap(), "v");
        assert!(!other.exists::<_, bool>("t:z").unwrap());
        assert_eq!(cache.stats().loads, 3);
    });
}

#[test]
fn one_of_many_caches_loads() {
    with_server(async |server| {
        let caches: Vec<_> = (0..4).map(|_| texts(server.port, |it| it)).collect();
        for round in 0..10 {
            let loads = Arc::new(AtomicU32::new(0));
            let key = format!("k{round}");
            let begun = Instant::now();
            let tasks = caches.iter().flat_map(|cache| (0..250).map(move |_| cache.clone()));
            let tasks: Vec<_> = tasks
                .map(|cache| {
                    let (loads, key) = (Arc::clone(&loads), key.clone());
                    tokio::spawn(async move {
                        let loader = async move {
                            loads.fetch_add(1, Ordering::Relaxed);
                            sleep(ms(50)).await;
                            Ok::<_, String>("v".to_owned())
                        };
                        cache.load(&key, loader).await
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap().unwrap(), "v");
            }
            assert_eq!(loads.load(Ordering::Relaxed), 1);
            assert!(begun.elapsed() < Duration::from_secs(5), "woken, not by the lease's end");
        }
    });
}

#[test]
fn a_removal_during_a_load_has_the_last_word() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        let task = tokio::spawn({
            let cache = cache.clone();
            async move { load(&cache, "k", "old", ms(100)).await }
        });
        until("the lease", async || server.raw().exists("t:k").unwrap()).await;
        assert_eq!(get(&cache, "k").await, None, "what is being loaded is not there");
        other.del::<_, ()>("t:k").unwrap();
        assert_eq!(task.await.unwrap().unwrap(), "old", "who waited gets it");
        assert_eq!(get(&cache, "k").await, None);
        assert!(!other.exists::<_, bool>("t:k").unwrap(), "nobody keeps it");
        assert_eq!(cache.stats().overtaken_loads, 1);
    });
}

#[test]
fn a_write_during_a_load_has_the_last_word() {
    with_server(async |server| {
        for local in [true, false] {
            let (cache, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
            let key = format!("k{local}");
            let task = tokio::spawn({
                let (cache, key) = (cache.clone(), key.clone());
                async move { load(&cache, &key, "loaded", ms(100)).await }
            });
            until("the lease", async || server.raw().exists(format!("t:{key}")).unwrap()).await;
            let writer = if local { &cache } else { &two };
            writer.insert(&key, "written".to_owned()).await.unwrap();
            assert_eq!(get(&cache, &key).await.as_deref(), Some("written"));
            assert_eq!(task.await.unwrap().unwrap(), "loaded");
            for cache in [&cache, &two] {
                assert_eq!(get(cache, &key).await.as_deref(), Some("written"));
            }
        }
    });
}

#[test]
fn a_failed_load_is_shared_and_the_next_one_tries_again() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it);
        let failing = |text: &str| {
            let (cache, text) = (cache.clone(), text.to_owned());
            tokio::spawn(async move {
                let loader = async move {
                    sleep(ms(50)).await;
                    Err::<String, _>(text)
                };
                cache.load("k", loader).await
            })
        };
        let tasks: Vec<_> = (0..20).map(|task| failing(&task.to_string())).collect();
        let mut errors = Vec::new();
        for task in tasks {
            let Err(LoadError::Loader(error)) = task.await.unwrap() else { panic!("it fails") };
            errors.push(error);
        }
        assert!(errors.iter().all(|error| **error == *errors[0]), "{errors:?}");
        assert!(!server.raw().exists::<_, bool>("t:k").unwrap(), "the lease is given back");
        assert_eq!(load(&cache, "k", "good", ms(0)).await.unwrap(), "good");
        assert_eq!(cache.stats().load_failures, 1);
    });
}

#[test]
fn a_loader_that_panics_gives_its_lease_back() {
    with_server(async |server| {
        let (cache, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        let panics = async {
            if true {
                panic!("as planned");
            }
            Ok::<String, String>(String::new())
        };
        assert!(matches!(cache.load("k", panics).await, Err(LoadError::Aborted)));
        let begun = Instant::now();
        assert_eq!(load(&two, "k", "v", ms(0)).await.unwrap(), "v");
        assert!(begun.elapsed() < Duration::from_secs(5), "not by the lease's end");
    });
}

#[test]
fn a_dead_holders_lease_ends() {
    with_server(async |server| {
        let (cache, mut other) = (texts(server.port, |it| it), server.raw());
        for active in [1, 0] {
            // Without it, the server finds an expired key only when somebody asks for it.
            redis::cmd("DEBUG").arg("SET-ACTIVE-EXPIRE").arg(active).exec(&mut other).unwrap();
            let lease = [b"L1".as_slice(), &[b'0'; 32]].concat();
            let key = format!("t:{active}");
            redis::cmd("SET").arg(key).arg(lease).arg("PX").arg(300).exec(&mut other).unwrap();
            let begun = Instant::now();
            assert_eq!(load(&cache, &active.to_string(), "v", ms(0)).await.unwrap(), "v");
            let took = begun.elapsed();
            assert!((ms(250)..ms(2_000)).contains(&took), "{took:?}");
        }
        assert_eq!(cache.stats().lease_waits, 2, "ended by the server's word, or by their time");
    });
}

#[test]
fn a_long_load_keeps_its_lease() {
    with_server(async |server| {
        let short = |it: TextsBuilder| it.lease(ms(100));
        let (cache, two) = (texts(server.port, short), texts(server.port, short));
        let task = tokio::spawn(async move { load(&cache, "k", "long", ms(600)).await });
        until("the lease", async || server.raw().exists("t:k").unwrap()).await;
        assert_eq!(load(&two, "k", "other", ms(0)).await.unwrap(), "long");
        assert_eq!(task.await.unwrap().unwrap(), "long");
        assert_eq!(two.stats().loads, 0);
    });
}

/// A process that waits asks once, and once more when the server says that there is a value.
#[test]
fn who_waits_is_woken() {
    with_server(async |server| {
        let (one, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        let task = tokio::spawn(async move { load(&one, "k", "v", ms(700)).await });
        until("the lease", async || server.raw().exists("t:k").unwrap()).await;
        let begun = Instant::now();
        assert_eq!(load(&two, "k", "other", ms(0)).await.unwrap(), "v");
        assert!(begun.elapsed() < ms(5_000), "not by the lease's end");
        task.await.unwrap().unwrap();
        let stats = two.stats();
        assert_eq!((stats.loads, stats.lease_waits), (0, 1));
        assert!(stats.fetches <= 2, "{}", stats.fetches);
    });
}

/// The lease is granted, and nobody is there to hear of it.
#[test]
fn a_call_that_is_dropped_before_its_loader_runs_leaves_no_lease() {
    with_server(async |server| {
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, |it| it.lease(ms(60_000)));
        // The server has the script then.
        load(&cache, "other", "v", ms(0)).await.unwrap();
        let loads = cache.stats().loads;
        proxy.set(Mode::Hold);
        let call = load(&cache, "k", "v", ms(0));
        assert!(tokio::time::timeout(ms(50), call).await.is_err());
        assert!(server.raw().exists::<_, bool>("t:k").unwrap());
        proxy.set(Mode::Pass);
        until("given back", async || !server.raw().exists::<_, bool>("t:k").unwrap()).await;
        assert_eq!((cache.stats().loads, get(&cache, "k").await), (loads, None));
    });
}

/// The leases of a call for many keys are renewed, too.
#[test]
fn a_long_load_of_many_keeps_its_leases() {
    with_server(async |server| {
        let short = |it: TextsBuilder| it.lease(ms(100));
        let (cache, two) = (texts(server.port, short), texts(server.port, short));
        let task = tokio::spawn(async move {
            let loader = async |keys: Vec<String>| {
                sleep(ms(600)).await;
                Ok::<_, String>(
                    keys.into_iter().map(|key| (key, "long".to_owned())).collect::<Vec<_>>(),
                )
            };
            cache.load_many(&["a".to_owned(), "b".to_owned()], loader).await
        });
        until("the lease", async || server.raw().exists("t:b").unwrap()).await;
        assert_eq!(load(&two, "b", "other", ms(0)).await.unwrap(), "long");
        assert_eq!(load(&two, "a", "other", ms(0)).await.unwrap(), "long");
        assert_eq!(task.await.unwrap().unwrap(), vec![Some("long".to_owned()); 2]);
        assert_eq!(two.stats().loads, 0);
    });
}

#[test]
fn a_load_goes_on_without_its_callers() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it);
        let call = load(&cache, "k", "v", ms(100));
        assert!(tokio::time::timeout(ms(20), call).await.is_err());
        until("stored", async || get(&cache, "k").await.as_deref() == Some("v")).await;
        assert_eq!(cache.stats().loads, 1);
    });
}

#[test]
fn that_there_is_no_value_is_kept_too() {
    with_server(async |server| {
        let (cache, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        let loads = Arc::new(AtomicU32::new(0));
        let absent = |cache: &Texts| {
            let (loads, cache) = (Arc::clone(&loads), cache.clone());
            async move {
                let loader = async move {
                    loads.fetch_add(1, Ordering::Relaxed);
                    Ok::<Option<Loaded<String>>, String>(None)
                };
                cache.optionally_load("k", loader).await.unwrap()
            }
        };
        assert_eq!(get(&cache, "k").await, None, "that the server has nothing is not that");
        for cache in [&cache, &cache, &two, &two] {
            assert_eq!(absent(cache).await, None);
        }
        assert_eq!(loads.load(Ordering::Relaxed), 1);
        let left: i64 = server.raw().pttl("t:k").unwrap();
        assert!((9_000..=10_000).contains(&left), "{left}");
        assert_eq!(get(&two, "k").await, None);
        // A load that wants a value asks all the same.
        assert_eq!(load(&two, "k", "v", ms(0)).await.unwrap(), "v");
        until("told", async || absent(&cache).await.as_deref() == Some("v")).await;
        assert!(cache.remove("k").await.unwrap());
        assert_eq!(absent(&cache).await, None);
        assert!(cache.insert_if_absent("k", "inserted".to_owned()).await.unwrap());
    });
}

/// Waits of calls that are gone do not pile up behind a load that hangs.
#[test]
fn a_wait_ends_with_its_call() {
    with_server(async |server| {
        let (one, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        let hangs = tokio::spawn(async move {
            one.load("k", std::future::pending::<Result<String, String>>()).await
        });
        until("the lease", async || server.raw().exists("t:k").unwrap()).await;
        two.ready().await.unwrap();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for _ in 0..20 {
            let keys = ["k".to_owned()];
            let many = async |_| Ok::<Vec<(String, String)>, String>(Vec::new());
            let call = load(&two, "k", "v", ms(0));
            assert!(tokio::time::timeout(ms(5), call).await.is_err());
            let call = two.load_many(&keys, many);
            assert!(tokio::time::timeout(ms(5), call).await.is_err());
        }
        until("all are gone", async || tasks() <= before).await;
        let limited = texts(server.port, |it| it.hard_limit(ms(20)));
        assert!(matches!(load(&limited, "k", "v", ms(0)).await, Err(LoadError::TimedOut)));
        hangs.abort();
    });
}

/// A soft limit that is shorter than a round trip.
#[test]
fn a_call_that_does_not_wait_begins_the_load_all_the_same() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.stale_on_error(ms(60_000)).soft_limit(ms(0)));
        cache.insert("k", Loaded::with_ttl("first".to_owned(), ms(50))).await.unwrap();
        kept(&cache, "k", "first").await;
        sleep(ms(80)).await;
        assert_eq!(load(&cache, "k", "second", ms(0)).await.unwrap(), "first");
        until("stored", async || get(&cache, "k").await.as_deref() == Some("second")).await;
    });
}

#[test]
fn a_load_that_joins_one_without_a_value_runs_its_own_loader() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it);
        for round in 0..30 {
            let key = round.to_string();
            let absent = async {
                sleep(ms(5)).await;
                Ok::<Option<Loaded<String>>, String>(None)
            };
            let (absent, there) =
                tokio::join!(cache.optionally_load(&key, absent), load(&cache, &key, "v", ms(0)));
            assert_eq!(there.unwrap(), "v");
            assert!(absent.unwrap().is_none_or(|text| text == "v"));
        }
    });
}

#[test]
fn many_keys_are_loaded_by_one_call() {
    with_server(async |server| {
        let (one, two) = (texts(server.port, |it| it), texts(server.port, |it| it));
        let keys: Vec<String> = (0..100).map(|key| key.to_string()).collect();
        one.insert(&keys[7], "there".to_owned()).await.unwrap();
        let calls = Arc::new(std::sync::Mutex::new(Vec::new()));
        let all = |cache: &Texts| {
            let (cache, calls, keys) = (cache.clone(), Arc::clone(&calls), keys.clone());
            tokio::spawn(async move {
                let loader = move |missing: Vec<String>| {
                    calls.lock().unwrap().push(missing.clone());
                    async move {
                        sleep(ms(20)).await;
                        let there = missing.into_iter().filter(|key| key != "13");
                        let value = |key: String| (key.clone(), Loaded::with_ttl(key, ms(60_000)));
                        Ok::<_, String>(there.map(value).collect())
                    }
                };
                cache.load_many(&keys, loader).await.unwrap()
            })
        };
        let tasks: Vec<_> = (0..20).map(|task| all([&one, &two][task % 2])).collect();
        for task in tasks {
            let values = task.await.unwrap();
            for (key, value) in keys.iter().zip(values) {
                let expected = match key.as_str() {
                    "7" => Some("there".to_owned()),
                    "13" => None,
                    _ => Some(key.clone()),
                };
                assert_eq!(value, expected, "{key}");
            }
        }
        let mut loaded: Vec<String> =
            calls.lock().unwrap().iter().flatten().filter(|key| *key != "13").cloned().collect();
        loaded.sort();
        let count = loaded.len();
        loaded.dedup();
        assert_eq!((count, loaded.len()), (98, 98), "each once");
        assert!(!server.raw().exists::<_, bool>("t:13").unwrap());
        let failing = |_: Vec<String>| async { Err::<Vec<(String, String)>, _>("no".to_owned()) };
        assert!(matches!(one.load_many(&["13".into()], failing).await, Err(LoadError::Loader(_))));
        assert!(!server.raw().exists::<_, bool>("t:13").unwrap(), "the lease is given back");
        until("kept", async || {
            assert_eq!(get(&one, "50").await.as_deref(), Some("50"));
            one.local().get("50").is_some()
        })
        .await;
    });
}

/// More keys than can be leased and stored within a lease.
#[test]
fn very_many_keys_are_loaded_once() {
    with_server(async |server| {
        let short = |it: TextsBuilder| it.lease(ms(1_000)).max_capacity(100_000);
        let (one, two) = (texts(server.port, short), texts(server.port, short));
        let keys: Vec<String> = (0..20_000).map(|key| key.to_string()).collect();
        let asked = Arc::new(AtomicU32::new(0));
        let all = |cache: &Texts| {
            let (cache, asked, keys) = (cache.clone(), Arc::clone(&asked), keys.clone());
            tokio::spawn(async move {
                let loader = move |missing: Vec<String>| {
                    asked.fetch_add(missing.len() as u32, Ordering::Relaxed);
                    async move {
                        sleep(ms(20)).await;
                        Ok::<_, String>(missing.into_iter().map(|key| (key.clone(), key)).collect())
                    }
                };
                let values = cache.load_many(&keys, loader).await.unwrap();
                assert!(keys.iter().zip(values).all(|(key, value)| value.as_ref() == Some(key)));
            })
        };
        let (first, second) = (all(&one), all(&two));
        first.await.unwrap();
        second.await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 20_000);
        assert_eq!(one.stats().overtaken_loads + two.stats().overtaken_loads, 0);
    });
}

#[test]
fn reads_do_not_wait_for_loads() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it);
        let task = tokio::spawn({
            let cache = cache.clone();
            async move { load(&cache, "k", "v", Duration::from_secs(2)).await }
        });
        until("the lease", async || server.raw().exists("t:k").unwrap()).await;
        let begun = Instant::now();
        assert_eq!(get(&cache, "k").await, None);
        assert!(begun.elapsed() < ms(1_000));
        // They are hits, as long as the server says nothing else.
        let before = cache.stats().fetches;
        for _ in 0..1_000 {
            assert_eq!(get(&cache, "k").await, None);
        }
        assert!(cache.stats().fetches - before < 10, "{}", cache.stats().fetches - before);
        task.await.unwrap().unwrap();
        assert_eq!(get(&cache, "k").await.as_deref(), Some("v"), "a load is seen by its process");
    });
}
