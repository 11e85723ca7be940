//! The frequency sketch: never too low, rarely too high, halved in time, resized without
//! forgetting.

use crate::heap::memory;
use crate::store::{Random, hash};
use cortado::internals::sketch::{MAX_FREQUENCY, PERIOD, SWEEP, Sketch};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::HashMap;

fn sized(entries: usize) -> Sketch {
    let mut sketch = Sketch::new(7);
    for entries in 1..=entries {
        sketch.fit(entries);
    }
    sketch
}

#[derive(Clone, Debug)]
enum Step {
    Count {
        key: u64,
        times: u8,
    },
    /// The number of entries goes to this, one by one.
    Fit(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..400u64, 1..6u8).prop_map(|(key, times)| Step::Count { key, times }),
        1 => (0..3000usize).prop_map(Step::Fit),
    ]
}

/// The same cases in each run; `PROPTEST_CASES` asks for more of them.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(2026),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// As long as nothing ages, no estimate is below the true count, whatever the size does.
    #[test]
    fn estimates_are_never_too_low_before_ageing(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let mut sketch = Sketch::new(seed);
        let mut entries = 0;
        let mut truth = HashMap::<u64, u64>::new();
        let mut counts = 0;
        for step in steps {
            match step {
                Step::Count { key, times } => {
                    // The smallest period is that of 16 entries.
                    let times = u64::from(times).min((PERIOD * 16).saturating_sub(counts + 1));
                    counts += times;
                    *truth.entry(key).or_default() += times;
                    (0..times).for_each(|_| sketch.increment(sketch.spread(hash(key))));
                }
                Step::Fit(wanted) => while entries != wanted {
                    entries = if entries < wanted { entries + 1 } else { entries - 1 };
                    sketch.fit(entries);
                }
            }
            sketch.validate().unwrap();
            for (&key, &count) in &truth {
                let least = count.min(u64::from(MAX_FREQUENCY));
                let estimate = u64::from(sketch.frequency(sketch.spread(hash(key))));
                prop_assert!(estimate >= least, "{key}: {estimate} < {least}");
                prop_assert!(estimate <= u64::from(MAX_FREQUENCY));
            }
        }
    }
}

#[test]
fn counts_saturate() {
    let mut sketch = sized(100);
    (1..=40u8).for_each(|count| {
        sketch.increment(sketch.spread(hash(1)));
        assert_eq!(sketch.frequency(sketch.spread(hash(1))), count.min(MAX_FREQUENCY));
    });
}

/// A key counted 12 times has 6 after one period, and 3 after the next.
#[test]
fn ageing_halves() {
    const ENTRIES: u64 = 4096;
    let mut sketch = sized(ENTRIES as usize);
    let kept = hash(u64::MAX);
    (0..12).for_each(|_| sketch.increment(sketch.spread(kept)));
    assert_eq!(sketch.frequency(sketch.spread(kept)), 12);
    assert_eq!(sketch.period(), PERIOD * ENTRIES);

    // Each other key is counted a few times, so that no counter saturates and each count counts.
    let mut others = (0..).map(|n| hash(n % (ENTRIES * 4)));
    let sweep = (sketch.bytes() / 64).div_ceil(SWEEP) as u64;
    for key in others.by_ref().take((PERIOD * ENTRIES - 13) as usize) {
        sketch.increment(sketch.spread(key));
    }
    let before = sketch.frequency(sketch.spread(kept));
    assert!(before >= 12, "{before} just before the period is over");
    for key in others.by_ref().take(1 + sweep as usize) {
        sketch.increment(sketch.spread(key));
        sketch.validate().unwrap();
    }
    assert_eq!(sketch.frequency(sketch.spread(kept)), before / 2);
    for key in others.by_ref().take((PERIOD * ENTRIES / 4) as usize) {
        sketch.increment(sketch.spread(key));
    }
    assert!(sketch.frequency(sketch.spread(kept)) >= before / 2, "the next halving is not due");

    // What is never asked for again is forgotten in a few periods.
    (0..4 * PERIOD * ENTRIES).for_each(|n| sketch.increment(sketch.spread(hash(ENTRIES * 8 + n))));
    assert!(
        sketch.frequency(sketch.spread(kept)) < 12,
        "{}",
        sketch.frequency(sketch.spread(kept))
    );
}

/// A halving halves the counts since the last one, too: the next one comes after half a period, if
/// no counter was odd.
#[test]
fn the_second_halving_comes_after_half_a_period() {
    const ENTRIES: u64 = 4096;
    let mut sketch = sized(ENTRIES as usize);
    let kept = hash(u64::MAX);
    (0..14).for_each(|_| sketch.increment(sketch.spread(kept)));
    // Each key comes twice, so that counters are even.
    let mut others = (0..).map(|n| hash(n / 2));
    let mut counts_until_it_falls = || {
        let before = sketch.frequency(sketch.spread(kept));
        let mut falls = |key| {
            sketch.increment(sketch.spread(key));
            sketch.frequency(sketch.spread(kept)) < before
        };
        1 + others.by_ref().take_while(|&key| !falls(key)).count() as u64
    };
    let (period, first, second) =
        (PERIOD * ENTRIES, counts_until_it_falls(), counts_until_it_falls());
    assert!(first.abs_diff(period) < period / 16, "{first} counts of {period}");
    assert!(second.abs_diff(period / 2) < period / 16, "{second} counts of {period} / 2");
}

