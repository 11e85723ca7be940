//! What the operations on a key mean one after the other, and whether that explains what several
//! threads were told.
//!
//! The clock is part of the history: an operation reads it at moments of its own while others move
//! it. So it is explained by any of the readings that were to be had between its beginning and its
//! end, taken in order.

mod jobs;
mod loads;
mod perform;
pub mod play;
mod reloads;
mod tasks;

use reloads::BEGUN;
use std::collections::HashSet;

/// Seconds since the clock's origin.
pub type Time = u64;
pub const NEVER: Time = Time::MAX;
/// The idle time of the caches that have one.
pub const IDLE: Time = 12;
/// What a reload adds to the value that it replaces.
pub const RELOADED: u64 = 1 << 32;
/// What the read hook of the caches that have one gives.
pub const READ: Time = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Get,
    /// A read that takes odd values only.
    GetIf,
    GetEntry,
    Peek,
    Touch,
    Insert(u64),
    InsertFor(u64, Time),
    Load(u64),
    /// A load that replaces an even value.
    LoadIf(u64),
    /// A load that may come to nothing.
    LoadOptionally {
        value: u64,
        makes: bool,
    },
    /// A load that may fail, with an error of one of two types.
    LoadFallibly {
        value: u64,
        fails: bool,
        other_type: bool,
    },
    /// A guard that is taken, if the key has no value, and then used or dropped.
    Guard {
        value: u64,
        drops: bool,
    },
    /// A reload that a call asks for: it adds [`RELOADED`] to the value that it replaces. Without
    /// an entry it is a load of this value.
    Reload(u64),
    /// A reload that a read has triggered, at the end of that read's call.
    Renewal,
    /// One that found another entry, or none, when its job began: its loader was not asked.
    Lapsed,
    Remove,
    RemoveIfOdd,
    Clear,
    Put(u64),
    Upsert(u64),
    Replace(u64),
    ComputeRemove,
    Look,
    SetTtl(Time),
    Persist,
    ExpiresIn,
    MakeStale,
}

/// An entry as it is shown: value and remaining life, [`NEVER`] for ever.
pub type Shown = Option<(u64, Time)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Was(bool),
    Value(Option<u64>),
    /// The error of the load of this value.
    Failed(u64),
    Entry(Shown),
    Life(Option<Time>),
}

#[derive(Clone, Debug)]
pub struct Event {
    pub op: Op,
    pub answer: Answer,
    pub began: u64,
    pub ended: u64,
    /// When its own loader began and ended, if it is a load that ran it.
    pub loader: Option<(u64, u64)>,
    /// What the clock read meanwhile, in order.
    pub readings: Vec<Time>,
}

impl Event {
    fn overlaps(&self, other: &Self) -> bool {
        self.began < other.ended && other.began < self.ended
    }

    fn is_read(&self) -> bool {
        match self.op {
            Op::Get | Op::GetEntry | Op::Touch => true,
            // What it refuses it leaves alone.
            Op::GetIf => self.answer != Answer::Value(None),
            op => op.load().is_some(),
        }
    }

    /// Whether it overlaps such a read, during which such a life was set. With an idle time a life
    /// is two words, the deadline and the term. If the deadline is the same after the set as before
    /// it, the read does not see that the term has changed. It notices before it ends. (The
    /// deadline must be the same to the nanosecond.)
    fn overlaps_late_read(
        &self,
        history: &[Event],
        reads: impl Fn(&Event) -> bool,
        sets: impl Fn(&Event) -> bool,
    ) -> bool {
        let set_during =
            |read: &Event| history.iter().any(|event| sets(event) && event.overlaps(read));
        let is_late = |read: &Event| read.is_read() && reads(read) && set_during(read);
        history.iter().any(|read| self.overlaps(read) && is_late(read))
    }

    /// Whether the life that it sees may be one that was set and taken back while a read was under
    /// way. The read stores the life of the time between.
    fn sees_taken_back(&self, given: Time, history: &[Event]) -> bool {
        let sets = |event: &Event| matches!(event.op, Op::SetTtl(life) if life >= given);
        self.overlaps_late_read(history, |_| true, sets)
    }

