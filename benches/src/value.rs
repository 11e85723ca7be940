//! Values, which say themselves how long they live.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// The lifetime of a value that is to stay.
pub const HOUR: Duration = Duration::from_secs(3600);

/// A type of values.
pub trait Value: Clone + Send + Sync + 'static {
    /// A value that lives for an hour.
    fn lasting(number: u64) -> Self;

    /// A value that lives for `lifetime`, to the millisecond, which is less than 17 minutes.
    fn fleeting(number: u64, lifetime: Duration) -> Self;

    /// How long it lives.
    fn lifetime(&self) -> Duration;

    /// What a reader does with it: looks at some of it.
    fn look(&self);
}

/// Numbers below this stand for so many milliseconds, all others for an hour.
const LASTING: u64 = 1_000_000;

impl Value for u64 {
    fn lasting(number: u64) -> Self {
        number + LASTING
    }

    fn fleeting(_: u64, lifetime: Duration) -> Self {
        let milliseconds = lifetime.as_millis() as u64;
        debug_assert!(milliseconds < LASTING, "{lifetime:?} is too long");
        milliseconds
    }

    fn lifetime(&self) -> Duration {
        if *self < LASTING { Duration::from_millis(*self) } else { HOUR }
    }

    fn look(&self) {
        black_box(*self);
    }
}

/// A value on the heap. [`Payload::alive`] tells how many there are, wherever they are.
#[derive(Clone, Debug)]
pub struct Tracked {
    lifetime: Duration,
    payload: Arc<Payload>,
}

/// What a [`Tracked`] holds on the heap; its clones share it.
#[derive(Debug)]
pub struct Payload([u8; 64]);

static PAYLOADS: AtomicI64 = AtomicI64::new(0);

impl Payload {
    fn new(number: u64) -> Self {
        PAYLOADS.fetch_add(1, Relaxed);
        Self([number as u8; 64])
    }

    /// How many payloads there are.
    pub fn alive() -> i64 {
        PAYLOADS.load(Relaxed)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        PAYLOADS.fetch_sub(1, Relaxed);
    }
}

impl Value for Tracked {
    fn lasting(number: u64) -> Self {
        Self::fleeting(number, HOUR)
    }

    fn fleeting(number: u64, lifetime: Duration) -> Self {
        Self { lifetime, payload: Arc::new(Payload::new(number)) }
    }

    fn lifetime(&self) -> Duration {
        self.lifetime
    }

    fn look(&self) {
        black_box(self.payload.0[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_lifetimes<V: Value>() {
        assert_eq!(V::lasting(0).lifetime(), HOUR);
        assert_eq!(V::lasting(u64::from(u32::MAX)).lifetime(), HOUR);
        for milliseconds in [1, 20, 2_000, 999_999] {
            let lifetime = Duration::from_millis(milliseconds);
            assert_eq!(V::fleeting(7, lifetime).lifetime(), lifetime);
        }
    }

    #[test]
    fn values_keep_their_lifetimes() {
        keeps_lifetimes::<u64>();
        keeps_lifetimes::<Tracked>();
    }
}
