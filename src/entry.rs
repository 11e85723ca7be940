//! The handles that a cache gives out: on entries that live in it ([`Entry`]) and on values that
//! have left it ([`Removed`]).

use crate::clock::Timestamp;
use crate::macros::debug_fields;
use crate::node;
use crate::pool::{Handle, OwnedDraft};
use crate::primitives::time::{Duration, Instant};
use crate::removal::RemovalCause;
use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A handle on an entry. It dereferences to the value.
///
/// The handle keeps key and value as they were, independent of later operations on the cache. An
/// entry that expires or is removed leaves the cache. Its memory is released when the last handle
/// on it is dropped. Cloning a handle copies neither key nor value. Holding a handle blocks no
/// other thread.
///
/// The age and the remaining lifetime are those at the lookup that returned the handle.
///
/// ```
/// use cortado::{Cache, Clock};
/// use std::time::Duration;
///
/// let (clock, hand) = Clock::manual();
/// let cache = Cache::builder()
///     .weigher(|_, text: &String| text.len() as u32)
///     .time_to_live(Duration::from_secs(60))
///     .clock(clock)
///     .build();
/// cache.insert("k", "some text".to_owned());
/// hand.advance(Duration::from_secs(20));
///
/// let entry = cache.get_entry("k").unwrap();
/// cache.invalidate("k"); // the handle keeps key and value
/// assert_eq!((*entry.key(), entry.value().as_str()), ("k", "some text"));
/// assert!(entry.starts_with("some")); // it dereferences to the value
/// assert_eq!(entry.age(), Duration::from_secs(20));
/// assert_eq!(entry.expires_in(), Some(Duration::from_secs(40)));
/// assert_eq!((entry.weight(), entry.is_fresh()), (9, false));
/// assert_eq!(entry.into_value(), "some text");
/// ```
pub struct Entry<K, V> {
    node: Handle<K, V>,
    now: Timestamp,
    created: Timestamp,
    deadline: Timestamp,
    origin: Origin,
}

/// What the call that returned an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It found the entry.
    Found,
    /// It inserted the value, and there was no living entry before.
    Inserted,
    /// It put the value in the place of another one.
    Replaced,
}

impl<K, V> Entry<K, V> {
    pub(crate) fn new(
        node: Handle<K, V>,
        now: Timestamp,
        deadline: Timestamp,
        origin: Origin,
    ) -> Self {
        let created = node.meta().created();
        Self { node, now, created, deadline, origin }
    }

    /// The same entry, which took another one's place.
    pub(crate) fn in_place_of_another(self) -> Self {
        Self { origin: Origin::Replaced, ..self }
    }

    pub(crate) fn node(&self) -> &Handle<K, V> {
        &self.node
    }

    /// The deadline of the entry, as of the lookup.
    pub(crate) fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        self.node.key()
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &V {
        self.node.value()
    }

    /// A clone of the value.
    #[must_use]
    pub fn into_value(self) -> V
    where
        V: Clone,
    {
        let value = self.value().clone();
        drop(self);
        value
    }

    /// How long ago, at the moment of the lookup, the value was inserted, or a reload found it not
    /// modified.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.now.saturating_since(self.created).to_duration()
    }

    /// How long the entry had to live at the moment of the lookup. `None` means for ever.
    #[must_use]
    pub fn expires_in(&self) -> Option<Duration> {
        node::remaining(self.deadline, self.now)
    }

    /// The weight that the weigher returned. 1 without a weigher.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.node.meta().weight()
    }

    /// Whether the call that returned this handle made the value. (The cache need not have kept
    /// it: its key may have been removed meanwhile.) False if the call found it.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.origin != Origin::Found
    }

    /// Whether the call that returned this handle put the value in the place of another living
    /// value.
    #[must_use]
    pub fn is_old_value_replaced(&self) -> bool {
        self.origin == Origin::Replaced
    }
}

impl<K, V> Clone for Entry<K, V> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone(), ..*self }
    }
}

impl<K, V> Deref for Entry<K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.value()
    }
}

debug_fields!(
    impl[K: fmt::Debug, V: fmt::Debug] Entry<K, V>, |it|
    key: it.key(),
    value: it.value(),
    age: it.age(),
    expires_in: it.expires_in(),
);

/// A handle on a key. It dereferences to the key.
///
/// It keeps the key as long as it lives, whether the key's entry is still in the cache or not. The
/// memory of the entry is kept with it.
///
/// ```
/// use cortado::{Cache, Key};
/// use std::collections::BTreeSet;
///
/// let cache = Cache::new(100);
/// cache.insert_many([("a".to_owned(), 1), ("b".to_owned(), 2)]);
/// let keys: BTreeSet<Key<String, i32>> = cache.iter().map(|(key, _)| key).collect();
/// let first = keys.first().unwrap();
/// assert_eq!((first.as_str(), first.len()), ("a", 1)); // it dereferences to the key
/// let owned: String = (**first).clone();
/// assert_eq!(owned, "a");
/// ```
pub struct Key<K, V>(Handle<K, V>);