    /// Whether it may see the entry end at `end`, later than the term that was set while a read was
    /// under way: the read stores the idle time that it gives. The term must end when the idle time
    /// before it would have ended.
    fn sees_before_the_term(&self, node: &Node, end: Time, history: &[Event]) -> bool {
        let gives = |event: &Event, life: Time, end| {
            event.readings.iter().any(|reading| reading.saturating_add(life) == end)
        };
        let reads = |event: &Event| gives(event, IDLE, end);
        let sets =
            |event: &Event| matches!(event.op, Op::SetTtl(life) if gives(event, life, node.term));
        let was_idle_end = history.iter().any(|event| gives(event, IDLE, node.deadline));
        node.term == node.deadline && was_idle_end && self.overlaps_late_read(history, reads, sets)
    }

    /// Whether a load that is under way does not survive it. Computations wait for loads. A change
    /// of a life overtakes loads if it has changed an entry.
    fn overtakes(&self) -> bool {
        use Op::{Clear, Insert, InsertFor, MakeStale, Persist, Remove, RemoveIfOdd, SetTtl};
        match self.op {
            Insert(_) | InsertFor(..) | Remove | RemoveIfOdd | Clear | MakeStale => true,
            SetTtl(_) | Persist => self.answer == Answer::Was(true),
            _ => false,
        }
    }
}

/// What is in the cache. An entry whose deadline has come may still be there, for an operation that
/// has read the clock before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    value: u64,
    deadline: Time,
    /// When it ends however often it is read.
    term: Time,
}

type State = Option<Node>;

fn left(deadline: Time, now: Time) -> Time {
    if deadline == NEVER { NEVER } else { deadline.saturating_sub(now) }
}

fn shown(node: State, now: Time) -> Answer {
    Answer::Entry(node.map(|node| (node.value, left(node.deadline, now))))
}

/// Which lifetimes the cache has beside those of the calls.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub idle: bool,
    pub hook: bool,
    /// Whether the clock moves.
    pub moves: bool,
    /// Whether reads trigger reloads: at once if the clock stands still, or past this time.
    pub refresh: Refresh,
    /// Whether most operations are those of tasks.
    pub tasks: bool,
}

/// Where reloads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// There are none.
    Never,
    /// In the calls that hand them to the executor.
    AtOnce,
    /// On threads of an executor.
    Threads,
}

impl Setup {
    fn node(self, value: u64, now: Time, life: Time) -> Node {
        let term = now.saturating_add(life);
        let idle = if self.idle { now.saturating_add(IDLE) } else { NEVER };
        Node { value, deadline: term.min(idle), term }
    }

    /// What a read finds, and the state after it, for an entry that is there.
    fn read(self, node: Node, now: Time) -> State {
        if !self.hook && !self.idle {
            return Some(node);
        }
        if node.deadline <= now {
            return None;
        }
        let term = if self.hook { now + READ } else { node.term };
        Some(self.renewed(node, now, term))
    }

    /// With another end. The idle time is not taken back, whatever the order of the readings.
    fn renewed(self, node: Node, now: Time, term: Time) -> Node {
        let idle = if self.idle { (now + IDLE).max(node.deadline) } else { NEVER };
        Node { value: node.value, deadline: term.min(idle), term }
    }

    /// Where reads change lives, the life that is shown may be another: reads do not wait for a
    /// computation and may change it after that has looked, and they change nothing in an entry
    /// that has left since they found it.
    ///
    /// With an idle time and a read hook a life is two words. While the clock stands still a read
    /// may find the first unchanged though both were changed and changed back, and for a
    /// moment, until it notices, the life is that of the one before.
    fn fits(self, expected: Answer, given: Answer) -> bool {
        match (expected, given) {
            (Answer::Entry(expected), Answer::Entry(given))
                if self.hook || (self.idle && (self.moves || self.refresh != Refresh::Never)) =>
            {
                expected.map(|(value, _)| value) == given.map(|(value, _)| value)
            }
            (Answer::Life(expected), Answer::Life(given)) if self.hook && self.idle => {
                expected.is_some() == given.is_some()
            }
            (expected, given) => expected == given,
        }
    }

