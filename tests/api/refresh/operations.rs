//! Every operation on a fresh, a stale and an expired entry, with and without an idle time, and
//! with a read hook: the table of `docs/refresh.md`.

use super::bench::{Bench, HARD, bench};
use crate::common::SECOND;
use cortado::{Builder, Expiration, Expiry, Op, RemovalCause};
use std::time::{Duration, Instant};

const KEY: u32 = 7;

/// The entry at the time of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Stale,
    Expired,
}

/// What is to be seen of an operation.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// What the call returned.
    returned: String,
    /// Reloads that it triggered.
    reloads: usize,
    /// The notice about the value that was there.
    told: Option<RemovalCause>,
}

type Configure = fn(Builder<u32, u32>) -> Builder<u32, u32>;
type Operation = fn(&Bench) -> String;

/// A read hook of its own: it changes no lifetime.
struct Reads;

impl Expiry<u32, u32> for Reads {
    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        current
    }
}

/// The policy's read hook is the trait's own, which the first read finds out.
struct NoReads;

impl Expiry<u32, u32> for NoReads {}

const CONFIGURATIONS: [(&str, Configure); 6] = [
    ("plain", |builder| builder),
    ("without statistics", |builder| builder.record_stats(false)),
    ("idle time", |builder| builder.time_to_idle(HARD * 3)),
    ("read hook", |builder| builder.expire_after(Reads)),
    ("policy without read hook", |builder| builder.expire_after(NoReads).record_stats(false)),
    ("idle time and read hook", |builder| builder.time_to_idle(HARD * 3).expire_after(Reads)),
];

/// Values: 1 was there, 2 is written, 9 is made by a load of the table.
const OPERATIONS: &[(&str, Operation)] = &[
    ("get", |b| format!("{:?}", b.cache.cache().get(&KEY))),
    ("get_entry", |b| format!("{:?}", b.cache.cache().get_entry(&KEY).map(|it| *it))),
    ("touch", |b| format!("{:?}", b.cache.touch(&KEY))),
    ("get_many", |b| format!("{:?}", b.cache.cache().get_many([&KEY])[0])),
    ("pin", |b| format!("{:?}", b.cache.pin().get(&KEY).copied())),
    ("pin key value", |b| format!("{:?}", b.cache.pin().get_key_value(&KEY).map(|it| *it.1))),
    ("peek", |b| format!("{:?}", b.cache.peek(&KEY).map(|it| *it))),
    ("contains_key", |b| format!("{:?}", b.cache.contains_key(&KEY))),
    ("iter", |b| format!("{:?}", b.cache.iter().next().map(|(_, value)| value))),
    ("expires_in", |b| match b.cache.expires_in(&KEY) {
        Expiration::Due(left) => format!("in {}", left.as_secs()),
        other => format!("{other:?}"),
    }),
    ("insert", |b| {
        b.cache.insert(KEY, 2);
        format!("{:?}", b.cache.peek(&KEY).map(|it| *it))
    }),
    ("replace", |b| format!("{:?}", b.cache.replace(KEY, 2).map(|it| *it))),
    ("remove", |b| format!("{:?}", b.cache.remove(&KEY))),
    ("remove_if", |b| format!("{:?}", b.cache.remove_if(&KEY, |_, _| true))),
    ("retain", |b| {
        b.cache.retain(|_, _| false);
        String::new()
    }),
    ("invalidate_all", |b| {
        b.cache.invalidate_all();
        format!("{:?}", b.cache.peek(&KEY).map(|it| *it))
    }),
    ("set_ttl", |b| {
        let is_set = b.cache.set_ttl(&KEY, 50 * SECOND);
        format!("{is_set} {:?}", b.cache.expires_in(&KEY).due())
    }),
    ("persist", |b| format!("{} {:?}", b.cache.persist(&KEY), b.cache.contains_key(&KEY))),
    ("and_compute_with: nop", |b| {
        let mut found = None;
        b.cache.entry(KEY).and_compute_with(|entry| {
            found = entry.map(|it| *it);
            Op::Nop
        });
        format!("{found:?}")
    }),
    ("and_compute_with: put", |b| {
        let put = b.cache.entry(KEY).and_upsert_with(|entry| entry.map_or(0, |it| *it) + 1);
        format!("{} {}", *put, put.is_old_value_replaced())
    }),
    ("LoadingCache::get", |b| format!("{:?}", b.cache.get(&KEY))),
    ("LoadingCache::get_many", |b| format!("{:?}", b.cache.get_many([KEY]).unwrap()[0])),
    ("wheel", |b| {
        b.cache.run_pending_tasks();
        format!("{}", b.cache.entry_count())
    }),
];