/// The sketch that never stops counting keeps halving: saturated keys do not stay saturated.
#[test]
fn what_was_popular_once_gives_way() {
    let mut sketch = sized(1000);
    (0..100).for_each(|_| sketch.increment(sketch.spread(hash(5))));
    assert_eq!(sketch.frequency(sketch.spread(hash(5))), MAX_FREQUENCY);
    let mut random = Random(1);
    (0..20 * sketch.period())
        .for_each(|_| sketch.increment(sketch.spread(hash(10 + random.below(1000)))));
    let others = f64::from(
        (10..1010).map(|key| u32::from(sketch.frequency(sketch.spread(hash(key))))).sum::<u32>(),
    );
    let forgotten = f64::from(sketch.frequency(sketch.spread(hash(5))));
    assert!(forgotten < others / 1000.0 / 2.0, "{forgotten}, the others {}", others / 1000.0);
}

/// At its nominal load, few keys that were never counted seem to have been.
#[test]
fn few_estimates_are_too_high() {
    // Between two powers of two: some blocks bear twice the keys of others.
    for entries in [128, 3000, 4096] {
        let mut sketch = sized(entries as usize);
        (0..entries).for_each(|key| sketch.increment(sketch.spread(hash(key))));
        let wrong = (entries..entries + 20_000)
            .filter(|&key| sketch.frequency(sketch.spread(hash(key))) > 0)
            .count();
        assert!(wrong < 400, "{entries} entries: {wrong} of 20,000 strangers seem known");
        let high = (0..entries)
            .filter(|&key| sketch.frequency(sketch.spread(hash(key))) > 1)
            .count() as u64;
        assert!(high * 30 < entries, "{high} of {entries} seem to have come twice");
    }
}

/// At the end of a period in which no key came twice, few strangers seem to be popular. (With four
/// counters per key in place of two, it is one in ten.)
#[test]
fn a_scan_makes_few_strangers_popular() {
    let mut sketch = sized(4096);
    (1..PERIOD * 4096).for_each(|key| sketch.increment(sketch.spread(hash(key))));
    let strangers = 1_000_000..1_020_000;
    let wrong = strangers.filter(|&key| sketch.frequency(sketch.spread(hash(key))) >= 5).count();
    assert!(wrong < 400, "{wrong} of 20,000 strangers seem to be popular");
}

/// 8 bytes per entry, but 256 for each of few entries, until those are 4 KiB; and back again. 128
/// for none.
#[test]
fn size_follows_the_entries() {
    let mut sketch = Sketch::new(3);
    assert_eq!(sketch.bytes(), 128);
    for entries in 1..=20_000usize {
        sketch.fit(entries);
        assert_eq!(sketch.bytes(), (entries.div_ceil(8) * 64).max((entries * 256).min(4096)));
    }
    sketch.validate().unwrap();
    for entries in (5_000..20_000).rev() {
        sketch.fit(entries);
    }
    assert_eq!(sketch.bytes(), 160_000, "a quarter is not few");
    for entries in (0..5_000).rev() {
        sketch.fit(entries);
    }
    (0..20_000).for_each(|_| sketch.fit(0));
    sketch.validate().unwrap();
    assert_eq!(sketch.bytes(), 3 * 256, "no number is below a quarter of three");
}

/// The seed decides which keys share counters.
#[test]
fn collisions_depend_on_the_seed() {
    let strangers = |seed| {
        let mut sketch = Sketch::new(seed);
        (1..=300).for_each(|entries| sketch.fit(entries));
        (0..300).for_each(|key| sketch.increment(sketch.spread(hash(key))));
        (300..20_000)
            .filter(|&key| sketch.frequency(sketch.spread(hash(key))) > 0)
            .collect::<Vec<_>>()
    };
    assert_eq!(strangers(1), strangers(1));
    let (one, other) = (strangers(1), strangers(2));
    let common = one.iter().filter(|key| other.contains(key)).count();
    assert!(!one.is_empty() && common * 2 < one.len(), "{common} of {}", one.len());
}

/// A growing table takes a quarter more than it needs while it is smaller than 64 KiB, and 64 KiB
/// at a time from there on. So what is copied is a few times that.
#[test]
fn growth_takes_little_memory() {
    const CHUNK: isize = 64 << 10;
    let [held, allocated] = memory();
    let sketch = sized(20_000);
    let [held_now, allocated_now] = memory();
    let (held, allocated) = (held_now - held, allocated_now - allocated);
    let needed = sketch.bytes() as isize;
    assert!((needed..needed + CHUNK + CHUNK / 8).contains(&held), "{held} bytes for {needed}");
    assert!(allocated < held + 8 * CHUNK, "{allocated} bytes allocated for {held}");
}
