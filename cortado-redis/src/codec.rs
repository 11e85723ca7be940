//! Values as the server keeps them.

use std::error::Error as StdError;

/// Why a codec has failed.
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// Turns values into bytes and back. It runs once for each value that is read from the server or
/// written to it, on the task that does so; a hit in the local level decodes nothing. A panic
/// reaches the caller; in a load it is [`LoadError::Aborted`](crate::LoadError::Aborted).
pub trait Codec<V>: Send + Sync + 'static {
    /// A letter that is stored with each value, so that a cache with another codec has an error
    /// and no wrong value. `b'A'` to `b'Z'` are for codecs outside of this crate.
    fn id(&self) -> u8;

    /// Appends the value's bytes.
    ///
    /// # Errors
    /// If the value has no encoding. The write that wanted it fails.
    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The value of these bytes.
    ///
    /// # Errors
    /// If they are no value. The read that found them fails.
    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError>;
}

/// Values by [postcard](https://docs.rs/postcard), compact and without field names: all programs
/// that share a cache must have the same type. Bytes of another one are
/// [`Error::Codec`](crate::Error::Codec), or decode to a wrong value, so change the cache's name
/// with the type: `users.v2`. Feature `postcard`, which is on by default.
#[cfg(feature = "postcard")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Postcard;

#[cfg(feature = "postcard")]
impl<V: serde::Serialize + serde::de::DeserializeOwned> Codec<V> for Postcard {
    fn id(&self) -> u8 {
        b'p'
    }

    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError> {
        *out = postcard::to_extend(value, std::mem::take(out))?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        match postcard::take_from_bytes(bytes)? {
            (value, []) => Ok(value),
            (_, rest) => Err(format!("{} bytes are left over", rest.len()).into()),
        }
    }
}

/// Values as JSON, after the [header](crate#what-is-on-the-server). Feature `json`.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

#[cfg(feature = "json")]
impl<V: serde::Serialize + serde::de::DeserializeOwned> Codec<V> for Json {
    fn id(&self) -> u8 {
        b'j'
    }

    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(serde_json::to_writer(out, value)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// Values that are bytes, as they are. Always there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes;

impl<V: AsRef<[u8]> + for<'b> From<&'b [u8]>> Codec<V> for Bytes {
    fn id(&self) -> u8 {
        b'b'
    }

    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value.as_ref());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        Ok(bytes.into())
    }
}
