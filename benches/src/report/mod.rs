//! Records, and what is made of them: tables, CSV, plots.

mod csv;
mod curves;
mod draw;
mod rows;
mod table;

pub use csv::write_csv;
pub use curves::curves;
pub use rows::rows;
pub use table::{by_row, table};

use crate::figure::Figure;
use serde::Serialize;

/// One figure of one subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// What it was doing.
    pub case: String,
    pub subject: String,
    /// What it was doing it with: so many threads, entries, ….
    pub parameter: &'static str,
    pub at: u64,
    pub metric: &'static str,
    pub unit: &'static str,
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// The median as a multiple of the reference subject's.
    pub ratio: Option<f64>,
}

impl Record {
    /// A figure that is not yet compared with anything.
    pub fn new(
        case: impl Into<String>,
        subject: impl Into<String>,
        (at, parameter): (u64, &'static str),
        (metric, unit): (&'static str, &'static str),
        figure: Figure,
    ) -> Self {
        Self {
            case: case.into(),
            subject: subject.into(),
            parameter,
            at,
            metric,
            unit,
            median: figure.median,
            low: figure.low,
            high: figure.high,
            ratio: None,
        }
    }
}

/// Gives each record its ratio to the reference's record of the same case, parameter and metric,
/// where there is one that is not zero. Shares get none.
pub fn compare(records: &mut [Record], reference: &str) {
    let same = |a: &Record, b: &Record| {
        (&a.case, a.parameter, a.at, a.metric) == (&b.case, b.parameter, b.at, b.metric)
    };
    let references: Vec<Record> =
        records.iter().filter(|record| record.subject == reference).cloned().collect();
    for record in records {
        record.ratio = references
            .iter()
            .filter(|candidate| candidate.median != 0.0 && candidate.unit != "%")
            .find(|candidate| same(candidate, record))
            .map(|candidate| record.median / candidate.median);
    }
}

/// The records of one metric.
pub fn of_metric(records: &[Record], metric: &str) -> Vec<Record> {
    records.iter().filter(|record| record.metric == metric).cloned().collect()
}

/// A file name made from a title: lower case, words joined by hyphens.
pub fn file_name(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase() + ".svg"
}

#[cfg(test)]
mod tests;
