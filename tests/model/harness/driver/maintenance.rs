//! Operations on the whole cache: the clock's steps, maintenance in one go or by slices, closing.

use super::{Driver, expect_eq, reading};
use crate::harness::case::*;
use crate::harness::oracle::{FIRST, NEVER, Oracle, Rec};
use cortado::Pending;
use std::time::Duration;

/// Deadlines from here on are too far off to step to their ticks' ends.
const FAR: u64 = FIRST + (NEVER >> 2);

impl Driver {
    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::By(Shift::Ahead(span)) => self.hand.advance(span),
            Step::By(Shift::Back(span)) => self.hand.set(self.hand.now().saturating_sub(span)),
            Step::ToDeadline(key, offset) => {
                let at = |rec: &Rec| rec.deadline.saturating_add_signed(i64::from(offset));
                self.ahead_to(self.oracle.at(key).filter(|rec| rec.deadline < NEVER).map(at));
            }
            Step::PastTick(key) => {
                let end = |rec: &Rec| self.oracle.tick_end(self.oracle.owed_from(rec));
                self.ahead_to(self.oracle.at(key).filter(|rec| rec.deadline < FAR).map(end));
            }
        }
        self.oracle.set_clock(reading(&self.hand));
    }

    pub(super) fn ahead_to(&self, time: Option<u64>) {
        if let Some(time) = time.filter(|&time| time > self.oracle.now && time < NEVER) {
            self.hand.set(Duration::from_nanos(time - FIRST));
        }
    }

    pub(super) fn run_pending(&mut self) {
        // While a load is under way there is no audit.
        if self.oracle.counts.operations.is_multiple_of(4) && !self.has_guards() {
            self.cache.audit();
        } else {
            self.cache.run_pending_tasks();
        }
        self.settle();
        self.lowered &= self.computing > 0;
        self.check_finished();
    }

    pub(super) fn run_within(&mut self, units: usize) {
        let mut pending = self.cache.run_pending_tasks_up_to(units);
        let mut rounds = 0;
        // To the last notification, which tells what the slices have done.
        while pending.notifications > 0 || (units > 0 && !finished(&pending)) {
            rounds += 1;
            assert!(rounds < 1000, "operation {}: no end of {pending:?}", self.number);
            pending = self.cache.run_pending_tasks_up_to(units.max(1));
        }
        self.settle();
        let capacity = self.oracle.config.max_capacity.unwrap_or(u64::MAX);
        let excess = self.oracle.weight().saturating_sub(capacity);
        expect_eq!(self, pending.excess_weight, excess, "excess weight");
        if finished(&pending) {
            self.check_finished_but_for(Oracle::overdue_by_ticks);
        }
    }

    pub(super) fn close(&mut self) {
        self.overtake_all();
        self.oracle.clear();
        self.oracle.closed = true;
        self.cache.close();
        self.settle();
        self.check_finished();
        expect_eq!(self, self.cache.entry_count(), 0, "entries after close");
    }
}

/// Nothing left but memory that some thread may be reading.
fn finished(pending: &Pending) -> bool {
    let mut rest = *pending;
    rest.reclamations = 0;
    rest.is_done()
}
