//! Writes, removals, computations and changes of the lifetime.

use super::super::bench::Bench;
use super::reads::present;
use super::{KEY, Row, check, row};
use crate::common::SECOND;
use cortado::{Op, RemovalCause};
use std::time::Duration;

const REMOVED: [&str; 3] = ["Some(1)", "Some(1)", "None"];
const NOTHING: [&str; 3] = ["None"; 3];

/// The value that is there after an operation, and the seconds that are left to it.
fn after(b: &Bench) -> String {
    let left = b.cache.cache().expires_in(&KEY).due().map(|left| left.as_secs());
    let value = b.cache.cache().peek(&KEY).map(|entry| *entry);
    format!("{:?}", value.zip(left))
}

fn inserts() -> Vec<Row> {
    let rows = [
        row(
            "insert",
            |b| {
                b.cache.insert(KEY, 2);
                format!("{:?}", b.cache.cache().peek(&KEY).map(|it| *it))
            },
            ["Some(2)"; 3],
        ),
        row(
            "insert_many",
            |b| {
                b.cache.cache().insert_many([(KEY, 3), (KEY, 2)]);
                format!("{:?}", b.cache.cache().peek(&KEY).map(|it| *it))
            },
            ["Some(2)"; 3],
        ),
        row(
            "insert_with_ttl",
            |b| {
                b.cache.cache().insert_with_ttl(KEY, 2, 50 * SECOND);
                after(b)
            },
            ["Some((2, 50))"; 3],
        ),
        row(
            "insert_until",
            |b| {
                b.cache.cache().insert_until(KEY, 2, present(b) + 50 * SECOND);
                after(b)
            },
            ["Some((2, 50))"; 3],
        ),
        row(
            "replace",
            |b| format!("{:?}", b.cache.cache().replace(KEY, 2).map(|it| *it)),
            ["Ok(1)", "Ok(1)", "Err(2)"],
        ),
    ];
    rows.into_iter().map(|row| row.tells(RemovalCause::Replaced)).collect()
}

fn removals() -> Vec<Row> {
    let rows = [
        row("remove", |b| format!("{:?}", b.cache.remove(&KEY)), REMOVED),
        row(
            "remove_entry",
            |b| format!("{:?}", b.cache.cache().remove_entry(&KEY).map(|it| *it)),
            REMOVED,
        ),
        row(
            "remove_if",
            |b| format!("{:?}", b.cache.cache().remove_if(&KEY, |_, _| true)),
            REMOVED,
        ),
        row(
            "retain",
            |b| {
                b.cache.cache().retain(|_, _| false);
                after(b)
            },
            NOTHING,
        ),
        row(
            "invalidate",
            |b| {
                b.cache.invalidate(&KEY);
                after(b)
            },
            NOTHING,
        ),
        row(
            "invalidate_many",
            |b| {
                b.cache.cache().invalidate_many([&KEY]);
                after(b)
            },
            NOTHING,
        ),
        row(
            "invalidate_entries_if",
            |b| {
                b.cache.cache().invalidate_entries_if(|_, value| *value == 1).unwrap();
                after(b)
            },
            NOTHING,
        ),
        // An entry that was cleared leaves as such, even if nobody had noticed its expiry.
        Row {
            told: (None, RemovalCause::Explicit),
            ..row(
                "invalidate_all",
                |b| {
                    b.cache.invalidate_all();
                    after(b)
                },
                NOTHING,
            )
        },
        Row {
            told: (None, RemovalCause::Explicit),
            ..row(
                "close",
                |b| {
                    b.cache.cache().close();
                    after(b)
                },
                NOTHING,
            )
        },
    ];
    rows.into_iter().map(|row| row.tells(RemovalCause::Explicit)).collect()
}

/// Operations that leave the entry alone, or change its lifetime.
fn others() -> Vec<Row> {
    vec![
        row(
            "remove_if: no",
            |b| format!("{:?}", b.cache.cache().remove_if(&KEY, |_, _| false)),
            NOTHING,
        ),
        row(
            "retain: yes",
            |b| {
                b.cache.cache().retain(|_, _| true);
                after(b)
            },
            ["Some((1, 95))", "Some((1, 80))", "None"],
        ),
        row(
            "set_ttl",
            |b| format!("{} {}", b.cache.cache().set_ttl(&KEY, 50 * SECOND), after(b)),
            ["true Some((1, 50))", "true Some((1, 50))", "false None"],
        ),
        row(
            "set_expires_at",
            |b| {
                format!(
                    "{} {}",
                    b.cache.cache().set_expires_at(&KEY, present(b) + 50 * SECOND),
                    after(b)
                )
            },
            ["true Some((1, 50))", "true Some((1, 50))", "false None"],
        ),
        row(
            "a lifetime of zero",
            |b| {
                b.cache.cache().set_ttl(&KEY, Duration::ZERO);
                after(b)
            },
            NOTHING,
        )
        .tells(RemovalCause::Expired),
        row(
            "persist",
            |b| format!("{} {:?}", b.cache.cache().persist(&KEY), b.cache.contains_key(&KEY)),
            ["true true", "true true", "false false"],
        ),
    ]
}

fn computations() -> Vec<Row> {
    vec![
        row(
            "and_compute_with: nop",
            |b| {
                let mut found = None;
                b.cache.cache().entry(KEY).and_compute_with(|entry| {
                    found = entry.map(|it| *it);
                    Op::Nop
                });
                format!("{found:?}")
            },
            REMOVED,
        ),
        row(
            "and_compute_with: remove",
            |b| {
                let result = b.cache.cache().entry(KEY).and_compute_with(|_| Op::Remove);
                format!("{:?}", result.into_entry().map(|it| *it))
            },
            REMOVED,
        )
        .tells(RemovalCause::Explicit),
        row(
            "and_compute_with: put",
            |b| {
                let result = b.cache.cache().entry(KEY).and_compute_with(|_| Op::Put(2));
                format!("{:?}", result.into_entry().map(|it| (*it, it.is_old_value_replaced())))
            },
            ["Some((2, true))", "Some((2, true))", "Some((2, false))"],
        )
        .tells(RemovalCause::Replaced),
        row(
            "and_upsert_with",
            |b| {
                let put = b
                    .cache
                    .cache()
                    .entry(KEY)
                    .and_upsert_with(|entry| entry.map_or(0, |it| *it) + 1);
                format!("{} {}", *put, put.is_old_value_replaced())
            },
            ["2 true", "2 true", "1 false"],
        )
        .tells(RemovalCause::Replaced),
        row(
            "and_try_compute_with: put",
            |b| {
                let put = |_| Ok::<_, ()>(Op::Put(2));
                b.cache.cache().entry(KEY).and_try_compute_with(put).unwrap();
                after(b)
            },
            ["Some((2, 100))"; 3],
        )
        .tells(RemovalCause::Replaced),
        row(
            "and_try_compute_with: error",
            |b| {
                let fails = |entry: Option<cortado::Entry<u32, u32>>| Err(entry.map(|it| *it));
                format!("{:?}", b.cache.cache().entry(KEY).and_try_compute_with(fails).unwrap_err())
            },
            REMOVED,
        ),
    ]
}

#[test]
fn inserts_in_every_state() {
    check(&inserts());
}

#[test]
fn removals_in_every_state() {
    check(&removals());
}

#[test]
fn changes_of_the_lifetime_in_every_state() {
    check(&others());
}

#[test]
fn computations_in_every_state() {
    check(&computations());
}
