//! The errors of snapshots.

use std::fmt;
use std::io;

/// Why a snapshot was not written or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The reader or the writer failed.
    Io(io::Error),
    /// The stream does not begin as a snapshot does.
    Foreign,
    /// The snapshot has this version of the format, which this version of cortado cannot read.
    Version(u32),
    /// The stream ends before the snapshot does, or is empty.
    Truncated,
    /// The stream is damaged: a part of it is missing, or is not what was written.
    Corrupt,
    /// A key or a value cannot be serialized, or does not decode as the type that is read.
    Types(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the snapshot's stream failed: {error}"),
            Self::Foreign => f.write_str("the stream is not a snapshot of a cache"),
            Self::Version(version) => {
                write!(f, "the snapshot has version {version} of the format, which is unknown")
            }
            Self::Truncated => f.write_str("the snapshot is cut off"),
            Self::Corrupt => f.write_str("the snapshot is damaged"),
            Self::Types(error) => write!(f, "a key or value of the snapshot: {error}"),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Types(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
