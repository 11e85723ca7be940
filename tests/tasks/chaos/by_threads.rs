//! Operations of threads.

use super::answers::numbers;
use super::subject::Bench;
use cortado::{LoadLimits, Loaded, future};
use std::time::Duration;

type Operation = fn(&Bench, u64);

/// One row: how it reads, and the operation on a key. What it returns is dropped.
macro_rules! row {
    ($bench:ident, $key:ident => $operation:expr) => {
        (
            stringify!($operation),
            (|$bench, $key| {
                let _ = $operation;
            }) as Operation,
        )
    };
}

/// The same for a cache with a stored loader. Without one, it reads.
macro_rules! loading_row {
    ($bench:ident, $cache:ident, $key:ident => $operation:expr) => {
        (
            stringify!($operation),
            (|$bench, $key| match $bench.loading() {
                Some($cache) => _ = $operation,
                None => _ = $bench.threads().get(&$bench.name($key)),
            }) as Operation,
        )
    };
}

/// Operations that do not wait for tasks.
const READS: &[(&str, Operation)] = &[
    row!(b, k => b.threads().get(&b.name(k))),
    row!(b, k => b.threads().peek(&b.name(k))),
    row!(b, k => b.threads().pin().get(&b.name(k)).is_some()),
    row!(b, _k => b.threads().iter().filter(|(_, value)| value.weight > 1).count()),
    row!(b, _k => b.threads().soonest_to_expire(3)),
    row!(b, _k => b.threads().hottest(3)),
    row!(b, _k => b.threads().invalidate_all()),
    row!(b, _k => b.threads().set_max_capacity(b.below(20))),
    row!(b, _k => b.threads().set_time_to_live(Some(b.seconds_below(100)))),
    row!(b, _k => b.threads().run_pending_tasks()),
    row!(b, _k => b.threads().run_pending_tasks_up_to(b.below(5) as usize)),
    loading_row!(b, c, k => c.last_failure(&b.name(k))),
];

/// Operations that may wait for a load or a computation of a task's.
const LOADS_AND_WRITES: &[(&str, Operation)] = &[
    row!(b, k => b.threads().get_with(b.key(k), || b.answer())),
    row!(b, k => b.threads().get_with_by_ref(&b.name(k), || b.answer())),
    row!(b, k => b.threads().optionally_get_with(b.key(k), || b.optional_answer())),
    row!(b, k => b.threads().entry(b.key(k)).or_try_insert_with(|| b.fallible_answer())),
    row!(b, k => b.threads().entry_by_ref(&b.name(k)).or_load_with(|| b.loaded())),
    row!(b, k => b.threads().entry(b.key(k)).or_insert_with_if(|| b.answer(), |_| b.once_in(2))),
    row!(b, k => b.threads().entry_by_ref(&b.name(k)).or_insert(b.value())),
    row!(b, _k => b.threads().try_get_many_with(b.some_keys(), |keys| b.answers(numbers(keys)))),
    row!(b, k => load_by_guard(b, k)),
    row!(b, k => b.threads().entry(b.key(k)).and_compute_with(|_| b.op())),
    row!(b, k => b.threads().entry_by_ref(&b.name(k)).and_try_compute_with(|_| b.fallible_op())),
    row!(b, k => b.threads().insert(b.key(k), b.value())),
    row!(b, k => b.threads().insert_with_ttl(b.key(k), b.value(), b.seconds_below(40))),
    row!(b, _k => b.threads().insert_many(b.some_pairs())),
    row!(b, k => b.threads().replace(b.key(k), b.value())),
    row!(b, k => b.threads().remove_entry(&b.name(k))),
    row!(b, k => b.threads().remove_if(&b.name(k), |_, _| b.condition())),
    row!(b, _k => b.threads().retain(|_, _| b.condition())),
    row!(b, _k => b.threads().keys().filter_map(|key| b.threads().remove_entry(&key)).take(2).count()),
    loading_row!(b, c, k => c.get(&b.name(k))),
    loading_row!(b, c, k => c.get_entry(&b.name(k))),
    loading_row!(b, c, _k => c.get_many(&b.some_keys())),
    loading_row!(b, c, k => c.refresh(&b.key(k))),
    loading_row!(b, c, k => c.get_within(&b.key(k), AT_ONCE)),
];

const AT_ONCE: LoadLimits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };

/// Takes the load of a missing key over, and gives it up now and then.
fn load_by_guard(bench: &Bench, key: u64) {
    let name = bench.name(key);
    let asking = async |cache: &future::Cache<_, _, _>| cache.get_value_or_guard(&name).await;
    if let Ok(Err(guard)) = bench.threads().within(Duration::ZERO, asking)
        && !bench.once_in(3)
    {
        drop(guard.insert(Loaded::with_ttl(bench.value(), bench.seconds_below(40))));
    }
}

/// Runs a random operation, one that does not wait for tasks if there are any. Those of the
/// executor are some, too: they load although the tasks that have asked are gone.
pub fn run(bench: &Bench, has_tasks: bool) {
    let has_tasks = has_tasks || bench.threads().stats().loads_under_way > 0;
    let rows = if has_tasks || bench.once_in(3) { READS } else { LOADS_AND_WRITES };
    let (name, operation) = rows[bench.below(rows.len() as u64) as usize];
    let key = bench.random_key();
    bench.note(format_args!("a thread, key {key}: {name}"));
    operation(bench, key);
}
