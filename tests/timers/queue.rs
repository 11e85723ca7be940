//! What the queue promises, one promise at a time.

use crate::common::panic_of;
use cortado::timer::{DelayQueue, Expired, Polled, TimerId};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Everything that is due, in order, with the deadlines.
fn due<T>(queue: &mut DelayQueue<T>, now: Duration) -> Vec<(T, Duration)> {
    let (mut found, mut budget) = (Vec::new(), u32::MAX);
    while let Polled::Due(expired) = queue.poll(now, &mut budget) {
        let deadline = expired.deadline();
        found.push((expired.into_inner(), deadline));
    }
    queue.audit().unwrap();
    found
}

fn first_due<T>(queue: &mut DelayQueue<T>, now: Duration) -> Expired<T> {
    match queue.poll(now, &mut 1) {
        Polled::Due(expired) => expired,
        _ => panic!("nothing is due"),
    }
}

fn names<T>(queue: &mut DelayQueue<T>, now: Duration) -> Vec<T> {
    due(queue, now).into_iter().map(|(value, _)| value).collect()
}

/// Lifetimes around the borders of all levels.
fn borders() -> impl Iterator<Item = u64> {
    let around = |edge: u64| [edge - 1, edge, edge + 1];
    (0..=7).flat_map(move |level| around(1 << (6 * level))).filter(|&ticks| ticks > 0)
}

#[test]
fn an_item_is_due_at_its_tick_and_not_before() {
    for ticks in borders() {
        for (early, deadline) in [(0, MS), (1, MS), (999_999, MS)] {
            let deadline =
                deadline * u32::try_from(ticks.min(1 << 31)).unwrap() - Duration::from_nanos(early);
            let tick = Duration::from_millis(deadline.as_nanos().div_ceil(1_000_000) as u64);
            let mut queue = DelayQueue::new();
            queue.insert_at((), deadline);
            assert_eq!(queue.next_deadline(), Some(tick));
            assert_eq!(due(&mut queue, tick - Duration::from_nanos(1)), [], "{deadline:?}");
            assert_eq!(due(&mut queue, tick), [((), deadline)]);
            assert_eq!((queue.len(), queue.next_deadline()), (0, None));
        }
    }
}

#[test]
fn an_overdue_item_is_due_at_once() {
    let mut queue = DelayQueue::new();
    queue.insert_at(1, 5 * MS);
    queue.insert_at(2, 7 * MS);
    assert_eq!(first_due(&mut queue, 10 * MS).into_inner(), 1);
    queue.insert_at(3, Duration::ZERO);
    queue.insert_at(4, 10 * MS);
    assert_eq!(names(&mut queue, 10 * MS), [2, 3, 4], "2 waits to be handed out");
    queue.insert_at(5, Duration::ZERO);
    assert!(queue.next_deadline().unwrap() <= 10 * MS);
    assert_eq!(names(&mut queue, 10 * MS), [5]);
    assert_eq!(names(&mut queue, 3 * MS), [0; 0], "time does not go back");
    queue.insert_at(6, 4 * MS);
    assert_eq!(names(&mut queue, 3 * MS), [6], "the queue's time has passed 4 ms");
}

/// A fine bucket that is due after a coarse one was filled after it.
#[test]
fn one_long_step_keeps_the_order_of_ticks() {
    let mut queue = DelayQueue::new();
    queue.insert_at("coarse", 65 * MS);
    assert_eq!(names(&mut queue, 10 * MS), [""; 0]);
    queue.insert_at("fine", 70 * MS);
    queue.insert_at("finer", 64 * MS);
    queue.insert_at("far", 5000 * MS);
    assert_eq!(names(&mut queue, Duration::from_secs(60)), ["finer", "coarse", "fine", "far"]);
}

