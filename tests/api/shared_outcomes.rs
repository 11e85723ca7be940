//! Loads that come to no value: who shares the outcome, and who loads next. A caller that looks for
//! a load of its key compares keys: by that a test knows that the caller has found the load.

use crate::common::audited::{Audited, audited};
use crate::common::fuse::{Key, Place, arm, joining};
use crate::common::must_end;
use cortado::{Cache, Loaded};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

type Loads = Arc<Audited<Key, u64>>;

fn cache() -> Loads {
    Arc::new(audited(Cache::builder().max_capacity(100).record_stats(true).build()))
}

/// A load that has begun. Its loader returns what it is sent.
struct Leader<E, T> {
    end: Sender<E>,
    thread: JoinHandle<T>,
}

impl<E: Send + 'static, T: Send + 'static> Leader<E, T> {
    fn begin(
        cache: &Loads,
        load: impl FnOnce(&Loads, &dyn Fn() -> E) -> T + Send + 'static,
    ) -> Self {
        let (begun, beginning) = channel();
        let (end, ending) = channel();
        let cache = Arc::clone(cache);
        let thread = std::thread::spawn(move || {
            load(&cache, &|| {
                begun.send(()).unwrap();
                ending.recv().unwrap()
            })
        });
        beginning.recv().unwrap();
        Self { end, thread }
    }

    fn end(self, outcome: E) -> T {
        self.end.send(outcome).unwrap();
        self.thread.join().unwrap()
    }
}

/// A load that fails with the text that it is sent.
fn failing(cache: &Loads) -> Leader<String, Arc<String>> {
    Leader::begin(cache, |cache, wait| {
        cache.try_get_with(Key(1), || Err::<u64, String>(wait())).unwrap_err()
    })
}

#[test]
fn all_who_wait_share_one_error() {
    must_end(|| {
        let (cache, loads) = (cache(), Arc::new(AtomicUsize::new(0)));
        let leader = failing(&cache);
        let waiters: Vec<_> = (0..7)
            .map(|n| {
                let loads = Arc::clone(&loads);
                joining(&cache, move |cache| {
                    let load = || {
                        loads.fetch_add(1, SeqCst);
                        Err::<u64, String>("a waiter's own".into())
                    };
                    match n % 2 {
                        0 => cache.try_get_with(Key(1), load).unwrap_err(),
                        _ => cache.entry(Key(1)).or_try_insert_with(load).unwrap_err(),
                    }
                })
            })
            .collect();
        let error = leader.end("refused".into());
        assert_eq!(*error, "refused");
        for waiter in waiters {
            assert!(Arc::ptr_eq(&error, &waiter.join().unwrap()));
        }
        assert_eq!(loads.load(SeqCst), 0);
        assert!(!cache.contains_key(&Key(1)));
        assert_eq!((cache.stats().loads, cache.stats().load_failures), (0, 1));
    });
}

#[test]
fn all_who_wait_share_the_absence_of_a_value() {
    must_end(|| {
        let cache = cache();
        let leader = Leader::begin(&cache, |cache, wait| cache.optionally_get_with(Key(1), wait));
        let waiters = [0; 3].map(|_| {
            joining(&cache, |cache| {
                cache.optionally_get_with(Key(1), || unreachable!("another call loads"))
            })
        });
        assert_eq!(leader.end(None), None);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), None);
        }
    });
}

/// Each of them needs something else: an error of its own type, a value, `None`.
#[test]
fn a_caller_who_cannot_use_the_outcome_loads_next() {
    must_end(|| {
        let cache = cache();
        let leader = failing(&cache);
        let other = joining(&cache, |cache| {
            cache.try_get_with(Key(1), || Err::<u64, Duration>(Duration::ZERO))
        });
        leader.end("refused".into());
        assert_eq!(*other.join().unwrap().unwrap_err(), Duration::ZERO);

        let leader = failing(&cache);
        let other = joining(&cache, |cache| cache.optionally_get_with(Key(1), || Some(6)));
        leader.end("refused".into());
        assert_eq!(other.join().unwrap(), Some(6));
        cache.invalidate(&Key(1));

        let leader = Leader::begin(&cache, |cache, wait| cache.optionally_get_with(Key(1), wait));
        let other = joining(&cache, |cache| cache.get_with(Key(1), || 7));
        leader.end(None);
        assert_eq!(other.join().unwrap(), 7);
    });
}

#[test]
fn a_value_is_shared_by_loads_of_all_kinds() {
    must_end(|| {
        let cache = cache();
        fn never() -> u64 {
            unreachable!("another call loads")
        }
        let leader = Leader::begin(&cache, |cache, wait| {
            cache.load(Key(1), || Loaded::with_ttl(wait(), Duration::ZERO))
        });
        let plain = joining(&cache, |cache| cache.get_with(Key(1), never));
        let optional = joining(&cache, |cache| cache.optionally_get_with(Key(1), || Some(never())));
        let fallible =
            joining(&cache, |cache| cache.try_get_with(Key(1), || Ok::<_, String>(never())));
        assert_eq!(leader.end(5), 5);
        assert_eq!(plain.join().unwrap(), 5);
        assert_eq!(optional.join().unwrap(), Some(5));
        assert_eq!(fallible.join().unwrap(), Ok(5));
        assert!(!cache.contains_key(&Key(1)), "a lifetime of zero is not kept");
    });
}

