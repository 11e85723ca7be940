//! The operations of a key's place, owned and by reference.

use crate::common::audited::audited;
use crate::common::tested;
use cortado::{Cache, Clock, CompResult, Entry, Expiry, Loaded, Op, RemovalCause};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

std::thread_local! {
    static CLONES: Cell<u32> = const { Cell::new(0) };
}

/// Counts how often it is made from a borrowed key.
#[derive(Debug, PartialEq, Eq)]
struct Counted(u8);

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        CLONES.set(CLONES.get() + 1);
        Self(self.0)
    }
}

/// How many keys `operation` has made.
fn clones<T>(operation: impl FnOnce() -> T) -> (T, u32) {
    CLONES.set(0);
    (operation(), CLONES.get())
}

/// A lease of its own, renewed by its holder; the same for threads and tasks. The cache's setting
/// says the lifetime of a plain `Put`.
#[test]
fn a_computation_may_give_a_lifetime() {
    const HOUR: Duration = Duration::from_secs(3600);
    let minutes = |number: u64| Duration::from_secs(60 * number);
    let (clock, hand) = Clock::manual();
    let cache = audited(Cache::builder().time_to_live(HOUR).clock(clock).build());
    let tasks = cache.future();
    let left = || cache.expires_in("k").due().unwrap();
    cache.entry("k").and_compute_with(|_| Op::PutLoaded(Loaded::with_ttl(1, minutes(2))));
    assert_eq!(left(), minutes(2));
    hand.advance(minutes(1));
    let keeps = |entry: Option<Entry<&str, u32>>| {
        let left = entry.and_then(|entry| entry.expires_in()).unwrap();
        Op::PutLoaded(Loaded::with_ttl(2, left))
    };
    cache.entry("k").and_compute_with(keeps);
    assert_eq!((cache.get("k"), left()), (Some(2), minutes(1)));
    let longer = |_| async { Op::PutLoaded(Loaded::with_ttl(3, minutes(5))) };
    let result = pollster::block_on(tasks.entry("k").and_compute_with(longer));
    assert!(matches!(result, CompResult::ReplacedWith(entry) if *entry == 3));
    assert_eq!(left(), minutes(5));
    cache.entry("k").and_compute_with(|_| Op::Put(4));
    assert_eq!(left(), HOUR);
    // Zero is a removal, as of an insert.
    cache.entry("k").and_compute_with(|_| Op::PutLoaded(Loaded::with_ttl(5, Duration::ZERO)));
    assert_eq!(cache.get("k"), None);
}

#[test]
fn by_reference_a_hit_makes_no_key_a_load_makes_one_on_a_miss_a_computation_one_at_once() {
    let cache = audited(Cache::<Counted, u8>::new(100));
    let key = &Counted(1);
    assert_eq!(clones(|| *cache.entry_by_ref(key).or_insert(1)), (1, 1));
    assert_eq!(clones(|| *cache.entry_by_ref(key).or_insert(2)), (1, 0));
    assert_eq!(clones(|| *cache.entry_by_ref(key).or_default()), (1, 0));
    assert_eq!(clones(|| cache.get_with_by_ref(key, || 2)), (1, 0));
    assert_eq!(clones(|| cache.optionally_get_with_by_ref(key, || None)), (Some(1), 0));
    assert_eq!(clones(|| cache.try_get_with_by_ref(key, || Err("no"))), (Ok(1), 0));
    assert_eq!(clones(|| cache.try_get_with_by_ref(&Counted(2), || Ok::<_, ()>(2))), (Ok(2), 1));
    assert_eq!(
        clones(|| *cache.entry_by_ref(key).or_insert_with_if(|| 3, |old| *old == 1)),
        (3, 1)
    );
    assert_eq!(clones(|| *cache.entry_by_ref(key).or_insert_with_if(|| 4, |_| false)), (3, 0));
    let nothing = |_| Op::Nop;
    assert_eq!(clones(|| *cache.entry_by_ref(key).and_compute_with(nothing).unwrap()), (3, 1));
    assert_eq!(clones(|| *cache.entry_by_ref(key).and_upsert_with(|_| 5)), (5, 1));
}

#[test]
fn each_result_of_a_computation_carries_its_entry_or_its_key() {
    let cache = audited(Cache::<String, u8>::new(100));
    let compute = |op: Op<u8>| cache.entry_by_ref("k").and_compute_with(|_| op);
    let CompResult::StillNone(key) = compute(Op::Remove) else { panic!("there is none") };
    assert_eq!((&*key, key.len()), (&"k".to_owned(), 1));
    assert_eq!(format!("{key} {key:?}"), "k \"k\"");
    assert!(compute(Op::Nop).into_entry().is_none());
    let inserted = compute(Op::Put(1)).unwrap();
    assert!((*inserted, inserted.is_fresh(), inserted.is_old_value_replaced()) == (1, true, false));
    let unchanged = compute(Op::Nop).unwrap();
    assert!((*unchanged, unchanged.is_fresh()) == (1, false));
    let replaced = compute(Op::Put(2)).unwrap();
    assert!((*replaced, replaced.is_fresh(), replaced.is_old_value_replaced()) == (2, true, true));
    assert_eq!(*compute(Op::Remove).unwrap(), 2);
    assert!(catch_unwind(AssertUnwindSafe(|| compute(Op::Nop).unwrap())).is_err());
    let upserted = cache.entry_by_ref("k").and_upsert_with(|old| old.map_or(7, |_| 8));
    assert!((*upserted, upserted.is_old_value_replaced()) == (7, false));
    let upserted = cache.entry_by_ref("k").and_upsert_with(|old| old.map_or(7, |_| 8));
    assert!((*upserted, upserted.is_old_value_replaced()) == (8, true));
}