/// Stretches of all densities: some are sorted at once, some are too dense for that.
#[test]
fn dense_and_sparse_stretches_come_in_order() {
    let deadlines = || {
        let dense = (0..20_000).map(|n| 4_000 + n * 7_919 % 5_000);
        let instant = (0..5_000).map(|_| 300_000);
        let sparse = (0..500).map(|n| 310_000 + n * 7_919_000 % 30_000_000);
        dense.chain(instant).chain(sparse)
    };
    let mut sorted: Vec<u64> = deadlines().collect();
    sorted.sort_unstable();
    for budget in [7, 1024, u32::MAX] {
        let mut queue = DelayQueue::new();
        deadlines().for_each(|ms| _ = queue.insert_at(ms, Duration::from_millis(ms)));
        let mut fired = Vec::new();
        for now in [4_500, 100_000, 300_000, 40_000_000] {
            let mut left = budget;
            loop {
                match queue.poll(Duration::from_millis(now), &mut left) {
                    Polled::Due(expired) => fired.push(expired.into_inner()),
                    Polled::Exhausted => left = budget,
                    Polled::Idle => break,
                }
            }
            assert!(fired.last().is_some_and(|&last| last <= now));
            queue.audit().unwrap();
        }
        assert_eq!(fired, sorted, "budget {budget}");
    }
}

#[test]
fn a_poll_looks_at_no_more_than_its_budget() {
    let mut queue = DelayQueue::new();
    let count = 5000;
    for n in 0..count {
        queue.insert_at(n, 300 * MS);
    }
    let (mut fired, mut calls) = (0, 0);
    while !queue.is_empty() {
        let mut budget = 100;
        while let Polled::Due(_) = queue.poll(MS * 300, &mut budget) {
            fired += 1;
        }
        calls += 1;
        assert!(calls <= 3 * count / 100, "each item is looked at once a level");
    }
    assert_eq!(fired, count);
    assert!(calls >= 2 * count / 100, "{calls} calls: cascades take from the budget too");
    assert!(matches!(queue.poll(MS * 300, &mut 0), Polled::Idle), "nothing is left");
    queue.insert_at(0, MS);
    assert!(matches!(queue.poll(MS * 300, &mut 0), Polled::Exhausted));
}

#[test]
fn an_id_names_one_item_for_ever() {
    let mut queue = DelayQueue::new();
    let mut old: Vec<TimerId> = Vec::new();
    for round in 0..1000 {
        let id = queue.insert_at(round, MS * 10);
        for &stale in &old {
            assert_eq!(queue.try_remove(&stale), None);
            assert!(!queue.try_reset_at(&stale, MS) && queue.get(&stale).is_none());
            assert!(queue.get(&stale).is_none() && queue.get_mut(&stale).is_none());
            assert_eq!(queue.try_deadline(&stale), None);
        }
        assert_eq!(queue.get(&id), Some(&round));
        match round % 4 {
            0 => assert_eq!(queue.try_remove(&id).map(Expired::into_inner), Some(round)),
            1 => assert_eq!(queue.drain().count(), 1),
            2 => queue.clear(),
            _ => {
                queue.try_reset_at(&id, Duration::ZERO);
                let expired = first_due(&mut queue, Duration::ZERO);
                assert_eq!((expired.key(), *expired.get_ref()), (id, round));
            }
        }
        old.push(id);
        old.truncate(20);
    }
    assert_eq!(size_of::<Option<TimerId>>(), 8);
}

/// A place that has had as many items as can be told apart is not used again.
#[test]
fn a_place_retires_before_an_id_comes_back() {
    let mut queue = DelayQueue::aged(u32::MAX - 3);
    let mut seen = std::collections::HashSet::new();
    for round in 0..20 {
        let ids: Vec<TimerId> = (0..5).map(|n| queue.insert_at(n, MS)).collect();
        assert!(ids.iter().all(|&id| seen.insert(id)), "an id came back");
        queue.audit().unwrap();
        if round % 4 == 3 {
            queue.clear();
        } else {
            ids.iter().for_each(|&id| assert!(queue.try_remove(&id).is_some()));
        }
        if round % 3 == 0 {
            queue.shrink_to_fit();
        }
        assert!(seen.iter().all(|&id| queue.get(&id).is_none()));
        queue.audit().unwrap();
    }
}

