//! Bulk loads of which some keys fail: what is kept, what the call returns, and what those get who
//! wait for one of the keys. A caller that looks for a load of its key compares keys. By that a
//! test knows that the caller has found the load.

use crate::common::audited::{Audited, LoadingAudited, audited, loading_audited};
use crate::common::fuse::{Borrowed, Key, joining};
use crate::common::must_end;
use cortado::{Cache, Loaded, Loader};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

type Loading = LoadingAudited<Key, u64, String>;
type Shared = Result<u64, Arc<String>>;

fn keys(numbers: &[u64]) -> Vec<Key> {
    numbers.iter().copied().map(Key).collect()
}

/// Ten times the key; keys from 90 on fail.
fn load(key: Key) -> Result<Loaded<u64>, String> {
    if key.0 < 90 { Ok(Loaded::new(key.0 * 10)) } else { Err(format!("no {}", key.0)) }
}

/// What a loader does once, in the middle of its call.
type Amid = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

fn reach(amid: &Amid) {
    let run = amid.lock().unwrap().take();
    run.into_iter().for_each(|run| run());
}

/// Waiters for these keys, who come in the middle of the loader's call, and what they get.
fn waiters(cache: &Arc<Loading>, amid: &Amid, numbers: &[u64]) -> impl FnOnce() -> Vec<Shared> {
    let (cache, numbers) = (Arc::downgrade(cache), numbers.to_vec());
    let threads: Arc<Mutex<Vec<JoinHandle<Shared>>>> = Arc::default();
    let begun = Arc::clone(&threads);
    *amid.lock().unwrap() = Some(Box::new(move || {
        let cache = cache.upgrade().unwrap();
        let wait = |key| joining(&cache, move |cache: &Loading| cache.get(&Key(key)));
        begun.lock().unwrap().extend(numbers.into_iter().map(wait));
    }));
    move || threads.lock().unwrap().drain(..).map(|thread| thread.join().unwrap()).collect()
}

fn failed(error: &str) -> Result<u64, Arc<String>> {
    Err(Arc::new(error.to_owned()))
}

#[test]
fn a_key_that_fails_takes_no_other_along() {
    must_end(|| {
        let (calls, amid) = (Arc::new(AtomicU64::new(0)), Amid::default());
        let (counts, reaches) = (Arc::clone(&calls), Arc::clone(&amid));
        let loader = move |key: Key| {
            counts.fetch_add(1, SeqCst);
            reach(&reaches);
            load(key)
        };
        let cache = Arc::new(loading_audited(Cache::builder().build_with_loader(loader)));
        let waiters = waiters(&cache, &amid, &[1, 99, 98, 3]);
        let many = cache.get_many(&keys(&[1, 2, 99, 98, 3, 99]));
        assert_eq!(many, Err(Arc::new("no 99".to_owned())), "the first in the order of the keys");
        assert_eq!(waiters(), [Ok(10), failed("no 99"), failed("no 98"), Ok(30)]);
        assert_eq!(
            cache.cache().get_many(&keys(&[1, 2, 3, 99])),
            [Some(10), Some(20), Some(30), None]
        );
        assert_eq!(calls.load(SeqCst), 5, "each key once");
    });
}

/// The loader of a call makes all or nothing.
#[test]
fn a_loader_that_a_call_brings_fails_for_that_call_alone() {
    must_end(|| {
        let cache: Arc<Audited<Key, u64>> = Arc::new(audited(Cache::builder().build()));
        let mut threads = Vec::new();
        let many = cache.try_get_many_with(keys(&[1, 2, 3]), |_| {
            threads.extend([1, 2].map(|key| {
                joining(&cache, move |cache| {
                    cache.try_get_with(Key(key), || load(Key(key)).map(|_| key * 10))
                })
            }));
            Err::<[(Key, u64); 0], _>("down".to_owned())
        });
        assert_eq!(many, Err(Arc::new("down".to_owned())));
        let got: Vec<Shared> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(got, [Ok(10), Ok(20)]);
        assert_eq!(cache.get(&Key(3)), None);
    });
}

