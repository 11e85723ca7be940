//! What changes an entry while a hook or a condition is being asked about it.

use crate::common::audited::{audited, loading_audited};
use crate::common::{MINUTE, SECOND, must_end};
use cortado::{Cache, Clock, Expiration, Expiry, Loaded, RemovalCause, Removed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Keeps the lifetime of the entry, and lets another thread do something while it is asked.
struct Keeps(Meanwhile);

impl Expiry<u32, u32> for Keeps {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        Some(MINUTE)
    }

    fn expire_after_update(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        let meanwhile = self.0.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            thread::spawn(meanwhile).join().unwrap();
        }
        current
    }
}

/// Shorter lives than the present one, and longer ones.
const LIVES: [Duration; 2] = [SECOND, Duration::from_secs(600)];

/// A lifetime that is set while the update hook is asked is the present one: the hook is asked once
/// more.
#[test]
fn a_lifetime_that_is_set_while_the_hook_is_asked_counts() {
    must_end(|| {
        for life in LIVES {
            for idle in [None, Some(Duration::from_secs(3600))] {
                let meanwhile = Meanwhile::default();
                let mut builder = Cache::builder().expire_after(Keeps(Arc::clone(&meanwhile)));
                if let Some(idle) = idle {
                    builder = builder.time_to_idle(idle);
                }
                let (clock, _hand) = Clock::manual();
                let cache = audited(builder.clock(clock).build());
                cache.insert(1, 1);
                let other = cache.clone();
                let sets = move || assert!(other.set_ttl(&1, life));
                *meanwhile.lock().unwrap() = Some(Box::new(sets));
                cache.insert(1, 2);
                let seen = (cache.get(&1), cache.expires_in(&1));
                assert_eq!(seen, (Some(2), Expiration::Due(life)), "{idle:?}");
            }
        }
    });
}

/// The same for a reload, and for one that a persisting entry overtakes.
#[test]
fn a_lifetime_that_is_set_amid_a_reload_counts() {
    must_end(|| {
        for life in LIVES {
            let (meanwhile, (clock, hand)) = (Meanwhile::default(), Clock::manual());
            let cache = loading_audited(
                Cache::builder()
                    .expire_after(Keeps(Arc::clone(&meanwhile)))
                    .refresh_after_write(SECOND)
                    .refresh_inline(true)
                    .clock(clock)
                    .build_with_loader(|_: &u32| Ok::<_, ()>(Loaded::new(2))),
            );
            cache.cache().insert(1, 1);
            hand.advance(SECOND);
            let other = cache.cache().clone();
            *meanwhile.lock().unwrap() = Some(Box::new(move || assert!(other.set_ttl(&1, life))));
            assert!(cache.get(&1).is_ok());
            assert!(meanwhile.lock().unwrap().is_none(), "the hook was asked");
            assert_eq!(cache.expires_in(&1), Expiration::Due(life));
        }
    });
}

/// A value that expires while a condition is asked leaves as expired, and is not returned: also if
/// the condition is asked for the second time, since the entry was replaced meanwhile.
#[test]
fn what_expires_while_the_condition_is_asked_is_not_removed_by_it() {
    must_end(|| {
        for replaced in [false, true] {
            let ((clock, hand), (told, causes)) = (Clock::manual(), channel());
            let told = move |removed: Removed<u32, u32>| told.send(removed.cause()).unwrap();
            let builder = Cache::builder().time_to_live(MINUTE).removal_listener(told);
            let cache = audited(builder.clock(clock).build());
            cache.insert(1, 1);
            let mut asked = 0;
            let removed = cache.remove_if(&1, |_, _| {
                asked += 1;
                if replaced && asked == 1 {
                    thread::scope(|scope| scope.spawn(|| cache.insert(1, 2)).join().unwrap());
                } else {
                    hand.advance(MINUTE);
                }
                true
            });
            assert_eq!((removed, asked), (None, 1 + u32::from(replaced)));
            cache.run_pending_tasks();
            assert_eq!(causes.try_iter().last(), Some(RemovalCause::Expired));
        }
    });
}

/// A load by a condition replaces the value that the condition refuses, though that gets another
/// lifetime while the loader runs. A lifetime of zero is a removal, which overtakes the load.
#[test]
fn a_lifetime_that_is_set_amid_a_load_by_condition_is_of_the_old_value() {
    must_end(|| {
        for life in [MINUTE, Duration::ZERO] {
            let cache = audited(Cache::<u32, u32>::new(100));
            cache.insert(1, 1);
            let sets = || {
                thread::scope(|scope| {
                    scope.spawn(|| assert!(cache.set_ttl(&1, life))).join().unwrap();
                });
                2
            };
            let loaded = cache.entry(1).or_insert_with_if(sets, |value| *value == 1);
            assert_eq!((*loaded, loaded.is_fresh()), (2, true));
            let kept = if life.is_zero() { Expiration::NoEntry } else { Expiration::Never };
            assert_eq!(cache.expires_in(&1), kept);
        }
    });
}
