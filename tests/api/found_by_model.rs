//! Defects that the model found, each with the program that shows it.

use crate::common::audited::{Audited, audited};
use cortado::{Cache, Clock, Expiry, ManualClock, RemovalCause, expire};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

struct ReadsGive(Duration);

impl Expiry<u32, u32> for ReadsGive {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        None
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(self.0)
    }
}

#[test]
fn a_read_gives_no_deadline_in_the_past() {
    let (clock, hand) = Clock::manual();
    let cache = audited(
        Cache::builder()
            .time_to_live(60 * SECOND)
            .expire_after(ReadsGive(300 * SECOND))
            .clock(clock)
            .build(),
    );
    cache.insert_with_ttl(1, 1, 600 * SECOND);
    hand.advance(120 * SECOND);
    assert_eq!(cache.get(&1), Some(1));
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(300 * SECOND)));
}

#[test]
fn deadlines_of_three_centuries_ago_are_due() {
    let (cache, hand, causes) = announcing();
    cache.insert_with_ttl(1, 1, SECOND);
    cache.run_pending_tasks();
    hand.set(Duration::MAX);
    cache.run_pending_tasks();
    assert_eq!(*causes.lock().unwrap(), [RemovalCause::Expired]);
    cache.audit();
}

#[test]
fn the_handle_of_an_entry_that_is_evicted_at_once_tells_its_life() {
    let cache: Audited<u32, u32> =
        audited(Cache::builder().max_capacity(4).weigher(|_, &value| value).build());
    for key in 0..100 {
        let entry = cache.entry(key).or_insert_with(|| 1 + key % 4);
        assert_eq!(entry.expires_in(), None, "key {key}");
    }
}

/// With no scheduler and no reads, a batch of writes is long in coming.
#[test]
fn a_cache_that_is_only_written_to_expires_entries_all_the_same() {
    let (cache, hand, causes) = announcing();
    for key in 0..10 {
        cache.insert_with_ttl(key, key, SECOND);
    }
    hand.advance(10 * SECOND);
    cache.insert(10, 10);
    assert_eq!(causes.lock().unwrap().len(), 10);
    cache.audit();
}

type Causes = Arc<Mutex<Vec<RemovalCause>>>;

/// A cache whose removals are noted.
fn announcing() -> (Audited<u32, u32>, ManualClock, Causes) {
    let (clock, hand) = Clock::manual();
    let causes = Causes::default();
    let noted = Arc::clone(&causes);
    let cache = audited(
        Cache::builder()
            .clock(clock)
            .removal_listener(move |removed| noted.lock().unwrap().push(removed.cause()))
            .build(),
    );
    (cache, hand, causes)
}

/// The write that the write buffer refuses counts for the evictions of the pass that makes room.
#[test]
fn nothing_is_evicted_for_an_entry_that_was_removed_before() {
    for capacity in 1..40 {
        // The entries inside, and those that left as `Size` although all had room.
        let count = Arc::new(Mutex::new((2 * capacity, Vec::new())));
        let told = Arc::clone(&count);
        let (clock, _hand) = Clock::manual();
        let builder = Cache::builder().max_capacity(2 * capacity).clock(clock);
        let builder = builder.removal_listener(move |removed| {
            let (inside, needless) = &mut *told.lock().unwrap();
            if removed.cause() == RemovalCause::Size && *inside <= capacity {
                needless.push(*removed.key());
            }
            *inside -= 1;
        });
        let cache = audited(builder.build());
        (0..2 * capacity).for_each(|key| cache.insert(key, ()));
        cache.run_pending_tasks();
        cache.set_max_capacity(capacity);
        // As many are removed as have to leave, in one call without a pass of its own.
        cache.retain(|&key, ()| key % 2 == 0);
        cache.run_pending_tasks();
        let (inside, needless) = &*count.lock().unwrap();
        assert_eq!((*inside, &needless[..]), (cache.entry_count(), &[][..]), "capacity {capacity}");
    }
}

/// A key's entry that has ended is still there for a clock that goes back, unless an operation has
/// told somebody that it was gone. An insert whose weigher panics tells nobody.
#[test]
fn an_insert_whose_weigher_panics_changes_nothing() {
    let (clock, hand) = Clock::manual();
    let lifetime = |_: &u32, _: &u32| Some(SECOND);
    let builder = Cache::builder().max_capacity(10).expire_after(expire::on_create(lifetime));
    let weigher = |_: &u32, &value: &u32| if value == 2 { panic!("no weight") } else { 1 };
    let cache = audited(builder.weigher(weigher).clock(clock).build());
    cache.insert(1, 1);
    hand.advance(SECOND);
    let insert = AssertUnwindSafe(|| cache.insert(1, 2));
    assert!(catch_unwind(insert).is_err());
    hand.set(SECOND / 2);
    assert_eq!(cache.get(&1), Some(1));
}
