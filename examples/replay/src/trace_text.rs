//! Text traces: `key[,ttl_ms[,weight[,timestamp_ms]]]` on each line.

use super::{Input, Request, Step, Times};
use std::io::{BufRead, Cursor, Read};
use std::mem;
use std::time::Duration;

/// A line longer than this is no trace; without a limit, a file without line ends would be read
/// whole.
const LONGEST_LINE: u64 = 64 << 10;

/// How much of a text is looked at to tell what separates its fields.
const SAMPLE: usize = 4096;

const FIELDS: [&str; 4] = ["key", "ttl_ms", "weight", "timestamp_ms"];
const NO_NUMBER: &str = "not a whole number";

/// What stands for the text key `key`: FNV-1a, mixed so that every bit counts.
fn hash(key: &str) -> u64 {
    let fnv = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let h = (fnv ^ (fnv >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}

/// The comma, or why it cannot be the delimiter. `line` is set to where a defect is.
pub fn expect_commas(input: &mut Input<'_>, line: &mut u64) -> Result<char, String> {
    let mut start = Vec::new();
    let read = input.take(SAMPLE as u64).read_to_end(&mut start);
    let sample = String::from_utf8_lossy(&start).into_owned();
    if let Err(e) = read {
        *line = 1 + sample.matches('\n').count() as u64;
        return Err(format!("cannot read: {e}"));
    }
    // A full sample ends within a line.
    let whole = if start.len() == SAMPLE { sample.rfind('\n').unwrap_or(0) } else { sample.len() };
    let rest = mem::replace(input, Box::new(std::io::empty()));
    *input = Box::new(Cursor::new(start).chain(rest));

    let lines = || (1..).zip(sample[..whole].lines()).filter(|(_, line)| holds_request(line));
    let Some((first, _)) = lines().next() else { return Ok(',') };
    let splits_all = |by: &(char, &str)| lines().all(|(_, line)| seems_split(line, by.0));
    let others = [(';', "';'"), ('\t', "tab"), ('|', "'|'"), (' ', "' '")];
    let Some((other, name)) = others.into_iter().find(splits_all) else { return Ok(',') };
    *line = first;
    Err(format!(
        "the fields seem to be separated by {other:?}, not by commas as in `{}`; \
         `--delimiter {name}` reads them so, `--delimiter ,` takes such lines for keys",
        FIELDS.join(",")
    ))
}

/// Whether a line without a comma looks as if its fields were separated by `delimiter`. Keys often
/// have spaces and bars in them: all that follows one of those has to be numbers.
fn seems_split(line: &str, delimiter: char) -> bool {
    let number = |field: &str| !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit());
    let Some((_, rest)) = line.trim_end().split_once(delimiter) else { return false };
    !line.contains(',') && (matches!(delimiter, ';' | '\t') || rest.split(delimiter).all(number))
}

fn holds_request(line: &str) -> bool {
    let line = line.trim_start_matches('\u{feff}').trim();
    !line.is_empty() && !line.starts_with('#')
}

/// The request of the next line that holds one. `line` counts lines and is left at the one read
/// last.
pub fn next(
    input: &mut Input<'_>,
    line: &mut u64,
    buffer: &mut Vec<u8>,
    delimiter: char,
    times: &mut Times,
) -> Step {
    loop {
        buffer.clear();
        *line += 1;
        let limited = &mut input.take(LONGEST_LINE);
        let read = limited.read_until(b'\n', buffer).map_err(|e| format!("cannot read: {e}"))?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == LONGEST_LINE && buffer.last() != Some(&b'\n') {
            return Err(format!("the line is longer than {LONGEST_LINE} bytes"));
        }
        let neither = || "neither UTF-8 text nor a `TRC1` or zstd file".to_owned();
        let content = str::from_utf8(buffer).map_err(|_| neither())?;
        let content = content.trim_start_matches('\u{feff}');
        if content.trim().contains(|c: char| c.is_control() && c != '\t') {
            return Err(neither());
        }
        if holds_request(content) {
            return parse(content, delimiter, times).map(Some).map_err(|reason| match *line {
                1 if reason.ends_with(NO_NUMBER)
                    && !content.contains(|c: char| c.is_ascii_digit()) =>
                {
                    format!("{reason}; `#` begins a header line")
                }
                _ => reason,
            });
        }
    }
}

fn parse(line: &str, delimiter: char, times: &mut Times) -> Result<Request, String> {
    // A tab at an end may stand for an empty field.
    let line = line.trim_matches(|c: char| c.is_whitespace() && c != delimiter);
    let mut fields = line.split(delimiter).map(str::trim);
    let mut next = || fields.next().unwrap_or_default();
    let (key, ttl, weight, timestamp) = (next(), next(), next(), next());
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    let extra = fields.count();
    if extra != 0 {
        return Err(format!(
            "{} fields, but a line is at most {}",
            FIELDS.len() + extra,
            FIELDS.join(&delimiter.to_string())
        ));
    }
    let ttl = number("ttl_ms", ttl, u64::MAX)?.map(Duration::from_millis);
    let weight = number("weight", weight, u32::MAX.into())?;
    let timestamp = number("timestamp_ms", timestamp, u64::MAX)?;
    Ok(Request {
        key: hash(key),
        at: times.since_first(timestamp)?,
        weight: weight.and_then(|weight| u32::try_from(weight).ok()),
        ttl,
        update: false,
    })
}

fn number(field: &str, text: &str, most: u64) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let shown: String = text.chars().take(40).collect();
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{field} is `{shown}`, {NO_NUMBER}"));
    }
    match text.parse() {
        Ok(number) if number <= most => Ok(Some(number)),
        _ => Err(format!("{field} is {shown}, more than {most}")),
    }
}