    /// The states in which the operation may leave the cache, given what it answered.
    fn outcomes(self, state: State, event: &Event, history: &[Event]) -> Vec<State> {
        let mut after = Vec::new();
        let times = &event.readings;
        for (first, &judged) in times.iter().enumerate() {
            for (second, &acted) in times.iter().enumerate().skip(first) {
                let mut offer = |answer, next| {
                    if self.fits(answer, event.answer) && !after.contains(&next) {
                        after.push(next);
                    }
                };
                let moment = Moment { judged, acted, later: &times[second..] };
                self.outcome(state, event, history, &moment, &mut offer);
            }
        }
        after
    }

    /// Whether the event is a computation that may have looked at the entry before a read ended it.
    ///
    /// A computation looks and then acts. Reads do not wait for it: if the entry ends in between,
    /// other readers no longer see it, and the computation goes on with what it saw. Mostly the
    /// clock ends an entry, and the computation's earlier reading explains the look. But a read
    /// that began before the computation may have been held up since it read the clock. The
    /// lifetime that its hook gives, counted from that reading, may be over at once.
    fn ended_after_the_look(self, node: &Node, event: &Event, history: &[Event]) -> bool {
        use Op::{ComputeRemove, Look, Put, Replace, Upsert};
        let gave = |read: &Event| {
            read.is_read() && read.readings.iter().any(|reading| reading + READ == node.deadline)
        };
        self.hook
            && matches!(event.op, Put(_) | Upsert(_) | Replace(_) | ComputeRemove | Look)
            && history.iter().any(|read| event.overlaps(read) && gave(read))
    }

    fn outcome(
        self,
        state: State,
        event: &Event,
        history: &[Event],
        moment: &Moment<'_>,
        offer: &mut impl FnMut(Answer, State),
    ) {
        let living = state.filter(|node| node.deadline > moment.judged);
        self.outcome_for(living, (state, moment), event, history, offer);
        if let (None, Some(node)) = (living, state)
            && self.ended_after_the_look(&node, event, history)
        {
            self.outcome_for(Some(node), (state, moment), event, history, offer);
        }
    }

