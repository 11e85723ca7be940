//! Writes and computations by tasks.

use super::drive::{as_task, drive};
use super::exchange::{Exchange, Parts};
use crate::clock::Timestamp;
use crate::compute::{CompResult, Op};
use crate::engine::Engine;
use crate::engine::flights::Clearance;
use crate::engine::loads::once;
use crate::engine::write::Removal;
use crate::entry::Entry;
use crate::expiration::Lifetime;
use crate::hash::{Hashed, LookupKey};
use crate::loaded::Loaded;
use crate::primitives::seeded;
use crate::span::Span;
use std::future::{Future, poll_fn};
use std::pin::pin;

impl<K: Eq, V> Engine<K, V> {
    pub async fn insert_async(&self, key: Hashed<K>, value: V, lifetime: Lifetime) {
        if let Some(mut insert) = as_task(|| self.begin_insert(key, value, lifetime)) {
            drive(|| self.step_insert(&mut insert)).await;
            as_task(|| self.after_write());
        }
    }

    /// [`insert_async`](Self::insert_async) of a value with its lease.
    pub async fn insert_loaded_async(&self, key: Hashed<K>, loaded: Loaded<V>) {
        if let Some(mut insert) = as_task(|| self.begin_insert_loaded(key, loaded)) {
            drive(|| self.step_insert(&mut insert)).await;
            as_task(|| self.after_write());
        }
    }

    /// Removes the key's living entry, and returns it.
    pub async fn remove_async(&self, key: impl LookupKey<K>) -> Option<Entry<K, V>> {
        self.check_key(key);
        let removed = drive(|| self.step_removal(key)).await;
        as_task(|| self.after_write());
        removed
    }

    /// [`remove_async`](Self::remove_async) of an entry for which `condition` holds.
    pub async fn remove_if_async(
        &self,
        key: impl LookupKey<K>,
        mut condition: impl FnMut(&K, &V) -> bool,
    ) -> Option<Entry<K, V>> {
        self.check_key(key);
        let mut removal = Removal::Unjudged;
        let removed = drive(|| self.step_removal_if(key, &mut removal, &mut condition)).await;
        // As in `remove_if`.
        drop(removal);
        as_task(|| self.after_write());
        removed
    }

    /// Gives the key's living entry the hard deadline that `hard_deadline` computes from the
    /// present time. False if there is no living entry.
    pub async fn set_hard_deadline_async(
        &self,
        key: impl LookupKey<K>,
        hard_deadline: impl Fn(Timestamp) -> Timestamp,
    ) -> bool {
        self.check_key(key);
        let mut clearance = Clearance::Idle;
        let step = || self.step_set_hard_deadline(key, &hard_deadline, &mut clearance);
        let changed = drive(step).await;
        as_task(|| self.finish_set_hard_deadline(key, changed))
    }

    /// `op_of` makes the operation of what the future returns. (A future around the user's would
    /// have that one twice.)
    ///
    /// # Errors
    /// If `op_of` returns one; the entry is as before.
    pub async fn compute_async<E, F: Future>(
        &self,
        key: Hashed<K>,
        decide: impl FnOnce(Option<Entry<K, V>>) -> F,
        op_of: impl Fn(F::Output) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        let mut begin = once(|entry| Some(decide(entry)));
        let exchange = Exchange::new();
        let operation = pin!(Some(self.compute_asking(key, &exchange)));
        let mut parts = Parts { exchange: &exchange, operation, user: pin!(None) };
        let result = poll_fn(|context| {
            // An operation that gets an answer ends within that poll. So nothing holds an error
            // between two polls.
            let mut failed = None;
            let reply_of = |made| op_of(made).map_err(|error| failed = Some(error)).ok();
            let ended = parts.poll(context, &mut begin, reply_of);
            ended.map(|it| it.ok_or_else(|| failed.expect("without operation, an error")))
        })
        .await;
        self.core.after_computation();
        as_task(|| self.after_write());
        result
    }

    /// [`compute_async`](Self::compute_async), which asks for the operation. `None` if there is
    /// none, since there was an error.
    async fn compute_asking(
        &self,
        key: Hashed<K>,
        exchange: &Exchange<Option<Entry<K, V>>, Option<Op<V>>>,
    ) -> Option<CompResult<K, V>> {
        // Dropped after the flight, also when the task is cancelled: these may be the last counts
        // on the old entry.
        let (mut looked, mut asked);
        asked = None;
        self.check_key(key.as_ref());
        let draft = self.pool.draft(key).detach();
        let flight = drive(|| self.take_key(draft.hashed(), &|| draft.share())).await;
        {
            let _mark = flight.mark_poll();
            looked = self.look(draft.hashed());
        }
        let op = exchange.ask(flight.token(), &Span::NONE, looked.entry.clone()).await?;
        let flight = Some(flight.enter()).filter(|_| !seeded("tasks-act-without-their-flight"));
        let result = self.act(draft.attach(&self.pool), &mut looked, op, &mut asked);
        if let Some(flight) = flight {
            flight.land();
        }
        Some(result)
    }

    pub async fn retain_async(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut refuses = |key: &K, value: &V| !keep(key, value);
        for node in self.all_keys() {
            let Some((node, mut removal)) = as_task(|| self.refused(node, &mut refuses)) else {
                continue;
            };
            let key = node.hashed();
            drive(|| self.step_removal_if(key, &mut removal, &mut refuses)).await;
            drop((node, removal));
            // At once: the predicate may panic, and the task may wait or be dropped.
            as_task(|| self.after_write());
        }
    }

    /// Removes the entries for which the predicate holds, but for those whose keys are being
    /// computed.
    pub fn remove_without_waiting(&self, mut predicate: impl FnMut(&K, &V) -> bool) {
        as_task(|| self.remove_all(&mut predicate, |step| drop(step())));
    }
}
