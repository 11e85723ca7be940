//! Read and write buffer on real threads, and the write buffer against a plain list.
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use cortado::internals::buffer::read::{Push, ReadBuffer};
use cortado::internals::buffer::spill::MAX_EVENTS;
use cortado::internals::buffer::stripe_count;
use cortado::internals::buffer::write::{
    DrainLimits, Drained, MAX_BATCH, Pressure, WriteBuffer, WriteLimits,
};
use cortado::internals::links::NodeId;
use cortado::internals::sync::Patience;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NO_LIMIT: usize = usize::MAX;

fn read_all(buffer: &ReadBuffer, limit: usize) -> Vec<u32> {
    let mut words = Vec::new();
    buffer.drain(limit, &mut words);
    words.into_iter().map(|word| ReadBuffer::id_of(word).raw()).collect()
}

fn push(buffer: &ReadBuffer, id: u32) -> Push {
    buffer.push(NodeId::from_raw(id))
}

fn limits(batch: usize, weight: u64, (spilled_events, spilled_weight): (u64, u64)) -> WriteLimits {
    WriteLimits { batch, weight, spilled_events, spilled_weight }
}

fn spilling(batch: usize, weight: u64, spill: (u64, u64)) -> WriteBuffer {
    WriteBuffer::new(stripe_count(), limits(batch, weight, spill))
}

fn within(stripes: usize, spill: usize) -> DrainLimits {
    DrainLimits { stripes, spill }
}

fn write_all(buffer: &WriteBuffer, limit: usize) -> (Vec<u64>, bool) {
    let mut events = Vec::new();
    let Drained { count, more } =
        buffer.drain(&mut Vec::new(), within(limit, limit), Patience::Wait, |batch| {
            events.extend_from_slice(batch)
        });
    assert_eq!(count, events.len());
    (events, more)
}

#[test]
fn reads_come_out_once_and_in_the_order_of_their_thread() {
    let buffer = ReadBuffer::new();
    assert!(buffer.is_empty());
    for id in 1..=10 {
        assert_eq!(push(&buffer, id), Push::Stored);
    }
    assert!(!buffer.is_empty());
    assert_eq!(read_all(&buffer, 4), [1, 2, 3, 4]);
    assert!(read_all(&buffer, 0).is_empty());
    assert_eq!(read_all(&buffer, NO_LIMIT), [5, 6, 7, 8, 9, 10]);
    assert!(buffer.is_empty());
}

#[test]
fn reads_hint_once_at_half_and_are_dropped_when_full() {
    let buffer = ReadBuffer::new();
    for _round in 0..3 {
        let answers: Vec<Push> = (1..=70).map(|id| push(&buffer, id)).collect();
        assert!(answers[..64].iter().all(|answer| *answer != Push::Full));
        assert!(answers[64..].iter().all(|answer| *answer == Push::Full));
        let hints: Vec<usize> = (0..70).filter(|i| answers[*i] == Push::HalfFull).collect();
        assert_eq!(hints, [31]);
        assert_eq!(read_all(&buffer, NO_LIMIT), (1..=64).collect::<Vec<_>>());
    }
}

#[test]
fn there_is_a_stripe_for_each_hardware_thread_up_to_sixteen() {
    const FORCED: &str = "CORTADO_STRIPES";
    if std::env::var_os(FORCED).is_none() {
        // The number is the same for all buffers of a process.
        let (_, module) = module_path!().split_once("::").expect("a module of a test program");
        let name = "there_is_a_stripe_for_each_hardware_thread_up_to_sixteen";
        for stripes in ["0", "1", "2", "3", "16", "40"] {
            let run = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &format!("{module}::{name}")])
                .env(FORCED, stripes)
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success() && told.contains("1 passed"), "{stripes}: {told}");
        }
    }
    let forced = std::env::var(FORCED).ok().and_then(|number| number.parse().ok());
    let threads = thread::available_parallelism().map_or(4, |threads| threads.get());
    let threads: usize = forced.unwrap_or(threads);
    let stripes = threads.clamp(1, 16).next_power_of_two();
    assert_eq!(ReadBuffer::new().capacity(), stripes * 64);
    assert_eq!(spilling(3, u64::MAX, (0, 0)).capacity(), stripes * 6);
}

#[test]
fn a_partial_drain_of_reads_keeps_the_count_for_the_hint() {
    let buffer = ReadBuffer::new();
    for id in 1..=40 {
        let _ = push(&buffer, id);
    }
    assert_eq!(read_all(&buffer, 20).len(), 20);
    let answers: Vec<Push> = (1..=12).map(|id| push(&buffer, id)).collect();
    assert_eq!(answers.iter().position(|answer| *answer == Push::HalfFull), Some(11));
}

