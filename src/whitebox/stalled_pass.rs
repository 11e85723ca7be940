//! Writers while another thread holds the maintenance lock and makes no progress, like a thread
//! that was preempted. Each test holds the lock itself, for as long as it takes.

use crate::cache::Cache;
use crate::clock::Clock;
use crate::engine::{Core, Event};
use crate::expiry::Expiry;
use crate::primitives::thread;
use crate::scheduler::Scheduled;
use std::time::{Duration, Instant};

/// A cache with this many applied entries, an index that need not grow, and a clock that stands
/// still.
fn cache(capacity: u64, entries: u32) -> Cache<u32, u32> {
    let builder = Cache::builder().max_capacity(capacity).initial_capacity(1 << 18);
    let cache = builder.clock(Clock::manual().0).build();
    (0..entries).for_each(|key| cache.insert(u32::MAX - key, key));
    cache.run_pending_tasks();
    cache
}

fn core(cache: &Cache<u32, u32>) -> &Core {
    super::neighbour::start();
    &cache.engine().core
}

/// A capacity of which a quarter of a sixteenth is more than the stripes hold, on any machine.
const LARGE: u64 = 1 << 20;
/// More events than one stripe holds.
const MANY: u32 = 3000;

#[test]
fn writers_go_on_while_a_pass_is_held_up() {
    let cache = cache(LARGE, MANY);
    let lock = core(&cache).upkeep().state.lock();
    let writer = cache.clone();
    let writer = thread::spawn(move || {
        for key in 0..MANY {
            writer.insert(key, 2 * key);
        }
        for key in 0..10 {
            writer.invalidate(&key);
        }
    });
    while !writer.is_finished() {
        assert!(!core(&cache).upkeep().has_lock_waiters(), "the writer waits for the lock");
        thread::yield_now();
    }
    assert!(
        core(&cache).upkeep().writes.spill.count() >= MANY as usize - 512,
        "nothing was spilled"
    );
    assert_eq!((cache.get(&9), cache.get(&10)), (None, Some(20)));
    drop(lock);
    writer.join().expect("no panic");
    run_requested_passes(&cache);
    assert_eq!(cache.entry_count(), 2 * u64::from(MANY) - 10);
    cache.audit();
}

/// The recorded writes have requested passes, so operations run them, one after another.
fn run_requested_passes(cache: &Cache<u32, u32>) {
    while !core(cache).upkeep().writes.is_empty() {
        let is_due = core(cache).status().is_required();
        assert!(is_due, "no pass is due");
        let _ = cache.get(&0);
    }
}

/// Holds the lock while each of these threads writes this many keys, from `first` on. No writer may
/// wait for the lock.
fn hold_up(cache: &Cache<u32, u32>, first: u32, (threads, keys): (u32, u32)) {
    let lock = core(cache).upkeep().state.lock();
    let writers = (0..threads).map(|thread| {
        let writer = cache.clone();
        let first = first + thread * keys;
        thread::spawn(move || (first..first + keys).for_each(|key| writer.insert(key, key)))
    });
    for writer in writers.collect::<Vec<_>>() {
        while !writer.is_finished() {
            assert!(!core(cache).upkeep().has_lock_waiters(), "a writer waits for the lock");
            thread::yield_now();
        }
    }
    drop(lock);
}

/// In some cases many events were spilled, in others few, with full stripes.
#[test]
fn all_that_was_written_is_applied_where_somebody_asks_for_it() {
    for (threads, keys) in [(1, 10_000), (1, 513), (2, 600), (16, 600)] {
        let cache = cache(LARGE, 50_000);
        hold_up(&cache, 0, (threads, keys));
        assert!(core(&cache).upkeep().writes.spill.count() > 0, "nothing was spilled");
        cache.run_pending_tasks();
        assert!(core(&cache).upkeep().writes.is_empty(), "{threads} threads of {keys}");
        assert_eq!(cache.entry_count(), 50_000 + u64::from(threads * keys));
        cache.audit();
    }
}

/// Also where spilled writes take several passes: the last of them looks at the current tick.
#[test]
fn what_has_expired_within_the_tick_goes_after_spilled_writes() {
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder().max_capacity(LARGE).initial_capacity(1 << 18).clock(clock).build();
    (0..50_000).for_each(|key| cache.insert(u32::MAX - key, key));
    cache.insert_with_ttl(u32::MAX / 2, 0, Duration::from_nanos(1));
    cache.run_pending_tasks();
    hold_up(&cache, 0, (1, 10_000));
    assert!(core(&cache).upkeep().writes.spill.count() > 0, "nothing was spilled");
    hand.advance(Duration::from_nanos(1));
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 60_000);
    cache.audit();
}

