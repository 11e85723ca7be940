//! The bytes under a key.
//!
//! | kind | then | |
//! |---|---|---|
//! | `V` | version `1`, codec, stamp (16), end of the refresh (13) | the encoded value follows |
//! | `N` | the same; the codec is `-` | the origin has no value |
//! | `L` | version `1`, token (32) | somebody loads the value: a lease |
//!
//! A *stamp* is random, a new one for each write: whoever refreshes a value stores only over the
//! stamp that it has seen. The *end of the refresh* is a time of the server's in milliseconds since
//! 1970: until then somebody is at it. All of it is text, for who looks at it by `redis-cli`.

use crate::error::Error;
use std::num::NonZeroU64;

/// The bytes before a value.
pub const HEADER: usize = 32;
/// The bytes of a lease.
pub const LEASE: usize = 34;
const VERSION: u8 = b'1';
const STAMP: std::ops::Range<usize> = 3..19;
/// A refresh that has ended long ago.
const NO_REFRESH: &[u8; 13] = b"0000000000000";
const NO_CODEC: u8 = b'-';
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Identifies a version of a value: 16 hexadecimal digits on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(NonZeroU64);

/// Identifies a lease.
pub type Token = [u8; 32];

/// What a key holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'b> {
    Value {
        codec: u8,
        stamp: Stamp,
        payload: &'b [u8],
    },
    /// The origin has no value.
    Negative {
        stamp: Stamp,
    },
    Lease,
}

impl Stamp {
    pub fn text(self) -> [u8; 16] {
        let digit = |place| usize::try_from(self.0.get() >> (60 - 4 * place) & 15).unwrap_or(0);
        std::array::from_fn(|place| DIGITS[digit(place)])
    }

    fn of(text: &[u8]) -> Option<Self> {
        let is_digit = |byte: &u8| DIGITS.contains(byte);
        let text = std::str::from_utf8(text)
            .ok()
            .filter(|text| text.bytes().all(|byte| is_digit(&byte)))?;
        u64::from_str_radix(text, 16).ok().and_then(NonZeroU64::new).map(Self)
    }
}

/// A new token.
pub fn token() -> Token {
    std::array::from_fn(|_| DIGITS[usize::from(rand::random::<u8>() & 15)])
}

/// The header of a value by this codec, or of no value.
pub fn header(codec: Option<u8>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 64);
    bytes.extend([if codec.is_some() { b'V' } else { b'N' }, VERSION, codec.unwrap_or(NO_CODEC)]);
    bytes.extend(Stamp(rand::random()).text());
    bytes.extend(NO_REFRESH);
    bytes
}

/// The stamp in a header.
pub fn stamp_of(bytes: &[u8]) -> Option<Stamp> {
    bytes.get(STAMP).and_then(Stamp::of)
}

/// What these bytes are.
pub fn parse(bytes: &[u8]) -> Result<Found<'_>, Error> {
    let [kind @ (b'V' | b'N' | b'L'), version, ..] = *bytes else { return Err(Error::Foreign) };
    if !version.is_ascii_digit() {
        return Err(Error::Foreign);
    }
    if version != VERSION {
        let codec = bytes.get(2).copied().unwrap_or_default();
        return Err(Error::UnknownFormat { version: version - b'0', codec });
    }
    if kind == b'L' {
        let is_lease = bytes.len() == LEASE && bytes[2..].iter().all(|byte| DIGITS.contains(byte));
        return if is_lease { Ok(Found::Lease) } else { Err(Error::Foreign) };
    }
    let (Some(stamp), Some(payload)) = (stamp_of(bytes), bytes.get(HEADER..)) else {
        return Err(Error::Foreign);
    };
    if !bytes[STAMP.end..HEADER].iter().all(u8::is_ascii_digit) {
        return Err(Error::Foreign);
    }
    match kind {
        b'V' => Ok(Found::Value { codec: bytes[2], stamp, payload }),
        _ if bytes[2] == NO_CODEC && payload.is_empty() => Ok(Found::Negative { stamp }),
        _ => Err(Error::Foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found() {
        let mut bytes = header(Some(b'p'));
        let stamp = stamp_of(&bytes).unwrap();
        assert_eq!(bytes.len(), HEADER);
        bytes.extend(b"payload");
        let found = parse(&bytes).unwrap();
        assert_eq!(found, Found::Value { codec: b'p', stamp, payload: b"payload" });
        assert_eq!(stamp.text(), bytes[STAMP]);
        let bytes = header(None);
        let stamp = stamp_of(&bytes).unwrap();
        assert_eq!(parse(&bytes).unwrap(), Found::Negative { stamp });
        let token = token();
        let lease = [b"L1".as_slice(), &token].concat();
        assert_eq!(lease.len(), LEASE);
        assert_eq!(parse(&lease).unwrap(), Found::Lease);
    }

    #[test]
    fn other_bytes_are_errors() {
        let whole = header(Some(b'p'));
        for bytes in [b"".as_slice(), b"V", b"hello", b"Vx", &whole[..HEADER - 1], b"X1"] {
            assert!(matches!(parse(bytes), Err(Error::Foreign)), "{bytes:?}");
        }
        let (negative, lease) = (header(None), [b"L1".as_slice(), &token()].concat());
        let more = |bytes: &[u8]| [bytes, b"0"].concat();
        for bytes in [
            b"L1".to_vec(),
            b"L100".to_vec(),
            lease[..LEASE - 1].to_vec(),
            more(&lease),
            [&lease[..LEASE - 1], b"~"].concat(),
            more(&negative),
            [b"N1p", &negative[3..]].concat(),
        ] {
            assert!(matches!(parse(&bytes), Err(Error::Foreign)), "{bytes:?}");
        }
        let mut newer = whole.clone();
        newer[1] = b'2';
        let unknown = parse(&newer);
        assert!(matches!(unknown, Err(Error::UnknownFormat { version: 2, codec: b'p' })));
        for place in 3..HEADER {
            let mut other = whole.clone();
            other[place] = b'~';
            assert!(matches!(parse(&other), Err(Error::Foreign)), "{place}");
        }
    }
}
