//! Reloads on the workers of the process.

use crate::common::audited::{LoadingAudited, loading_audited};
use crate::common::noted::eventually;
use crate::common::{HANG, SECOND, must_end};
use cortado::{Cache, Clock, Loaded, Loader, Reloaded};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

/// So many reloads of all caches run on the workers at once.
const PLACES: usize = 64;

/// Reloads that wait until they are let go.
#[derive(Default)]
struct Blocks {
    running: AtomicUsize,
    most: AtomicUsize,
    is_open: Mutex<bool>,
    opened: Condvar,
}

struct Upstream(Arc<Blocks>);

impl Loader<usize, usize> for Upstream {
    type Error = ();

    fn load(&self, _: &usize) -> Result<Loaded<usize>, ()> {
        Ok(Loaded::new(0))
    }

    fn reload(&self, key: &usize, _: &usize) -> Result<Reloaded<usize>, ()> {
        let blocks = &self.0;
        let running = blocks.running.fetch_add(1, SeqCst) + 1;
        blocks.most.fetch_max(running, SeqCst);
        let is_open = blocks.is_open.lock().unwrap();
        let is_open = blocks.opened.wait_timeout_while(is_open, HANG, |is_open| !*is_open);
        assert!(!is_open.unwrap().1.timed_out(), "nobody lets it go");
        blocks.running.fetch_sub(1, SeqCst);
        Ok(Reloaded::new(key + 1))
    }
}

/// Two caches have more reloads to make than there are places. The others wait, and listeners find
/// workers of theirs meanwhile.
#[test]
fn as_many_run_at_once_as_there_are_places_and_listeners_are_told_meanwhile() {
    must_end(|| {
        let (blocks, told) = (Arc::<Blocks>::default(), Arc::new(AtomicUsize::new(0)));
        let (clock, hand) = Clock::manual();
        let caches = [0, 1].map(|_| {
            let tells = Arc::clone(&told);
            let builder = Cache::builder()
                .refresh_after_write(SECOND)
                .refresh_limit(PLACES)
                .scheduler(true)
                .clock(clock.clone())
                .removal_listener(move |_| {
                    tells.fetch_add(1, SeqCst);
                });
            loading_audited(builder.build_with_loader(Upstream(Arc::clone(&blocks))))
        });
        for cache in &caches {
            cache.cache().insert_many((0..PLACES).map(|key| (key, 0)));
        }
        hand.advance(SECOND);
        for cache in &caches {
            (0..PLACES).for_each(|key| assert_eq!(cache.get(&key), Ok(0)));
            assert_eq!(cache.stats().reloads_under_way, PLACES as u64);
        }
        eventually("all places are taken", || blocks.running.load(SeqCst) == PLACES);
        // Nobody but the scheduler has it delivered, and a worker does.
        caches[0].cache().insert_with_ttl(PLACES, 0, SECOND / 2);
        hand.advance(SECOND);
        eventually("a listener is told", || told.load(SeqCst) > 0);
        assert_eq!(blocks.most.load(SeqCst), PLACES);
        *blocks.is_open.lock().unwrap() = true;
        blocks.opened.notify_all();
        let done = |cache: &cortado::Cache<usize, usize>| cache.stats().reloads == PLACES as u64;
        eventually("all are reloaded", || caches.iter().all(|cache| done(cache.cache())));
        assert!(blocks.most.load(SeqCst) <= PLACES);
    });
}

/// Nobody uses the cache after a listener, or the holder of a view, has left a reload.
#[test]
fn the_scheduler_hands_on_what_is_left_where_none_may_begin() {
    must_end(|| {
        for under_view in [true, false] {
            let cache = Arc::new_cyclic(|own: &Weak<LoadingAudited<usize, usize, ()>>| {
                let own = Weak::clone(own);
                let listener = move |key: Arc<usize>, _, _| {
                    // Not of the reload: each look at the new value triggers another one.
                    let Some(own) = own.upgrade().filter(|_| *key == 2) else { return };
                    assert_eq!(own.cache().get(&1), Some(0));
                    // The scheduler comes while this job runs.
                    std::thread::sleep(SECOND / 20);
                };
                // By the system's clock: a scheduler that reads another one comes once a second.
                let builder = Cache::builder().refresh_after_write(Duration::ZERO);
                let builder = builder.scheduler(true).eviction_listener(listener);
                loading_audited(
                    builder.build_with_loader(|key: usize| Ok::<_, ()>(Loaded::new(key))),
                )
            });
            cache.cache().insert_many([(1, 0), (2, 0)]);
            // The scheduler comes to rest.
            std::thread::sleep(SECOND / 5);
            if under_view {
                let _view = cache.cache().pin();
                assert!(cache.refresh(&1));
            } else {
                cache.invalidate(&2);
            }
            eventually("it is reloaded", || cache.stats().reloads > 0);
            cache.invalidate_all();
            cache.cache().run_pending_tasks();
        }
    });
}
