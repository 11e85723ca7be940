//! The programs of delayed operations.

use super::operations::{Fate, World};
use super::world::Counts;
use super::{MS, STEPS, planned};
use crate::common::crowd::draw;
use cortado::timer::{DelayedOps, Outcome, Rejection, Stop, Timer};
use cortado::{Clock, Job, ManualClock};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

struct Program {
    world: Arc<World>,
    hand: ManualClock,
}

impl Program {
    fn new(random: u64, is_traced: bool) -> Self {
        let world = Arc::new(World {
            random: Mutex::new(random),
            notes: Mutex::default(),
            ops: Mutex::default(),
            timer: Mutex::default(),
            runs_inline: draw(&mut random.clone()).is_multiple_of(2),
            is_traced,
        });
        let (clock, hand) = Clock::manual();
        let rejection = [Rejection::Retry(MS), Rejection::RunHere, Rejection::Discard];
        let mut builder = Timer::builder()
            .clock(clock)
            .rejection(rejection[world.below(3) as usize])
            .max_pending(if world.once_in(3) { 6 } else { usize::MAX });
        if !world.runs_inline {
            let executor = Arc::clone(&world);
            builder = builder.executor(move |job: Job| match executor.below(4) {
                0 => drop(job),
                1 => job(),
                _ => executor.notes().queue.push(job),
            });
        }
        let timer = builder.manual();
        *world.ops.lock().unwrap() = Some(DelayedOps::new(&timer));
        *world.timer.lock().unwrap() = Some(timer);
        Self { world, hand }
    }

    fn step(&self) {
        let world = &self.world;
        match world.below(16) {
            0 | 1 => self.hand.advance(Duration::from_micros(world.below(4_000))),
            2..=4 => {
                let timer = world.timer.lock().unwrap().clone();
                if let Some(timer) = timer {
                    world.note("a poll");
                    timer.poll(&mut 100);
                }
            }
            5 | 6 => self.use_queue(),
            7 if world.once_in(60) => {
                let timer = world.timer.lock().unwrap().clone();
                let stop = [Stop::Cancel, Stop::Drain(Duration::ZERO)][world.below(2) as usize];
                if let Some(timer) = timer {
                    world.note(format_args!("{stop:?}"));
                    for job in timer.shutdown(stop) {
                        if world.once_in(2) { drop(job.run()) } else { drop(job) }
                    }
                }
            }
            8 if world.once_in(60) => {
                world.note("the operations are dropped");
                let ops = world.ops.lock().unwrap().take();
                drop(ops);
            }
            _ => _ = planned(|| world.act()),
        }
        self.check();
    }

    fn use_queue(&self) {
        let Some(job) = self.world.notes().queue.pop() else { return };
        if self.world.once_in(3) { drop(job) } else { job() }
    }

    fn check(&self) {
        let world = &self.world;
        let timer = world.timer.lock().unwrap().clone();
        let notes = world.notes();
        assert!(notes.faults.is_empty(), "{:?}", notes.faults);
        if let Some(timer) = &timer {
            assert_eq!(timer.stats().panicked, notes.panics, "panics");
        }
        let fates = &notes.fates;
        let ended = |fate: &Fate| match fate.told[..] {
            [] => None,
            ["completed"] => Some(Outcome::Completed),
            ["completed", "expired"] => Some(Outcome::Expired),
            ["cancelled"] => Some(Outcome::Cancelled),
            _ => panic!("{fate:?}"),
        };
        let mut pending = 0;
        for fate in fates {
            let how = ended(fate);
            assert!(fate.ended.is_none_or(|ended| how == Some(ended)), "{fate:?}");
            assert!(how.is_some() || !fate.is_dropped, "lost: {fate:?}");
            assert!(how.is_some() || !fate.refused, "refused: {fate:?}");
            pending += usize::from(how.is_none());
        }
        for (number, handle) in &notes.handles {
            assert_eq!(handle.outcome(), ended(&fates[*number]), "{number}: {:?}", fates[*number]);
        }
        drop(notes);
        let (ops, watched) = (world.ops(), world.notes().watched.len());
        if let Some(ops) = ops {
            assert!(
                (pending..=pending + watched).contains(&ops.pending()),
                "{pending} pending, {}",
                ops.pending()
            );
            assert!(ops.watched() >= ops.pending() && ops.watched() <= 3 * ops.pending());
            assert!(
                timer.is_none_or(|timer| timer.pending() <= ops.pending() && timer.running() == 0)
            );
        } else {
            assert_eq!(pending, 0, "operations that outlive their owner");
        }
    }

    fn end(self) {
        let world = &self.world;
        world.note("the end");
        let (timer, ops) = (world.timer.lock().unwrap().take(), world.ops.lock().unwrap().take());
        if world.once_in(2) {
            drop((timer, ops))
        } else {
            drop((ops, timer))
        }
        for _ in 0..3 {
            let mut notes = world.notes();
            let left = (
                std::mem::take(&mut notes.handles),
                std::mem::take(&mut notes.watched),
                std::mem::take(&mut notes.queue),
            );
            drop(notes);
            for (mut future, woken) in left.1 {
                let waker = Waker::from(woken);
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                assert_ne!(polled, Poll::Pending, "it waits for ever");
            }
            drop((left.0, left.2));
        }
        self.check();
        assert!(self.world.notes().fates.iter().all(|fate| fate.is_dropped), "operations are left");
        assert_eq!(Arc::strong_count(&self.world), 1, "something is left");
    }
}

/// Runs the program of this seed.
pub fn run(seed: u64, is_traced: bool) -> Counts {
    let program = Program::new(seed, is_traced);
    let world = Arc::clone(&program.world);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        (0..STEPS).for_each(|_| program.step());
        let notes = world.notes();
        let told =
            |what| notes.fates.iter().filter(|fate| fate.told.contains(&what)).count() as u64;
        let counts = Counts {
            added: notes.fates.len() as u64,
            fired: told("expired"),
            cancelled: told("cancelled"),
            panicked: notes.panics,
        };
        drop(notes);
        drop(world);
        program.end();
        counts
    }));
    ran.unwrap_or_else(|panic| {
        eprintln!("CORTADO_TIMER_CHAOS_SEED={seed} fails");
        resume_unwind(panic)
    })
}
