//! Loads: by the call's own loader, by a guard, by the stored loader.

use super::super::bench::Bench;
use super::{KEY, Row, check, row};
use cortado::{Cache, LoadLimits, Loaded, RemovalCause};
use std::time::Duration;

/// Of a load whose loader makes 2 if there is no value.
const MADE: [&str; 3] = ["1", "1", "2"];
const NONE: LoadLimits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };

fn of(b: &Bench) -> &Cache<u32, u32> {
    b.cache.cache()
}

/// With a stored loader, a call with a loader of its own is a read: the reload is the stored one's.
fn own_loaders() -> Vec<Row> {
    let rows = [
        row("get_with", |b| format!("{}", of(b).get_with(KEY, || 2)), MADE),
        row("get_with_by_ref", |b| format!("{}", of(b).get_with_by_ref(&KEY, || 2)), MADE),
        row(
            "load_if: no",
            |b| format!("{}", of(b).load_if(&KEY, |_| Loaded::new(2), |_, _| false)),
            MADE,
        ),
        row(
            "try_get_with",
            |b| format!("{}", of(b).try_get_with(KEY, || Ok::<_, ()>(2)).unwrap()),
            MADE,
        ),
        row(
            "try_get_with_by_ref: error",
            |b| format!("{:?}", of(b).try_get_with_by_ref(&KEY, || Err::<u32, _>("down"))),
            ["Ok(1)", "Ok(1)", "Err(\"down\")"],
        ),
        row(
            "optionally_get_with",
            |b| format!("{:?}", of(b).optionally_get_with(KEY, || Some(2))),
            ["Some(1)", "Some(1)", "Some(2)"],
        ),
        row(
            "optionally_get_with_by_ref: none",
            |b| format!("{:?}", of(b).optionally_get_with_by_ref(&KEY, || None)),
            ["Some(1)", "Some(1)", "None"],
        ),
        row("load", |b| format!("{}", of(b).load(KEY, || Loaded::new(2))), MADE),
        row("load_by_ref", |b| format!("{}", of(b).load_by_ref(&KEY, || Loaded::new(2))), MADE),
    ];
    rows.into_iter().map(Row::triggers).collect()
}

fn of_many() -> Vec<Row> {
    fn pairs(keys: &[&u32]) -> Vec<(u32, u32)> {
        keys.iter().map(|key| (**key, 2)).collect()
    }
    const MANY: [&str; 3] = ["[Some(1)]", "[Some(1)]", "[Some(2)]"];
    let rows = [
        row("get_many_with", |b| format!("{:?}", of(b).get_many_with([KEY], pairs)), MANY),
        row(
            "try_get_many_with",
            |b| {
                format!(
                    "{:?}",
                    of(b).try_get_many_with([KEY], |keys| Ok::<_, ()>(pairs(keys))).unwrap()
                )
            },
            MANY,
        ),
        row("LoadingCache::get_many", |b| format!("{:?}", b.cache.get_many(&[KEY]).unwrap()), MANY),
    ];
    rows.into_iter().map(Row::triggers).collect()
}

fn places() -> Vec<Row> {
    let rows = [
        row("or_insert", |b| format!("{}", *of(b).entry(KEY).or_insert(2)), MADE),
        row("or_default", |b| format!("{}", *of(b).entry(KEY).or_default()), ["1", "1", "0"]),
        row("or_insert_with", |b| format!("{}", *of(b).entry(KEY).or_insert_with(|| 2)), MADE),
        row(
            "or_insert_with_if: no",
            |b| format!("{}", *of(b).entry(KEY).or_insert_with_if(|| 2, |_| false)),
            MADE,
        ),
        row(
            "or_optionally_insert_with",
            |b| {
                let entry = of(b).entry(KEY).or_optionally_insert_with(|| Some(2));
                format!("{:?}", entry.map(|it| *it))
            },
            ["Some(1)", "Some(1)", "Some(2)"],
        ),
        row(
            "or_try_insert_with",
            |b| format!("{}", *of(b).entry(KEY).or_try_insert_with(|| Ok::<_, ()>(2)).unwrap()),
            MADE,
        ),
        row(
            "or_load_with",
            |b| format!("{}", *of(b).entry_by_ref(&KEY).or_load_with(|| Loaded::new(2))),
            MADE,
        ),
        row(
            "get_value_or_guard",
            |b| match of(b).get_value_or_guard(&KEY) {
                Ok(value) => format!("{value}"),
                Err(guard) => format!("guard {}", *guard.insert(2)),
            },
            ["1", "1", "guard 2"],
        ),
        row(
            "LoadingCache::get",
            |b| format!("{:?}", b.cache.get(&KEY)),
            ["Ok(1)", "Ok(1)", "Ok(2)"],
        ),
        row("LoadingCache::get_entry", |b| format!("{}", *b.cache.get_entry(&KEY).unwrap()), MADE),
    ];
    rows.into_iter().map(Row::triggers).collect()
}

/// Calls that replace a value, or whose loads and reloads run elsewhere.
fn others() -> Vec<Row> {
    let replaced = RemovalCause::Replaced;
    vec![
        // A stale value triggers a reload, whose job finds another value.
        row(
            "load_if: yes",
            |b| format!("{}", of(b).load_if(&KEY, |_| Loaded::new(2), |_, _| true)),
            ["2"; 3],
        )
        .tells(replaced),
        row(
            "or_insert_with_if: yes",
            |b| format!("{}", *of(b).entry(KEY).or_insert_with_if(|| 2, |_| true)),
            ["2"; 3],
        )
        .tells(replaced),
        Row {
            elsewhere: [1; 3],
            ..row("refresh", |b| format!("{}", b.cache.refresh(&KEY)), ["true"; 3])
        },
        Row {
            elsewhere: [0, 1, 0],
            ..row(
                "get_within",
                |b| format!("{:?}", b.cache.get_within(&KEY, NONE)),
                ["Ok(1)", "Ok(1)", "Ok(2)"],
            )
        },
    ]
}

#[test]
fn loads_by_a_loader_of_the_call_in_every_state() {
    check(&own_loaders());
}

#[test]
fn loads_of_many_keys_in_every_state() {
    check(&of_many());
}

#[test]
fn loads_of_a_keys_place_in_every_state() {
    check(&places());
}

#[test]
fn other_loads_in_every_state() {
    check(&others());
}