#[test]
fn a_computation_that_fails_leaves_the_entry_as_it_is() {
    let cache = audited(Cache::new(100));
    cache.insert("k", 1);
    for key in ["k", "absent"] {
        let failed = cache.entry(key).and_try_compute_with(|_| Err::<Op<i32>, _>("no"));
        assert_eq!(failed.unwrap_err(), "no");
    }
    assert_eq!(cache.get("k"), Some(1));
    assert!(!cache.contains_key("absent"));
    let put = cache
        .entry("k")
        .and_try_compute_with(|old| Ok::<_, ()>(Op::Put(old.map_or(0, |old| *old + 1))));
    assert_eq!(*put.unwrap().unwrap(), 2);
}

/// Says by its numbers which hook was asked.
struct Hooks;

impl Expiry<u8, u8> for Hooks {
    fn expire_after_create(&self, _: &u8, _: &u8, _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(100))
    }

    fn expire_after_update(
        &self,
        _: &u8,
        _: &u8,
        _: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        Some(current? + Duration::from_secs(1))
    }
}

#[test]
fn a_load_that_replaces_is_an_update() {
    let tested = tested(|builder| builder.expire_after(Hooks));
    let cache = &tested.cache;
    cache.insert(1, 1);
    tested.hand.advance(Duration::from_secs(10));
    let kept = cache.entry(1).or_insert_with_if(|| unreachable!("not asked for"), |old| *old > 1);
    assert!(*kept == 1 && !kept.is_fresh());
    let entry = cache.entry(1).or_insert_with_if(|| 2, |old| *old == 1);
    assert!(*entry == 2 && entry.is_fresh() && entry.is_old_value_replaced());
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(Duration::from_secs(91))));
    let fresh = cache.entry(2).or_insert_with_if(|| 3, |_| unreachable!("there is none"));
    assert!(*fresh == 3 && fresh.is_fresh() && !fresh.is_old_value_replaced());
    assert_eq!(cache.expires_in(&2).into_options(), Some(Some(Duration::from_secs(100))));
    cache.run_pending_tasks();
    let told: Vec<_> =
        tested.told().iter().map(|told| (told.key, told.value, told.cause)).collect();
    assert_eq!(told, [(1, 1, RemovalCause::Replaced)]);
}

/// The entry that is there when the loader has returned is judged, if it is another one.
#[test]
fn an_entry_that_comes_while_the_loader_runs_is_judged_too() {
    for replaced in [false, true] {
        let cache = audited(Cache::new(100));
        cache.insert(1, 10);
        let judged = AtomicU32::new(0);
        let load = || {
            cache.insert(1, 11);
            20
        };
        let entry = cache.entry(1).or_insert_with_if(load, |old| {
            judged.fetch_add(1, SeqCst);
            *old == 10 || replaced
        });
        // The insert has overtaken the load: what it has loaded is returned, and not kept.
        assert_eq!((*entry, cache.get(&1)), (if replaced { 20 } else { 11 }, Some(11)));
        assert_eq!(judged.load(SeqCst), 2);
    }
}

#[test]
fn a_condition_that_writes_its_key_or_panics_harms_only_its_caller() {
    let cache = audited(Cache::new(100));
    cache.insert(1, 1);
    let writes = || {
        cache.entry(1).or_insert_with_if(
            || 2,
            |_| {
                cache.insert(1, 3);
                true
            },
        )
    };
    assert!(catch_unwind(AssertUnwindSafe(writes)).is_err());
    let panics = || cache.entry(1).or_insert_with_if(|| 2, |_| panic!("a condition"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let load = || cache.entry(1).or_insert_with_if(|| panic!("a loader"), |_| true);
    assert!(catch_unwind(AssertUnwindSafe(load)).is_err());
    assert_eq!(cache.get(&1), Some(1));
    assert_eq!(*cache.entry(1).or_insert_with_if(|| 4, |_| true), 4);
}

#[test]
fn a_result_is_cloned_as_a_handle() {
    let cache = audited(Cache::<u32, u32>::new(10));
    let result = cache.entry(1).and_compute_with(|_| Op::Put(7));
    let clone = result.clone();
    drop(result);
    assert!(matches!(clone, CompResult::Inserted(entry) if *entry == 7));
    assert!(
        matches!(cache.entry(2).and_compute_with(|_| Op::Nop).clone(), CompResult::StillNone(key) if *key == 2)
    );
}

/// A policy that nobody may ask.
struct Unasked;

impl Expiry<&'static str, u32> for Unasked {
    fn expire_after_create(&self, _: &&'static str, _: &u32, _: Instant) -> Option<Duration> {
        unreachable!("the call says the lifetime")
    }
}

#[test]
fn a_policy_is_not_asked_about_a_lifetime_that_a_computation_gives() {
    let hour = Duration::from_secs(3600);
    let cache = audited(Cache::builder().expire_after(Unasked).build());
    cache.insert_with_ttl("a", 1, hour);
    cache.entry("b").and_compute_with(|_| Op::PutLoaded(Loaded::with_ttl(1, hour)));
    assert_eq!((cache.get("a"), cache.get("b")), (Some(1), Some(1)));
}
