//! What can go wrong.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Why an operation that needs the server has failed.
///
/// Errors are cheap to clone: callers that wait for one load share it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot be asked, for this reason: there is no connection, it was lost before the
    /// answer, or the server says that it is not ready. A write may have taken effect or not.
    Unavailable(Arc<str>),
    /// The server did not answer within the [time limit](crate::Builder::reply_within). A write
    /// may have taken effect or not.
    TimedOut,
    /// The server, or a proxy before it, does not tell clients of changes, for this reason.
    /// [`Coherence::Ttl`](crate::Coherence::Ttl) works without that.
    NoTracking(Arc<str>),
    /// The address is none.
    Address(Arc<str>),
    /// The key holds a list, a hash, or another type that is no value of a cache.
    WrongType,
    /// Another error of the server's, in its own words.
    Server(Arc<str>),
    /// The key holds bytes that no cache of this crate has written.
    Foreign,
    /// The key holds a value in a format that this version of the crate, or this cache's
    /// [codec](crate::Codec), does not know.
    UnknownFormat {
        /// The version of the header.
        version: u8,
        /// The codec's [id](crate::Codec::id).
        codec: u8,
    },
    /// The codec cannot encode the value, or decode the bytes.
    Codec(Arc<dyn StdError + Send + Sync>),
    /// The encoded value is longer than
    /// [`max_value_bytes`](crate::Builder::max_value_bytes).
    TooLarge {
        /// Its length.
        bytes: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => write!(f, "the server cannot be asked: {reason}"),
            Self::TimedOut => f.write_str("the server did not answer in time"),
            Self::NoTracking(reason) => {
                write!(
                    f,
                    "the server does not tell of changes: {reason}; Coherence::Ttl needs none of that"
                )
            }
            Self::Address(reason) => write!(f, "not the address of a server: {reason}"),
            Self::WrongType => f.write_str("the key holds another type of Redis than a string"),
            Self::Server(text) => write!(f, "the server says: {text}"),
            Self::Foreign => f.write_str("the key holds bytes that no cache has written"),
            Self::UnknownFormat { version, codec } => {
                write!(
                    f,
                    "the key holds a value of version {version} and codec {codec}, which are unknown here"
                )
            }
            Self::Codec(error) => write!(f, "the codec: {error}"),
            Self::TooLarge { bytes } => write!(f, "the value has {bytes} bytes, more than allowed"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Codec(error) => Some(&**error),
            _ => None,
        }
    }
}

impl Error {
    /// Whether the server could not be asked: then [`Outage`](crate::Outage) decides about reads,
    /// and a later try may succeed.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::TimedOut | Self::NoTracking(_))
    }

    pub(crate) fn of_codec(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self::Codec(error.into())
    }
}

/// Why a load has no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// The server could not be asked, or has something else under the key.
    Redis(Error),
    /// The loader's own error, shared by all who waited for it.
    Loader(Arc<E>),
    /// The load took longer than [`hard_limit`](crate::Builder::hard_limit). A loader that runs
    /// goes on, and its value is stored.
    TimedOut,
    /// The loader has panicked, or its runtime has ended.
    Aborted,
}

impl<E> Clone for LoadError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Redis(error) => Self::Redis(error.clone()),
            Self::Loader(error) => Self::Loader(Arc::clone(error)),
            Self::TimedOut => Self::TimedOut,
            Self::Aborted => Self::Aborted,
        }
    }
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(error) => error.fmt(f),
            Self::Loader(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the load takes longer than allowed"),
            Self::Aborted => f.write_str("the loader has panicked, or its runtime has ended"),
        }
    }
}

impl<E: StdError + 'static> StdError for LoadError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Redis(error) => Some(error),
            Self::Loader(error) => Some(&**error),
            Self::TimedOut | Self::Aborted => None,
        }
    }
}

impl<E> From<Error> for LoadError<E> {
    fn from(error: Error) -> Self {
        Self::Redis(error)
    }
}
