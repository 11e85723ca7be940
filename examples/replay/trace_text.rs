//! Text traces: `key[,ttl_ms[,weight[,timestamp_ms]]]` on each line.

use super::{Input, Request, Step, Times};
use std::io::{BufRead, Read};
use std::time::Duration;

/// A line longer than this is no trace; without a limit, a file without line ends would be read whole.
const LONGEST_LINE: u64 = 64 << 10;

/// What stands for the text key `key`: FNV-1a, mixed so that every bit counts.
fn hash(key: &str) -> u64 {
    let fnv = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let h = (fnv ^ (fnv >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}

/// The request of the next line that holds one. `line` counts lines and is left at the one read last.
pub fn next(
    input: &mut Input<'_>,
    line: &mut u64,
    buffer: &mut Vec<u8>,
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
        let neither = || "neither text nor a `TRC1` or zstd file".to_owned();
        let content = str::from_utf8(buffer).map_err(|_| neither())?;
        let content = content.trim_start_matches('\u{feff}').trim();
        if content.contains(|c: char| c.is_control() && c != '\t') {
            return Err(neither());
        }
        if !content.is_empty() && !content.starts_with('#') {
            return parse(content, times).map(Some);
        }
    }
}

fn parse(line: &str, times: &mut Times) -> Result<Request, String> {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next().unwrap_or_default();
    let (key, ttl, weight, timestamp) = (next(), next(), next(), next());
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    let extra = fields.count();
    if extra != 0 {
        return Err(format!(
            "{} fields, but a line is at most key,ttl_ms,weight,timestamp_ms",
            4 + extra
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
        return Err(format!("{field} is `{shown}`, not a whole number"));
    }
    match text.parse() {
        Ok(number) if number <= most => Ok(Some(number)),
        _ => Err(format!("{field} is {shown}, more than {most}")),
    }
}
