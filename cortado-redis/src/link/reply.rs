//! What the server answers, without the client's types.

use crate::error::Error;
use redis::{ErrorKind, RedisError, Value};

/// A reply, as far as this crate's scripts and commands have such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
}

impl Reply {
    pub(super) fn of(value: Value) -> Result<Self, Error> {
        Ok(match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Number(number),
            // In scripts and in RESP3 alike, `false` is "nothing".
            Value::Boolean(false) => Self::Nil,
            Value::Boolean(true) => Self::Number(1),
            Value::BulkString(bytes) => Self::Bytes(bytes),
            Value::SimpleString(text) => Self::Bytes(text.into_bytes()),
            Value::Okay => Self::Bytes(b"OK".to_vec()),
            Value::Array(parts) | Value::Set(parts) => {
                Self::List(parts.into_iter().map(Self::of).collect::<Result<_, _>>()?)
            }
            Value::Map(pairs) => {
                let parts = pairs.into_iter().flat_map(|(name, value)| [name, value]);
                Self::List(parts.map(Self::of).collect::<Result<_, _>>()?)
            }
            Value::ServerError(error) => return Err(error_of(&error.into())),
            other => return Err(Error::Server(format!("an unexpected reply: {other:?}").into())),
        })
    }

    /// A reply of two parts, the second of which is a number.
    pub fn pair(self) -> Option<(Self, i64)> {
        let Self::List(parts) = self else { return None };
        match <[Self; 2]>::try_from(parts) {
            Ok([first, Self::Number(second)]) => Some((first, second)),
            _ => None,
        }
    }

    /// Whether it is the number 1.
    pub fn is_one(&self) -> bool {
        *self == Self::Number(1)
    }
}

/// What a server says that cannot serve for now: one that starts, that was demoted or runs a long
/// script, that has no room or must not write.
const NOT_READY: [&str; 9] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "BUSY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
];

/// An error of the client's or the server's.
pub(super) fn error_of(error: &RedisError) -> Error {
    let text = || error.to_string().into();
    if error.is_timeout() {
        return Error::TimedOut;
    }
    let is_lost = error.is_io_error()
        || error.is_connection_dropped()
        || error.is_connection_refusal()
        || matches!(error.kind(), ErrorKind::Parse);
    if is_lost {
        return Error::Unavailable(text());
    }
    match error.code() {
        Some("WRONGTYPE") => Error::WrongType,
        Some(code) if NOT_READY.contains(&code) => Error::Unavailable(text()),
        _ if text().contains("WRONGTYPE") => Error::WrongType,
        _ if matches!(error.kind(), ErrorKind::InvalidClientConfig) => Error::Address(text()),
        _ => Error::Server(text()),
    }
}

/// Whether the server does not have the script yet.
pub(super) fn has_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}
