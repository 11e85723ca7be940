//! Ready-made expiry policies, and the resolution of expiration.

use crate::common::crowd::draw;
use crate::common::{SECOND, Tested, tested};
use cortado::{Expiry, expire};
use std::time::{Duration, Instant};

#[test]
fn ready_made_policies_set_the_life_when_their_names_say() {
    let life = |_: &u32, value: &u32| (*value > 0).then(|| Duration::from_secs(u64::from(*value)));
    let after = |policy: Box<dyn Expiry<u32, u32> + Send + Sync>, touch: fn(&Tested<u32, u32>)| {
        let cache = tested(|builder| builder.expire_after(policy));
        cache.insert(1, 60);
        cache.hand.advance(20 * SECOND);
        touch(&cache);
        let left = cache.expires_in(&1).into_options();
        cache.audit();
        left.unwrap().map(|left| left.as_secs())
    };
    let write = |cache: &Tested<u32, u32>| cache.insert(1, 30);
    let read = |cache: &Tested<u32, u32>| assert_eq!(cache.get(&1), Some(60));
    assert_eq!(after(Box::new(expire::on_create(life)), write), Some(40));
    assert_eq!(after(Box::new(expire::on_create(life)), read), Some(40));
    assert_eq!(after(Box::new(expire::on_write(life)), write), Some(30));
    assert_eq!(after(Box::new(expire::on_write(life)), read), Some(40));
    assert_eq!(after(Box::new(expire::on_access(life)), write), Some(30));
    assert_eq!(after(Box::new(expire::on_access(life)), read), Some(60));
    assert_eq!(after(Box::new(expire::on_write(life)), |cache| cache.insert(1, 0)), None);
}

#[test]
fn jitter_only_shortens_and_spreads() {
    for share in [0.1, 0.5, 1.0] {
        let policy = expire::on_write(|_: &u32, _: &u32| Some(100 * SECOND)).jitter(share);
        let cache = tested(|builder| builder.expire_after(policy));
        (0..2000).for_each(|key| cache.insert(key, key));
        let lives: Vec<f64> = (0..2000)
            .map(|key| cache.expires_in(&key).into_options().unwrap().unwrap().as_secs_f64())
            .collect();
        let shortest = 100.0 * (1.0 - share);
        assert!(lives.iter().all(|&life| life <= 100.0 && life >= shortest - 1e-6));
        // Uniform: every tenth of the range holds about a tenth of them.
        for tenth in 0..10 {
            let from = shortest + (100.0 - shortest) * f64::from(tenth) / 10.0;
            let to = from + (100.0 - shortest) / 10.0;
            let count = lives.iter().filter(|&&life| life >= from && life < to).count();
            assert!((100..300).contains(&count), "{count} of 2000 in {from}..{to}");
        }
        cache.audit();
    }
}

/// The inverse of an odd number in arithmetic modulo 2^64, by Newton's method.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))))
}

/// The state after which SplitMix64 gives this number.
fn state_before(number: u64) -> u64 {
    let unmix = |z: u64, shift: u32| z ^ (z >> shift) ^ (z >> (2 * shift));
    let z = unmix(number, 31).wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
    let z = unmix(z, 27).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
    unmix(z, 30).wrapping_sub(0x9E37_79B9_7F4A_7C15)
}

/// Random numbers that are random enough: those of a known generator, each taken whole. From what
/// is cut off a lifetime its 53 bits are read, the 11 that are lost are tried, and from there on
/// every number is foretold.
#[test]
fn the_numbers_of_the_jitter_are_those_of_splitmix64() {
    let mut published = 1_234_567;
    for number in [6_457_827_717_110_365_317, 3_203_168_211_198_807_973] {
        assert_eq!(state_before(number), published);
        assert_eq!(draw(&mut published), number);
    }
    // So long that a nanosecond is less than what a number's last bit makes.
    let lifetime = Duration::from_secs(1 << 24);
    let policy = expire::on_write(move |_: &u32, _: &u32| Some(lifetime)).jitter(1.0);
    let numbers: Vec<u64> = (0..20)
        .map(|_| {
            let life = policy.expire_after_create(&1, &1, Instant::now()).expect("it ends");
            let cut = (lifetime - life).as_nanos();
            ((cut * (1 << 29) + 500_000_000) / 1_000_000_000) as u64
        })
        .collect();
    let foretells = |lost: u64| {
        let mut state = state_before(numbers[0] << 11 | lost);
        numbers.iter().all(|&number| draw(&mut state) >> 11 == number)
    };
    assert!((0..1 << 11).any(foretells), "{numbers:?}");
}

#[test]
fn the_resolution_bounds_how_late_an_entry_is_removed() {
    for (resolution, tick) in [(1, 1 << 19), (10, 1 << 23), (100, 1 << 26), (5000, 1 << 30)] {
        let cache: Tested<u32, u32> =
            tested(|builder| builder.expiry_resolution(Duration::from_millis(resolution)));
        let ttl = |key: u32| Duration::from_micros(u64::from(key) * 7919 + 1000);
        (0..500).for_each(|key| cache.insert_with_ttl(key, key, ttl(key)));
        cache.settle();
        while let Some(wait) = cache.next_expiration() {
            cache.pass(wait);
        }
        let told = cache.told();
        assert_eq!(told.len(), 500);
        let tick = Duration::from_nanos(tick);
        assert!(told.iter().all(|told| told.late_by.unwrap() < tick), "{resolution} ms");
        cache.audit();
    }
}

#[test]
fn long_lives_end_on_time_whatever_the_resolution() {
    const DAY: Duration = Duration::from_secs(86400);
    for resolution in [Duration::from_millis(1), SECOND] {
        let cache: Tested<u32, u32> = tested(|builder| builder.expiry_resolution(resolution));
        let days = [1, 7, 30, 365, 3650];
        for (key, days) in days.into_iter().enumerate() {
            cache.insert_with_ttl(key as u32, days, days * DAY);
        }
        let mut steps = 0;
        cache.settle();
        while let Some(wait) = cache.next_expiration() {
            cache.pass(wait);
            steps += 1;
        }
        // The wheel sleeps over the years: it looks once in each tick of its last level, 2.44 h.
        assert!(steps < 40_000, "{steps}");
        let told = cache.told();
        assert_eq!(told.len(), 5);
        for told in told {
            assert!(told.late_by.unwrap() < resolution && told.age >= told.value * DAY);
        }
        cache.audit();
    }
}
