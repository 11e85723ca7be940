//! An array of cache-padded stripes. Each thread pushes into its own; one drainer visits all.

use crossbeam_utils::CachePadded;

use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::primitives::thread_stripe;

/// There are at most this many stripes: more would only lengthen the drain.
#[cfg(not(cortado_loom))]
const MAX_STRIPES: usize = 16;

/// The number of hardware threads, rounded up to a power of two. The system is asked once per
/// process, because it reads several files to find out.
///
/// Tests and benches set `CORTADO_STRIPES` to run as on a machine with more or fewer threads.
#[cfg(not(cortado_loom))]
pub fn stripe_count() -> usize {
    static COUNT: crate::primitives::plain::OnceLock<usize> =
        crate::primitives::plain::OnceLock::new();
    *COUNT.get_or_init(|| {
        let threads = crate::primitives::thread::available_parallelism();
        let threads = threads.map_or(4, |threads| threads.get());
        forced_stripes().unwrap_or(threads).clamp(1, MAX_STRIPES).next_power_of_two()
    })
}

#[cfg(all(feature = "internals", not(cortado_loom)))]
fn forced_stripes() -> Option<usize> {
    std::env::var("CORTADO_STRIPES").ok()?.parse().ok()
}

#[cfg(not(any(feature = "internals", cortado_loom)))]
fn forced_stripes() -> Option<usize> {
    None
}

/// Two stripes: the smallest number that is more than one.
#[cfg(cortado_loom)]
pub fn stripe_count() -> usize {
    2
}

#[derive(Debug)]
pub(super) struct Stripes<S> {
    stripes: Box<[CachePadded<S>]>,
    /// The stripe at which the next [`rotate`](Self::rotate) begins. Only the drainer uses it.
    first: AtomicUsize,
}

impl<S> Stripes<S> {
    pub(super) fn new(mut stripe: impl FnMut() -> S) -> Self {
        Self {
            stripes: (0..stripe_count()).map(|_| CachePadded::new(stripe())).collect(),
            first: AtomicUsize::new(0),
        }
    }

    /// The stripe of the calling thread, the same one at each call.
    #[inline]
    pub(super) fn mine(&self) -> &S {
        &self.stripes[thread_stripe() & (self.stripes.len() - 1)]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &S> {
        self.stripes.iter().map(|stripe| &**stripe)
    }

    /// All stripes. Each call begins with another one, so that a drain with a limit starves none.
    pub(super) fn rotate(&self) -> impl Iterator<Item = &S> {
        let first = self.first.load(Relaxed);
        self.first.store(first.wrapping_add(1), Relaxed);
        let mask = self.stripes.len() - 1;
        (0..self.stripes.len()).map(move |i| &*self.stripes[first.wrapping_add(i) & mask])
    }

    pub(super) fn len(&self) -> usize {
        self.stripes.len()
    }
}
