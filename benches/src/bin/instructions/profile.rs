//! What callgrind writes, as far as it is asked for.

use anyhow::{Context, Result};
use std::collections::HashMap;

/// The function of cortado's that is a maintenance pass.
pub const MAINTENANCE: &str = "Keeper>::pass";

/// What was counted, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub instructions: u64,
    /// Instructions of calls of [`MAINTENANCE`].
    pub maintenance: u64,
    /// Reads and writes of data.
    pub first_level_misses: u64,
    pub second_level_misses: u64,
}

impl Profile {
    /// Reads callgrind's format: `events:` names the columns, `totals:` has their sums, and the
    /// line after a `calls=` what the called function cost with all that it called. Names of
    /// functions are written once, with a number.
    pub fn parse(text: &str) -> Result<Self> {
        let after = |prefix| text.lines().find_map(|line| line.strip_prefix(prefix));
        let events: Vec<&str> =
            after("events:").context("no events in the profile")?.split_whitespace().collect();
        let totals: Vec<u64> = numbers(after("totals:").context("no totals in the profile")?);
        let total = |event: &str| {
            let column = events.iter().position(|&name| name == event);
            let column = column.with_context(|| format!("no {event} in the profile"))?;
            // Zeros at the end are left out.
            anyhow::Ok(totals.get(column).copied().unwrap_or(0))
        };
        Ok(Self {
            instructions: total("Ir")?,
            maintenance: inclusive(text, MAINTENANCE),
            first_level_misses: total("D1mr")? + total("D1mw")?,
            second_level_misses: total("DLmr")? + total("DLmw")?,
        })
    }
}

fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().map_while(|number| number.parse().ok()).collect()
}

/// The first event's sum over all calls of the functions whose names end so.
fn inclusive(text: &str, function: &str) -> u64 {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let (mut sum, mut called) = (0, "");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let named = ["fn=", "cfn="].iter().find_map(|prefix| line.strip_prefix(prefix));
        if let Some(named) = named {
            let (number, name) = named.split_once(' ').unwrap_or((named, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            if line.starts_with("cfn=") {
                called = names.get(number).copied().unwrap_or("");
            }
        } else if line.starts_with("calls=") {
            // Position, then the costs.
            let costs = lines.next().unwrap_or("").split_whitespace().nth(1);
            if called.ends_with(function) {
                sum += costs.and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
version: 1
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
fl=(1) a.rs
fn=(1) instructions::counted::operations
10 700 30 20 1 5 4 0 2 1
cfn=(2) <impl cortado::engine::maintenance::core::Keeper>::pass
calls=2 20
11 250 10 5
cfn=(3) cortado::engine::maintenance::core::Keeper>::passes
calls=1 30
12 1000
fn=(4) another
cfn=(2)
calls=1 20
+3 50
totals: 2000 40 25 1 5 4 0 2
";

    #[test]
    fn a_profile_is_read_as_the_format_says() {
        let expected = Profile {
            instructions: 2000,
            maintenance: 300,
            first_level_misses: 9,
            second_level_misses: 2,
        };
        assert_eq!(Profile::parse(TEXT).unwrap(), expected);
    }

    #[test]
    fn a_profile_without_what_is_asked_for_is_an_error() {
        let without = TEXT.replace("DLmw", "");
        assert!(Profile::parse(&without).unwrap_err().to_string().contains("DLmw"));
        assert!(Profile::parse("events: Ir\n").is_err());
    }
}
