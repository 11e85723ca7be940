//! Operations of tasks.

use super::answers::numbers;
use super::ledger::{Key, Ledger, Value};
use super::subject::Bench;
use crate::hand::{Boxed, pends};
use cortado::Op;

type Operation = for<'a> fn(&'a Bench, u64) -> Boxed<'a, ()>;

/// One row: how it reads, and the operation on a key. What it returns is dropped.
macro_rules! row {
    ($bench:ident, $key:ident => $operation:expr) => {
        (
            stringify!($operation),
            (|$bench, $key| {
                Box::pin(async move {
                    let _ = $operation.await;
                })
            }) as Operation,
        )
    };
}

/// The same for a cache with a stored loader. Without one, it reads.
macro_rules! loading_row {
    ($bench:ident, $cache:ident, $key:ident => $operation:expr) => {
        (
            stringify!($operation),
            (|$bench, $key| {
                Box::pin(async move {
                    match $bench.tasks_loading() {
                        Some($cache) => _ = $operation.await,
                        None => _ = $bench.tasks.get(&$bench.name($key)).await,
                    }
                })
            }) as Operation,
        )
    };
}

const LOADS: &[(&str, Operation)] = &[
    row!(b, k => b.tasks.get_with(b.key(k), b.later(Ledger::answer))),
    row!(b, k => b.tasks.optionally_get_with_by_ref(&b.name(k), b.later(Ledger::optional_answer))),
    row!(b, k => b.tasks.entry(b.key(k)).or_try_insert_with(b.later(Ledger::fallible_answer))),
    row!(b, k => b.tasks.load_if(&b.name(k), |_| b.later(Ledger::loaded), |_, _| b.once_in(2))),
    row!(b, k => b.tasks.load(b.key(k), b.later(Ledger::loaded))),
    row!(b, _k => b.tasks.try_get_many_with(b.some_keys(), |keys| answers(b, numbers(keys)))),
    loading_row!(b, c, k => c.get(&b.name(k))),
    loading_row!(b, c, k => c.get_entry(&b.name(k))),
    loading_row!(b, c, _k => c.get_many(&b.some_keys())),
    loading_row!(b, c, k => c.reload(&b.name(k))),
    loading_row!(b, c, k => c.get_within(&b.name(k), pends(b.below(4) as u32))),
];

const OTHERS: &[(&str, Operation)] = &[
    row!(b, k => b.tasks.get(&b.name(k))),
    row!(b, k => b.tasks.get_entry(&b.name(k))),
    row!(b, k => b.tasks.touch(&b.name(k))),
    row!(b, k => b.tasks.insert(b.key(k), b.value())),
    row!(b, k => b.tasks.insert_with_ttl(b.key(k), b.value(), b.seconds_below(40))),
    row!(b, _k => b.tasks.insert_many(b.some_pairs())),
    row!(b, k => b.tasks.set_ttl(&b.name(k), b.seconds_below(40))),
    row!(b, k => b.tasks.replace(b.key(k), b.value())),
    row!(b, k => b.tasks.remove(&b.name(k))),
    row!(b, k => b.tasks.remove_if(&b.name(k), |_, _| b.condition())),
    row!(b, k => b.tasks.invalidate_many(&[b.name(k), b.name(b.random_key())])),
    row!(b, _k => b.tasks.retain(|_, _| b.condition())),
    row!(b, k => b.tasks.entry(b.key(k)).and_compute_with(|_| b.later(Ledger::op))),
    row!(b, k => b.tasks.entry_by_ref(&b.name(k)).and_try_compute_with(|_| fallible_op(b))),
    row!(b, _k => b.tasks.run_pending_tasks()),
];

async fn answers(bench: &Bench, keys: Vec<u64>) -> Result<Vec<(Key, Value)>, u8> {
    bench.later(|ledger| ledger.answers(keys.clone())).await
}

async fn fallible_op(bench: &Bench) -> Result<Op<Value>, u8> {
    bench.later(Ledger::fallible_op).await
}

/// A random operation, and how it reads.
pub fn operation(bench: &Bench) -> (String, Boxed<'_, ()>) {
    let rows = if bench.once_in(2) { LOADS } else { OTHERS };
    let (name, operation) = rows[bench.below(rows.len() as u64) as usize];
    let key = bench.random_key();
    (format!("key {key}: {name}"), operation(bench, key))
}
