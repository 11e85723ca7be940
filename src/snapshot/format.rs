//! The stream of a snapshot.
//!
//! ```text
//! snapshot = "cortado" 0x1a  version: u32  frame*
//! frame    = length: u32  checksum: u32  payload[length]
//! payload  = 0  (seconds, nanoseconds since 1970)            the first frame
//!          | 1  (key, value, life, idle, fresh)*             entries
//!          | 2                                               the last frame
//! ```
//!
//! Numbers outside of payloads are little-endian. The checksum is the CRC-32 of all payloads up to
//! this one, so it also notices frames that are missing, doubled or exchanged. What follows a
//! payload's first byte is MessagePack. An entry's three times are nanoseconds from the time of
//! saving, or nil.

use super::error::SnapshotError;
use crate::clock::Nanos;
use crate::engine::Rest;
use crate::primitives::time::{Duration, SystemTime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

const MAGIC: &[u8; 8] = b"cortado\x1a";
const VERSION: u32 = 1;
/// A frame is written when it has so many bytes, or one entry that is larger.
const FULL: usize = 64 << 10;

/// What a frame is, by the first byte of its payload.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Head = 0,
    Entries = 1,
    End = 2,
}

pub struct Head {
    pub saved_at: SystemTime,
}

pub struct SavedEntry<K, V> {
    pub key: K,
    pub value: V,
    pub rest: Rest,
}

fn foreign_types(error: impl std::error::Error + Send + Sync + 'static) -> SnapshotError {
    SnapshotError::Types(Box::new(error))
}

/// The checksum of what has the checksum `before`, and this payload after it.
pub fn checksum(before: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(payload);
    hasher.finalize()
}

/// Where entries are written.
pub struct Sink<W> {
    writer: W,
    /// The payload of the frame that is being filled.
    payload: Vec<u8>,
    /// The CRC-32 of the payloads that were written.
    checksum: u32,
    count: u64,
}

impl<W: Write> Sink<W> {
    pub fn open(mut writer: W, head: Head) -> Result<Self, SnapshotError> {
        writer.write_all(MAGIC)?;
        writer.write_all(&VERSION.to_le_bytes())?;
        let mut sink = Self { writer, payload: vec![Kind::Head as u8], checksum: 0, count: 0 };
        let since_1970 = head.saved_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        sink.encode(&(since_1970.as_secs(), since_1970.subsec_nanos()))?;
        sink.write_frame(Kind::Entries)?;
        Ok(sink)
    }

    pub fn push(
        &mut self,
        key: &impl Serialize,
        value: &impl Serialize,
        rest: Rest,
    ) -> Result<(), SnapshotError> {
        let time = |rest: Nanos| (rest != Nanos::FOREVER).then_some(rest.raw());
        self.encode(&(key, value, time(rest.life), time(rest.idle), time(rest.fresh)))?;
        self.count += 1;
        if self.payload.len() >= FULL { self.write_frame(Kind::Entries) } else { Ok(()) }
    }

    /// Writes the end. Returns the number of entries.
    pub fn close(mut self) -> Result<u64, SnapshotError> {
        self.write_frame(Kind::End)?;
        self.write_frame(Kind::End)?;
        self.writer.flush()?;
        Ok(self.count)
    }

    fn encode(&mut self, it: &impl Serialize) -> Result<(), SnapshotError> {
        rmp_serde::encode::write_named(&mut self.payload, it).map_err(foreign_types)
    }

    /// Writes the frame, and begins one of this kind.
    fn write_frame(&mut self, next: Kind) -> Result<(), SnapshotError> {
        let length = u32::try_from(self.payload.len()).map_err(io::Error::other)?;
        self.writer.write_all(&length.to_le_bytes())?;
        self.checksum = checksum(self.checksum, &self.payload);
        self.writer.write_all(&self.checksum.to_le_bytes())?;
        self.writer.write_all(&self.payload)?;
        self.payload.clear();
        self.payload.push(next as u8);
        Ok(())
    }
}

