//! The replay example's ledger of misses: the ideal cache of each expiry policy, and the sample of
//! the keys that bounds its memory.

use crate::ledger::{Causes, Ledger, Outcome, Rules};
use crate::options::Expire;
use std::time::Duration;

fn rules(expire: Expire, tti: Option<u64>, jitter: f64) -> Rules {
    Rules { expire, tti: tti.map(Duration::from_millis), jitter }
}

/// Enters look-ups (`false`) and updates (`true`) of one key with a lifetime of 100 ms, all
/// look-ups as misses.
fn causes(rules: Rules, requests: &[(u64, bool)]) -> Causes {
    let mut ledger = Ledger::new(rules, 10);
    for &(now, update) in requests {
        let outcome = if update { Outcome::Update } else { Outcome::Miss };
        let lifetime = Some(Duration::from_millis(100));
        ledger.enter(7, Duration::from_millis(now), lifetime, outcome);
    }
    ledger.causes()
}

#[test]
fn each_policy_has_its_ideal_cache() {
    let requests = [(0, false), (60, true), (120, false), (159, false), (200, false)];
    for (rules, alive) in [
        (rules(Expire::Create, None, 0.0), 2), // alive until 100, then from 120 on
        (rules(Expire::Write, None, 0.0), 2),  // until 160, by the update
        (rules(Expire::Access, None, 0.0), 3), // ever longer
        (rules(Expire::Access, None, 0.5), 2), // 50 ms each, from 120 on: the update came late
        (rules(Expire::Access, Some(40), 0.0), 1), // only 159 comes within 40 ms of 120
        (rules(Expire::Access, Some(42), 0.0), 2), // and 200 within 42 of 159
    ] {
        let causes = causes(rules, &requests);
        assert_eq!((causes.first_time, causes.misses()), (1.0, causes.lookups), "{rules:?}");
        assert_eq!((causes.capacity, causes.ideal_hits), (alive as f64, alive as f64), "{rules:?}");
        assert_eq!(causes.expired, (3 - alive) as f64, "{rules:?}");
        assert_eq!((causes.lookups, causes.repeats, causes.keys), (4.0, 3.0, 1.0), "{rules:?}");
    }
}

#[test]
fn a_sample_of_the_keys_tells_about_all() {
    let run = |most_keys| {
        let mut ledger = Ledger::new(rules(Expire::Write, None, 0.0), most_keys);
        // Each of 40,000 keys three times, at growing distances: in time, and late; every third
        // request hits.
        for round in 0..3u64 {
            for key in 0..40_000u64 {
                let now = Duration::from_millis(round * round * 40_000 + key);
                let outcome = if key % 3 == 0 { Outcome::Hit } else { Outcome::Miss };
                let lifetime = Some(Duration::from_millis(60_000));
                ledger.enter(key, now, lifetime, outcome);
            }
        }
        ledger.causes()
    };
    let (all, sample) = (run(1 << 20), run(4000));
    assert_eq!((all.keys, all.lookups, all.ideal_hits), (40_000.0, 120_000.0, 40_000.0));
    for (name, exact, estimate) in [
        ("keys", all.keys, sample.keys),
        ("lookups", all.lookups, sample.lookups),
        ("first-time", all.first_time, sample.first_time),
        ("expired", all.expired, sample.expired),
        ("capacity", all.capacity, sample.capacity),
        ("repeats", all.repeats, sample.repeats),
    ] {
        assert!((estimate / exact - 1.0).abs() < 0.08, "{name}: {estimate} for {exact}");
    }
    assert_ne!(sample.lookups, all.lookups, "no sample was taken");
}
