use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const IDS: u32 = 2_000;
const SECOND: u64 = 1_000_000_000;

/// Random operations, beside a plain array that knows what must happen.
struct Check {
    seed: u64,
}

impl Driver for Check {
    type Output = u32;

    fn drive<T: Timers>(&mut self) -> u32 {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut timers = T::new(IDS);
        let mut deadlines: Vec<Option<u64>> = vec![None; IDS as usize + 1];
        let mut keys: Vec<Option<T::Key>> = vec![None; IDS as usize + 1];
        let (mut now, mut fired) = (0, 0);
        for _ in 0..600 {
            for _ in 0..50 {
                let id = rng.random_range(1..=IDS);
                let deadline = now + rng.random_range(2 * SECOND..600 * SECOND);
                let place = &mut deadlines[id as usize];
                let key = keys[id as usize].filter(|_| place.is_some());
                (keys[id as usize], *place) = match (key, rng.random_range(0..3)) {
                    (None, _) => (Some(timers.schedule(id, deadline)), Some(deadline)),
                    (Some(key), 0) => {
                        timers.cancel(key);
                        (None, None)
                    }
                    (Some(key), _) => {
                        (Some(timers.reschedule((id, key), deadline)), Some(deadline))
                    }
                };
            }
            now += rng.random_range(SECOND / 10..5 * SECOND);
            timers.expire(now, &mut |id| {
                let deadline = deadlines[id as usize].take();
                let deadline = deadline.unwrap_or_else(|| panic!("{} {id} uncalled for", T::NAME));
                assert!(deadline <= now, "{} early", T::NAME);
                fired += 1;
            });
            let late = deadlines.iter().flatten().find(|&&deadline| deadline + T::LATENESS < now);
            assert_eq!(late, None, "{} late at {now}", T::NAME);
        }
        fired
    }
}

#[test]
fn every_structure_hands_out_what_is_due_and_nothing_else() {
    for seed in 0..3 {
        let fired = each(&mut Check { seed });
        assert!(fired.iter().all(|(_, fired)| *fired > 3_000), "{fired:?}");
    }
}
