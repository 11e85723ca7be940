//! An array of cache-padded stripes. Each thread pushes into its own; one drainer visits all.
//!
//! A drain must find each event that was pushed before the drain was requested. It does: the thread
//! that allocates a ring does so before it pushes and requests, so whoever sees the request sees
//! the ring.

use super::ring::Ring;
use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::primitives::plain::OnceLock;
use crate::primitives::thread_stripe;
use crossbeam_utils::CachePadded;

/// There are at most this many stripes: more would only lengthen the drain.
#[cfg(not(cortado_loom))]
const MAX_STRIPES: usize = 16;

/// The number of hardware threads, rounded up to a power of two. The system is asked once per
/// process.
///
/// Tests and benches set `CORTADO_STRIPES` to run as on a machine with more or fewer threads.
#[cfg(not(cortado_loom))]
pub fn stripe_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        forced_stripes()
            .unwrap_or_else(crate::system::cores)
            .clamp(1, MAX_STRIPES)
            .next_power_of_two()
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

/// A ring that the first push into it allocates.
type Stripe<const SEGMENTS: usize> = OnceLock<Box<CachePadded<Ring<SEGMENTS>>>>;

#[derive(Debug)]
pub(super) struct Stripes<const SEGMENTS: usize> {
    /// The stripes, each allocated when a thread first pushes into it. The first push of all
    /// allocates the places.
    places: OnceLock<Box<[Stripe<SEGMENTS>]>>,
    /// The number of places, a power of two.
    pub(super) len: usize,
    /// How many events each stripe can hold.
    pub(super) ring_capacity: usize,
    /// The stripe at which the next [`rotate`](Self::rotate) begins. Only the drainer uses it.
    first: AtomicUsize,
}

impl<const SEGMENTS: usize> Stripes<SEGMENTS> {
    /// `len` stripes, a power of two, with room for `ring_capacity` events each.
    pub(super) fn new(len: usize, ring_capacity: usize) -> Self {
        debug_assert!(len.is_power_of_two());
        let places = OnceLock::new();
        let stripes = Self { places, len, ring_capacity, first: AtomicUsize::new(0) };
        if cfg!(cortado_loom) {
            // loom does not see that std's lock publishes a ring.
            (0..len).for_each(|number| {
                let _ = stripes.allocate(number);
            });
        }
        stripes
    }

    /// The stripe of the calling thread, the same one at each call.
    #[inline(always)]
    pub(super) fn mine(&self) -> &Ring<SEGMENTS> {
        let own = thread_stripe();
        let place = self.places.get().map(|places| &places[own & (places.len() - 1)]);
        match place.and_then(OnceLock::get) {
            Some(ring) => ring,
            None => self.allocate(own & (self.len - 1)),
        }
    }

    #[inline]
    fn get(&self, number: usize) -> Option<&Ring<SEGMENTS>> {
        self.places.get()?[number].get().map(|ring| &***ring)
    }

    #[cold]
    fn allocate(&self, number: usize) -> &Ring<SEGMENTS> {
        let places = || (0..self.len).map(|_| OnceLock::new()).collect();
        let ring = || Box::new(CachePadded::new(Ring::new(self.ring_capacity)));
        self.places.get_or_init(places)[number].get_or_init(ring)
    }

    /// The stripes that some thread has pushed into.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Ring<SEGMENTS>> {
        (0..self.len).filter_map(|number| self.get(number))
    }

    /// `iter`, where each call begins with another stripe, so that a drain with a
    /// limit starves none.
    pub(super) fn rotate(&self) -> impl Iterator<Item = &Ring<SEGMENTS>> {
        let first = self.first.load(Relaxed);
        self.first.store(first.wrapping_add(1), Relaxed);
        (0..self.len).filter_map(move |step| self.get(first.wrapping_add(step) & (self.len - 1)))
    }

    /// How many events all stripes can hold together.
    pub(super) fn capacity(&self) -> usize {
        self.len * self.ring_capacity
    }
}
