//! Computations by tasks.

use super::drive::{as_task, drive, poll_as_owner};
use crate::compute::{CompResult, Op};
use crate::engine::Engine;
use crate::entry::Entry;
use crate::primitives::seeded;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::pin;

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// `op_of` makes the operation of what the future returns. (A future around the user's would
    /// have that one twice.)
    ///
    /// # Errors
    /// If `op_of` returns one; the entry is as before.
    pub async fn compute_async<E, F: Future>(
        &self,
        key: K,
        decide: impl FnOnce(Option<Entry<K, V>>) -> F,
        op_of: impl FnOnce(F::Output) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        // Dropped after the flight, also when the task is cancelled: these may be the last counts
        // on the old entry, and the user's future, whose destructors may use the key.
        let mut kept = (None, None);
        let mut deciding = pin!(None);
        let hash = self.hash(&key);
        self.check_key(hash, &key);
        let draft = self.pool.draft(hash, key).detach();
        let flight = drive(|| self.begin_compute(&draft)).await;
        let looked = {
            let _mark = flight.mark_poll();
            let looked = self.look(&draft);
            kept.0 = looked.entry.clone();
            deciding.set(Some(decide(looked.entry.clone())));
            looked
        };
        let op = match deciding.as_mut().as_pin_mut() {
            Some(deciding) => op_of(poll_as_owner(&flight, deciding).await),
            None => Ok(Op::Nop),
        };
        let op = match op {
            Ok(op) => op,
            Err(error) => {
                drop(flight);
                // As below.
                drop((draft, looked, kept));
                deciding.set(None);
                self.core.after_computation();
                // The future's polls may have deferred deliveries on another thread.
                as_task(|| self.after_write());
                return Err(error);
            }
        };
        let flight = Some(flight.enter()).filter(|_| !seeded("tasks-act-without-their-flight"));
        let result = self.act(draft, looked, op, &mut kept.1);
        if let Some(flight) = flight {
            flight.land();
        }
        // Before the result is the return value: a panic of their destructors would leak it.
        drop(kept);
        deciding.set(None);
        self.core.after_computation();
        as_task(|| self.after_write());
        Ok(result)
    }
}
