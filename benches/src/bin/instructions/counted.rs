//! What is run under valgrind.

use crate::Options;
use anyhow::{Result, ensure};
use cortado_benches::key::Key;
use cortado_benches::subject::{Driver, Subject};
use cortado_benches::value::Value;
use cortado_benches::workload::{Action, Mix, Read, ReadThrough, Step, Workload, Write};
use std::hint::black_box;

/// One workload with one cache.
struct Measurement<'a, K> {
    workload: &'a Workload,
    space: u64,
    keys: &'a [K],
}

impl<K: Key, V: Value> Driver<K, V> for Measurement<'_, K> {
    type Output = ();

    fn drive<S: Subject<K, V>>(self) {
        let cache = self.workload.cache::<K, V, S>(self.space);
        let (warm_up, counted) = self.keys.split_at(self.keys.len() / 2);
        let run = match self.workload.action {
            Action::Read => thread::<K, V, S, Read>,
            Action::Mix10 => thread::<K, V, S, Mix<10>>,
            Action::Mix2 => thread::<K, V, S, Mix<2>>,
            Action::Write => thread::<K, V, S, Write>,
            Action::ReadThrough | Action::Fleeting => thread::<K, V, S, ReadThrough>,
        };
        run(&cache, warm_up, counted);
    }
}

fn thread<K: Key, V: Value, S: Subject<K, V>, T: Step>(cache: &S, warm_up: &[K], counted: &[K]) {
    let mut reader = cache.reader();
    for (number, key) in warm_up.iter().enumerate() {
        black_box(T::step(cache, &mut reader, key, number as u64));
    }
    operations::<K, V, S, T>(cache, &mut reader, counted);
}

/// What is counted: valgrind is told to, by the name.
#[inline(never)]
fn operations<K: Key, V: Value, S: Subject<K, V>, T: Step>(
    cache: &S,
    reader: &mut S::Reader<'_>,
    keys: &[K],
) {
    for (number, key) in keys.iter().enumerate() {
        black_box(T::step(cache, reader, key, number as u64));
    }
}

/// As many operations that are not counted come first.
pub fn run(workload: &Workload, options: &Options) -> Result<()> {
    ensure!(options.subjects.len() == 1, "one cache at a time");
    let space = options.keys_space * workload.spread;
    let keys: Vec<u64> = workload.stream.keys(space, 2 * options.operations, 0, 0);
    let measurement = Measurement { workload, space, keys: &keys };
    let done = options.subjects[0].drive::<u64, u64, _>(measurement);
    ensure!(done.is_some(), "the cache does not take such keys");
    Ok(())
}
