//! Which records are drawn, and how.

use cortado_benches::report::{Record, file_name, rows};
use std::path::Path;

/// By what the bars of a row differ: the parameter, or else the metric.
fn series(record: &Record) -> String {
    match (record.parameter, record.at) {
        ("", _) => record.metric.to_owned(),
        (parameter, 1) => format!("1 {}", parameter.trim_end_matches('s')),
        (parameter, at) => format!("{at} {parameter}"),
    }
}

/// The metrics of one picture begin alike.
const PICTURES: &[(&str, &str)] = &[
    ("mass expiry", "get"),
    ("mass expiry", "insert"),
    ("mass expiry", "all freed"),
    ("start-up", "time"),
    ("start-up", "heap"),
    ("memory of a full cache", "heap"),
];

/// Draws one picture for each workload and each of the measurements that are none.
///
/// # Errors
/// If a file cannot be written.
pub fn draw(directory: &Path, records: &[Record]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut workloads: Vec<&str> = Vec::new();
    for record in records.iter().filter(|record| record.metric == "time per operation") {
        if !workloads.contains(&record.case.as_str()) {
            workloads.push(&record.case);
        }
    }
    let workloads = workloads.into_iter().map(|case| (case, "time per operation"));
    for (case, metric) in workloads.chain(PICTURES.iter().copied()) {
        let shown: Vec<Record> = records
            .iter()
            .filter(|record| record.case == case && record.metric.starts_with(metric))
            .cloned()
            .collect();
        if let Some(first) = shown.first() {
            let title = format!("{case}: {metric}, {}", first.unit);
            rows(&directory.join(file_name(&format!("{case} {metric}"))), &title, &shown, series)?;
        }
    }
    Ok(())
}
