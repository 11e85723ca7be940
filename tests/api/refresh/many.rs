//! Lifetimes and soft deadlines of values that are loaded by one call for many keys.

use super::bench::{HARD, SOFT};
use crate::common::SECOND;
use crate::common::audited::{audited, loading_audited};
use cortado::{Cache, Clock, Expiration, Loaded, Loader};

/// Makes what it is asked for, and the value 7 that nobody asked for: stale after a second.
struct Generous;

impl Loader<u32, u32> for Generous {
    type Error = ();

    fn load(&self, key: &u32) -> Result<Loaded<u32>, ()> {
        Ok(Loaded::new(key + 100))
    }

    fn load_many(&self, keys: &[&u32]) -> Vec<(u32, Result<Loaded<u32>, ()>)> {
        let made = keys.iter().map(|key| (**key, Ok(Loaded::new(**key))));
        let more = Loaded::with_ttl(7, 50 * SECOND).refresh_after(SECOND);
        made.chain([(7, Ok(more))]).collect()
    }
}

#[test]
fn an_unasked_pair_is_stale_and_ends_when_its_loader_says() {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().refresh_after_write(SOFT).time_to_live(HARD);
    let builder = builder.executor(|job: cortado::Job| job()).clock(clock);
    let cache = loading_audited(builder.build_with_loader(Generous));
    assert_eq!(cache.get_many([1]), Ok(vec![Some(1)]));
    assert_eq!(cache.expires_in(&7).due(), Some(50 * SECOND));
    hand.advance(SECOND);
    assert_eq!(cache.get_many([1, 7]), Ok(vec![Some(1), Some(7)]));
    assert_eq!((cache.get(&1), cache.get(&7)), (Ok(1), Ok(107)));
    assert_eq!(cache.expires_in(&7).due(), Some(HARD));
}

/// Without refresh the soft deadline means nothing, and the lifetime does.
#[test]
fn without_refresh_an_unasked_pair_has_its_lifetime() {
    let (clock, _hand) = Clock::manual();
    let cache = loading_audited(Cache::builder().clock(clock).build_with_loader(Generous));
    assert_eq!(cache.get_many([1]), Ok(vec![Some(1)]));
    assert_eq!(cache.expires_in(&7).due(), Some(50 * SECOND));
    let cache = audited(Cache::<u32, u32>::builder().build());
    assert_eq!(cache.get_many_with([1], |_| [(1, 1), (7, 7)]), [Some(1)]);
    assert_eq!(cache.expires_in(&7), Expiration::Never);
}
