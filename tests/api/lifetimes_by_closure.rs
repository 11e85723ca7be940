//! The builder's closures for lifetimes, and policies that leave hooks to the trait.

use crate::common::{SECOND, tested};
use cortado::RemovalCause::{Expired, Replaced};
use cortado::{Builder, Expiration, Expiry};
use std::time::{Duration, Instant};

type Build = Builder<u32, u32>;

/// As many seconds as the value says; none for zero.
fn life(_: &u32, value: &u32) -> Option<Duration> {
    (*value > 0).then(|| Duration::from_secs((*value).into()))
}

const DUE: fn(Duration) -> Expiration<Duration> = Expiration::Due;

#[test]
fn ttl_on_create_keeps_the_end_over_updates_and_reads() {
    let tested = tested(|builder: Build| builder.ttl_on_create(life));
    tested.insert(1, 10);
    tested.insert(2, 0);
    tested.hand.advance(4 * SECOND);
    tested.get(&1);
    tested.insert(1, 100);
    tested.insert(2, 5);
    assert_eq!(tested.expires_in(&1), DUE(6 * SECOND));
    assert_eq!(tested.expires_in(&2), Expiration::Never);
    tested.hand.advance(6 * SECOND);
    // Over an entry that has expired it is a creation.
    tested.insert(1, 20);
    assert_eq!(tested.expires_in(&1), DUE(20 * SECOND));
    assert_eq!(tested.causes(), [(1, Replaced), (1, Expired), (2, Replaced)]);
}

#[test]
fn ttl_on_write_begins_anew_with_each_write() {
    let tested = tested(|builder: Build| builder.ttl_on_write(life));
    tested.insert(1, 10);
    tested.hand.advance(4 * SECOND);
    tested.get(&1);
    assert_eq!(tested.expires_in(&1), DUE(6 * SECOND));
    tested.insert(1, 3);
    assert_eq!(tested.expires_in(&1), DUE(3 * SECOND));
    assert_eq!(tested.get_with(2, || 8), 8);
    assert_eq!(tested.expires_in(&2), DUE(8 * SECOND));
    tested.insert(1, 0);
    assert_eq!(tested.expires_in(&1), Expiration::Never);
}

#[test]
fn ttl_on_access_begins_anew_with_each_read_too() {
    let tested = tested(|builder: Build| builder.ttl_on_access(life));
    tested.insert(1, 10);
    tested.hand.advance(4 * SECOND);
    assert!(tested.peek(&1).is_some());
    assert_eq!(tested.expires_in(&1), DUE(6 * SECOND));
    assert_eq!(tested.get_with(1, || unreachable!("it is there")), 10);
    assert_eq!(tested.expires_in(&1), DUE(10 * SECOND));
    tested.hand.advance(9 * SECOND);
    assert!(tested.touch(&1));
    tested.hand.advance(10 * SECOND);
    assert_eq!((tested.get(&1), tested.causes()), (None, vec![(1, Expired)]));
}

/// A policy that has something to say of reads only.
struct ReadsOnly;

impl Expiry<u32, u32> for ReadsOnly {
    fn expire_after_read(
        &self,
        _: &u32,
        value: &u32,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        life(&0, value)
    }
}

/// A policy that has something to say of updates only.
struct UpdatesOnly;

impl Expiry<u32, u32> for UpdatesOnly {
    fn expire_after_update(
        &self,
        _: &u32,
        value: &u32,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        life(&0, value)
    }
}

/// One that says nothing at all.
struct Silent;

impl Expiry<u32, u32> for Silent {}

#[test]
fn the_create_hook_of_the_trait_gives_no_end() {
    let tested = tested(|builder: Build| builder.expire_after(Silent));
    tested.insert(1, 1);
    tested.get(&1);
    tested.insert(1, 2);
    assert_eq!(tested.expires_in(&1), Expiration::Never);
    tested.insert_with_ttl(1, 3, 5 * SECOND);
    assert_eq!((tested.get(&1), tested.expires_in(&1)), (Some(3), DUE(5 * SECOND)));
    tested.insert(1, 4);
    assert_eq!(tested.expires_in(&1), Expiration::Never, "an update is a creation by default");
}

#[test]
fn a_policy_of_one_hook_leaves_the_others_to_the_trait() {
    let reads = tested(|builder: Build| builder.expire_after(ReadsOnly));
    reads.insert(1, 7);
    assert_eq!(reads.expires_in(&1), Expiration::Never);
    reads.get(&1);
    assert_eq!(reads.expires_in(&1), DUE(7 * SECOND));
    reads.insert(1, 9);
    assert_eq!(reads.expires_in(&1), Expiration::Never);

    let updates = tested(|builder: Build| builder.expire_after(UpdatesOnly));
    updates.insert(1, 7);
    updates.get(&1);
    assert_eq!(updates.expires_in(&1), Expiration::Never);
    updates.replace(1, 8).unwrap();
    assert_eq!(updates.expires_in(&1), DUE(8 * SECOND));
}
