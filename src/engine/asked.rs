//! What a write knows of its value when the user was asked: weight, lifetime, the entry that the
//! answer is about; and an insert that has to wait.

use super::flights::{Clearance, Obstacle};
use super::step::is_owned;
use crate::clock::{Nanos, Timestamp};
use crate::expiration::{HookLifetime, Lifetime};
use crate::links::NodeId;
use crate::pool::Handle;

/// The weight of a value, and how the write says when it ends.
#[derive(Clone, Copy)]
pub struct Terms {
    pub weight: u32,
    pub lifetime: Lifetime,
    /// The time until the value is stale; `None` is by the cache's fixed setting, if there is
    /// refresh.
    pub refresh: Option<Nanos>,
}

/// The hooks' answer about a new value, and the reading of the clock that they were told.
#[derive(Clone, Copy)]
pub struct Answer {
    pub hook: HookLifetime,
    pub now: Timestamp,
}

/// The hooks' answer, if they were asked, and the key's entry, if the answer depends on it.
pub struct Answered<K, V> {
    pub answer: Option<Answer>,
    pub basis: Option<Basis<K, V>>,
}

impl<K, V> Answered<K, V> {
    /// The hooks were not asked.
    pub const NOBODY: Self = Self { answer: None, basis: None };
}

/// The key's entry when the hooks were asked, where their answer depends on it.
pub enum Basis<K, V> {
    /// No living entry.
    Absent,
    /// This entry, whose hard deadline was `ends`. The count keeps its id from being given to
    /// another entry.
    Entry { node: Handle<K, V>, ends: Timestamp },
}

impl<K, V> Basis<K, V> {
    /// The hard deadline that the hooks were shown of the entry.
    pub fn shown(&self) -> Option<Timestamp> {
        match self {
            Self::Absent => None,
            Self::Entry { ends, .. } => Some(*ends),
        }
    }

    /// Whether the key's entry is still the same: this node.
    pub fn is_still(&self, living: Option<NodeId>) -> bool {
        match (self, living) {
            (Self::Absent, None) => true,
            (Self::Entry { node, .. }, Some(living)) => node.id() == living,
            _ => false,
        }
    }
}

/// The state of an insert on the slow path.
pub struct InsertState<K, V> {
    pub terms: Terms,
    pub answered: Answered<K, V>,
    /// What kept the last attempt from committing.
    pub obstacle: Obstacle,
    pub clearance: Clearance<'static>,
}

/// What is left to do of an insert, if it has to wait. Boxed: it is rare, and inserts that do not
/// wait return one word.
pub type Waiting<K, V> = Option<Box<Insert<K, V>>>;

/// An insert between two steps.
pub struct Insert<K, V> {
    pub node: Handle<K, V>,
    pub attempt: InsertState<K, V>,
}

const _: () = is_owned::<Insert<String, String>>();

impl<K, V> InsertState<K, V> {
    /// Of an insert that this obstacle has sent to the slow path.
    pub fn new(terms: Terms, asked: Option<Answered<K, V>>, obstacle: Obstacle) -> Self {
        let answered = asked.unwrap_or(Answered::NOBODY);
        Self { terms, answered, obstacle, clearance: Clearance::Idle }
    }
}
