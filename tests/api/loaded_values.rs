//! Values that bring their lifetimes, wherever a value goes in.

use crate::common::audited::{audited, loading_audited, tasks_audited};
use crate::common::{MINUTE, SECOND, tested};
use cortado::{Builder, Cache, Clock, Expiration, Loaded, Loader, Op, Reloaded, RemovalCause};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

type Build = Builder<u32, u32>;

/// An instant by the manual clock of a cache: of an entry that ends in a minute.
fn in_a_minute(cache: &Cache<u32, u32>) -> Instant {
    cache.insert_with_ttl(u32::MAX, 0, MINUTE);
    let end = cache.expires_at(&u32::MAX).due().unwrap();
    cache.invalidate(&u32::MAX);
    end
}

#[test]
fn a_value_may_come_with_its_end() {
    let cache = tested(|builder: Build| builder.time_to_live(3600 * SECOND));
    let end = in_a_minute(&cache);
    let due = |key: u32| cache.expires_in(&key);
    let loaded = Loaded::new(1).until(end);
    assert_eq!((cache.load(1, || loaded), due(1)), (1, Expiration::Due(MINUTE)));
    cache.insert_many([(2, loaded)]);
    cache.entry(3).and_compute_with(|_| Op::PutLoaded(loaded));
    assert_eq!(cache.get_many_with([4], |_| [(4, loaded)]), [Some(1)]);
    assert!(cache.get_value_or_guard(&5).is_err_and(|guard| guard.insert(loaded).is_fresh()));
    assert!((2..6).all(|key| due(key) == Expiration::Due(MINUTE)));
    // Of the two the last one counts.
    cache.insert_many([(6, Loaded::with_ttl(1, SECOND).until(end))]);
    assert_eq!(due(6), Expiration::Due(MINUTE));
    cache.hand.advance(MINUTE);
    assert_eq!(cache.get_many(&[1, 2, 3, 4, 5, 6]), [None; 6]);
    // An instant that has passed: shared, and not kept.
    assert_eq!(cache.load(7, || Loaded::new(7).until(end)), 7);
    assert_eq!(cache.peek(&7).map(|entry| *entry), None);
    let never = end + Duration::from_secs(1 << 36);
    assert_eq!((cache.load(8, || Loaded::new(8).until(never)), due(8)), (8, Expiration::Never));
}

#[test]
fn many_values_may_come_with_their_lifetimes() {
    let cache = tested(|builder: Build| builder);
    let due = |key: u32| cache.expires_in(&key).due();
    cache.insert_many((0..3).map(|n| (n, Loaded::with_ttl(n, n * SECOND))));
    assert_eq!([due(0), due(1), due(2)], [None, Some(SECOND), Some(2 * SECOND)]);
    assert!(!cache.contains_key(&0), "a lifetime of zero");
    let load = |keys: &[&u32]| {
        let asked = keys.iter().map(|key| (**key, Loaded::with_ttl(**key, MINUTE)));
        asked.chain([(9, Loaded::with_ttl(9, 2 * MINUTE))]).collect::<Vec<_>>()
    };
    assert_eq!(cache.get_many_with([3, 1], load), [Some(3), Some(1)]);
    assert_eq!([due(1), due(3), due(9)], [Some(SECOND), Some(MINUTE), Some(2 * MINUTE)]);
    let fallible = |keys: &[&u32]| Ok::<_, ()>(load(keys));
    assert_eq!(cache.try_get_many_with([4], fallible), Ok(vec![Some(4)]));
    assert_eq!(due(4), Some(MINUTE));
}

#[test]
fn a_value_that_takes_anothers_place_may_have_a_lifetime() {
    let cache = tested(|builder: Build| builder);
    assert_eq!(cache.replace_with_ttl(1, 1, MINUTE).unwrap_err(), 1);
    assert!(!cache.contains_key(&1));
    let first = cache.entry(1).or_insert_with_ttl(1, MINUTE);
    assert!(first.is_fresh() && first.expires_in() == Some(MINUTE));
    let second = cache.entry_by_ref(&1).or_insert_with_ttl(2, 2 * MINUTE);
    assert_eq!((*second, second.expires_in()), (1, Some(MINUTE)));
    assert_eq!(*cache.replace_with_ttl(1, 3, SECOND).unwrap(), 1);
    assert_eq!((cache.get(&1), cache.expires_in(&1)), (Some(3), Expiration::Due(SECOND)));
    // A lifetime of zero removes the old entry.
    assert_eq!(*cache.replace_with_ttl(1, 4, Duration::ZERO).unwrap(), 3);
    assert_eq!(cache.peek(&1).map(|entry| *entry), None);
    assert_eq!(*cache.entry(1).or_insert_with_ttl(5, Duration::ZERO), 5);
    let told: Vec<_> = cache.told().into_iter().map(|told| (told.value, told.cause)).collect();
    let replaced = |value| (value, RemovalCause::Replaced);
    let ended = |value| (value, RemovalCause::Expired);
    assert_eq!(told, [replaced(1), replaced(3), ended(4), ended(5)]);
}

