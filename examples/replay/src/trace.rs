//! Cache traces, read as a stream: request after request, in bounded memory, whatever the file
//! says.
//!
//! What a file is, its first bytes tell:
//!
//! | first bytes | format |
//! |---|---|
//! | `TRC1` | binary records, below |
//! | the zstd magic | either of the others, compressed |
//! | anything else | text: `key[,ttl_ms[,weight[,timestamp_ms]]]` on each line, fields may be empty, `#` begins a comment line |
//!
//! The binary format is little-endian: the magic, `flags: u32`, `count: u64`, then `count` records
//! of `key: u64` and, where the flags say so and in this order, `timestamp_ms: u64` (bit 2),
//! `weight: u32` (bit 0), `ttl_ms: u32` (bit 1).
//!
//! Timestamps never decrease and count from the first one, so a text trace may give Unix times. A
//! key of a text trace is any string without a comma; 64 bits of its hash stand for it. Lines that
//! seem to have another delimiter are refused, unless [`Records::delimiter`] is set.
//!
//! A defect ends the trace with a [`TraceError`] that says where it is; nothing here panics or
//! allocates by what a header claims.

// By its path, so that the tests and the fuzz target can include this file as a module of their
// own.
#[path = "trace_text.rs"]
mod text;
#[path = "zstd.rs"]
mod zstd;

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::time::Duration;

const MAGIC: [u8; 4] = *b"TRC1";
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const HAS_WEIGHT: u32 = 1;
const HAS_TTL: u32 = 2;
const HAS_TIMESTAMP: u32 = 4;
const HEADER: u64 = 16;
/// Further from the first timestamp than this (100 years), a timestamp is in the wrong unit or
/// damaged.
const LONGEST_SPAN_MS: u64 = 100 * 365 * 86_400_000;

/// One request: look the key up and, on a miss, insert it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub key: u64,
    /// When it came, since the first request with a timestamp.
    pub at: Option<Duration>,
    /// Its size in bytes, or whatever else the cache's bound counts.
    pub weight: Option<u32>,
    /// How long the object may live if this request inserts it; zero: it must not be served again.
    pub ttl: Option<Duration>,
    /// Write without a look-up. Recorded traces have no such request.
    pub update: bool,
}

/// Where in a file a defect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The line of a text trace, from 1.
    Line(u64),
    /// The offset in a binary trace (after decompression) where a header field begins.
    Header(u64),
    /// The record of a binary trace, from 1, and its offset after decompression.
    Record { number: u64, offset: u64 },
}

/// Why a trace cannot be read on, and where.
#[derive(Debug)]
pub struct TraceError {
    pub file: String,
    pub position: Position,
    pub reason: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, position, reason } = self;
        match position {
            Position::Line(line) => write!(f, "{file}:{line}: {reason}"),
            Position::Header(offset) => write!(f, "{file}: byte {offset}: {reason}"),
            Position::Record { number, offset } => {
                write!(f, "{file}: record {number} (byte {offset}): {reason}")
            }
        }
    }
}

impl std::error::Error for TraceError {}

/// The requests of a trace, in their order. After an error the iterator is at its end.
pub struct Records<'a> {
    file: String,
    /// What separates the fields of a text trace. `None`: a comma, or an error if the first lines
    /// seem to have something else.
    pub delimiter: Option<char>,
    input: Input<'a>,
    format: Format,
    times: Times,
    ended: bool,
}

enum Format {
    Text { line: u64, buffer: Vec<u8> },
    Binary { flags: u32, count: u64, read: u64 },
}

impl<'a> Records<'a> {
    /// Finds out the format and reads the header. `file` is the name for error messages.
    pub fn open(file: &str, input: impl BufRead + 'a) -> Result<Self, TraceError> {
        let fail = |position, reason| TraceError { file: file.to_owned(), position, reason };
        let unreadable = |e: io::Error| fail(Position::Header(0), format!("cannot read: {e}"));
        let undecodable =
            |e: io::Error| fail(Position::Header(0), format!("cannot decompress: {e}"));
        let (mut magic, mut input) = peek(Box::new(input)).map_err(unreadable)?;
        if magic == ZSTD_MAGIC {
            let decoder = zstd::Decoder::new(input).map_err(undecodable)?;
            (magic, input) = peek(Box::new(BufReader::new(decoder))).map_err(undecodable)?;
            if magic == ZSTD_MAGIC {
                return Err(fail(Position::Header(0), "zstd inside zstd".to_owned()));
            }
        }
        let format = if magic == MAGIC {
            let (flags, count) =
                read_header(&mut input).map_err(|(at, why)| fail(Position::Header(at), why))?;
            Format::Binary { flags, count, read: 0 }
        } else if !magic.is_empty() && (MAGIC.starts_with(&magic) || ZSTD_MAGIC.starts_with(&magic))
        {
            let reason = "the file ends inside its magic number".to_owned();
            return Err(fail(Position::Header(magic.len() as u64), reason));
        } else {
            Format::Text { line: 0, buffer: Vec::new() }
        };
        let (file, times) = (file.to_owned(), Times::default());
        Ok(Self { file, delimiter: None, input, format, times, ended: false })
    }