#[test]
fn drained_reads_are_the_stored_reads() {
    const THREADS: u32 = 4;
    const READS: u32 = 20_000;
    let buffer = ReadBuffer::new();
    let stored = AtomicUsize::new(0);
    let mut drained = Vec::new();
    thread::scope(|scope| {
        let pushers: Vec<_> = (0..THREADS)
            .map(|t| {
                let (buffer, stored) = (&buffer, &stored);
                scope.spawn(move || {
                    for i in 0..READS {
                        if push(buffer, t * READS + i + 1) != Push::Full {
                            stored.fetch_add(1, SeqCst);
                        }
                    }
                })
            })
            .collect();
        while pushers.iter().any(|pusher| !pusher.is_finished()) {
            drained.extend(read_all(&buffer, 100));
        }
    });
    drained.extend(read_all(&buffer, NO_LIMIT));
    assert_eq!(drained.len(), stored.load(SeqCst));
    for t in 0..THREADS {
        let of_thread: Vec<u32> =
            drained.iter().copied().filter(|id| (id - 1) / READS == t).collect();
        assert!(of_thread.is_sorted_by(|a, b| a < b), "twice or out of order");
    }
}

#[test]
fn pressure_rises_with_count_and_weight() {
    let buffer = spilling(3, 100, (0, 0));
    assert_eq!(buffer.push(1, 10), Ok(Pressure::First));
    assert_eq!(buffer.push(2, 10), Ok(Pressure::Low));
    assert_eq!(buffer.push(3, 10), Ok(Pressure::Drain));
    assert_eq!(buffer.push(4, 70), Ok(Pressure::Drain));
    assert_eq!(buffer.push(5, 1), Ok(Pressure::Urgent));
    assert_eq!(buffer.pending_weight(), 101);
    assert_eq!(buffer.push(6, 0), Ok(Pressure::Urgent));
    assert_eq!(buffer.push(7, 5), Err(7), "two batches fit");
    assert_eq!(buffer.pending_weight(), 101, "a refused event weighs nothing");
    assert_eq!(write_all(&buffer, 4), (vec![1, 2, 3, 4], true));
    assert_eq!(buffer.push(7, 5), Ok(Pressure::Drain));
    assert_eq!(write_all(&buffer, 3), (vec![5, 6, 7], false));
    assert_eq!(buffer.push(8, 49), Ok(Pressure::First));
    assert_eq!(buffer.push(9, 1), Ok(Pressure::Drain), "half of the weight");
    assert_eq!(write_all(&buffer, 2), (vec![8, 9], false));
    assert_eq!(buffer.pending_weight(), 0);
    assert!(buffer.is_empty());
    assert_eq!(buffer.push(10, 101), Ok(Pressure::Urgent), "alone too heavy");
}

#[test]
fn the_smallest_batch_wants_a_drain_at_once_and_the_largest_holds_the_greatest_weights() {
    let buffer = spilling(1, u64::MAX, (0, 0));
    assert_eq!(buffer.push(1, 0), Ok(Pressure::Drain));
    assert_eq!(write_all(&buffer, NO_LIMIT), (vec![1], false));

    let buffer = spilling(MAX_BATCH, u64::MAX, (0, 0));
    let full = 2 * MAX_BATCH as u64;
    for event in 1..=full {
        assert!(buffer.push(event, u32::MAX).is_ok());
    }
    assert_eq!(buffer.push(full + 1, u32::MAX), Err(full + 1));
    assert_eq!(buffer.pending_weight(), full * u64::from(u32::MAX));
    assert_eq!(write_all(&buffer, NO_LIMIT), ((1..=full).collect(), false));
    assert_eq!(buffer.pending_weight(), 0);
    assert!(buffer.capacity() >= 2 * MAX_BATCH && buffer.capacity().is_power_of_two());
}

#[test]
fn a_batch_out_of_range_is_refused() {
    for batch in [0, MAX_BATCH + 1] {
        assert!(catch_unwind(|| spilling(batch, 0, (0, 0))).is_err());
    }
}

