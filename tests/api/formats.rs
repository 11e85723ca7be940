//! What is printed of the cache's own types, for keys and values that cannot be printed; and what
//! holds of them before anything has happened.

use crate::common::audited::{Audited, audited};
use cortado::{Cache, Clock, Expiry, expire};
use std::time::{Duration, Instant};

struct Mute;

#[test]
fn a_builder_prints_its_settings() {
    let plain = format!("{:?}", Cache::<u32, Mute>::builder());
    assert!(plain.starts_with("Builder { name: None, max_capacity: None"), "{plain}");
    assert!(plain.contains("weigher: false, time_to_live: None, time_to_idle: None"), "{plain}");
    let set = Cache::<u32, Mute>::builder()
        .name("names")
        .max_capacity(7)
        .weigher(|_, _| 1)
        .time_to_live(Duration::from_secs(60))
        .time_to_idle(Duration::from_secs(9))
        .expire_after(expire::on_write(|_: &u32, _: &Mute| None))
        .removal_listener(|_| ())
        .clock(Clock::manual().0);
    let set = format!("{set:?}");
    for setting in [
        r#"name: Some("names")"#,
        "max_capacity: Some(7)",
        "weigher: true",
        "time_to_live: Some(60s)",
        "time_to_idle: Some(9s)",
        "expire_after: true",
        "removal_listener: true",
        "clock: Clock::manual",
    ] {
        assert!(set.contains(setting), "{setting} in {set}");
    }
}

#[test]
fn clocks_say_which_they_are() {
    assert_eq!(format!("{:?}", Clock::default()), "Clock::system");
    assert_eq!(format!("{:?}", Clock::system()), "Clock::system");
    assert_eq!(format!("{:?}", Clock::manual().0), "Clock::manual");
    assert_eq!(format!("{:?}", Clock::custom(|| Duration::from_secs(1))), "Clock::custom");
}

#[test]
fn nothing_looked_up_is_no_hit_and_no_division_by_zero() {
    let cache: Audited<u32, u32> = audited(Cache::builder().record_stats(true).build());
    assert_eq!(cache.stats().hit_ratio(), 0.0);
    assert_eq!(cache.get(&1), None);
    cache.insert(1, 1);
    assert_eq!(cache.get(&1), Some(1));
    assert_eq!(cache.stats().hit_ratio(), 0.5);
}

/// A policy of somebody else's may pass on reads that the ready-made one did not ask for.
#[test]
fn a_ready_made_policy_that_is_asked_on_reads_leaves_lives_as_they_are() {
    let life = |_: &u32, _: &u32| Some(Duration::from_secs(60));
    let now = Instant::now();
    let left = Some(Duration::from_secs(7));
    let asked = |policy: &dyn Expiry<u32, u32>| policy.expire_after_read(&1, &1, now, left, now);
    assert_eq!(asked(&expire::on_create(life)), left);
    assert_eq!(asked(&expire::on_write(life)), left);
    assert_eq!(asked(&expire::on_access(life)), Some(Duration::from_secs(60)));
}