/// Answers as [`load`] does, and of many keys not at all for those between 50 and 90. It reaches
/// `amid` in the middle of a call for many.
struct Silent(Amid);

impl Loader<Key, u64> for Silent {
    type Error = String;

    fn load(&self, key: &Key) -> Result<Loaded<u64>, String> {
        load(Key(key.0))
    }

    fn load_many(&self, keys: &[&Key]) -> Vec<(Key, Result<Loaded<u64>, String>)> {
        reach(&self.0);
        let answered = keys.iter().filter(|key| !(50..90).contains(&key.0));
        // In another order, and two that nobody asked for.
        let made = answered.rev().map(|key| (Key(key.0), load(Key(key.0))));
        made.chain([(Key(7), load(Key(7))), (Key(97), load(Key(97)))]).collect()
    }
}

#[test]
fn who_waits_for_a_key_without_an_answer_loads_it() {
    must_end(|| {
        let amid = Amid::default();
        let loader = Silent(Arc::clone(&amid));
        let cache = Arc::new(loading_audited(Cache::builder().build_with_loader(loader)));
        let waiting = waiters(&cache, &amid, &[1, 50, 99]);
        assert_eq!(cache.get_many(&keys(&[50, 1, 99])), Err(Arc::new("no 99".to_owned())));
        assert_eq!(waiting(), [Ok(10), Ok(500), failed("no 99")]);

        // The call itself gets nothing for such a key, and no error of a key that nobody asked for.
        assert_eq!(cache.get_many(&keys(&[51, 2])), Ok(vec![None, Some(20)]));
        assert_eq!(cache.cache().get_many(&keys(&[7, 97])), [Some(70), None]);

        // So does a call of another kind that waits, and another call for many.
        let (other, joined) = (Arc::downgrade(&cache), Arc::new(Mutex::new(None)));
        let joins = Arc::clone(&joined);
        *amid.lock().unwrap() = Some(Box::new(move || {
            let cache = other.upgrade().unwrap();
            let optional =
                joining(&cache, |cache| cache.cache().optionally_get_with(Key(52), || Some(5)));
            *joins.lock().unwrap() = Some(optional);
        }));
        assert_eq!(cache.get_many(&keys(&[52])), Ok(vec![None]));
        let optional = joined.lock().unwrap().take().unwrap();
        assert_eq!(optional.join().unwrap(), Some(5));
    });
}

/// A guard is the load of another call, which has not ended.
#[test]
fn the_error_of_the_first_key_is_returned_without_a_wait_for_later_ones() {
    must_end(|| {
        let cache = loading_audited(Cache::builder().build_with_loader(Silent(Amid::default())));
        let guard = |key| match cache.cache().get_value_or_guard(&Borrowed(key)) {
            Err(guard) => guard,
            Ok(_) => panic!("nobody loads it"),
        };
        // Nothing that comes of key 2 makes a difference.
        let later = guard(2);
        assert_eq!(cache.get_many(&keys(&[1, 99, 2])), Err(Arc::new("no 99".to_owned())));
        assert_eq!(cache.get_many(&keys(&[98, 99, 2])), Err(Arc::new("no 98".to_owned())));
        drop(later);

        // What comes of key 90 does: its other load ends without a value, and this call's fails.
        let earlier = guard(90);
        std::thread::scope(|scope| {
            let many = scope.spawn(|| cache.get_many(&keys(&[90, 99, 3])));
            while cache.cache().get(&Key(3)).is_none() {
                std::thread::yield_now();
            }
            drop(earlier);
            assert_eq!(many.join().unwrap(), Err(Arc::new("no 90".to_owned())));
        });
        assert_eq!(cache.stats().loads_under_way, 0);
    });
}

/// A bulk load is one load.
#[test]
fn a_load_of_which_a_key_fails_counts_as_failed() {
    let builder = Cache::builder().record_stats(true);
    let cache = loading_audited(builder.build_with_loader(load));
    assert_eq!(cache.get_many(&keys(&[1, 2])), Ok(vec![Some(10), Some(20)]));
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 0));
    assert_eq!(cache.get_many(&keys(&[1, 3, 99])), Err(Arc::new("no 99".to_owned())));
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 1));
}
