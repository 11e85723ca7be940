//! Lifetimes and soft deadlines of values that are loaded by one call for many keys.

use super::bench::{HARD, SOFT, bench};
use crate::common::audited::{audited, loading_audited};
use crate::common::{SECOND, must_end};
use cortado::{Cache, Clock, Expiration, Loaded, Loader, Reloaded};
use std::sync::mpsc::channel;
use std::thread;

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
    assert_eq!(cache.get_many(&[1]), Ok(vec![Some(1)]));
    assert_eq!(cache.cache().expires_in(&7).due(), Some(50 * SECOND));
    hand.advance(SECOND);
    assert_eq!(cache.get_many(&[1, 7]), Ok(vec![Some(1), Some(7)]));
    assert_eq!((cache.get(&1), cache.get(&7)), (Ok(1), Ok(107)));
    assert_eq!(cache.cache().expires_in(&7).due(), Some(HARD));
}

/// Without refresh the soft deadline means nothing, and the lifetime does.
#[test]
fn without_refresh_an_unasked_pair_has_its_lifetime() {
    let (clock, _hand) = Clock::manual();
    let cache = loading_audited(Cache::builder().clock(clock).build_with_loader(Generous));
    assert_eq!(cache.get_many(&[1]), Ok(vec![Some(1)]));
    assert_eq!(cache.cache().expires_in(&7).due(), Some(50 * SECOND));
    let cache = audited(Cache::<u32, u32>::builder().build());
    assert_eq!(cache.get_many_with([1], |_| [(1, 1), (7, 7)]), [Some(1)]);
    assert_eq!(cache.expires_in(&7), Expiration::Never);
}

/// Between the read and the load, the key gets a value whose reload begins.
#[test]
fn a_load_waits_for_no_reload_of_a_value_that_has_come() {
    must_end(|| {
        let b = bench(|builder| builder);
        let ((begun, begins), (go, goes)) = (channel(), channel::<()>());
        *b.upstream.1.lock().unwrap() = Some(Box::new(move || {
            begun.send(()).unwrap();
            assert!(goes.recv().is_err());
        }));
        b.plan(Ok(Reloaded::gone()));
        thread::scope(|scope| {
            let keys = [7, 8].iter().inspect(|key| {
                if **key == 8 {
                    b.cache.insert(7, 50);
                    assert!(b.cache.refresh(&7));
                    scope.spawn(|| b.jobs.run());
                    begins.recv().unwrap();
                }
            });
            assert_eq!(b.cache.get_many(keys), Ok(vec![Some(50), Some(1)]));
            drop(go);
        });
        assert_eq!(b.cache.cache().peek(&7).as_deref(), None);
    });
}
