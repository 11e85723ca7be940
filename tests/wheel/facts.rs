//! Reads `data/wheel_cases.json`, which `data/README.md` explains.

use serde_json::Value;

/// The rows of a section.
pub fn section(name: &str) -> Vec<Value> {
    let text = include_str!("data/wheel_cases.json");
    let mut cases: Value = serde_json::from_str(text).expect("the cases are JSON");
    match cases[name].take() {
        Value::Array(rows) if !rows.is_empty() => rows,
        other => panic!("no section {name}: {other}"),
    }
}

pub fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no 64-bit integer: {value}"))
}

pub fn ints(value: &Value) -> Vec<i64> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}")).iter().map(int).collect()
}
