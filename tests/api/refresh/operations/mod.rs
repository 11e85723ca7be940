//! Every operation on a fresh, a stale and an expired entry, with and without an idle time, and
//! with a read hook: the table of `docs/refresh.md`.

mod loaders;
mod reads;
mod writes;

use super::bench::{Bench, HARD, SOFT, bench};
use cortado::{Builder, Expiry, RemovalCause};
use std::time::{Duration, Instant};

const KEY: u32 = 7;

/// The entry at the time of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Stale,
    Expired,
}

use State::{Expired, Fresh, Stale};

/// What is to be seen of an operation.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// What the call returned.
    returned: String,
    /// Loads and reloads that ran elsewhere, after the call.
    elsewhere: usize,
    /// The notice about the value that was there.
    told: Option<RemovalCause>,
}

type Configure = fn(Builder<u32, u32>) -> Builder<u32, u32>;
type Operation = fn(&Bench) -> String;

/// An operation, and what it does with an entry of the value 1. Of values, 2 is written or loaded.
struct Row {
    name: &'static str,
    run: Operation,
    /// By state.
    returned: [&'static str; 3],
    elsewhere: [usize; 3],
    /// The cause of the removal of an entry that is there; and of one that has expired.
    told: (Option<RemovalCause>, RemovalCause),
}

/// An operation that leaves the entry as it is, and triggers nothing.
fn row(name: &'static str, run: Operation, returned: [&'static str; 3]) -> Row {
    Row { name, run, returned, elsewhere: [0; 3], told: (None, RemovalCause::Expired) }
}

impl Row {
    /// It triggers a reload of a stale entry.
    fn triggers(self) -> Self {
        Self { elsewhere: [0, 1, 0], ..self }
    }

    /// It ends the life of an entry that is there.
    fn tells(self, cause: RemovalCause) -> Self {
        Self { told: (Some(cause), self.told.1), ..self }
    }

    fn expected(&self, state: State) -> Seen {
        let told = if state == Expired { Some(self.told.1) } else { self.told.0 };
        let returned = self.returned[state as usize].to_owned();
        Seen { returned, elsewhere: self.elsewhere[state as usize], told }
    }
}

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

/// The policy's read hook is the trait's default, which the first read finds out.
struct NoReads;

impl Expiry<u32, u32> for NoReads {}

const CONFIGURATIONS: [(&str, Configure); 8] = [
    ("plain", |builder| builder),
    ("without statistics", |builder| builder.record_stats(false)),
    ("idle time", |builder| builder.time_to_idle(HARD * 3)),
    ("read hook", |builder| builder.expire_after(Reads)),
    ("policy without read hook", |builder| builder.expire_after(NoReads).record_stats(false)),
    ("idle time and read hook", |builder| builder.time_to_idle(HARD * 3).expire_after(Reads)),
    ("ends by its idle time", |builder| builder.time_to_live(HARD * 3).time_to_idle(HARD)),
    ("ends by its idle time, read hook", |builder| {
        builder.time_to_live(HARD * 3).time_to_idle(HARD).expire_after(Reads)
    }),
];

fn seen(configure: Configure, operation: Operation, state: State) -> Seen {
    let b = bench(|builder| configure(builder.max_capacity(100)));
    assert_eq!(b.cache.get(&KEY), Ok(1));
    b.cache.run_pending_tasks();
    // A read finds out whether the policy has a read hook of its own.
    assert_eq!(b.cache.get(&KEY), Ok(1));
    b.jobs.run();
    b.advance(match state {
        Fresh => 5,
        Stale => 20,
        Expired => 100,
    });
    let _ = b.asked();
    let returned = operation(&b);
    let here = b.asked().len();
    // What was triggered in a view is left to the next operation.
    b.cache.run_pending_tasks();
    b.jobs.run();
    let elsewhere = b.asked().len();
    assert!(here == 0 || elsewhere == 0);
    b.cache.run_pending_tasks();
    let told = b.told().into_iter().find(|(_, value, _)| *value == 1).map(|it| it.2);
    // The reload's own notice about the old value, which its own test counts.
    let told = told.filter(|_| elsewhere == 0 || state == Expired);
    Seen { returned, elsewhere, told }
}

fn check(rows: &[Row]) {
    for (name, configure) in CONFIGURATIONS {
        for row in rows {
            for state in [Fresh, Stale, Expired] {
                let seen = seen(configure, row.run, state);
                let operation = row.name;
                let expected = row.expected(state);
                assert_eq!(seen, expected, "{operation} on an entry that is {state:?}, {name}");
            }
        }
    }
}

/// It is not the soft deadline, which plain hits are judged by.
#[test]
fn a_handle_tells_the_end_of_the_entry_however_it_was_read() {
    for (name, configure) in CONFIGURATIONS {
        let b = bench(|builder| configure(builder.max_capacity(100)));
        assert_eq!(b.cache.get(&KEY), Ok(1));
        b.advance(5);
        for _ in 0..2 {
            let read = b.cache.cache().get_entry(&KEY).map(|entry| entry.expires_in());
            let peeked = b.cache.cache().peek(&KEY).map(|entry| entry.expires_in());
            assert_eq!(read, peeked, "{name}");
            assert!(read.is_some_and(|end| end.is_some_and(|left| left > SOFT)), "{name}");
        }
    }
}