    /// How many records the header of a binary trace announces. Not to be trusted.
    pub fn announced(&self) -> Option<u64> {
        match self.format {
            Format::Text { .. } => None,
            Format::Binary { count, .. } => Some(count),
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let (position, read) = match &mut self.format {
            Format::Text { line, buffer } => {
                let delimiter = match self.delimiter {
                    Some(delimiter) => Ok(delimiter),
                    None => text::expect_commas(&mut self.input, line),
                };
                let read = delimiter.and_then(|delimiter| {
                    self.delimiter = Some(delimiter);
                    text::next(&mut self.input, line, buffer, delimiter, &mut self.times)
                });
                (Position::Line(*line), read)
            }
            Format::Binary { flags, count, read } => {
                let offset = HEADER.saturating_add(read.saturating_mul(record_size(*flags) as u64));
                let place = Position::Record { number: read.saturating_add(1), offset };
                let request = next_record(&mut self.input, *flags, *count - *read, &mut self.times);
                *read += u64::from(matches!(request, Ok(Some(_))));
                (place, request)
            }
        };
        self.ended = !matches!(read, Ok(Some(_)));
        let file = || self.file.clone();
        read.map_err(|reason| TraceError { file: file(), position, reason }).transpose()
    }
}

type Input<'a> = Box<dyn BufRead + 'a>;
type Step = Result<Option<Request>, String>;

/// The first four bytes of `input` (fewer if it is shorter) and the input from its beginning.
fn peek<'a>(mut input: Input<'a>) -> io::Result<(Vec<u8>, Input<'a>)> {
    let mut start = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut start)?;
    Ok((start.clone(), Box::new(Cursor::new(start).chain(input))))
}

/// Fills `buffer` as far as the input goes, and says how far.
fn fill(input: &mut Input<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Flags and count of a binary trace; else the offset and the nature of the defect.
fn read_header(input: &mut Input<'_>) -> Result<(u32, u64), (u64, String)> {
    let mut header = [0; HEADER as usize];
    let filled = fill(input, &mut header).map_err(|e| (0, format!("cannot read: {e}")))?;
    if filled < header.len() {
        return Err((filled as u64, format!("the file ends inside the {HEADER}-byte header")));
    }
    let flags = u32::from_le_bytes(word(&header, 4));
    let unknown = flags & !(HAS_WEIGHT | HAS_TTL | HAS_TIMESTAMP);
    if unknown != 0 {
        return Err((4, format!("flags {flags:#x}: the bits {unknown:#x} have no meaning")));
    }
    Ok((flags, u64::from_le_bytes(word(&header, 8))))
}

/// The `N` bytes of `bytes` from `at` on.
fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

fn record_size(flags: u32) -> usize {
    let has = |bit: u32| usize::from(flags & bit != 0);
    8 + 8 * has(HAS_TIMESTAMP) + 4 * has(HAS_WEIGHT) + 4 * has(HAS_TTL)
}

fn next_record(input: &mut Input<'_>, flags: u32, left: u64, times: &mut Times) -> Step {
    let size = record_size(flags);
    let mut bytes = [0; 24];
    let wanted = if left == 0 { 1 } else { size };
    let filled = fill(input, &mut bytes[..wanted]).map_err(|e| format!("cannot read: {e}"))?;
    match (left, filled) {
        (0, 0) => return Ok(None),
        (0, _) => return Err("data after the last record that the header announces".to_owned()),
        (1, 0) => return Err("the file ends 1 record too early".to_owned()),
        (_, 0) => return Err(format!("the file ends {left} records too early")),
        (_, n) if n < size => {
            return Err(format!("the file ends inside the record, after {n} of {size} bytes"));
        }
        _ => {}
    }
    let mut request = Request {
        key: u64::from_le_bytes(word(&bytes, 0)),
        at: None,
        weight: None,
        ttl: None,
        update: false,
    };
    let mut at = 8;
    if flags & HAS_TIMESTAMP != 0 {
        request.at = times.since_first(Some(u64::from_le_bytes(word(&bytes, at))))?;
        at += 8;
    }
    if flags & HAS_WEIGHT != 0 {
        request.weight = Some(u32::from_le_bytes(word(&bytes, at)));
        at += 4;
    }
    if flags & HAS_TTL != 0 {
        let ttl = u32::from_le_bytes(word(&bytes, at));
        request.ttl = Some(Duration::from_millis(ttl.into()));
    }
    Ok(Some(request))
}

/// Turns timestamps into time since the first, and holds them to their order.
#[derive(Default)]
struct Times {
    first: Option<u64>,
    last: u64,
    /// Requests came before without a timestamp.
    undated: bool,
}

impl Times {
    fn since_first(&mut self, timestamp: Option<u64>) -> Result<Option<Duration>, String> {
        let Some(ms) = timestamp else {
            self.undated |= self.first.is_none();
            return Ok(None);
        };
        if self.undated {
            return Err("a timestamp_ms, but the first request has none".to_owned());
        }
        let first = *self.first.get_or_insert(ms);
        if ms < self.last {
            return Err(format!("timestamp_ms {ms} comes after {}: time goes back", self.last));
        }
        if ms - first > LONGEST_SPAN_MS {
            return Err(format!("timestamp_ms {ms} is over 100 years after the first, {first}"));
        }
        self.last = ms;
        Ok(Some(Duration::from_millis(ms - first)))
    }
}
