//! Every operation that loads, on a fresh, a stale and an expired entry, as tasks call it; with and
//! without an idle time.

use super::bench::{Bench, HARD, SOFT, bench};
use crate::common::must_end;
use crate::hand::at_once;
use cortado::future::CacheBuilder;
use cortado::{Loaded, Reloaded, RemovalCause};
use std::future::{Future, pending, ready};

const KEY: u32 = 7;

type Configure = fn(CacheBuilder<u32, u32>) -> CacheBuilder<u32, u32>;

const CONFIGURATIONS: [(&str, Configure); 3] = [
    ("plain", |builder| builder),
    ("idle time", |builder| builder.time_to_idle(HARD * 3)),
    ("ends by its idle time", |builder| builder.time_to_live(HARD * 3).time_to_idle(HARD)),
];

/// What the stored loader is asked by an operation: `None` for a load.
type Asked = [&'static [Option<u32>]; 3];

/// A load by the call's own loader, which is a read of what is there.
const OWN: Asked = [&[], &[Some(1)], &[]];
const STORED: Asked = [&[], &[Some(1)], &[None]];

/// An operation, and what it does with an entry of the value 1 that is fresh, stale, or expired.
/// The loader of a call makes 2, a load of the stored loader 1, a reload 3.
struct Row {
    name: &'static str,
    run: fn(&Bench) -> String,
    returned: [&'static str; 3],
    asked: Asked,
    /// Whether it replaces an entry that is there itself.
    replaces: bool,
}

fn own(name: &'static str, run: fn(&Bench) -> String, returned: [&'static str; 3]) -> Row {
    Row { name, run, returned, asked: OWN, replaces: false }
}

fn stored(name: &'static str, run: fn(&Bench) -> String, returned: [&'static str; 3]) -> Row {
    Row { name, run, returned, asked: STORED, replaces: false }
}

fn run<'a, T: 'a>(b: &'a Bench, future: impl Future<Output = T> + Send + 'a) -> T {
    b.jobs.serve(future)
}

const MADE: [&str; 3] = ["1", "1", "2"];
const SOME: [&str; 3] = ["Some(1)", "Some(1)", "Some(2)"];
const MANY: [&str; 3] = ["[Some(1)]", "[Some(1)]", "[Some(2)]"];

fn pairs(keys: &[&u32]) -> std::future::Ready<Vec<(u32, u32)>> {
    ready(keys.iter().map(|key| (**key, 2)).collect())
}

fn by_call() -> Vec<Row> {
    vec![
        own("get_with", |b| run(b, b.cache.cache().get_with(KEY, async { 2 })).to_string(), MADE),
        own(
            "get_with_by_ref",
            |b| run(b, b.cache.cache().get_with_by_ref(&KEY, async { 2 })).to_string(),
            MADE,
        ),
        own(
            "load_if: no",
            |b| {
                let load = async |_| Loaded::new(2);
                run(b, b.cache.cache().load_if(&KEY, load, |_, _| false)).to_string()
            },
            MADE,
        ),
        // A stale value triggers a reload, whose job finds another value.
        Row {
            asked: [&[]; 3],
            replaces: true,
            ..own(
                "load_if: yes",
                |b| {
                    let load = async |_| Loaded::new(2);
                    run(b, b.cache.cache().load_if(&KEY, load, |_, _| true)).to_string()
                },
                ["2"; 3],
            )
        },
        own(
            "optionally_get_with",
            |b| {
                format!("{:?}", run(b, b.cache.cache().optionally_get_with(KEY, async { Some(2) })))
            },
            SOME,
        ),
        own(
            "optionally_get_with_by_ref: none",
            |b| {
                format!(
                    "{:?}",
                    run(b, b.cache.cache().optionally_get_with_by_ref(&KEY, async { None }))
                )
            },
            ["Some(1)", "Some(1)", "None"],
        ),
        own(
            "try_get_with: error",
            |b| format!("{:?}", run(b, b.cache.cache().try_get_with(KEY, async { Err("down") }))),
            ["Ok(1)", "Ok(1)", "Err(\"down\")"],
        ),
        own(
            "try_get_with_by_ref",
            |b| {
                let load = b.cache.cache().try_get_with_by_ref(&KEY, async { Ok::<_, ()>(2) });
                run(b, load).unwrap().to_string()
            },
            MADE,
        ),
        own(
            "load",
            |b| run(b, b.cache.cache().load(KEY, async { Loaded::new(2) })).to_string(),
            MADE,
        ),
        own(
            "load_by_ref",
            |b| run(b, b.cache.cache().load_by_ref(&KEY, async { Loaded::new(2) })).to_string(),
            MADE,
        ),
        own(
            "get_many_with",
            |b| format!("{:?}", run(b, b.cache.cache().get_many_with([KEY], pairs))),
            MANY,
        ),
        own(
            "try_get_many_with",
            |b| {
                let load = |keys: &[&u32]| ready(Ok::<_, ()>(pairs(keys).into_inner()));
                format!("{:?}", run(b, b.cache.cache().try_get_many_with([KEY], load)).unwrap())
            },
            MANY,
        ),
    ]
}

