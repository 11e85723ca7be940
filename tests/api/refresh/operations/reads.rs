//! Operations that change nothing.

use super::super::bench::Bench;
use super::{KEY, Row, check, row};
use crate::common::SECOND;
use cortado::{Entry, Expiration};

fn value(entry: Option<Entry<u32, u32>>) -> String {
    format!("{:?}", entry.map(|entry| *entry))
}

fn values(entries: Vec<Entry<u32, u32>>) -> String {
    format!("{:?}", entries.iter().map(|entry| **entry).collect::<Vec<_>>())
}

/// The instant at which the cache's clock is.
pub fn present(b: &Bench) -> std::time::Instant {
    b.cache.cache().insert_with_ttl(8, 2, SECOND);
    b.cache.cache().expires_at(&8).due().unwrap() - SECOND
}

const FOUND: [&str; 3] = ["Some(1)", "Some(1)", "None"];
const IS_THERE: [&str; 3] = ["true", "true", "false"];
const LISTED: [&str; 3] = ["[1]", "[1]", "[]"];

/// Reads, which trigger reloads.
fn reads() -> Vec<Row> {
    let rows = [
        row("get", |b| format!("{:?}", b.cache.cache().get(&KEY)), FOUND),
        row("get_entry", |b| value(b.cache.cache().get_entry(&KEY)), FOUND),
        row("touch", |b| format!("{:?}", b.cache.cache().touch(&KEY)), IS_THERE),
        row("get_many", |b| format!("{:?}", b.cache.cache().get_many([&KEY])[0]), FOUND),
        row("pin", |b| format!("{:?}", b.cache.cache().pin().get(&KEY).copied()), FOUND),
        row("pin key value", |b| format!("{:?}", b.cache.cache().pin().get(&KEY).copied()), FOUND),
    ];
    rows.into_iter().map(Row::triggers).collect()
}

/// Looks, which leave no trace.
fn looks() -> Vec<Row> {
    vec![
        row("peek", |b| value(b.cache.cache().peek(&KEY)), FOUND),
        row("contains_key", |b| format!("{:?}", b.cache.contains_key(&KEY)), IS_THERE),
        row("iter", |b| format!("{:?}", b.cache.cache().iter().next().map(|it| it.1)), FOUND),
        row("entries", |b| values(b.cache.cache().entries().collect()), LISTED),
        row(
            "keys",
            |b| format!("{:?}", b.cache.cache().keys().next()),
            ["Some(7)", "Some(7)", "None"],
        ),
        row("values", |b| format!("{:?}", b.cache.cache().values().next()), FOUND),
        row("soonest_to_expire", |b| values(b.cache.cache().soonest_to_expire(9)), LISTED),
        row("latest_to_expire", |b| values(b.cache.cache().latest_to_expire(9)), LISTED),
        row("hottest", |b| values(b.cache.cache().hottest(9)), LISTED),
        row("coldest", |b| values(b.cache.cache().coldest(9)), LISTED),
        row(
            "last_failure",
            |b| format!("{:?}", b.cache.last_failure(&KEY).is_some()),
            ["false"; 3],
        ),
        row(
            "expires_in",
            |b| match b.cache.cache().expires_in(&KEY) {
                Expiration::Due(left) => format!("in {}", left.as_secs()),
                other => format!("{other:?}"),
            },
            ["in 95", "in 80", "NoEntry"],
        ),
        row(
            "expires_at",
            |b| {
                let present = present(b);
                let left =
                    b.cache.cache().expires_at(&KEY).due().map(|at| (at - present).as_secs());
                format!("{left:?}")
            },
            ["Some(95)", "Some(80)", "None"],
        ),
        row(
            "the end of an entry",
            |b| {
                let entry = b.cache.cache().peek(&KEY);
                format!("{:?}", entry.map(|it| it.expires_in().map(|left| left.as_secs())))
            },
            ["Some(Some(95))", "Some(Some(80))", "None"],
        ),
        // Of one that has expired, a pass is to come at once.
        row(
            "next_expiration",
            |b| format!("{:?}", b.cache.cache().next_expiration().map(|wait| wait.is_zero())),
            ["Some(false)", "Some(false)", "Some(true)"],
        ),
        row(
            "wheel",
            |b| {
                b.cache.run_pending_tasks();
                format!("{}", b.cache.cache().entry_count())
            },
            ["1", "1", "0"],
        ),
    ]
}

#[test]
fn reads_in_every_state() {
    check(&reads());
}

#[test]
fn looks_in_every_state() {
    check(&looks());
}