/// Where entries are read.
pub struct Frames<R> {
    reader: R,
    /// The last payload that was read.
    payload: Vec<u8>,
    /// The CRC-32 of the payloads that were read.
    checksum: u32,
}

impl<R: Read> Frames<R> {
    pub fn open(mut reader: R) -> Result<(Head, Self), SnapshotError> {
        let mut magic = [0; MAGIC.len()];
        let read = read_up_to(&mut reader, &mut magic)?;
        if magic[..read] != MAGIC[..read] {
            return Err(SnapshotError::Foreign);
        }
        let mut frames = Self { reader, payload: Vec::new(), checksum: 0 };
        let version = if read < MAGIC.len() { None } else { Some(frames.read_u32()?) };
        match version {
            None => return Err(SnapshotError::Truncated),
            Some(VERSION) => {}
            Some(version) => return Err(SnapshotError::Version(version)),
        }
        if frames.next()? != Kind::Head {
            return Err(SnapshotError::Corrupt);
        }
        let head = rmp_serde::from_slice(&frames.payload[1..]);
        let (seconds, nanos): (u64, u32) = head.map_err(|_| SnapshotError::Corrupt)?;
        let since_1970 =
            Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos.into()));
        let saved_at = since_1970.and_then(|it| SystemTime::UNIX_EPOCH.checked_add(it));
        Ok((Head { saved_at: saved_at.ok_or(SnapshotError::Corrupt)? }, frames))
    }

    /// Reads the next frame's entries. Returns false at the end.
    pub fn next_entries<K: DeserializeOwned, V: DeserializeOwned>(
        &mut self,
        into: &mut VecDeque<SavedEntry<K, V>>,
    ) -> Result<bool, SnapshotError> {
        match self.next()? {
            Kind::Head => Err(SnapshotError::Corrupt),
            Kind::End => Ok(false),
            Kind::Entries => {
                let before = into.len();
                let decoded = self.decode_entries(into);
                if decoded.is_err() {
                    into.truncate(before);
                }
                decoded.map(|()| true)
            }
        }
    }

    fn decode_entries<K: DeserializeOwned, V: DeserializeOwned>(
        &self,
        into: &mut VecDeque<SavedEntry<K, V>>,
    ) -> Result<(), SnapshotError> {
        let mut left = &self.payload[1..];
        while !left.is_empty() {
            let mut decoder = rmp_serde::Deserializer::new(&mut left);
            let (key, value, life, idle, fresh) =
                <(K, V, Option<u64>, Option<u64>, Option<u64>)>::deserialize(&mut decoder)
                    .map_err(foreign_types)?;
            let time = |rest: Option<u64>| rest.map_or(Nanos::FOREVER, Nanos::from_raw);
            let rest = Rest { life: time(life), idle: time(idle), fresh: time(fresh) };
            into.push_back(SavedEntry { key, value, rest });
        }
        Ok(())
    }

    /// Reads a frame into `payload`.
    fn next(&mut self) -> Result<Kind, SnapshotError> {
        let (length, checksum) = (self.read_u32()?, self.read_u32()?);
        self.payload.clear();
        // A wrong length must not take memory that the stream does not fill.
        let read = (&mut self.reader).take(length.into()).read_to_end(&mut self.payload)?;
        if read < length as usize {
            return Err(SnapshotError::Truncated);
        }
        self.checksum = self::checksum(self.checksum, &self.payload);
        if self.checksum != checksum {
            return Err(SnapshotError::Corrupt);
        }
        match self.payload.first() {
            Some(0) => Ok(Kind::Head),
            Some(1) => Ok(Kind::Entries),
            Some(2) => Ok(Kind::End),
            _ => Err(SnapshotError::Corrupt),
        }
    }

    fn read_u32(&mut self) -> Result<u32, SnapshotError> {
        let mut bytes = [0; 4];
        match read_up_to(&mut self.reader, &mut bytes)? {
            4 => Ok(u32::from_le_bytes(bytes)),
            _ => Err(SnapshotError::Truncated),
        }
    }
}

/// Fills the buffer, as far as the stream goes. Returns how far that is.
fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
