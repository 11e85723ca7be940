//! Computations by tasks.

use super::drive::{as_task, drive};
use super::exchange::{Exchange, Parts};
use crate::compute::{CompResult, Op};
use crate::engine::Engine;
use crate::engine::loads::once;
use crate::entry::Entry;
use crate::hash::Hashed;
use crate::primitives::seeded;
use std::future::{Future, poll_fn};
use std::pin::pin;

impl<K: Eq, V> Engine<K, V> {
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
            let answer_of = |made| op_of(made).map_err(|error| failed = Some(error)).ok();
            let ended = parts.poll(context, &mut begin, answer_of);
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
        let op = exchange.ask(flight.token(), looked.entry.clone()).await?;
        let flight = Some(flight.enter()).filter(|_| !seeded("tasks-act-without-their-flight"));
        let result = self.act(draft.attach(&self.pool), &mut looked, op, &mut asked);
        if let Some(flight) = flight {
            flight.land();
        }
        Some(result)
    }
}
