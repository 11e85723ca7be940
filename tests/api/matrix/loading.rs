//! Loads and computations, in every configuration.

use crate::common::{LIFE, SECOND, TICK, for_each_config};
use cortado::RemovalCause::{Expired, Explicit, Replaced};
use cortado::{CompResult, Loaded, Op};

#[test]
fn get_with_loads_what_is_missing_and_only_that() {
    for_each_config(|bench| {
        assert_eq!(bench.get_with(1, || 10), 10);
        assert_eq!(bench.get_with(1, || unreachable!()), 10);
        assert_eq!(bench.expires_in(&1).into_options(), Some(bench.lives()));
        assert_eq!(bench.told(), []);
        assert_eq!(bench.entry_count(), 1);
        assert_eq!(bench.weighted_size(), u64::from(bench.weight(10)));
    });
}

#[test]
fn get_with_loads_again_what_has_expired() {
    for_each_config(|bench| {
        bench.get_with(1, || 10);
        bench.hand.advance(LIFE);
        let expected = if bench.lives().is_some() { 11 } else { 10 };
        assert_eq!(bench.get_with(1, || 11), expected);
        let told = bench.told();
        if bench.lives().is_some() {
            assert_eq!(told.len(), 1);
            assert_eq!((told[0].value, told[0].cause), (10, Expired));
            assert_eq!(told[0].late_by, Some(std::time::Duration::ZERO));
        } else {
            assert_eq!(told, []);
        }
        assert_eq!(bench.stats().loads, 1 + u64::from(bench.lives().is_some()));
    });
}

#[test]
fn or_insert_with_tells_who_made_the_value() {
    for_each_config(|bench| {
        let first = bench.entry(1).or_insert_with(|| 10);
        let second = bench.entry(1).or_insert_with(|| 11);
        assert!(first.is_fresh() && !second.is_fresh());
        assert_eq!((*first, *second), (10, 10));
        assert_eq!(first.expires_in(), bench.lives());
        assert_eq!(first.weight(), bench.weight(10));
        bench.insert(1, 12);
        assert_eq!(bench.causes(), [(1, Replaced)]);
        // The handles are on what was there then.
        assert_eq!((*first, *second), (10, 10));
    });
}

#[test]
fn a_computation_inserts_replaces_removes_or_leaves() {
    for_each_config(|bench| {
        let seen = |result: &CompResult<u64, u64>| match result {
            CompResult::Inserted(entry) => ("inserted", Some(**entry)),
            CompResult::ReplacedWith(entry) => ("replaced", Some(**entry)),
            CompResult::Removed(entry) => ("removed", Some(**entry)),
            CompResult::Unchanged(entry) => ("unchanged", Some(**entry)),
            CompResult::StillNone(_) => ("none", None),
        };
        let compute = |op: Op<u64>, present: Option<u64>| {
            let result = bench.entry(1).and_compute_with(|entry| {
                assert_eq!(entry.as_deref().copied(), present);
                assert!(entry.as_ref().is_none_or(|entry| *entry.key() == 1));
                op
            });
            seen(&result)
        };
        assert_eq!(compute(Op::Nop, None), ("none", None));
        assert_eq!(compute(Op::Remove, None), ("none", None));
        assert_eq!(compute(Op::Put(10), None), ("inserted", Some(10)));
        assert_eq!(bench.expires_in(&1).into_options(), Some(bench.lives()));
        bench.hand.advance(SECOND);
        assert_eq!(compute(Op::Nop, Some(10)), ("unchanged", Some(10)));
        assert_eq!(
            bench.expires_in(&1).into_options(),
            Some(bench.lives().map(|life| life - SECOND))
        );
        assert_eq!(compute(Op::Put(11), Some(10)), ("replaced", Some(11)));
        assert_eq!(bench.expires_in(&1).into_options(), Some(bench.lives()));
        assert_eq!(compute(Op::Remove, Some(11)), ("removed", Some(11)));
        assert_eq!(bench.get(&1), None);
        let told: Vec<_> = bench.told().iter().map(|told| (told.value, told.cause)).collect();
        assert_eq!(told, [(10, Replaced), (11, Explicit)]);
        assert_eq!(bench.entry_count(), 0);
    });
}

#[test]
fn a_computation_sees_no_expired_entry_and_what_it_puts_is_new() {
    for_each_config(|bench| {
        bench.insert(1, 10);
        bench.hand.advance(LIFE);
        let result = bench.entry(1).and_compute_with(|entry| {
            assert_eq!(entry.is_none(), bench.lives().is_some());
            Op::Put(11)
        });
        assert_eq!(matches!(result, CompResult::Inserted(_)), bench.lives().is_some());
        assert_eq!(bench.causes(), [(1, bench.cause_if_over(Replaced))]);
        assert_eq!(bench.expires_in(&1).into_options(), Some(bench.lives()));
    });
}

#[test]
fn an_entry_that_expires_while_it_is_computed_is_announced_as_expired() {
    for_each_config(|bench| {
        for op in [Op::Nop, Op::Put(11), Op::PutLoaded(Loaded::with_ttl(11, 2 * LIFE)), Op::Remove]
        {
            bench.insert(1, 10);
            bench.settle();
            bench.entry(1).and_compute_with(|entry| {
                assert!(entry.is_some());
                bench.hand.advance(LIFE);
                assert_eq!(bench.get(&1).is_none(), bench.lives().is_some());
                op
            });
            bench.pass(TICK);
            match (bench.lives(), op) {
                (Some(_), _) => assert_eq!(bench.causes(), [(1, Expired)]),
                (None, Op::Nop) => assert_eq!(bench.causes(), []),
                (None, Op::Put(_) | Op::PutLoaded(_)) => {
                    assert_eq!(bench.causes(), [(1, Replaced)])
                }
                (None, Op::Remove) => assert_eq!(bench.causes(), [(1, Explicit)]),
            }
            assert_eq!(
                bench.get(&1).is_some(),
                match op {
                    Op::Nop => bench.lives().is_none(),
                    Op::Put(_) | Op::PutLoaded(_) => true,
                    Op::Remove => false,
                }
            );
            bench.invalidate(&1);
            bench.told();
        }
    });
}

#[test]
fn loads_and_computations_stay_within_the_bound() {
    for_each_config(|bench| {
        for key in 0..1500 {
            bench.get_with(key, || key);
            bench.entry(key + 10_000).and_compute_with(|_| Op::Put(key));
        }
        bench.settle();
        let told = bench.told().len() as u64;
        assert_eq!(told + bench.entry_count(), 3000);
        if let Some(capacity) = bench.policy().max_capacity() {
            assert!(bench.weighted_size() <= capacity && told > 0);
        }
    });
}
