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

/// The bytes before a value.
pub const HEADER: usize = 32;
const VERSION: u8 = b'1';
const STAMP: std::ops::Range<usize> = 3..19;
/// A refresh that has ended long ago.
const NO_REFRESH: &[u8; 13] = b"0000000000000";
const NO_CODEC: u8 = b'-';

/// Identifies a version of a value.
pub type Stamp = [u8; 16];

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
    Lease {
        token: &'b [u8],
    },
}

fn hex<const N: usize>() -> [u8; N] {
    std::array::from_fn(|_| b"0123456789abcdef"[usize::from(rand::random::<u8>() & 15)])
}

/// A new token.
pub fn token() -> Token {
    hex()
}

/// The header of a value by this codec, or of no value.
pub fn header(codec: Option<u8>) -> Vec<u8> {
    let stamp: Stamp = hex();
    let mut bytes = Vec::with_capacity(HEADER + 64);
    bytes.extend([if codec.is_some() { b'V' } else { b'N' }, VERSION, codec.unwrap_or(NO_CODEC)]);
    bytes.extend(stamp);
    bytes.extend(NO_REFRESH);
    bytes
}

/// The stamp in a header.
pub fn stamp_of(bytes: &[u8]) -> Stamp {
    bytes.get(STAMP).and_then(|stamp| stamp.try_into().ok()).unwrap_or_default()
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
        return Ok(Found::Lease { token: &bytes[2..] });
    }
    let (Some(stamp), Some(payload)) = (bytes.get(STAMP), bytes.get(HEADER..)) else {
        return Err(Error::Foreign);
    };
    let stamp: Stamp = stamp.try_into().expect("it is as long");
    if !bytes[STAMP.start..HEADER].iter().all(u8::is_ascii_hexdigit) {
        return Err(Error::Foreign);
    }
    Ok(match kind {
        b'V' => Found::Value { codec: bytes[2], stamp, payload },
        _ => Found::Negative { stamp },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found() {
        let mut bytes = header(Some(b'p'));
        let stamp = stamp_of(&bytes);
        assert_eq!(bytes.len(), HEADER);
        bytes.extend(b"payload");
        let found = parse(&bytes).unwrap();
        assert_eq!(found, Found::Value { codec: b'p', stamp, payload: b"payload" });
        let bytes = header(None);
        let stamp = stamp_of(&bytes);
        assert_eq!(parse(&bytes).unwrap(), Found::Negative { stamp });
        let token = token();
        let lease = [b"L1".as_slice(), &token].concat();
        assert_eq!(parse(&lease).unwrap(), Found::Lease { token: &token });
    }

    #[test]
    fn other_bytes_are_errors() {
        let whole = header(Some(b'p'));
        for bytes in [b"".as_slice(), b"V", b"hello", b"Vx", &whole[..HEADER - 1], b"X1"] {
            assert!(matches!(parse(bytes), Err(Error::Foreign)), "{bytes:?}");
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
