//! Notifying listeners: the part of a delivery that knows the types.

use super::notices::{Deliver, Notice};
use crate::engine::base::{Base, is_completed};
use crate::entry::{Facts, Removed};
use crate::node::remaining;
use crate::pool::{Pool, RawHandle};
use crate::removal::RemovalCause;

/// Is called with each removal.
pub type Listener<K, V> = Box<dyn Fn(Removed<K, V>) + Send + Sync>;

/// The listeners of a cache.
pub struct Listeners<K, V> {
    pub pool: Pool<K, V>,
    pub all: Vec<Listener<K, V>>,
}

impl<K, V> Deliver for Listeners<K, V> {
    fn deliver(&self, base: &Base, notice: Notice) {
        let removed = removed(base, &self.pool, notice);
        let Some((last, others)) = self.all.split_last() else { return };
        let tell = |listener: &Listener<K, V>, removed| {
            if !is_completed(|| listener(removed))
                && let Some(recorder) = &base.recorder
            {
                recorder.listener_panicked();
            }
        };
        for listener in others {
            tell(listener, removed.clone());
        }
        tell(last, removed);
    }
}

/// The removal that a notice tells of.
pub fn removed<K, V>(base: &Base, pool: &Pool<K, V>, notice: Notice) -> Removed<K, V> {
    let Notice { id, cause, deadline, at } = notice;
    let node = pool.handle(RawHandle::from_count(pool.raw().clone(), id));
    let created = node.meta().created();
    let late = at.saturating_since(deadline).to_duration();
    let facts = Facts {
        cause,
        deadline: remaining(deadline, at).map(|_| base.ticker.instant_of(deadline)),
        late_by: (cause == RemovalCause::Expired).then_some(late),
        age: at.saturating_since(created).to_duration(),
    };
    Removed::new(node, facts)
}
