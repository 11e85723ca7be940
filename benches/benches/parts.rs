//! The mechanisms that every operation of the cache goes through, beside its index and its wheel:
//! the two buffers, against a single queue in place of their stripes, and the frequency sketch.

use cortado::internals::buffer::read::{Push, ReadBuffer};
use cortado::internals::buffer::stripe_count;
use cortado::internals::buffer::write::{
    DrainLimits, MAX_BATCH, Pressure, WriteBuffer, WriteLimits,
};
use cortado::internals::hash::Hash32;
use cortado::internals::links::NodeId;
use cortado::internals::sketch::Sketch;
use cortado::internals::sync::Patience;
use cortado_benches::threads::together;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_queue::ArrayQueue;
use std::hint::black_box;
use std::sync::Mutex;

/// Where threads leave numbers that one of them at a time takes out.
trait Buffer: Sync {
    const NAME: &str;
    fn new() -> Self;
    /// Whether it wants to be emptied.
    fn push(&self, number: u32) -> bool;
    fn drain(&self) -> usize;
}

impl Buffer for ReadBuffer {
    const NAME: &str = "read buffer";

    fn new() -> Self {
        Self::new()
    }

    fn push(&self, number: u32) -> bool {
        Self::push(self, NodeId::from_raw(number)) != Push::Stored
    }

    fn drain(&self) -> usize {
        let mut ids = Vec::new();
        Self::drain(self, usize::MAX, &mut ids);
        black_box(ids).len()
    }
}

impl Buffer for WriteBuffer {
    const NAME: &str = "write buffer";

    fn new() -> Self {
        let limits = WriteLimits {
            batch: MAX_BATCH,
            weight: u64::MAX,
            spilled_events: 0,
            spilled_weight: 0,
        };
        Self::new(stripe_count(), limits)
    }

    fn push(&self, number: u32) -> bool {
        Self::push(self, u64::from(number) + 1, 1)
            .map_or(true, |pressure| pressure >= Pressure::Drain)
    }

    fn drain(&self) -> usize {
        let limits = DrainLimits { stripes: usize::MAX, spill: 0 };
        Self::drain(self, &mut Vec::new(), limits, Patience::Wait, |batch| _ = black_box(batch))
            .count
    }
}

/// As many places as the write buffer has on two hardware threads.
struct OneQueue(ArrayQueue<u64>);

impl Buffer for OneQueue {
    const NAME: &str = "one queue";

    fn new() -> Self {
        Self(ArrayQueue::new(4 * MAX_BATCH))
    }

    fn push(&self, number: u32) -> bool {
        self.0.push(u64::from(number)).is_err() || self.0.len() >= 2 * MAX_BATCH
    }

    fn drain(&self) -> usize {
        let taken = std::iter::from_fn(|| self.0.pop()).take(4 * MAX_BATCH);
        taken.map(|event| _ = black_box(event)).count()
    }
}

/// Threads push and, when the buffer wants it and nobody else is at it, empty it.
fn buffer<B: Buffer>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("push, and drain when wanted");
    for threads in [1, 2] {
        group.bench_function(BenchmarkId::new(B::NAME, threads), |bencher| {
            let (buffer, maintenance) = (B::new(), Mutex::new(()));
            bencher.iter_custom(|times| {
                together(threads, |_| {
                    for time in 0..times {
                        if buffer.push(black_box(time as u32 + 1))
                            && let Ok(_lock) = maintenance.try_lock()
                        {
                            black_box(buffer.drain());
                        }
                    }
                })
            });
        });
    }
    group.finish();
}

fn buffers(criterion: &mut Criterion) {
    buffer::<ReadBuffer>(criterion);
    buffer::<WriteBuffer>(criterion);
    buffer::<OneQueue>(criterion);
}

fn sketch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sketch");
    group.throughput(Throughput::Elements(1));
    for entries in [10_000_u32, 100_000, 1_000_000] {
        let mut sketch = Sketch::new(1);
        (1..=entries).for_each(|count| sketch.fit(count as usize));
        let hash = |step: u32| Hash32::from_raw((step % entries).wrapping_mul(0x9e37_79b9));
        let mut step = 0_u32;
        group.bench_function(BenchmarkId::new("increment", entries), |bencher| {
            bencher.iter(|| {
                step = step.wrapping_add(1);
                sketch.increment(sketch.spread(black_box(hash(step))));
            });
        });
        group.bench_function(BenchmarkId::new("frequency", entries), |bencher| {
            bencher.iter(|| {
                step = step.wrapping_add(1);
                sketch.frequency(sketch.spread(black_box(hash(step))))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, buffers, sketch);
criterion_main!(benches);
