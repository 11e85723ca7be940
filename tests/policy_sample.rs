//! The sample of the keys by which the rules are chosen: how large it is, which requests count in it, and that
//! it takes no more memory than it says. In loads that only a wide window serves, the time until the rules
//! change tells when there was a verdict.
#![cfg(not(cortado_loom))]

mod policy_store;

use cortado::internals::policy::Policy;
use policy_store::Sim;

/// Each key comes twice, the second time when so many others have come, and never again.
fn echo(lag: u64) -> impl Iterator<Item = u64> {
    (1u64 << 32..).flat_map(move |now| [now, now - lag])
}

/// Requests until the window's target has changed for a wide one; none of so many.
fn until_wide(sim: &mut Sim, keys: impl Iterator<Item = u64>, most: usize) -> Option<usize> {
    let before = sim.policy.window_target();
    let requests = keys.take(most).take_while(|&key| {
        sim.request(key);
        sim.policy.window_target() == before
    });
    let count = requests.count();
    (count < most).then(|| {
        assert!(sim.policy.window_target() > sim.policy.max_weight() / 2);
        count
    })
}

/// A full cache, by keys that never come again.
fn full(capacity: u64, seed: u64) -> Sim {
    let mut sim = Sim::new(Policy::new(capacity, seed));
    sim.run(0..capacity + 1);
    sim
}

#[test]
fn probe() {
    for (capacity, lag) in [(20, 5), (100, 30), (500, 150), (512, 150), (1024,300), (4096,1200),(16_384, 4_800)] {
        let mut all = Vec::new();
        for seed in 0..8 {
            all.push(until_wide(&mut full(capacity, seed), echo(lag), 200_000));
        }
        println!("{capacity} {lag}: {all:?}");
    }
}