impl<K, V> Key<K, V> {
    /// The key of a node.
    pub(crate) fn of_node(node: Handle<K, V>) -> Self {
        Self(node)
    }

    /// The key of a node that was to be made. The node has no value.
    pub(crate) fn of_draft(draft: OwnedDraft<K, V>) -> Self {
        Self(draft.into_key())
    }
}

impl<K, V> Deref for Key<K, V> {
    type Target = K;

    fn deref(&self) -> &K {
        self.0.key()
    }
}

impl<K, V> AsRef<K> for Key<K, V> {
    fn as_ref(&self) -> &K {
        self
    }
}

/// A map with keys of this type is looked up by `&K`: the two hash and compare alike.
impl<K, V> Borrow<K> for Key<K, V> {
    fn borrow(&self) -> &K {
        self
    }
}

impl<K, V> Clone for Key<K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: PartialEq, V> PartialEq for Key<K, V> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<K: Eq, V> Eq for Key<K, V> {}

impl<K: PartialOrd, V> PartialOrd for Key<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (**self).partial_cmp(other)
    }
}

impl<K: Ord, V> Ord for Key<K, V> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(other)
    }
}

impl<K: Hash, V> Hash for Key<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<K: fmt::Debug, V> fmt::Debug for Key<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<K: fmt::Display, V> fmt::Display for Key<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A value that has left the cache, as passed to the removal listener.
///
/// It owns its key and value. It may be kept, or sent to another thread. Key and value are dropped
/// with the last handle on them.
///
/// ```
/// use cortado::{Cache, Clock, RemovalCause, Removed};
/// use std::sync::mpsc::channel;
/// use std::time::Duration;
///
/// let (clock, hand) = Clock::manual();
/// let (sender, removals) = channel::<Removed<&str, u32>>();
/// let cache = Cache::builder()
///     .time_to_live(Duration::from_secs(60))
///     .removal_listener(move |removed| sender.send(removed).unwrap())
///     .clock(clock)
///     .build();
/// cache.insert("k", 7);
/// hand.advance(Duration::from_secs(61));
/// cache.run_pending_tasks();
///
/// let removed = removals.recv().unwrap();
/// assert_eq!((*removed.key(), *removed.value()), ("k", 7));
/// assert_eq!((removed.cause(), removed.weight()), (RemovalCause::Expired, 1));
/// assert_eq!(removed.age(), Duration::from_secs(61));
/// assert_eq!(removed.late_by(), Some(Duration::from_secs(1)));
/// assert!(removed.deadline().is_some());
/// assert_eq!(removed.into_parts(), ("k", 7, RemovalCause::Expired));
/// ```
pub struct Removed<K, V> {
    node: Handle<K, V>,
    facts: Facts,
}

/// The facts about a removal that the node does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub cause: RemovalCause,
    pub deadline: Option<Instant>,
    pub late_by: Option<Duration>,
    pub age: Duration,
}

impl<K, V> Removed<K, V> {
    pub(crate) fn new(node: Handle<K, V>, facts: Facts) -> Self {
        Self { node, facts }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        self.node.key()
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &V {
        self.node.value()
    }

    /// Why the value left the cache.
    #[must_use]
    pub fn cause(&self) -> RemovalCause {
        self.facts.cause
    }

    /// When the value was due to expire. `None` means never.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.facts.deadline
    }

    /// For an expired value, how long after its deadline it was removed. Otherwise `None`.
    #[must_use]
    pub fn late_by(&self) -> Option<Duration> {
        self.facts.late_by
    }

    /// How long before its removal the value was inserted, or a reload found it not modified.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.facts.age
    }

    /// The weight that the weigher returned. 1 without a weigher.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.node.meta().weight()
    }

    /// Clones of key and value, and the cause.
    ///
    /// They are clones because readers may still hold handles on the entry, which share its key and
    /// value. Keep the `Removed` itself where a clone is expensive.
    #[must_use]
    pub fn into_parts(self) -> (K, V, RemovalCause)
    where
        K: Clone,
        V: Clone,
    {
        let (parts, dropped) = self.split();
        dropped.unwrap_or_else(|panic| resume_unwind(panic));
        parts
    }

    /// The same, and the panic of the destructors of what was cloned, if they panicked.
    pub(crate) fn split(self) -> ((K, V, RemovalCause), std::thread::Result<()>)
    where
        K: Clone,
        V: Clone,
    {
        let parts = (self.key().clone(), self.value().clone(), self.cause());
        (parts, catch_unwind(AssertUnwindSafe(|| drop(self))))
    }
}

impl<K, V> Clone for Removed<K, V> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone(), facts: self.facts }
    }
}

debug_fields!(
    impl[K: fmt::Debug, V: fmt::Debug] Removed<K, V>, |it|
    key: it.key(),
    value: it.value(),
    cause: it.cause(),
    age: it.age(),
    late_by: it.late_by(),
);
