//! What loads of a key mean, and which outcomes they share.

use super::{Answer, Event, Moment, NEVER, Op, RELOADED, Setup, State};

/// An operation that loads.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What it comes to if it runs its own loader.
    own: Answer,
    uses: Uses,
    /// It takes an even value for none.
    replaces_even: bool,
}

/// Which outcomes of others' loads without a value a load can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uses {
    /// It needs a value, or makes one.
    Values,
    Nothing,
    Errors {
        other_type: bool,
    },
}

impl Op {
    pub fn load(self) -> Option<Load> {
        let some = |value| Answer::Value(Some(value));
        let (own, uses) = match self {
            Self::Load(value) | Self::LoadIf(value) => (some(value), Uses::Values),
            Self::Guard { value, drops: false } => (some(value), Uses::Values),
            Self::Guard { drops: true, .. } => (Answer::Value(None), Uses::Values),
            Self::LoadOptionally { value, makes } => {
                (Answer::Value(makes.then_some(value)), Uses::Nothing)
            }
            Self::LoadFallibly { value, fails, other_type } => {
                let own = if fails { Answer::Failed(value) } else { some(value) };
                (own, Uses::Errors { other_type })
            }
            _ => return None,
        };
        Some(Load { own, uses, replaces_even: matches!(self, Self::LoadIf(_)) })
    }
}

impl Load {
    /// Whether a caller who waits for `other` takes over what that has come to.
    fn shares(self, other: Self) -> bool {
        match other.own {
            Answer::Value(Some(_)) => true,
            // A guard that is dropped leaves the load to the others.
            Answer::Value(None) => self.uses == Uses::Nothing && other.uses == Uses::Nothing,
            _ => self.uses != Uses::Values && self.uses == other.uses,
        }
    }
}

impl Event {
    /// Whether a write that has overtaken this load for certain had ended before that moment: it
    /// began when the load's loader was running.
    fn is_overtaken_before(&self, moment: u64, history: &[Self]) -> bool {
        use Op::{Clear, Insert, InsertFor, MakeStale, Remove};
        let always_overtakes = |event: &Self| {
            matches!(event.op, Insert(_) | InsertFor(..) | Remove | Clear | MakeStale)
        };
        self.loader.is_some_and(|(began, _)| {
            let is_between = |event: &Self| began < event.began && event.ended < moment;
            history.iter().any(|event| always_overtakes(event) && is_between(event))
        })
    }
}

impl Setup {
    /// A load either finds a value, or at one moment it finds none: then it runs its loader, or
    /// waits for another call's. That moment is the one at which it counts, but for a loader that
    /// makes a value: this counts when the value is committed.
    pub(super) fn load(
        self,
        state: State,
        event: &Event,
        history: &[Event],
        moment: &Moment<'_>,
        offer: &mut impl FnMut(Answer, State),
    ) {
        let Some(load) = event.op.load() else { return };
        let is_replaced = |value: u64| load.replaces_even && value.is_multiple_of(2);
        self.reads(state, moment, &mut |found, next| {
            if let Some(node) = found.filter(|node| !is_replaced(node.value)) {
                offer(Answer::Value(Some(node.value)), next);
            }
        });
        let living = state.filter(|node| node.deadline > moment.judged);
        if let Some(node) = living.filter(|node| !is_replaced(node.value)) {
            // Found at the second look, which is no read.
            return offer(Answer::Value(Some(node.value)), state);
        }
        let others =
            || history.iter().filter(|other| other.began != event.began && event.overlaps(other));
        match load.own {
            Answer::Value(Some(new)) => {
                let is_kept = |(_, ended)| !event.is_overtaken_before(ended, history);
                if event.loader.is_none_or(is_kept) {
                    offer(load.own, Some(self.node(new, moment.acted, NEVER)));
                }
                if others().any(Event::overtakes) {
                    offer(load.own, state);
                }
            }
            own => offer(own, state),
        }
        // What a reload has come to that it has waited for, whether or not that was kept.
        if let Answer::Value(Some(value)) = event.answer
            && others().any(|other| {
                other.op == Op::Reload(value) || (value >= RELOADED && other.is_reload())
            })
        {
            offer(event.answer, state);
        }
        // What another load has come to, whether or not it was kept. Only those count that ran
        // their own loader. Who comes after the write that has overtaken it does not wait for it.
        for other in others().filter(|other| !other.is_overtaken_before(event.began, history)) {
            if other.op.load().is_some_and(|it| it.own == other.answer && load.shares(it)) {
                offer(other.answer, state);
            }
        }
    }
}