/// A write overtakes a load that fails: the error reaches its caller, and the value stays.
#[test]
fn an_error_does_not_remove_what_was_written_meanwhile() {
    must_end(|| {
        let cache = cache();
        let leader = failing(&cache);
        cache.insert(Key(1), 3);
        assert_eq!(*leader.end("refused".into()), "refused");
        assert_eq!(cache.get(&Key(1)), Some(3));
    });
}

#[test]
fn a_loader_may_say_how_long_its_value_lives() {
    let (clock, hand) = cortado::Clock::manual();
    let policy = cortado::expire::on_write(|_: &u8, _: &u8| Some(Duration::from_secs(50)));
    let builder = Cache::builder().time_to_live(Duration::from_secs(100)).expire_after(policy);
    let cache = audited(builder.clock(clock).build());
    let second = Duration::from_secs(1);
    assert_eq!(cache.load(1, || Loaded::with_ttl(1, second)), 1);
    assert_eq!(cache.load(2, || Some(Loaded::new(2))), Some(2));
    assert_eq!(cache.load_by_ref(&3, || None), None);
    let loaded = cache.load_by_ref(&4, || Ok::<_, String>(Loaded::with_ttl(4, 200 * second)));
    assert_eq!(loaded, Ok(4));
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(second)));
    assert_eq!(cache.expires_in(&2).into_options(), Some(Some(50 * second)));
    assert_eq!(cache.expires_in(&3).into_options(), None);
    assert_eq!(cache.expires_in(&4).into_options(), Some(Some(200 * second)));
    hand.advance(second);
    assert_eq!(cache.load(1, || Loaded::new(9)), 9);
}

/// A call finds an entry that it is to replace, and then another call's load, which comes to the
/// same entry: it was written before that load took off. Nobody has loaded a new value, so this
/// call does.
#[test]
fn an_entry_that_another_load_has_only_found_is_judged() {
    must_end(|| {
        let cache = cache();
        let (other, replacing) = (Arc::clone(&cache), channel());
        // Between the first look of this thread and its take-off.
        arm(Place::Clone, 1, move || {
            other.insert(Key(1), 10);
            // In its second look.
            arm(Place::Eq, 1, move || {
                let (cache, (found, finding)) = (other, channel());
                let thread = std::thread::spawn(move || {
                    // The first comparison is with the entry, the second with the load.
                    arm(Place::Eq, 2, move || found.send(()).unwrap());
                    let entry = cache.entry(Key(1));
                    *entry.or_insert_with_if(|| 11, |value| *value == 10)
                });
                finding.recv().unwrap();
                replacing.0.send(thread).unwrap();
            });
        });
        assert_eq!(cache.get_with_by_ref(&Key(1), || unreachable!("an entry is there")), 10);
        let replaces = replacing.1.recv().unwrap();
        assert_eq!(replaces.join().unwrap(), 11);
        assert_eq!(cache.get(&Key(1)), Some(11));
    });
}

/// A loader that may find nothing, or fail: who waits shares the outcome if its own could be that.
#[test]
fn an_outcome_of_a_loader_that_may_find_nothing_or_fail_is_shared_where_it_fits() {
    type Fails = Result<Option<Loaded<u64>>, String>;
    fn shared<T: Send + 'static>(
        outcome: Fails,
        waits: impl FnOnce(&Audited<Key, u64>) -> T + Send + 'static,
    ) -> T {
        let cache = cache();
        let leader = Leader::begin(&cache, |cache, wait: &dyn Fn() -> Fails| {
            drop(cache.load(Key(1), wait));
        });
        let waiter = joining(&cache, waits);
        leader.end(outcome);
        waiter.join().unwrap()
    }
    type Loading = Audited<Key, u64>;
    must_end(|| {
        let down = || Arc::new("down".to_owned());
        let fails = || Err("down".to_owned());
        let same = |cache: &Loading| cache.load(Key(1), || -> Fails { Ok(Some(Loaded::new(2))) });
        assert_eq!(shared(Ok(None), same), Ok(None));
        assert_eq!(shared(fails(), same), Err(down()));
        assert_eq!(shared(Ok(Some(Loaded::new(1))), same), Ok(Some(1)));
        let optional = |cache: &Loading| cache.load(Key(1), || Some(Loaded::new(2)));
        assert_eq!(shared(Ok(None), optional), None);
        assert_eq!(shared(fails(), optional), Some(2), "an error does not fit");
        let fallible = |cache: &Loading| cache.try_get_with(Key(1), || Ok::<_, String>(2));
        assert_eq!(shared(fails(), fallible), Err(down()));
        assert_eq!(shared(Ok(None), fallible), Ok(2), "no value does not fit");
        let other = |cache: &Loading| cache.try_get_with(Key(1), || Ok::<_, u8>(2));
        assert_eq!(shared(fails(), other), Ok(2), "nor does an error of another type");
        let plain = |cache: &Loading| cache.get_with(Key(1), || 2);
        assert_eq!(shared(Ok(None), plain), 2);
    });
}