/// The table: what a call returns in each state, whether it triggers a reload of a stale entry, and
/// the notices about the value 1 in each state.
fn expected(operation: &str, state: State) -> Seen {
    use RemovalCause::{Expired, Explicit, Replaced};
    use State::{Fresh, Stale};
    let lives = state != State::Expired;
    let triggers =
        ["get", "touch", "pin", "LoadingCache"].iter().any(|it| operation.starts_with(it));
    let of_living = |living: &str, expired: &str| if lives { living } else { expired }.to_owned();
    let (returned, of_living_value, of_expired) = match operation {
        "get" | "get_entry" | "get_many" | "pin" | "pin key value" | "peek" | "iter" => {
            (of_living("Some(1)", "None"), None, Some(Expired))
        }
        "touch" | "contains_key" => (of_living("true", "false"), None, Some(Expired)),
        "expires_in" => {
            let left = if state == Fresh { "in 95" } else { "in 80" };
            (of_living(left, "NoEntry"), None, Some(Expired))
        }
        "insert" => ("Some(2)".to_owned(), Some(Replaced), Some(Expired)),
        "replace" => (of_living("Ok(1)", "Err(2)"), Some(Replaced), Some(Expired)),
        "remove" | "remove_if" => (of_living("Some(1)", "None"), Some(Explicit), Some(Expired)),
        "retain" => (String::new(), Some(Explicit), Some(Expired)),
        // An entry that was cleared leaves as such, even if nobody had noticed its expiry.
        "invalidate_all" => ("None".to_owned(), Some(Explicit), Some(Explicit)),
        "set_ttl" => (of_living("true Some(50s)", "false None"), None, Some(Expired)),
        "persist" => (of_living("true true", "false false"), None, Some(Expired)),
        "and_compute_with: nop" => (of_living("Some(1)", "None"), None, Some(Expired)),
        "and_compute_with: put" => (of_living("2 true", "1 false"), Some(Replaced), Some(Expired)),
        "LoadingCache::get" => (of_living("Ok(1)", "Ok(2)"), None, Some(Expired)),
        "LoadingCache::get_many" => (of_living("Some(1)", "Some(2)"), None, Some(Expired)),
        "wheel" => (of_living("1", "0"), None, Some(Expired)),
        other => unreachable!("{other} is not in the table"),
    };
    let told = if lives { of_living_value } else { of_expired };
    Seen { returned, reloads: usize::from(triggers && state == Stale), told }
}

fn seen(configure: Configure, operation: Operation, state: State) -> Seen {
    let b = bench(configure);
    assert_eq!(b.cache.get(&KEY), Ok(1));
    b.cache.run_pending_tasks();
    // A read finds out whether the policy has a read hook of its own.
    assert_eq!(b.cache.get(&KEY), Ok(1));
    b.jobs.run();
    b.advance(match state {
        State::Fresh => 5,
        State::Stale => 20,
        State::Expired => 100,
    });
    let _ = b.asked();
    let returned = operation(&b);
    let loads = b.asked().len();
    b.jobs.run();
    let reloads = b.asked().len();
    assert!(loads == 0 || reloads == 0);
    b.cache.run_pending_tasks();
    let told = b.told().into_iter().find(|(_, value, _)| *value == 1).map(|it| it.2);
    // The reload's own notice about the old value, which its own test counts.
    let told = told.filter(|_| reloads == 0);
    Seen { returned, reloads, told }
}

#[test]
fn every_operation_in_every_state() {
    for (name, configure) in CONFIGURATIONS {
        for &(operation, run) in OPERATIONS {
            for state in [State::Fresh, State::Stale, State::Expired] {
                let expected = expected(operation, state);
                let seen = seen(configure, run, state);
                assert_eq!(seen, expected, "{operation} on an entry that is {state:?}, {name}");
            }
        }
    }
}
