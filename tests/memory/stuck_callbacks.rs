//! A callback that is stuck holds back no memory: no guard of the epoch is held while it runs.

use crate::common::audited::{Audited, audited};
use crate::common::{HANG, MINUTE, must_end};
use cortado::{Cache, Op};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A callback that waits until it is let go on.
struct Stuck {
    entered: Sender<()>,
    released: Mutex<Receiver<()>>,
}

impl Stuck {
    fn stay(&self) {
        self.entered.send(()).unwrap();
        self.released.lock().unwrap().recv().unwrap();
    }
}

/// Where it is stuck.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Create,
    Weigher,
    RemoveIf,
    Retain,
}

type Arcs = Cache<u64, Arc<u64>>;

/// Key 1 is what the callback is asked about; it is there where the operation wants it so.
fn nothing_is_held(place: Place, operation: fn(&Arcs, &mut dyn FnMut()), there: bool) {
    let (entered, entrance) = channel();
    let (release, released) = channel();
    let stuck = Arc::new(Stuck { entered, released: Mutex::new(released) });
    let (hook, weigher) = (Arc::clone(&stuck), Arc::clone(&stuck));
    let life = move |key: &u64, value: &Arc<u64>| {
        if place == Place::Create && (*key, **value) == (1, 7) {
            hook.stay();
        }
        Some(MINUTE)
    };
    let weight = move |key: &u64, value: &Arc<u64>| {
        if place == Place::Weigher && (*key, **value) == (1, 7) {
            weigher.stay();
        }
        1
    };
    let builder = Cache::builder().weigher(weight);
    let cache: Audited<u64, Arc<u64>> =
        audited(builder.expire_after(cortado::expire::on_write(life)).build());
    if there {
        cache.insert(1, Arc::new(6));
    }
    // `retain` has handles on what lies in the bucket that it is at; others on nothing.
    let kept = if place == Place::Retain { 64 } else { 0 };
    let value = Arc::new(0);
    (10..500).for_each(|key| cache.insert(key, Arc::clone(&value)));
    std::thread::scope(|scope| {
        scope.spawn(|| operation(&cache, &mut || stuck.stay()));
        entrance.recv().unwrap();
        // The other thread is in the callback.
        (10..400).for_each(|key| cache.invalidate(&key));
        (400..500).for_each(|key| cache.insert(key, Arc::new(1)));
        let begun = Instant::now();
        let held = loop {
            cache.run_pending_tasks();
            let held = Arc::strong_count(&value) - 1;
            if held <= kept || begun.elapsed() > HANG / 8 {
                break held;
            }
            std::thread::yield_now();
        };
        release.send(()).unwrap();
        assert!(held <= kept, "{place:?} keeps {held} values that others have removed");
    });
}

#[test]
fn what_others_remove_is_dropped_while_a_callback_is_stuck() {
    type Operation = fn(&Arcs, &mut dyn FnMut());
    let operations: [(Place, Operation, bool); 7] = [
        (Place::Create, |cache, _| cache.insert(1, Arc::new(7)), false),
        (Place::Create, |cache, _| cache.insert(1, Arc::new(7)), true),
        (Place::Create, |cache, _| _ = cache.get_with(1, || Arc::new(7)), false),
        (Place::Weigher, |cache, _| cache.insert(1, Arc::new(7)), true),
        (
            Place::Create,
            |cache, _| _ = cache.entry(1).and_compute_with(|_| Op::Put(Arc::new(7))),
            true,
        ),
        (
            Place::RemoveIf,
            |cache, stay| {
                cache.remove_if(&1, |_, _| {
                    stay();
                    true
                });
            },
            true,
        ),
        (
            Place::Retain,
            |cache, stay| {
                cache.retain(|key, _| {
                    if *key == 1 {
                        stay();
                    }
                    true
                });
            },
            true,
        ),
    ];
    for (place, operation, there) in operations {
        must_end(move || nothing_is_held(place, operation, there));
    }
}