/// A stripe asks for a drain when half of its room is taken, on any machine. So a writer goes on
/// for a while beside a pass, also if few entries fill it. Only a stripe of the smallest caches
/// fills up first.
#[test]
fn half_of_a_stripe_is_left_for_writes_beside_a_pass() {
    for (capacity, weight, batch, room) in
        [(100, 1, 3, 3), (1000, 1, 15, 31), (4000, 1, 62, 124), (2000, 10, 4, 6)]
    {
        for (writes, is_asked) in [(batch - 1, false), (batch, true), (room, true)] {
            let builder = Cache::builder().max_capacity(capacity).clock(Clock::manual().0);
            let cache = match weight {
                1 => builder.build(),
                _ => builder.weigher(move |_, _| weight).build(),
            };
            cache.run_pending_tasks();
            hold_up(&cache, 0, (1, writes));
            assert_eq!(core(&cache).is_pass_required(), is_asked, "{writes} into {capacity}");
            cache.run_pending_tasks();
            assert_eq!(cache.entry_count(), u64::from(writes));
            cache.audit();
        }
    }
}

/// A writer whose stripe is too heavy waits for a writer that is off its core in the middle of a
/// push. A pass that skips what that one has not stored yet drains nothing.
#[test]
fn a_stripe_stays_within_its_weight_beside_a_stalled_push() {
    // One stripe, with room for weight 31.
    let cache = cache(1000, 10);
    let entry = cache.peek(&u32::MAX).expect("it was inserted").node().id();
    let writes = &core(&cache).upkeep().writes;
    let store = writes.stalled_push(Event::Rescheduled(entry).pack().get(), 1);
    let writer = cache.clone();
    let writer = thread::spawn(move || {
        let pending = (0..60).map(|key| {
            writer.insert(key, key);
            core(&writer).upkeep().writes.pending_weight()
        });
        pending.max()
    });
    // Waits until the writer has ended, or is in a pass that does not end. (A mistake about that
    // could hide a failure. It makes none.)
    let mut held = 0;
    while !writer.is_finished() && held < 10_000 {
        held = if core(&cache).upkeep().state.try_lock().is_none() { held + 1 } else { 0 };
        thread::yield_now();
    }
    store();
    let most = writer.join().expect("no panic").expect("it has written");
    assert!((15..=31).contains(&most), "{most} in a stripe for 31");
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 70);
    cache.audit();
}

/// Passes that apply many additions move as many buckets of a growing index as these ask for. A
/// bucket has room for ten entries without an overflow, and the index is made for seven.
#[test]
fn the_index_keeps_up_with_passes_of_many_additions() {
    const MOST: usize = 14;
    let cache: Cache<u32, u32> = Cache::builder().clock(Clock::manual().0).build();
    let mut entries = 8000;
    (0..entries).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    while entries < 200_000 {
        let each = entries / 8;
        hold_up(&cache, entries, (4, each));
        entries += 4 * each;
        run_requested_passes(&cache);
        let buckets = core(&cache).index.buckets(&crate::epoch::pin());
        assert!(entries as usize <= MOST * buckets, "{entries} entries in {buckets} buckets");
    }
    cache.audit();
}

/// The waiting writes stay within half of the promised sixteenth, since a pass may have the other
/// half in its hands, plus one entry for each writer. And writers spill no more new entries than
/// the cache has entries: the index is large enough for that many.
#[test]
fn writers_wait_where_the_bound_or_the_index_would_suffer() {
    let quarter = LARGE / 64;
    for (capacity, entries, most) in
        [(1000, 0, 31), (LARGE, 100_000, quarter + 512), (LARGE, 1000, 1512), (LARGE, 0, 512)]
    {
        let cache = cache(capacity, entries);
        let lock = core(&cache).upkeep().state.lock();
        let all = quarter as u32 + 600;
        let writer = cache.clone();
        let writer = thread::spawn(move || (0..all).for_each(|key| writer.insert(key, key)));
        while !core(&cache).upkeep().has_lock_waiters() {
            assert!(!writer.is_finished(), "the writer does not wait");
            thread::yield_now();
        }
        let written = cache.entries().count() as u64 - u64::from(entries);
        assert!(written <= most + 1, "{written} of {capacity} written, {most} may wait");
        drop(lock);
        writer.join().expect("no panic");
        cache.audit();
        assert_eq!(cache.entry_count(), capacity.min(u64::from(all + entries)));
    }
}