#[test]
fn an_item_can_be_moved_both_ways_any_number_of_times() {
    let mut queue = DelayQueue::new();
    let id = queue.insert_at("item", Duration::from_secs(30));
    for seconds in [31, 90, 4000, 10, 20, 3600, 15] {
        assert!(queue.try_reset_at(&id, Duration::from_secs(seconds)));
        assert_eq!(queue.next_deadline(), Some(Duration::from_secs(seconds)));
        assert_eq!(queue.try_deadline(&id), Some(Duration::from_secs(seconds)));
        queue.audit().unwrap();
    }
    assert_eq!(names(&mut queue, Duration::from_millis(14_999)), [""; 0]);
    assert_eq!(names(&mut queue, Duration::from_secs(15)), ["item"]);
}

/// An item that is extended while it waits to be handed out is not handed out.
#[test]
fn an_extension_counts_until_the_item_is_handed_out() {
    let mut queue = DelayQueue::new();
    let ids: Vec<TimerId> = (0..3).map(|n| queue.insert_at(n, MS)).collect();
    let first = first_due(&mut queue, MS);
    let rest: Vec<TimerId> = ids.into_iter().filter(|&id| id != first.key()).collect();
    assert!(queue.try_reset_at(&rest[0], 5 * MS));
    assert!(queue.try_remove(&rest[1]).is_some());
    assert_eq!(due(&mut queue, 4 * MS), []);
    assert_eq!(due(&mut queue, 5 * MS).len(), 1);
}

#[test]
fn the_next_deadline_is_exact_for_few_items_and_never_late_for_many() {
    let mut queue = DelayQueue::new();
    for n in 1..=60u64 {
        queue.insert_at(n, Duration::from_secs(n * n * 77));
    }
    let mut now = Duration::ZERO;
    for n in 1..=60 {
        let next = queue.next_deadline().unwrap();
        assert_eq!(next, Duration::from_secs(n * n * 77), "it wakes for due items only");
        assert!(next > now);
        now = next;
        assert_eq!(names(&mut queue, now), [n]);
    }
    // Too many in one bucket to look at: early, and then exact.
    for n in 0..1000 {
        queue.insert_at(n, now + Duration::from_secs(200) + MS * n as u32);
    }
    let mut wakes = 0;
    while queue.len() == 1000 {
        let next = queue.next_deadline().unwrap();
        assert!(next > now && next <= now + Duration::from_secs(200) || wakes > 0);
        (now, wakes) = (next, wakes + 1);
        let mut budget = 2000;
        while let Polled::Due(expired) = queue.poll(now, &mut budget) {
            assert_eq!(expired.deadline(), now, "on time");
        }
        assert!(wakes < 6, "once a level");
    }
}

#[test]
fn iteration_is_exact_also_after_extensions() {
    let mut queue = DelayQueue::new();
    let ids: Vec<TimerId> = (0..500u64)
        .map(|n| queue.insert_at(n, Duration::from_micros(n * 7919 % 300_007)))
        .collect();
    for (n, &id) in ids.iter().enumerate().step_by(3) {
        queue.try_reset_at(
            &id,
            queue.try_deadline(&id).unwrap() + Duration::from_micros(n as u64 * 613),
        );
    }
    let mut budget = 40;
    while let Polled::Due(_) = queue.poll(MS * 50, &mut budget) {}
    let shown: Vec<(Duration, TimerId)> = queue.soonest().map(|(id, at, _)| (at, id)).collect();
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    assert_eq!((shown.len(), &shown), (queue.len(), &sorted));
    assert!(shown.len() > 400);
}

