//! What loaders return, and writes take.

use std::time::Duration;

/// A value and its lifetime on the server. A plain value converts into it.
///
/// ```
/// use cortado_redis::Loaded;
/// use std::time::Duration;
///
/// let token = Loaded::with_ttl("t0ken", Duration::from_secs(300));
/// let constant = Loaded::for_ever(7);
/// let as_the_builder_says: Loaded<u32> = 7.into();
/// # let _ = (token, constant, as_the_builder_says);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded<V> {
    pub(crate) value: V,
    pub(crate) life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// As the builder says.
    Default,
    For(Duration),
    Endless,
}

impl<V> Loaded<V> {
    /// A value that lives as long as [`time_to_live`](crate::Builder::time_to_live) says.
    pub fn new(value: V) -> Self {
        Self { value, life: Life::Default }
    }

    /// A value that lives for `ttl`, rounded down to milliseconds, but at least one. With zero, a
    /// loaded value is returned and not kept, `insert` removes the key, and `insert_if_absent` does
    /// nothing.
    pub fn with_ttl(value: V, ttl: Duration) -> Self {
        Self { value, life: Life::For(ttl) }
    }

    /// A value that lives until it is removed or evicted.
    pub fn for_ever(value: V) -> Self {
        Self { value, life: Life::Endless }
    }
}

impl<V> From<V> for Loaded<V> {
    /// [`Loaded::new`].
    fn from(value: V) -> Self {
        Self::new(value)
    }
}

impl Life {
    /// The lifetime; `None` is for ever.
    pub fn or(self, default: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Default => default,
            Self::For(ttl) => Some(ttl),
            Self::Endless => None,
        }
    }
}
