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

/// A lifetime and so many bytes. A clone copies them.
#[derive(Clone, Debug)]
pub struct Document<const BYTES: usize> {
    lifetime: Duration,
    bytes: [u8; BYTES],
}

impl<const BYTES: usize> Document<BYTES> {
    fn new(number: u64, lifetime: Duration) -> Self {
        Self { lifetime, bytes: [number as u8; BYTES] }
    }
}

/// A record of 200 bytes that the cache keeps in the node.
pub type Inline = Document<184>;

impl<const BYTES: usize> Value for Document<BYTES> {
    fn lasting(number: u64) -> Self {
        Self::new(number, HOUR)
    }

    fn fleeting(number: u64, lifetime: Duration) -> Self {
        Self::new(number, lifetime)
    }

    fn lifetime(&self) -> Duration {
        self.lifetime
    }

    fn look(&self) {
        black_box(self.bytes[0]);
    }
}

/// A document on the heap, as a cache of responses or records has them: what costs something to
/// copy is shared. A clone is a count, and a look goes to the document.
#[derive(Clone, Debug)]
pub struct Shared<const BYTES: usize = 48>(Arc<Document<BYTES>>);

/// A page of 4 KB.
pub type Page = Shared<4080>;

impl<const BYTES: usize> Shared<BYTES> {
    fn new(number: u64, lifetime: Duration) -> Self {
        Self(Arc::new(Document::new(number, lifetime)))
    }
}

impl<const BYTES: usize> Value for Shared<BYTES> {
    fn lasting(number: u64) -> Self {
        Self::new(number, HOUR)
    }

    fn fleeting(number: u64, lifetime: Duration) -> Self {
        Self::new(number, lifetime)
    }

    fn lifetime(&self) -> Duration {
        self.0.lifetime
    }

    fn look(&self) {
        black_box(self.0.bytes[0]);
    }
}

/// A value on the heap. [`Payload::fleeting`] tells how many of the short-lived ones there are,
/// wherever they are.
#[derive(Clone, Debug)]
pub struct Tracked {
    lifetime: Duration,
    payload: Arc<Payload>,
}

/// What a [`Tracked`] holds on the heap; its clones share it.
#[derive(Debug)]
pub struct Payload {
    bytes: [u8; 64],
    fleeting: bool,
}

static FLEETING: AtomicI64 = AtomicI64::new(0);

impl Payload {
    fn new(number: u64, fleeting: bool) -> Self {
        if fleeting {
            FLEETING.fetch_add(1, Relaxed);
        }
        Self { bytes: [number as u8; 64], fleeting }
    }

    /// How many payloads of [`Value::fleeting`] there are.
    pub fn fleeting() -> i64 {
        FLEETING.load(Relaxed)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        if self.fleeting {
            FLEETING.fetch_sub(1, Relaxed);
        }
    }
}

impl Value for Tracked {
    fn lasting(number: u64) -> Self {
        Self { lifetime: HOUR, payload: Arc::new(Payload::new(number, false)) }
    }

    fn fleeting(number: u64, lifetime: Duration) -> Self {
        Self { lifetime, payload: Arc::new(Payload::new(number, true)) }
    }

    fn lifetime(&self) -> Duration {
        self.lifetime
    }

    fn look(&self) {
        black_box(self.payload.bytes[0]);
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
        keeps_lifetimes::<Shared>();
        keeps_lifetimes::<Inline>();
        keeps_lifetimes::<Page>();
        assert_eq!(size_of::<Inline>(), 200);
        assert_eq!(size_of::<Document<4080>>(), 4096);
        keeps_lifetimes::<Tracked>();
        // Here, because the count is one for the process.
        are_counted_until_the_last_clone_is_gone();
    }

    fn are_counted_until_the_last_clone_is_gone() {
        let before = Payload::fleeting();
        let value = Tracked::fleeting(1, Duration::from_secs(1));
        let other = Tracked::lasting(2);
        let clone = value.clone();
        assert_eq!(Payload::fleeting(), before + 1);
        drop(value);
        assert_eq!(Payload::fleeting(), before + 1);
        drop((clone, other));
        assert_eq!(Payload::fleeting(), before);
    }
}
