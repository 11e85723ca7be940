//! Records as a table in Markdown.

use super::Record;
use crate::figure::{grouped, short};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

/// The different values of `part`, in the order of their first records.
pub fn distinct<'r, T: PartialEq>(records: &'r [Record], part: impl Fn(&'r Record) -> T) -> Vec<T> {
    let mut parts = Vec::new();
    for record in records {
        let part = part(record);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}

/// A row for each case, metric and parameter, a column for each subject; a dash where there is no
/// record.
pub fn by_row(records: &[Record]) -> Table {
    let subjects = distinct(records, |record| record.subject.as_str());
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["", "", ""].into_iter().chain(subjects.iter().copied()));
    let key = |r: &Record| (r.case.clone(), r.metric, r.unit, r.parameter, r.at);
    for row in distinct(records, key) {
        let (case, metric, unit, parameter, at) = &row;
        let with = if parameter.is_empty() { String::new() } else { format!("{at} {parameter}") };
        let cells = subjects.iter().map(|subject| {
            let of_row = |record: &&Record| record.subject == *subject && key(record) == row;
            records.iter().find(of_row).map_or_else(|| "–".to_owned(), cell)
        });
        let heads = [case.clone(), format!("{metric}, {unit}"), with];
        table.add_row(heads.into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cell(record: &Record) -> String {
    match record.ratio {
        Some(ratio) => format!("{} ({ratio:.2}×)", short(record.median)),
        None => short(record.median),
    }
}

/// A row for each subject, a column for each metric and parameter, in the order of their first
/// records; a dash where there is no record. The records are of one case.
pub fn table(title: &str, records: &[Record]) -> Table {
    let columns = distinct(records, |r| (r.metric, r.unit, r.at, r.parameter));
    let subjects = distinct(records, |record| record.subject.as_str());
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    // A single metric is named once, at the left.
    let metrics = distinct(records, |record| (record.metric, record.unit));
    let (title, one) = match metrics[..] {
        [(metric, unit)] if metric == title => (format!("{metric}, {unit}"), true),
        [(metric, unit)] => (format!("{title}: {metric}, {unit}"), true),
        _ => (title.to_owned(), false),
    };
    let heads = columns.iter().map(|(metric, unit, at, parameter)| {
        let with = match *parameter {
            "" => None,
            _ if *at == 1 => Some(format!("1 {}", parameter.trim_end_matches('s'))),
            _ => Some(format!("{} {parameter}", grouped(*at))),
        };
        match with {
            Some(with) if one => with,
            Some(with) => format!("{metric}, {unit}, {with}"),
            None => format!("{metric}, {unit}"),
        }
    });
    table.set_header(std::iter::once(title).chain(heads));
    for subject in subjects {
        let cells = columns.iter().map(|&column| {
            records
                .iter()
                .filter(|record| record.subject == subject)
                .find(|r| (r.metric, r.unit, r.at, r.parameter) == column)
                .map_or_else(|| "–".to_owned(), cell)
        });
        table.add_row(std::iter::once(subject.to_owned()).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
