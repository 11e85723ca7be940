//! What reloads of a key mean. A reload is atomic, as a computation is: what it brings is made from
//! the value that it replaces. Anything that overtakes it leaves it without an effect.

use super::{Answer, Event, IDLE, Moment, NEVER, Node, Op, RELOADED, Setup, State};

/// The answer of a reload that has begun.
pub(super) const BEGUN: Answer = Answer::Was(true);

impl Event {
    pub(super) fn is_reload(&self) -> bool {
        matches!(self.op, Op::Reload(_) | Op::Renewal)
    }

    /// Whether a reload that is under way may come to nothing, or not begin, because of this one.
    fn hinders_reloads(&self) -> bool {
        !matches!(self.op, Op::Get | Op::GetEntry | Op::Peek | Op::Touch | Op::ExpiresIn)
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
        let Moment { judged, acted, .. } = *moment;
        match (living, event.op) {
            // If the entry ends while its loader works, the new value is a new entry.
            (Some(node), _) if node.deadline <= acted => {
                offer(BEGUN, Some(self.node(node.value + RELOADED, acted, NEVER)));
            }
            (Some(node), op) => {
                // It is no read for the idle time, which goes on from the read that triggered it.
                let read = if op == Op::Renewal { judged + IDLE } else { 0 };
                let deadline = if self.idle { node.deadline.max(read) } else { NEVER };
                let value = node.value + RELOADED;
                offer(BEGUN, Some(Node { value, deadline, term: NEVER }));
            }
            (None, Op::Reload(value)) => {
                offer(BEGUN, Some(self.node(value, acted, NEVER)));
            }
            (None, _) => {}
        }
        let is_other = |other: &&Event| other.began != event.began && event.overlaps(other);
        let others = || history.iter().filter(is_other);
        if others().any(Event::hinders_reloads) {
            offer(BEGUN, state);
        }
        // A read that has found the entry stale is about to reload it, or was.
        if others().next().is_some() {
            offer(Answer::Was(false), state);
        }
    }
}