    /// The same for an operation that finds `living`.
    fn outcome_for(
        self,
        living: State,
        (state, moment): (State, &Moment<'_>),
        event: &Event,
        history: &[Event],
        offer: &mut impl FnMut(Answer, State),
    ) {
        let Moment { judged, acted, later } = *moment;
        let value = living.map(|node| node.value);
        let for_ever = |value| Some(self.node(value, acted, NEVER));
        match event.op {
            Op::Get => {
                self.reads(state, moment, &mut |found, next| {
                    offer(Answer::Value(found.map(|node| node.value)), next);
                });
            }
            Op::GetIf if value.is_some_and(|value| value % 2 == 0) => {
                offer(Answer::Value(None), state);
            }
            Op::GetIf => self.reads(state, moment, &mut |found, next| {
                offer(Answer::Value(found.map(|node| node.value)), next);
            }),
            Op::MakeStale => offer(Answer::Was(living.is_some()), state),
            Op::GetEntry => self.reads(state, moment, &mut |found, next| {
                later.iter().for_each(|&now| offer(shown(found, now), next));
            }),
            Op::Touch => self.reads(state, moment, &mut |found, next| {
                offer(Answer::Was(found.is_some()), next);
            }),
            Op::Peek | Op::Look => later.iter().for_each(|&now| offer(shown(living, now), state)),
            Op::Insert(new) => offer(Answer::Done, for_ever(new)),
            Op::InsertFor(_, 0) => offer(Answer::Done, None),
            Op::InsertFor(new, life) => offer(Answer::Done, Some(self.node(new, acted, life))),
            Op::Remove => offer(Answer::Value(value), None),
            Op::RemoveIfOdd if value.is_some_and(|value| value % 2 == 0) => {
                offer(Answer::Value(None), state);
            }
            Op::RemoveIfOdd => offer(Answer::Value(value), None),
            Op::Clear => offer(Answer::Done, None),
            Op::Put(new) | Op::Upsert(new) => {
                later.iter().for_each(|&now| offer(shown(living, now), for_ever(new)));
            }
            Op::ComputeRemove => {
                // What has ended is left to the maintenance.
                let next = if living.is_some() { None } else { state };
                later.iter().for_each(|&now| offer(shown(living, now), next));
            }
            // It ends at this moment, which for some may still be to come.
            Op::SetTtl(0) => {
                let ended = living.map(|node| Node { deadline: judged, ..node });
                offer(Answer::Was(living.is_some()), ended.or(state));
                offer(Answer::Was(living.is_some()), if living.is_some() { None } else { state });
            }
            Op::SetTtl(life) => offer(Answer::Was(living.is_some()), {
                living.map_or(state, |node| Some(self.renewed(node, judged, judged + life)))
            }),
            Op::Persist => offer(Answer::Was(living.is_some()), {
                living.map_or(state, |node| Some(self.renewed(node, judged, NEVER)))
            }),
            Op::ExpiresIn => {
                let life = living.map(|node| left(node.deadline, judged));
                offer(Answer::Life(life), state);
                let (Some(node), Some(told), Answer::Life(Some(given))) =
                    (living, life, event.answer)
                else {
                    return;
                };
                // While a reload is committed, the last read may not count yet.
                let in_reload = |other: &Event| other.is_reload() && event.overlaps(other);
                let is_late = if given < told {
                    history.iter().any(in_reload) || event.sees_taken_back(given, history)
                } else {
                    let end = judged.saturating_add(given);
                    event.sees_before_the_term(&node, end, history)
                };
                if self.idle && is_late {
                    offer(event.answer, state);
                }
            }
            Op::Replace(new) => {
                offer(Answer::Value(value), if living.is_some() { for_ever(new) } else { state });
            }
            Op::Lapsed => offer(BEGUN, state),
            Op::Reload(_) | Op::Renewal => {
                self.reload((state, living), event, history, moment, offer);
            }
            Op::Load(_)
            | Op::LoadIf(_)
            | Op::LoadOptionally { .. }
            | Op::LoadFallibly { .. }
            | Op::Guard { .. } => self.load(state, event, history, moment, offer),
        }
    }

    /// What a read may find, and the state after it.
    fn reads(self, state: State, moment: &Moment<'_>, offer: &mut impl FnMut(State, State)) {
        let Some(node) = state.filter(|node| node.deadline > moment.judged) else {
            return offer(None, state);
        };
        match self.read(node, moment.acted) {
            Some(read) => offer(Some(read), Some(read)),
            None => offer(None, state),
        }
        // It ended while it was being read: found, and not prolonged.
        if moment.later.last().is_some_and(|&last| last >= node.deadline) {
            offer(Some(node), state);
        }
    }

    /// Whether some order explains the history, from a key that is not there.
    pub fn explains(self, history: &[Event]) -> bool {
        self.search(history, 0, None, &mut HashSet::new())
    }

    fn search(
        self,
        history: &[Event],
        done: u32,
        state: State,
        refuted: &mut HashSet<(u32, State)>,
    ) -> bool {
        if done.count_ones() as usize == history.len() {
            return true;
        }
        if !refuted.insert((done, state)) {
            return false;
        }
        let open = || (0..history.len()).filter(|n| done >> n & 1 == 0);
        let first_end = open().map(|n| history[n].ended).min().unwrap_or(u64::MAX);
        open().filter(|&n| history[n].began < first_end).any(|n| {
            let outcomes = self.outcomes(state, &history[n], history);
            outcomes.into_iter().any(|next| self.search(history, done | 1 << n, next, refuted))
        })
    }
}

/// The readings by which an operation judges what it finds and by which it acts, and those from
/// there on.
struct Moment<'a> {
    judged: Time,
    acted: Time,
    later: &'a [Time],
}