/// Updates and removals need no room, so as many of them may wait as a sixteenth of the capacity.
#[test]
fn updates_and_removals_wait_later() {
    let most = LARGE / 16;
    let cache = cache(LARGE, 100_000);
    let lock = core(&cache).upkeep().state.lock();
    let writer = cache.clone();
    let writer = thread::spawn(move || {
        for key in 0..most as u32 / 2 {
            writer.insert(u32::MAX - key, 0);
            writer.invalidate(&(u32::MAX - key));
        }
        (0..513).for_each(|_| writer.insert(u32::MAX - 99_999, 1));
    });
    while !core(&cache).upkeep().has_lock_waiters() {
        assert!(!writer.is_finished(), "the writer does not wait");
        thread::yield_now();
    }
    assert_eq!(core(&cache).upkeep().writes.spill.count() as u64, most);
    drop(lock);
    writer.join().expect("no panic");
    cache.audit();
    assert_eq!(cache.entry_count(), 100_000 - most / 2);
}

/// Locks the bucket of a key, as a writer does that is preempted there.
fn hold_bucket(cache: &Cache<u32, u32>, key: u32, meanwhile: impl FnOnce()) {
    let guard = crate::epoch::pin();
    let engine = cache.engine();
    let slot = engine.search_exact(&guard, engine.hashed(&key));
    let (found, node) = (slot.found, slot.node);
    assert!(node.is_some());
    let locked = found.lock().expect("no other thread writes");
    meanwhile();
    drop(locked);
}

/// A read runs a pass that has to expire, evict and sweep entries in a bucket. A writer that is off
/// its core holds that bucket, so the pass leaves the entries to a later pass.
#[test]
fn a_pass_in_passing_does_not_wait_for_a_bucket() {
    for clears in [false, true] {
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder().max_capacity(100).clock(clock);
        let cache: Cache<u32, u32> = builder.build();
        (0..90).for_each(|key| cache.insert_with_ttl(key, key, Duration::from_secs(10)));
        (200..205).for_each(|key| cache.insert(key, key));
        cache.run_pending_tasks();
        hold_bucket(&cache, 0, || {
            if clears {
                cache.invalidate_all();
            }
            hand.advance(Duration::from_secs(20));
            let reader = cache.clone();
            let reader = thread::spawn(move || {
                (0..50).for_each(|_| assert_eq!(reader.get(&1000), None));
            });
            let begun = std::time::Instant::now();
            while !reader.is_finished() {
                // A pass that waits for the bucket never ends: this thread holds the bucket.
                assert!(begun.elapsed() < Duration::from_secs(60), "the pass waits for the bucket");
                thread::yield_now();
            }
            reader.join().expect("no panic");
            let left = cache.entry_count();
            assert!((1..90).contains(&left), "{left} are left: no entry was removed, or each one");
        });
        // Lookups are exact meanwhile. The next requested pass removes the entries that were left.
        assert!(!cache.contains_key(&0));
        cache.run_pending_tasks();
        assert_eq!(cache.entry_count(), if clears { 0 } else { 5 });
        cache.audit();
    }
}

/// While a thread holds a view, the scheduler does not run a cache again and again for the memory
/// that the view keeps. It looks after the grace period of all caches, and then runs them.
#[test]
fn a_held_view_is_not_polled() {
    let cache: Cache<u32, u32> = Cache::builder().clock(Clock::manual().0).scheduler(true).build();
    cache.insert(1, 1);
    let view = cache.pin();
    cache.insert(1, 2);
    // A pass of another test's thread may hold the lock for a moment; then there is more to do.
    let begun = std::time::Instant::now();
    while core(&cache).run().is_some() || core(&cache).upkeep().published.grace().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the cache wants to run again");
    }
    drop(view);
    while core(&cache).upkeep().published.grace().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(30), "memory kept by the view is not freed");
        thread::yield_now();
    }
    cache.audit();
}

/// The first read ends a life that would last for ever.
struct UntilRead;

impl Expiry<u32, u32> for UntilRead {
    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        current.or(Some(Duration::from_secs(1)))
    }
}

/// A read hook that makes lives shorter records that. However many do, a read waits for no lock.
#[test]
fn readers_that_shorten_lives_go_on_while_a_pass_is_held_up() {
    let builder = Cache::builder().max_capacity(u64::from(2 * MANY)).clock(Clock::manual().0);
    let builder = builder.weigher(|_: &u32, _: &u32| 1).expire_after(UntilRead);
    let cache: Cache<u32, u32> = builder.build();
    (0..MANY).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let lock = core(&cache).upkeep().state.lock();
    let reader = cache.clone();
    let reader = thread::spawn(move || (0..MANY).for_each(|key| _ = reader.get(&key)));
    while !reader.is_finished() {
        assert!(!core(&cache).upkeep().has_lock_waiters(), "the reader waits for the lock");
        thread::yield_now();
    }
    assert!(core(&cache).upkeep().writes.spill.count() > 0, "nothing was spilled");
    drop(lock);
    reader.join().expect("no panic");
    cache.run_pending_tasks();
    assert_eq!(cache.expires_in(&(MANY - 1)).due(), Some(Duration::from_secs(1)));
    cache.audit();
}
