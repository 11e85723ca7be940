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
        let (mut now, mut fired) = (0, 0);
        for _ in 0..600 {
            for _ in 0..50 {
                let id = rng.random_range(1..=IDS);
                let deadline = now + rng.random_range(2 * SECOND..600 * SECOND);
                let place = &mut deadlines[id as usize];
                match (*place, rng.random_range(0..3)) {
                    (None, _) => {
                        timers.schedule(id, deadline);
                        *place = Some(deadline);
                    }
                    (Some(_), 0) => {
                        timers.cancel(id);
                        *place = None;
                    }
                    (Some(_), _) => {
                        timers.reschedule(id, deadline);
                        *place = Some(deadline);
                    }
                }
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
