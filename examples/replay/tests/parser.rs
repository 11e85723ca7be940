//! The replay example's trace parser, on files that are right and files that are not.

use crate::trace::{Position, Records, Request, TraceError};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::time::Duration;

const WEIGHT: u32 = 1;
const TTL: u32 = 2;
const TIMESTAMP: u32 = 4;

/// All requests of a file, or those before its defect and the defect.
fn read(bytes: &[u8]) -> (Vec<Request>, Option<TraceError>) {
    read_from(bytes)
}

fn read_from(input: impl BufRead) -> (Vec<Request>, Option<TraceError>) {
    let mut records = match Records::open("file", input) {
        Ok(records) => records,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut requests = Vec::new();
    let error = loop {
        match records.next() {
            Some(Ok(request)) => requests.push(request),
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    assert!(records.next().is_none(), "the trace goes on after its end");
    (requests, error)
}

fn good(bytes: &[u8]) -> Vec<Request> {
    let (requests, error) = read(bytes);
    assert!(error.is_none(), "{}", error.unwrap());
    requests
}

/// How many requests come before the defect, and the defect in words.
fn bad(bytes: &[u8]) -> (usize, String) {
    let (requests, error) = read(bytes);
    (requests.len(), error.expect("a defect").to_string())
}

fn binary(flags: u32, count: u64, records: &[(u64, u64, u32, u32)]) -> Vec<u8> {
    let mut bytes = b"TRC1".to_vec();
    bytes.extend(flags.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    for (key, timestamp, weight, ttl) in records {
        bytes.extend(key.to_le_bytes());
        if flags & TIMESTAMP != 0 {
            bytes.extend(timestamp.to_le_bytes());
        }
        if flags & WEIGHT != 0 {
            bytes.extend(weight.to_le_bytes());
        }
        if flags & TTL != 0 {
            bytes.extend(ttl.to_le_bytes());
        }
    }
    bytes
}

const THREE: [(u64, u64, u32, u32); 3] = [(7, 0, 100, 0), (8, 5, 1, 30_000), (7, 5, 100, 0)];

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn ms(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

#[test]
fn binary_records_have_the_fields_that_the_flags_name() {
    for flags in 0..8 {
        let requests = good(&binary(flags, 3, &THREE));
        let expected: Vec<_> = THREE
            .iter()
            .map(|&(key, timestamp, weight, ttl)| Request {
                key,
                at: ms(timestamp).filter(|_| flags & TIMESTAMP != 0),
                weight: Some(weight).filter(|_| flags & WEIGHT != 0),
                ttl: ms(ttl.into()).filter(|_| flags & TTL != 0),
                update: false,
            })
            .collect();
        assert_eq!(requests, expected, "flags {flags}");
    }
}

#[test]
fn formats_are_told_by_their_first_bytes_compressed_or_not() {
    let text = b"a,,,1\nb,10,20,30\n";
    assert_eq!(good(&zstd(text)), good(text));
    let file = binary(7, 3, &THREE);
    assert_eq!(good(&zstd(&file)), good(&file));
    assert_eq!(Records::open("file", &*zstd(&file)).unwrap().announced(), Some(3));
    assert_eq!(Records::open("file", &text[..]).unwrap().announced(), None);
    let twice = bad(&zstd(&zstd(&file)));
    assert_eq!(twice, (0, "file: byte 0: zstd inside zstd".to_owned()));
}

/// Gives one byte at a time, and an interruption before each, as a pipe may.
struct Drip<R>(R, bool);

impl<R: Read> Read for Drip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn input_may_come_in_drips() {
    let text = b"# comment\nkey,1,2,3\r\n\n another key , , 5\n".to_vec();
    for file in [text.clone(), zstd(&text), binary(7, 3, &THREE), zstd(&binary(7, 3, &THREE))] {
        let (requests, error) = read_from(BufReader::new(Drip(Cursor::new(&file), false)));
        assert!(error.is_none(), "{}", error.unwrap());
        assert_eq!(requests, good(&file));
    }
}

#[test]
fn a_binary_file_cut_anywhere_tells_where() {
    let file = binary(7, 3, &THREE);
    for cut in 1..file.len() {
        let (requests, error) = read(&file[..cut]);
        let position = error.unwrap_or_else(|| panic!("cut at {cut}: no defect")).position;
        let whole = cut.saturating_sub(16) / 24;
        assert_eq!(requests.len(), whole, "cut at {cut}");
        let number = whole as u64 + 1;
        let expected = match cut {
            ..16 => Position::Header(cut as u64),
            _ => Position::Record { number, offset: 16 + 24 * (number - 1) },
        };
        assert_eq!(position, expected, "cut at {cut}");
    }
    assert_eq!(good(b""), []);
}

#[test]
fn a_compressed_file_cut_anywhere_is_defective() {
    let records: Vec<_> = (0..500).map(|i| (i * i, i, 1, 0)).collect();
    let file = binary(TIMESTAMP, 500, &records);
    let packed = zstd(&file);
    for cut in 1..packed.len() {
        let (requests, error) = read(&packed[..cut]);
        assert!(error.is_some(), "cut at {cut}: no defect");
        assert_eq!(requests, good(&file)[..requests.len()], "cut at {cut}");
    }
}

#[test]
fn a_compressed_file_with_garbage_is_defective() {
    let mut packed = zstd(&binary(0, 3, &THREE));
    packed.extend(b"garbage");
    assert!(bad(&packed).1.contains("file: record 4 (byte 40): cannot read"), "{}", bad(&packed).1);
    let only_magic = [0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert!(bad(&only_magic).1.starts_with("file: byte 0: cannot decompress"));
}

#[test]
fn a_flipped_byte_never_panics() {
    let file = binary(7, 3, &THREE);
    for file in [zstd(&file), file] {
        for at in 0..file.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= flip;
                let (requests, _) = read(&damaged);
                assert!(requests.len() <= 3 * 24, "byte {at}: {} requests", requests.len());
            }
        }
    }
}

#[test]
fn a_wrong_magic_is_not_taken_for_text() {
    let mut file = binary(0, 3, &THREE);
    file[3] = b'2';
    let expected = (0, "file:1: neither UTF-8 text nor a `TRC1` or zstd file".to_owned());
    assert_eq!(bad(&file), expected);
    assert_eq!(bad(b"caf\xe9\n"), expected);
}

#[test]
fn unknown_flags_are_refused() {
    for flags in [8, 0x10, 0x8000_0000, u32::MAX] {
        let (_, text) = bad(&binary(flags, 0, &[]));
        assert!(text.starts_with(&format!("file: byte 4: flags {flags:#x}: ")), "{text}");
    }
}

#[test]
fn the_count_must_be_the_number_of_records() {
    let reason = "data after the last record that the header announces";
    assert_eq!(bad(&binary(0, 2, &THREE)), (2, format!("file: record 3 (byte 32): {reason}")));
    assert_eq!(bad(&binary(0, 0, &THREE)), (0, format!("file: record 1 (byte 16): {reason}")));
    let reason = "the file ends 1 record too early";
    assert_eq!(bad(&binary(0, 4, &THREE)), (3, format!("file: record 4 (byte 40): {reason}")));
    let (requests, text) = bad(&binary(7, u64::MAX, &THREE));
    assert_eq!(requests, 3);
    assert!(text.starts_with("file: record 4 (byte 88): the file ends"), "{text}");
}

#[test]
fn time_does_not_go_back() {
    let back = [(1, 10, 1, 0), (1, 20, 1, 0), (1, 19, 1, 0)];
    let reason = "timestamp_ms 19 comes after 20: time goes back";
    let expected = (2, format!("file: record 3 (byte 48): {reason}"));
    assert_eq!(bad(&binary(TIMESTAMP, 3, &back)), expected);
    assert_eq!(bad(b"a,,,10\na,,,20\na,,,19\n"), (2, format!("file:3: {reason}")));
}

#[test]
fn time_counts_from_the_first_timestamp_and_does_not_overflow() {
    let unix = good(b"a,,,1700000000000\nb\nc,,,1700000000250\n");
    assert_eq!(unix.iter().map(|r| r.at).collect::<Vec<_>>(), [ms(0), None, ms(250)]);
    let far = u64::MAX - 1;
    let late = [(1, far, 1, 0), (1, u64::MAX, 1, 0)];
    assert_eq!(good(&binary(TIMESTAMP, 2, &late))[1].at, ms(1));
    let leap = [(1, 0, 1, 0), (1, u64::MAX, 1, 0)];
    let (_, text) = bad(&binary(TIMESTAMP, 2, &leap));
    assert!(text.ends_with("is over 100 years after the first, 0"), "{text}");
}

#[test]
fn text_fields_may_be_empty() {
    let requests =
        good(b"\xef\xbb\xbf# a comment\n\n  \nk,,,9\nk,\nk,1\nk,,2\n k ,\t3 ,,14\r\nk,,,");
    let fields: Vec<_> = requests.iter().map(|r| (r.ttl, r.weight, r.at)).collect();
    let none = (None, None, None);
    let expected = [
        (None, None, ms(0)),
        none,
        (ms(1), None, None),
        (None, Some(2), None),
        (ms(3), None, ms(5)),
        none,
    ];
    assert_eq!(fields, expected);
    assert!(requests.iter().all(|r| r.key == requests[0].key && !r.update));
    assert_ne!(good(b"k\nK\n")[1].key, requests[0].key);
}

/// As [`read`], with the fields separated by `delimiter`.
fn read_split(bytes: &[u8], delimiter: char) -> Result<Vec<Request>, TraceError> {
    let mut records = Records::open("file", bytes)?;
    records.delimiter = Some(delimiter);
    records.collect()
}

#[test]
fn fields_may_be_separated_by_something_else() {
    let expected = good(b"k,1,2,3\nk,,5\nk,,,9\nk\n");
    for delimiter in [',', ';', '\t', '|', ' '] {
        let text =
            "\u{feff}k,1,2,3\r\nk,,5\n\n# a,b\nk,,,9\r\nk,,\n".replace(',', &delimiter.to_string());
        let requests = read_split(text.as_bytes(), delimiter).unwrap();
        assert_eq!(requests, expected, "{delimiter:?}");
    }
    let error = read_split(b"a\n\t5\n", '\t').unwrap_err().to_string();
    assert_eq!(error, "file:2: the key is empty");
    let error = read_split(b"1;2;3;4;5", ';').unwrap_err().to_string();
    assert!(error.ends_with("at most key;ttl_ms;weight;timestamp_ms"), "{error}");
    assert_ne!(read_split(b"k;1", ',').unwrap()[0].key, expected[0].key);
}

#[test]
fn text_that_seems_to_be_split_by_something_else_is_refused() {
    for (text, line, name) in [
        ("key;60000", 1, "';'"),
        ("# key;ttl\n\n\u{feff}a;60000;;1\r\nb;;\n", 3, "';'"),
        ("a\t60000\nb\t5\n", 1, "tab"),
        ("a|60000|1\nb|5|1\n", 1, "'|'"),
        ("a 60000\nb 5\n", 1, "' '"),
    ] {
        for text in [text.as_bytes(), &zstd(text.as_bytes())] {
            let (requests, reason) = bad(text);
            assert_eq!(requests, 0);
            assert!(
                reason.starts_with(&format!("file:{line}: the fields seem to be ")),
                "{reason}"
            );
            assert!(reason.contains(&format!("`--delimiter {name}` reads them so")), "{reason}");
        }
    }
    for text in ["a;1\nb,1\n", "a;1\nb\n", "GET /a\nGET /b\n", "a|x\n", "a  7\n", ""] {
        good(text.as_bytes());
    }
    // Only the first lines tell.
    let late = format!("{}key;1\n", "key\n".repeat(2000));
    assert_eq!(good(late.as_bytes()).len(), 2001);
    let long = format!("key;1\n{}", "key;1\n".repeat(2000));
    assert_eq!(bad(long.as_bytes()).0, 0);
}

#[test]
fn a_defect_in_the_first_lines_is_told_where_it_is() {
    let packed = zstd("some key,1\n".repeat(200).as_bytes());
    for cut in 12..packed.len() {
        let (_, reason) = bad(&packed[..cut]);
        assert!(reason.contains("cannot "), "cut at {cut}: {reason}");
    }
    let (requests, reason) = bad(b"key,ttl_ms\na,1\n");
    let hint = "ttl_ms is `ttl_ms`, not a whole number; `#` begins a header line";
    assert_eq!((requests, reason), (0, format!("file:1: {hint}")));
}

#[test]
fn bad_text_is_told_by_line_and_reason() {
    let most = u64::MAX;
    for (line, reason) in [
        ("k,x", "ttl_ms is `x`, not a whole number".to_owned()),
        ("k,1,2.5", "weight is `2.5`, not a whole number".to_owned()),
        ("k,-1", "ttl_ms is `-1`, not a whole number".to_owned()),
        ("k,18446744073709551616", format!("ttl_ms is 18446744073709551616, more than {most}")),
        ("k,,4294967296", "weight is 4294967296, more than 4294967295".to_owned()),
        ("k,1,2,3,4", "5 fields, but a line is at most key,ttl_ms,weight,timestamp_ms".to_owned()),
        (",1", "the key is empty".to_owned()),
        ("k,,,5", "a timestamp_ms, but the first request has none".to_owned()),
        ("k\u{7}", "neither UTF-8 text nor a `TRC1` or zstd file".to_owned()),
    ] {
        let file = format!("# first\na,1,2\n\n{line}\nb\n");
        assert_eq!(bad(file.as_bytes()), (1, format!("file:4: {reason}")));
    }
    let extremes = good(format!("k,{most},{},{most}", u32::MAX).as_bytes())[0];
    assert_eq!((extremes.ttl, extremes.weight, extremes.at), (ms(most), Some(u32::MAX), ms(0)));
}

#[test]
fn a_line_without_end_is_not_read_whole() {
    let endless = BufReader::new(io::repeat(b'k'));
    let (requests, error) = read_from(endless);
    assert!(requests.is_empty());
    assert_eq!(error.unwrap().to_string(), "file:1: the line is longer than 65536 bytes");
    let long = [vec![b'k'; 65_000], b",1".to_vec()].concat();
    assert_eq!(good(&long)[0].ttl, ms(1));
}
