//! What reloads of a key mean. A reload is atomic, as a computation is: what it brings is made from
//! the value that it replaces. Anything that overtakes it leaves it without an effect.

use super::{Answer, Event, IDLE, Moment, NEVER, Node, Op, RELOADED, Refresh, Setup, State};

/// The answer of a reload that has begun.
pub(super) const BEGUN: Answer = Answer::Was(true);

impl Event {
    pub(super) fn is_reload(&self) -> bool {
        matches!(self.op, Op::Reload(_) | Op::Renewal)
    }

    /// Whether a reload that is under way may come to nothing, or not begin, because of this one.
    fn hinders_reloads(&self) -> bool {
        !matches!(
            self.op,
            Op::Get | Op::GetIf | Op::GetEntry | Op::Peek | Op::Touch | Op::ExpiresIn | Op::Lapsed
        )
    }
}

impl Setup {
    pub(super) fn reload(
        self,
        (state, living): (State, State),
        event: &Event,
        history: &[Event],
        moment: &Moment<'_>,
        offer: &mut impl FnMut(Answer, State),
    ) {
        let Moment { judged, acted, later } = *moment;
        let is_other = |other: &&Event| other.began != event.began && event.overlaps(other);
        let others = || history.iter().filter(is_other);
        if living.is_some_and(|node| later.last().is_some_and(|&last| node.deadline <= last)) {
            // The entry ends before its loader begins.
            offer(BEGUN, state);
        }
        match (living, event.op) {
            // If the entry ends while its loader works, the new value is a new entry.
            (Some(node), _) if node.deadline <= acted => {
                offer(BEGUN, Some(self.node(node.value + RELOADED, acted, NEVER)));
            }
            (Some(node), op) => {
                let mut reloaded = |read| {
                    let deadline = if self.idle { node.deadline.max(read) } else { NEVER };
                    let value = node.value + RELOADED;
                    offer(BEGUN, Some(Node { value, deadline, term: NEVER }));
                };
                if op == Op::Renewal {
                    // It is no read for the idle time, which goes on from the read that triggered
                    // it: on this thread, or a little earlier on one that has left it to this one.
                    let theirs = others().flat_map(|other| &other.readings);
                    let earlier = theirs.filter(|&&reading| reading < judged);
                    earlier.chain([&judged]).for_each(|read| reloaded(read + IDLE));
                } else {
                    reloaded(0);
                }
            }
            (None, Op::Reload(value)) => {
                offer(BEGUN, Some(self.node(value, acted, NEVER)));
                // The job of this load leaves the key to a reload that a read has triggered, and
                // that is about to find no entry.
                let lapses = |other: &Event| other.is_read() || other.op == Op::Lapsed;
                if others().any(lapses) {
                    offer(BEGUN, state);
                }
            }
            (None, _) => {}
        }
        // A call may leave its job to another one, which hands on jobs already and lasts longer, if
        // it runs them. On a thread, that job is noted as one that a read has triggered.
        let lasts = |other: &Event| {
            let meets = |third: &&Event| third.began != event.began && third.overlaps(other);
            (self.refresh == Refresh::AtOnce || other.op == Op::Lapsed)
                && history.iter().filter(meets).any(Event::hinders_reloads)
        };
        if others().any(|other| other.hinders_reloads() || lasts(other)) {
            offer(BEGUN, state);
        }
        // A read that has found the entry stale is about to reload it, or was.
        if others().next().is_some() {
            offer(Answer::Was(false), state);
        }
    }
}