#[test]
fn a_panic_while_applying_loses_what_was_handed_over_and_no_account() {
    let buffer = spilling(8, u64::MAX, (0, 0));
    for event in 1..=6 {
        assert!(buffer.push(event, 100).is_ok());
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = buffer.drain(&mut Vec::new(), within(3, 0), Patience::Wait, |batch| {
            assert!(batch.is_empty(), "seeded")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(buffer.pending_weight(), 300);
    assert_eq!(write_all(&buffer, NO_LIMIT), (vec![4, 5, 6], false));
    assert_eq!(buffer.pending_weight(), 0);
}

/// Threads push through a small buffer and apply events themselves when they must. All events are
/// applied once, those of a thread in its order, and the weight that waits stays within the bound.
fn push_and_apply(batch: usize, weight_limit: u64) {
    const THREADS: u64 = 4;
    const EVENTS: u64 = 20_000;
    const EACH: u32 = 2;
    let buffer = spilling(batch, weight_limit, (0, 0));
    let stripes = (buffer.capacity() / (2 * batch)) as u64;
    let bound = weight_limit.saturating_mul(stripes).saturating_add(THREADS * u64::from(EACH));
    let applied = Mutex::new(Vec::new());
    let apply = |limit| {
        let mut applied = applied.lock().unwrap();
        let _ = buffer.drain(&mut Vec::new(), within(limit, 0), Patience::Wait, |batch| {
            applied.extend_from_slice(batch)
        });
    };
    thread::scope(|scope| {
        for t in 0..THREADS {
            let (buffer, apply) = (&buffer, &apply);
            scope.spawn(move || {
                for i in 0..EVENTS {
                    let event = t << 32 | (i + 1);
                    let mut answer = buffer.push(event, EACH);
                    while answer.is_err() {
                        apply(3);
                        answer = buffer.push(event, EACH);
                    }
                    assert!(buffer.pending_weight() <= bound);
                    if answer == Ok(Pressure::Urgent) {
                        apply(NO_LIMIT);
                    }
                }
            });
        }
    });
    apply(NO_LIMIT);
    assert!(buffer.is_empty());
    assert_eq!(buffer.pending_weight(), 0);
    let applied = applied.into_inner().unwrap();
    assert_eq!(applied.len() as u64, THREADS * EVENTS);
    let mut next: HashMap<u64, u64> = HashMap::new();
    for event in applied {
        let next = next.entry(event >> 32).or_insert(1);
        assert_eq!(event & 0xFFFF_FFFF, *next, "twice, lost or out of order");
        *next += 1;
    }
}

#[test]
fn no_event_is_lost_when_stripes_run_full() {
    push_and_apply(2, u64::MAX);
}

#[test]
fn the_weight_that_waits_is_bounded() {
    push_and_apply(16, 6);
}

/// One thread keeps its stripe full. Drains with a small limit reach the other stripes all the
/// same.
#[test]
fn a_limited_drain_starves_no_stripe() {
    let buffer = spilling(4, u64::MAX, (0, 0));
    let stripes = buffer.capacity() / 8;
    while buffer.push(2, 1).is_ok() {}
    let others = (0..8 * stripes).filter(|_| {
        let answer = thread::scope(|scope| scope.spawn(|| buffer.push(1, 1)).join().unwrap());
        answer == Ok(Pressure::First)
    });
    let others = others.count();
    assert!(others > 0 || stripes == 1, "no thread found another stripe");
    let mut reached = 0;
    for _ in 0..stripes {
        let _ = buffer.drain(&mut Vec::new(), within(1, 0), Patience::Wait, |batch| {
            reached += batch.iter().filter(|event| **event == 1).count();
        });
        let _ = buffer.push(2, 1);
    }
    assert_eq!(reached, others);
}

#[test]
fn what_is_spilled_is_bounded_and_comes_out_in_portions() {
    let buffer = spilling(1, u64::MAX, (0, 0));
    assert!(!buffer.spill.push(1, 0), "there is room only if it was asked for");
    let buffer = spilling(1, u64::MAX, (4, 10));
    for (event, weight, fits) in [
        (1, 4, true),
        (2, 0, true),
        (3, 7, false),
        (4, u32::MAX, false),
        (5, 6, true),
        (6, 1, false),
    ] {
        assert_eq!(buffer.spill.push(event, weight), fits, "event {event}");
    }
    assert_eq!((buffer.spill.count(), buffer.spill.weight(), buffer.pending_weight()), (3, 10, 10));
    assert!(!buffer.is_empty());
    assert_eq!(write_all(&buffer, 2), (vec![1, 2], true));
    assert!(
        buffer.spill.push(7, 3)
            && buffer.spill.push(8, 0)
            && buffer.spill.push(9, 1)
            && !buffer.spill.push(10, 0)
    );
    assert_eq!(write_all(&buffer, 0), (vec![], true));
    assert_eq!(write_all(&buffer, NO_LIMIT), (vec![5, 7, 8, 9], false));
    assert!(buffer.is_empty());
    assert_eq!(buffer.pending_weight(), 0);
}

/// Half of what the stripes hold, and no more than the largest stripe holds.
#[test]
fn a_portion_of_the_spill_follows_the_stripes() {
    for batch in [1, 2, 7, MAX_BATCH / 16, MAX_BATCH] {
        let buffer = spilling(batch, u64::MAX, (0, 0));
        let half = buffer.capacity() / 2;
        assert_eq!(half % batch, 0, "stripes of two batches");
        assert_eq!(buffer.portion(), half.min(2 * MAX_BATCH), "{batch} in a batch");
    }
}

/// A batch may become as large as that with which the buffer was made, which stripes have room for.
#[test]
fn a_batch_grows_up_to_that_of_the_start() {
    let buffer = spilling(4, u64::MAX, (0, 0));
    for (batch, expected) in [(2, 2), (3, 3), (9, 4), (0, 1)] {
        buffer.set_limits(limits(batch, u64::MAX, (0, 0)));
        let drains = |event: &u64| buffer.push(*event, 0) == Ok(Pressure::Drain);
        assert_eq!((1..).find(drains), Some(expected), "a batch of {batch}");
        write_all(&buffer, NO_LIMIT);
    }
}

#[test]
fn stripes_are_drained_beside_what_was_spilled() {
    let buffer = spilling(1, u64::MAX, (9, 9));
    assert_eq!((buffer.push(1, 1), buffer.push(2, 1)), (Ok(Pressure::Drain), Ok(Pressure::Drain)));
    assert_eq!(buffer.push(3, 1), Err(3));
    assert!(buffer.spill.push(4, 1) && buffer.spill.push(5, 1) && buffer.spill.push(6, 1));
    assert_eq!(write_all(&buffer, 1), (vec![4, 1], true));
    assert_eq!(write_all(&buffer, NO_LIMIT), (vec![5, 6, 2], false));
}

#[test]
fn no_more_is_spilled_than_there_is_memory_for() {
    let buffer = spilling(1, u64::MAX, (u64::MAX, u64::MAX));
    let fit = (1..).take_while(|&event| buffer.spill.push(event, 0)).count();
    assert_eq!(fit as u64, MAX_EVENTS);
    while !buffer.is_empty() {
        let _ = write_all(&buffer, NO_LIMIT);
    }
    // And weights do not run over into the count.
    let heavy = (1..).take_while(|&event| buffer.spill.push(event, u32::MAX)).count();
    assert_eq!(buffer.spill.count(), heavy);
    assert_eq!(buffer.pending_weight(), heavy as u64 * u64::from(u32::MAX));
}

#[test]
fn a_panic_while_applying_what_was_spilled_leaves_no_account() {
    let buffer = spilling(1, u64::MAX, (2, 2));
    assert!(buffer.spill.push(1, 1) && buffer.spill.push(2, 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = buffer.drain(&mut Vec::new(), within(0, 1), Patience::Wait, |batch| {
            assert!(batch.is_empty(), "seeded")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!((buffer.spill.count(), buffer.pending_weight()), (1, 1));
}

#[derive(Clone, Debug)]
enum Step {
    Push(u32),
    Drain(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..40_u32).prop_map(Step::Push),
        1 => (0..12_usize).prop_map(Step::Drain),
    ];
    prop::collection::vec(step, 0..200)
}

/// Failures are kept beside this file.
fn config() -> Config {
    let kept = FileFailurePersistence::WithSource("proptest-regressions");
    Config { failure_persistence: Some(Box::new(kept)), ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// On one thread the buffer is a bounded list with two thresholds.
    #[test]
    fn the_write_buffer_is_a_bounded_list(
        batch in 1..6_usize,
        weight_limit in 0..200_u64,
        steps in steps(),
    ) {
        let buffer = spilling(batch, weight_limit, (0, 0));
        let mut model: Vec<(u64, u32)> = Vec::new();
        for (event, step) in steps.into_iter().enumerate() {
            let event = event as u64 + 1;
            match step {
                Step::Push(weight) => {
                    let expected = if model.len() == 2 * batch {
                        Err(event)
                    } else {
                        model.push((event, weight));
                        let sum: u64 = model.iter().map(|(_, weight)| u64::from(*weight)).sum();
                        let due = if weight_limit < 8 { weight_limit } else { weight_limit / 2 };
                        Ok(if sum > weight_limit {
                            Pressure::Urgent
                        } else if model.len() >= batch || sum >= due {
                            Pressure::Drain
                        } else if model.len() == 1 {
                            Pressure::First
                        } else {
                            Pressure::Low
                        })
                    };
                    prop_assert_eq!(buffer.push(event, weight), expected);
                }
                Step::Drain(limit) => {
                    let taken = limit.min(model.len());
                    let expected: Vec<u64> = model.drain(..taken).map(|(event, _)| event).collect();
                    prop_assert_eq!(write_all(&buffer, limit), (expected, !model.is_empty()));
                }
            }
            let sum: u64 = model.iter().map(|(_, weight)| u64::from(*weight)).sum();
            prop_assert_eq!(buffer.pending_weight(), sum);
            prop_assert_eq!(buffer.is_empty(), model.is_empty());
        }
    }
}