#[test]
fn any_deadline_is_taken() {
    let mut queue = DelayQueue::with_tick(Duration::from_secs(1));
    let never = queue.insert_at("never", Duration::MAX);
    queue.insert_at("late", Duration::from_secs(u64::MAX / 1_000_000_000 - 5));
    assert_eq!(queue.try_deadline(&never), Some(Duration::from_nanos(u64::MAX)));
    assert_eq!(names(&mut queue, Duration::from_secs(86_400 * 365 * 500)), [""; 0]);
    let almost = Duration::from_secs(u64::MAX / 1_000_000_000 - 2);
    assert_eq!(names(&mut queue, almost), ["late"]);
    assert_eq!(names(&mut queue, Duration::MAX), ["never"]);
}

#[test]
#[should_panic(expected = "below a millisecond")]
fn a_tick_below_a_millisecond_is_refused() {
    let _ = DelayQueue::<()>::with_tick(Duration::from_micros(999));
}

#[test]
fn items_are_dropped_once_wherever_they_are() {
    use std::rc::Rc;
    let counted = Rc::new(());
    let mut queue = DelayQueue::new();
    for n in 0..3000 {
        queue.insert_at(Rc::clone(&counted), MS * n);
    }
    assert_eq!(due(&mut queue, MS * 999).len(), 1000);
    assert_eq!(Rc::strong_count(&counted), 2001);
    let mut drain = queue.drain();
    assert!(drain.next().is_some() && queue.is_empty());
    queue.insert_at(Rc::clone(&counted), MS);
    drop(drain);
    assert_eq!(Rc::strong_count(&counted), 2);
    drop(queue);
    assert_eq!(Rc::strong_count(&counted), 1);
}

/// There are no ids for so many items.
#[test]
fn a_reservation_that_no_queue_can_hold_is_refused() {
    let mut queue = DelayQueue::new();
    queue.insert_at(1, MS);
    let capacity = queue.capacity();
    for additional in [usize::MAX, 2_147_482_624] {
        let message = panic_of(|| queue.reserve(additional));
        assert!(message.contains("capacity overflow"), "{message}");
    }
    assert_eq!((queue.len(), queue.capacity()), (1, capacity));
    queue.audit().unwrap();
}

/// Memory follows the number of items, within two chunks.
#[test]
fn memory_is_given_back() {
    let mut queue = DelayQueue::new();
    assert_eq!(queue.capacity(), 0);
    let ids: Vec<TimerId> = (0..100_000u32).map(|n| queue.insert_at(n, MS * n)).collect();
    assert!((100_000..101_400).contains(&queue.capacity()), "{}", queue.capacity());
    for &id in &ids[..90_000] {
        queue.try_remove(&id);
    }
    queue.audit().unwrap();
    assert!(queue.capacity() <= 13_400, "{}", queue.capacity());
    assert_eq!(names(&mut queue, MS * 100_000).len(), 10_000);
    assert!(queue.capacity() <= 1_024, "{}", queue.capacity());
    queue.clear();
    queue.reserve(5_000);
    let reserved = queue.capacity();
    assert!((5_000..7_000).contains(&reserved), "{reserved}");
    (0..5_000).for_each(|n| _ = queue.insert_at(n, MS));
    assert!(queue.capacity() <= reserved.next_multiple_of(1024), "{}", queue.capacity());
    queue.audit().unwrap();
}

