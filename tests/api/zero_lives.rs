//! Caches whose fixed lifetime is zero: they store nothing, and announce each value.

use crate::common::{MINUTE, SECOND, Tested, tested};
use cortado::RemovalCause::Expired;
use cortado::{Builder, CompResult, Expiration, Loaded, Op};
use std::time::Duration;

fn of_zero(idle: bool, configure: impl FnOnce(Builder<u32, u32>) -> Builder<u32, u32>) -> Zero {
    tested(|builder| {
        let zero = Duration::ZERO;
        configure(if idle { builder.time_to_idle(zero) } else { builder.time_to_live(zero) })
    })
}

type Zero = Tested<u32, u32>;

#[test]
fn nothing_is_stored_whatever_makes_the_value() {
    for idle in [false, true] {
        for bounded in [false, true] {
            let tested = of_zero(idle, |b| if bounded { b.max_capacity(100) } else { b });
            tested.insert(1, 1);
            tested.insert_many([(2, 2)]);
            assert_eq!(tested.get_with(3, || 3), 3);
            assert_eq!(tested.optionally_get_with(4, || Some(4)), Some(4));
            assert_eq!(tested.try_get_with(5, || Ok::<_, ()>(5)), Ok(5));
            assert_eq!(tested.load(6, || Loaded::new(6)), 6);
            assert_eq!(tested.get_many_with([7], |_| [(7, 7)]), [Some(7)]);
            assert_eq!(*tested.entry(8).and_upsert_with(|_| 8), 8);
            let put = tested.entry(9).and_compute_with(|_| Op::Put(9));
            assert!(matches!(put, CompResult::Inserted(_)));
            let Err(guard) = tested.get_value_or_guard(&10) else { panic!("the key has no value") };
            assert_eq!(*guard.insert(10), 10);
            assert_eq!(tested.replace(1, 11).unwrap_err(), 11);
            assert_eq!((tested.iter().count(), tested.get(&1)), (0, None));
            assert_eq!(tested.causes(), (1..=10).map(|key| (key, Expired)).collect::<Vec<_>>());
            assert_eq!((tested.entry_count(), tested.next_expiration()), (0, None));
        }
    }
}

/// A lifetime at the call takes the place of the `time_to_live`, but not of the idle time.
#[test]
fn a_lifetime_at_the_call_is_stored_unless_the_idle_time_is_zero() {
    for idle in [false, true] {
        let tested = of_zero(idle, |builder| builder);
        tested.insert_with_ttl(1, 1, MINUTE);
        assert_eq!(tested.load(2, || Loaded::with_ttl(2, MINUTE)), 2);
        let expected = if idle { Expiration::NoEntry } else { Expiration::Due(MINUTE) };
        assert_eq!([tested.expires_in(&1), tested.expires_in(&2)], [expected; 2]);
        tested.pass(2 * MINUTE);
        assert_eq!(tested.causes(), [(1, Expired), (2, Expired)]);
    }
}

#[test]
fn zero_is_what_the_policy_says_and_other_lifetimes_change_nothing() {
    let tested = of_zero(false, |builder| builder.time_to_idle(SECOND));
    let policy = tested.policy();
    assert_eq!(policy.time_to_live(), Some(Duration::ZERO));
    assert_eq!(policy.time_to_idle(), Some(SECOND));
    tested.insert(1, 1);
    assert_eq!((tested.get(&1), tested.causes()), (None, vec![(1, Expired)]));
}

/// A value that comes with an end in the past has not been kept too long.
#[test]
fn a_value_whose_end_is_past_is_not_late() {
    let tested = tested(|builder: Builder<u32, u32>| builder.record_stats(true));
    tested.hand.advance(60 * MINUTE);
    tested.insert_with_ttl(1, 1, MINUTE);
    let now = tested.expires_at(&1).due().unwrap() - MINUTE;
    tested.insert_until(2, 2, now - 50 * MINUTE);
    assert_eq!(tested.causes(), [(2, Expired)]);
    assert_eq!(tested.stats().expiry_lateness().max(), Duration::ZERO);
}