/// A time until the value is stale comes with it as well.
#[test]
fn values_may_come_with_the_time_until_they_are_stale() {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().clock(clock).executor(|job: cortado::Job| job());
    let load = |_: u32| Ok::<_, ()>(Loaded::new(100));
    let cache = loading_audited(builder.build_with_loader(load));
    let stale = Loaded::new(1).refresh_after(SECOND);
    cache.cache().insert_many([(1, stale)]);
    cache.cache().entry(2).and_compute_with(|_| Op::PutLoaded(stale));
    assert_eq!(cache.cache().get_many_with([3], |_| [(3, stale)]), [Some(1)]);
    assert_eq!(cache.get_many(&[1, 2, 3]), Ok(vec![Some(1); 3]));
    hand.advance(SECOND);
    (1..4).for_each(|key| assert_eq!(cache.get(&key), Ok(100)));
}

/// What people write without types goes on compiling.
#[test]
fn types_are_inferred() {
    let cache = audited(Cache::new(10));
    cache.insert_many([("a", 1), ("b", 2)]);
    assert_eq!(cache.get("a"), Some(1));
    let texts = audited(Cache::new(10));
    texts.insert_many(vec![(1, String::new()), (2, "b".to_owned())]);
    assert_eq!(texts.get_many_with([1, 3], |_| Some((3, "c".to_owned())))[1].as_deref(), Some("c"));
    let mixed = audited(Cache::new(10));
    mixed.insert_many([(1, Loaded::with_ttl(1.5, MINUTE))]);
    mixed.insert_many(vec![(2, 2.5)]);
    let guard = mixed.get_value_or_guard(&3).unwrap_err();
    assert_eq!(*guard.insert(3.5), 3.5);
    let lists = audited(Cache::<u8, Vec<u8>>::new(10));
    lists.insert_many([(1, vec![]), (2, vec![1])]);
    lists.insert_many(Vec::<(u8, Vec<u8>)>::new());
    assert!(lists.load(3, || Ok::<_, ()>(Some(Loaded::new(vec![])))).is_ok());
    assert_eq!(lists.load(4, || Err::<Loaded<_>, _>("no")).unwrap_err().len(), 2);
    let futures = tasks_audited(cortado::future::Cache::new(10));
    pollster::block_on(async {
        futures.insert_many([("a", 1)]).await;
        let made = futures.get_many_with(["b"], |_| async { [("b", Loaded::new(2))] }).await;
        assert_eq!(made, [Some(2)]);
    });
}

/// An upstream that counts what it is asked.
struct Counts(AtomicU32);

impl Loader<u32, u32> for Counts {
    type Error = ();

    fn load(&self, key: &u32) -> Result<Loaded<u32>, ()> {
        self.0.fetch_add(1, SeqCst);
        Ok(Loaded::new(*key))
    }

    fn reload(&self, _: &u32, _: &u32) -> Result<Reloaded<u32>, ()> {
        self.0.fetch_add(100, SeqCst);
        Ok(Reloaded::not_modified())
    }

    fn load_many(&self, keys: &[&u32]) -> Vec<(u32, Result<Loaded<u32>, ()>)> {
        self.0.fetch_add(10_000, SeqCst);
        keys.iter().map(|key| (**key, Ok(Loaded::new(**key)))).collect()
    }
}

/// An `Arc` of a loader keeps what the loader does in reloads, and for many keys.
#[test]
fn a_shared_loader_is_a_loader() {
    let builder = || Cache::builder().executor(|job: cortado::Job| job());
    let counts = Arc::new(Counts(AtomicU32::new(0)));
    let chosen: Arc<dyn Loader<u32, u32, Error = ()>> = Arc::clone(&counts) as _;
    let known = loading_audited(builder().build_with_loader(Arc::clone(&counts)));
    let named = loading_audited(builder().build_with_loader(chosen));
    for cache in [known, named] {
        assert_eq!(cache.get(&1), Ok(1));
        assert!(cache.refresh(&1));
        assert_eq!(cache.get_many(&[1, 2, 3]), Ok(vec![Some(1), Some(2), Some(3)]));
        assert_eq!(counts.0.swap(0, SeqCst), 10_101);
    }
}