fn of_a_place() -> Vec<Row> {
    vec![
        own("or_insert", |b| run(b, b.cache.cache().entry(KEY).or_insert(2)).to_string(), MADE),
        own(
            "or_default",
            |b| run(b, b.cache.cache().entry(KEY).or_default()).to_string(),
            ["1", "1", "0"],
        ),
        own(
            "or_insert_with",
            |b| run(b, b.cache.cache().entry(KEY).or_insert_with(async { 2 })).to_string(),
            MADE,
        ),
        own(
            "or_insert_with_if: no",
            |b| {
                run(b, b.cache.cache().entry(KEY).or_insert_with_if(async { 2 }, |_| false))
                    .to_string()
            },
            MADE,
        ),
        own(
            "or_optionally_insert_with",
            |b| {
                let load = b.cache.cache().entry(KEY).or_optionally_insert_with(async { Some(2) });
                format!("{:?}", run(b, load).map(|entry| *entry))
            },
            SOME,
        ),
        own(
            "or_try_insert_with",
            |b| {
                let load =
                    b.cache.cache().entry_by_ref(&KEY).or_try_insert_with(async { Ok::<_, ()>(2) });
                run(b, load).unwrap().to_string()
            },
            MADE,
        ),
        own(
            "or_load_with",
            |b| {
                run(b, b.cache.cache().entry(KEY).or_load_with(async { Loaded::new(2) }))
                    .to_string()
            },
            MADE,
        ),
    ]
}

fn by_the_stored_loader() -> Vec<Row> {
    vec![
        stored("get", |b| format!("{:?}", run(b, b.cache.get(&KEY))), ["Ok(1)"; 3]),
        stored("get_entry", |b| run(b, b.cache.get_entry(&KEY)).unwrap().to_string(), ["1"; 3]),
        stored(
            "get_many",
            |b| format!("{:?}", run(b, b.cache.get_many(&[KEY]))),
            ["Ok([Some(1)])"; 3],
        ),
        stored(
            "get_within: at once",
            |b| format!("{:?}", run(b, b.cache.get_within(&KEY, ready(())))),
            ["Ok(1)"; 3],
        ),
        stored(
            "get_within",
            |b| format!("{:?}", run(b, b.cache.get_within(&KEY, pending::<()>()))),
            ["Ok(1)", "Ok(3)", "Ok(1)"],
        ),
        Row {
            asked: [&[Some(1)], &[Some(1)], &[None]],
            ..stored(
                "reload",
                |b| format!("{:?}", run(b, b.cache.reload(&KEY))),
                ["Ok(3)", "Ok(3)", "Ok(1)"],
            )
        },
        Row {
            asked: [&[Some(1)], &[Some(1)], &[None]],
            ..stored("refresh", |b| format!("{:?}", b.cache.refresh(&KEY)), ["true"; 3])
        },
    ]
}

fn check(rows: &[Row]) {
    for (name, configure) in CONFIGURATIONS {
        for row in rows {
            for (state, to_be) in ["fresh", "stale", "expired"].into_iter().enumerate() {
                let case = format!("{} on an entry that is {to_be}, {name}", row.name);
                // It is stale.
                let b = bench(configure);
                match to_be {
                    "fresh" => at_once(b.cache.insert(KEY, 1)),
                    "expired" => b.hand.advance(HARD - SOFT),
                    _ => {}
                }
                if to_be == "fresh" {
                    assert_eq!(b.told(), [(1, RemovalCause::Replaced)]);
                }
                b.upstream.answer(Ok(Reloaded::new(3)));
                assert_eq!((row.run)(&b), row.returned[state], "{case}");
                b.jobs.run();
                let asked = b.upstream.asked();
                assert_eq!(asked, row.asked[state], "{case}");
                let cause = match to_be {
                    "expired" => Some(RemovalCause::Expired),
                    _ if row.replaces || asked.contains(&Some(1)) => Some(RemovalCause::Replaced),
                    _ => None,
                };
                b.jobs.run();
                let told: Vec<_> = cause.map(|cause| (1, cause)).into_iter().collect();
                assert_eq!(b.told(), told, "{case}");
            }
        }
    }
}

#[test]
fn loads_by_a_loader_of_the_call_in_every_state() {
    must_end(|| check(&by_call()));
}

#[test]
fn loads_of_a_keys_place_in_every_state() {
    must_end(|| check(&of_a_place()));
}

#[test]
fn loads_by_the_stored_loader_in_every_state() {
    must_end(|| check(&by_the_stored_loader()));
}
