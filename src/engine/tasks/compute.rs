//! Computations by tasks.

use super::drive::{as_task, drive};
use super::exchange::Exchange;
use crate::compute::{CompResult, Op};
use crate::engine::Engine;
use crate::engine::reentrancy::ReentrancyMark;
use crate::entry::Entry;
use crate::primitives::seeded;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::pin;
use std::task::{Context, Poll};

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
        op_of: impl Fn(F::Output) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        // Dropped after the operation, also when the task is cancelled: its destructor may use the
        // key.
        let mut deciding = pin!(None);
        let mut decide = Some(decide);
        let exchange = Exchange::new();
        let mut operation = pin!(self.compute_asking(key, &exchange));
        let result = poll_fn(|context| {
            // An operation that gets an answer ends within that poll. So nothing holds an error
            // between two polls.
            let mut failed = None;
            let decide = &mut |found, context: &mut Context<'_>| {
                if let (Some(entry), Some(decide)) = (found, decide.take()) {
                    deciding.set(Some(decide(entry)));
                }
                let Some(future) = deciding.as_mut().as_pin_mut() else {
                    return Poll::Ready(Some(Op::Nop));
                };
                let answer = future.poll(context).map(&op_of);
                answer.map(|op| op.map_err(|error| failed = Some(error)).ok())
            };
            let poll = exchange.poll(operation.as_mut(), decide, context);
            let Poll::Ready((result, ending)) = poll else { return Poll::Pending };
            // Before the deliveries: a listener may wait for what the future holds.
            deciding.set(None);
            drop(ending);
            let poll = Poll::Ready(result);
            poll.map(|result| result.ok_or_else(|| failed.expect("without operation, an error")))
        })
        .await;
        self.core.after_computation();
        // The future's polls may have deferred deliveries on another thread.
        as_task(|| self.after_write());
        result
    }

    /// [`compute_async`](Self::compute_async), which asks for the operation. `None` if there is
    /// none, since there was an error. Deliveries wait until the caller has dropped the mark.
    async fn compute_asking(
        &self,
        key: K,
        exchange: &Exchange<Option<Entry<K, V>>, Option<Op<V>>>,
    ) -> (Option<CompResult<K, V>>, Option<ReentrancyMark>) {
        // Dropped after the flight, also when the task is cancelled: these may be the last counts
        // on the old entry.
        let mut kept = (None, None);
        let hash = self.hash(&key);
        self.check_key(hash, &key);
        let draft = self.pool.draft(hash, key).detach();
        let flight = drive(|| self.begin_compute(&draft)).await;
        let looked = {
            let _mark = flight.mark_poll();
            self.look(&draft)
        };
        kept.0 = looked.entry.clone();
        let Some(op) = exchange.ask(flight.token(), looked.entry.clone()).await else {
            let ending = ReentrancyMark::ending();
            drop(flight);
            // As below.
            drop((draft, looked, kept));
            return (None, ending);
        };
        let ending = ReentrancyMark::ending();
        let flight = Some(flight.enter()).filter(|_| !seeded("tasks-act-without-their-flight"));
        let result = self.act(draft, looked, op, &mut kept.1);
        if let Some(flight) = flight {
            flight.land();
        }
        // Before the result is the return value: a panic of their destructors would leak it.
        drop(kept);
        (Some(result), ending)
    }
}
