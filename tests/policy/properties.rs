//! Random programs on the policy: after each step everything is recounted.

use crate::effort::share;
use crate::program::{Op, Program};
use crate::store::Sim;
use cortado::internals::policy::Policy;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![2 => Just(0), 6 => Just(1), 6 => 1..20u32, 1 => 20..120u32, 1 => Just(u32::MAX)]
}

fn op() -> impl Strategy<Value = Op> {
    let rank = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 16));
    prop_oneof![
        10 => (0..60u64, weight()).prop_map(|(key, weight)| Op::Add { key, weight }),
        3 => (rank(), weight()).prop_map(|(rank, weight)| Op::Replace { rank, weight }),
        3 => (rank(), prop::option::weighted(0.3, weight()))
            .prop_map(|(rank, weight)| Op::Swap { rank, weight }),
        10 => rank().prop_map(|rank| Op::Access { rank }),
        2 => rank().prop_map(|rank| Op::Remove { rank }),
        1 => (rank(), weight()).prop_map(|(rank, weight)| Op::ReplaceRemoved { rank, weight }),
        6 => Just(Op::Evict),
        3 => Just(Op::EvictOne),
        2 => Just(Op::Readmit),
        2 => Just(Op::SetAside),
        2 => rank().prop_map(|rank| Op::Restore { rank }),
        1 => prop_oneof![0..200u64, Just(u64::from(u32::MAX)), Just(u64::MAX)].prop_map(Op::SetMax),
    ]
}

/// The same cases in each run. `PROPTEST_CASES` says how many a whole run has.
fn config() -> ProptestConfig {
    let whole = ProptestConfig::default();
    ProptestConfig {
        cases: share(whole.cases.into()).max(64) as u32,
        rng_seed: RngSeed::Fixed(2026),
        failure_persistence: None,
        ..whole
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn everything_adds_up_after_each_step(
        ops in prop::collection::vec(op(), 1..200),
        max in prop_oneof![0..4u64, 4..200u64],
        seed in any::<u64>(),
    ) {
        let adaptive = Program::new(Policy::new(max, seed)).run(&ops);
        prop_assert_eq!(Program::new(Policy::new(max, seed)).run(&ops), adaptive, "determinism");
        Program::new(Policy::with_fixed_window(max, seed, 1.0)).run(&ops);
        // A segmented LRU promises no order between a node that it takes back and the one that was
        // written last.
        let ops: Vec<Op> = ops.into_iter().filter(|op| !matches!(op, Op::Readmit)).collect();
        Program::new(Policy::segmented_lru(max, seed)).run(&ops);
    }

    /// With all of the capacity in the window, the policy is LRU.
    #[test]
    fn a_window_of_everything_is_lru(
        keys in prop::collection::vec(0..30u64, 1..300),
        max in 1..20usize,
    ) {
        let mut sim = Sim::new(Policy::with_fixed_window(max as u64, 1, 1.0));
        let mut lru = Vec::new();
        for key in keys {
            let held = lru.iter().position(|&other| other == key);
            prop_assert_eq!(sim.request(key), held.is_some());
            match held {
                Some(at) => drop(lru.remove(at)),
                None if lru.len() == max => drop(lru.remove(0)),
                None => (),
            }
            lru.push(key);
        }
    }
}
