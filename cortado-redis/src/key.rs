//! Keys: what the server knows them by.

use std::hash::Hash;
use std::sync::Arc;

/// A key of a [`TieredCache`](crate::TieredCache). The server names changed keys by their bytes, so
/// these must lead back to the key: `decode` of what `encode` wrote is the same key.
///
/// It is implemented for strings, byte strings and integers, in the form in which `redis-cli` shows
/// them. Implement it for a type of your own by its parts:
///
/// ```
/// use cortado_redis::RedisKey;
///
/// #[derive(Clone, PartialEq, Eq, Hash)]
/// struct Page {
///     site: u32,
///     path: String,
/// }
///
/// impl RedisKey for Page {
///     fn encode(&self, out: &mut Vec<u8>) {
///         out.extend_from_slice(format!("{}/{}", self.site, self.path).as_bytes());
///     }
///
///     fn decode(bytes: &[u8]) -> Option<Self> {
///         let (site, path) = std::str::from_utf8(bytes).ok()?.split_once('/')?;
///         Some(Self { site: site.parse().ok()?, path: path.to_owned() })
///     }
/// }
/// ```
pub trait RedisKey: Hash + Eq + Clone + Send + Sync + 'static {
    /// Appends the key's bytes. Different keys have different bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// The key of these bytes; `None` if no key has them.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

macro_rules! of_text {
    ($($key:ty),+) => {
        $(impl RedisKey for $key {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_bytes());
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                std::str::from_utf8(bytes).ok().map(Into::into)
            }
        })+
    };
}

macro_rules! of_bytes {
    ($($key:ty),+) => {
        $(impl RedisKey for $key {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self);
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                Some(bytes.into())
            }
        })+
    };
}

macro_rules! of_numbers {
    ($($key:ty),+) => {
        $(impl RedisKey for $key {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.to_string().as_bytes());
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                let key: Self = std::str::from_utf8(bytes).ok()?.parse().ok()?;
                // `007` and `+7` are other keys of the server's.
                (key.to_string().as_bytes() == bytes).then_some(key)
            }
        })+
    };
}

of_text!(String, Box<str>, Arc<str>);
of_bytes!(Vec<u8>, Box<[u8]>, Arc<[u8]>);
of_numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