/// Items do not move, so memory between them stays. What comes later fills the first places.
#[test]
fn shrinking_gives_back_what_is_behind_the_last_item() {
    let mut queue = DelayQueue::new();
    let ids: Vec<TimerId> = (0..3_000u32).map(|n| queue.insert_at(n, MS * n)).collect();
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 3_000);
    // What is left: the items 0, 500 and 2,100.
    for (n, &id) in ids.iter().enumerate() {
        if ![0, 500, 2_100].contains(&n) {
            queue.try_remove(&id);
        }
    }
    queue.shrink_to_fit();
    queue.audit().unwrap();
    assert_eq!(queue.capacity(), 501 + (2_100 - 2_048 + 1));
    assert!(
        ids.iter().filter(|&&id| queue.get(&id).is_some()).eq([0, 500, 2_100].map(|n| &ids[n]))
    );
    // Ten more are in the first places: without the item 500, eleven are left there.
    let more: Vec<TimerId> = (0..10).map(|n| queue.insert_at(n, MS)).collect();
    assert!(queue.try_remove(&ids[500]).is_some() && queue.try_remove(&ids[2_100]).is_some());
    queue.shrink_to_fit();
    queue.audit().unwrap();
    assert_eq!((queue.len(), queue.capacity()), (11, 11));
    // No id comes back: the places that were given back count on.
    more.iter().chain(&ids).for_each(|&id| _ = queue.try_remove(&id));
    queue.shrink_to_fit();
    assert_eq!((queue.len(), queue.capacity()), (0, 0));
    (0..3_000).for_each(|n| _ = queue.insert_at(n, MS));
    assert!(!more.iter().chain(&ids).any(|&id| queue.get(&id).is_some()));
    queue.audit().unwrap();
}

/// Places that are free count, and no more than what is missing is allocated.
#[test]
fn a_reservation_adds_what_is_missing() {
    let mut queue = DelayQueue::new();
    (0..100).for_each(|n| _ = queue.insert_at(n, MS));
    let grown = queue.capacity();
    queue.reserve(0);
    assert_eq!(queue.capacity(), grown);
    for _ in 0..2 {
        queue.reserve(200);
        assert_eq!(queue.capacity(), 300);
    }
    (100..300).for_each(|n| _ = queue.insert_at(n, MS));
    assert_eq!(queue.capacity(), 300);
    for _ in 0..2 {
        // The rest of the first chunk, a second chunk, and 52 of a third.
        queue.reserve(1_024 - 300 + 1_024 + 52);
        assert_eq!(queue.capacity(), 2 * 1_024 + 52);
        queue.audit().unwrap();
    }
    (300..2_048).for_each(|n| _ = queue.insert_at(n, MS));
    assert_eq!(queue.capacity(), 2 * 1_024 + 52);
    assert_eq!(names(&mut queue, MS).len(), 2_048);
}

/// An hour of connections that come, are extended and go: no memory beyond the greatest number of
/// them.
#[test]
fn memory_is_flat_in_an_hour_of_churn() {
    let mut queue = DelayQueue::new();
    let timeout = Duration::from_secs(60);
    let mut open: Vec<TimerId> = Vec::new();
    let (mut state, mut most, mut capacity) = (7, 0, 0);
    for second in 0..3600 {
        let now = Duration::from_secs(second);
        for _ in 0..100 {
            open.push(queue.insert_at(second, now + timeout));
        }
        for _ in 0..300 {
            let at = (crate::common::crowd::draw(&mut state) % open.len() as u64) as usize;
            match crate::common::crowd::draw(&mut state) % 4 {
                0 => drop(queue.try_remove(&open.swap_remove(at))),
                _ => drop(queue.try_reset_at(&open[at], now + timeout)),
            }
        }
        if second % 16 == 0 {
            open.retain(|&id| queue.get(&id).is_some());
        }
        due(&mut queue, now);
        most = most.max(queue.len());
        capacity = capacity.max(queue.capacity());
    }
    assert!(most > 2_000 && capacity <= most + 4 * 1024, "{capacity} places for {most}");
}

/// A reservation holds to its last item, also if that is in a part of its own.
#[test]
fn what_was_reserved_is_there() {
    for items in [1, 1023, 1030, 2049] {
        let mut queue = DelayQueue::new();
        queue.reserve(items);
        let capacity = queue.capacity();
        for item in 0..items {
            queue.insert_at(item, MS);
        }
        assert_eq!(queue.capacity(), capacity, "{items}");
    }
}
