//! What a job captured is dropped before anybody is told that the job has ended.

use crate::jobs::{Bench, MS};
use cortado::timer::{
    Handle, Missed, Next, OnPanic, Rejection, Repeat, Schedule, Stop, Timer, TimerError, TimerId,
    Turn,
};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

/// Notes how many jobs run while it is dropped, and whether its own job can be moved then.
struct Witness {
    timer: Timer,
    log: Arc<Mutex<Vec<(usize, bool)>>>,
    id: Arc<Mutex<Option<TimerId>>>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let Some(id) = *self.id.lock().unwrap() else { return };
        let is_moved = self.timer.reschedule(id, MS);
        self.log.lock().unwrap().push((self.timer.running(), is_moved));
        panic!("a destructor that fails");
    }
}

struct Planned(#[allow(dead_code, reason = "it is dropped")] Witness);

impl Schedule for Planned {
    fn next(&mut self, turn: &Turn) -> Option<Next> {
        (turn.runs == 0).then_some(Next::After(MS))
    }
}

/// A run lasts until what its job captured is dropped, and its schedule: who waits for the end of
/// running jobs is told after that.
#[test]
fn the_last_run_of_a_series_ends_when_what_it_captured_is_dropped() {
    type Start = fn(&Timer, Witness, Witness) -> Result<Handle, TimerError>;
    let cancelled: Start = |timer, witness, _| {
        timer.every(MS, Missed::Skip, move |run| {
            let _ = &witness;
            run.cancel();
        })
    };
    let panicked: Start = |timer, witness, _| {
        timer.every(MS, Missed::Skip, move |_| {
            let _ = &witness;
            panic!("a job that fails");
        })
    };
    let awaited: Start = |timer, witness, _| {
        timer.intervals([MS], Repeat::Once, move |_| {
            let _ = &witness;
            async {}
        })
    };
    let planned: Start = |timer, one, other| timer.schedule(Planned(one), move |_| _ = &other);
    let stopped: Start = |timer, witness, _| {
        let inner = timer.clone();
        timer.every(MS, Missed::Skip, move |_| {
            let _ = &witness;
            drop(inner.shutdown(Stop::Cancel));
        })
    };
    for (start, witnesses) in
        [(cancelled, 1), (panicked, 1), (awaited, 1), (planned, 2), (stopped, 1)]
    {
        let bench = Bench::with(|builder| builder.on_panic(OnPanic::Stop));
        let (log, id) = (Arc::default(), Arc::default());
        let [one, other] = [(); 2].map(|()| Witness {
            timer: bench.timer.clone(),
            log: Arc::clone(&log),
            id: Arc::clone(&id),
        });
        *id.lock().unwrap() = Some(start(&bench.timer, one, other).unwrap().detach());
        bench.step(1);
        assert_eq!(*log.lock().unwrap(), vec![(1, false); witnesses]);
        assert_eq!((bench.timer.running(), bench.timer.pending()), (0, 0));
    }
}

/// The same for a run that its executor has dropped, and that is left out.
#[test]
fn a_run_that_is_left_out_ends_when_what_it_captured_is_dropped() {
    let bench = Bench::with(|builder| builder.executor(drop).rejection(Rejection::Discard));
    let (timer, log) = (bench.timer.clone(), Arc::default());
    let id = Arc::default();
    let witness = Witness { timer, log: Arc::clone(&log), id: Arc::clone(&id) };
    *id.lock().unwrap() = Some(bench.timer.after(MS, move |_| _ = &witness).unwrap().detach());
    bench.step(1);
    assert_eq!(*log.lock().unwrap(), [(1, false)]);
    assert_eq!(bench.timer.running(), 0);
}

/// With threads. The owner of what a job captured has it for itself when the timer has ended.
#[test]
fn a_timer_that_has_ended_holds_nothing_of_its_jobs() {
    for round in 0..200 {
        let timer = if round % 2 == 0 {
            Timer::new()
        } else {
            Timer::builder().run_here().start().unwrap()
        };
        let (database, (send, told)) = (Arc::new(()), channel());
        let captured = Arc::clone(&database);
        let series = timer.every(MS, Missed::Skip, move |_| {
            let _ = (&captured, send.send(()));
        });
        series.unwrap().detach();
        told.recv().unwrap();
        let stop = if round % 4 < 2 { Stop::Cancel } else { Stop::FireAll };
        drop(timer.shutdown(stop));
        assert_eq!(Arc::strong_count(&database), 1, "{stop:?}, round {round}");
    }
}
