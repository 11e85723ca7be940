//! An executor that runs its jobs before it returns, which the contract of `Execute` allows, on a
//! thread that may deliver nothing at the time.

use crate::common::audited::{Audited, audited};
use crate::common::must_end;
use cortado::{Cache, Job, Op};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

std::thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

type Act = (&'static str, fn(&Audited<u64, u64>, &dyn Fn()));

const ACTS: [Act; 3] = [
    ("computation", |cache, remove| {
        cache.entry(1).and_compute_with(|_| {
            remove();
            Op::Remove
        });
    }),
    ("load", |cache, remove| {
        cache.entry(1000).or_insert_with(|| {
            remove();
            1
        });
        cache.invalidate(&1);
    }),
    ("condition", |cache, remove| {
        cache.remove_if(&1, |_, _| {
            remove();
            true
        });
    }),
];

#[test]
fn what_it_is_given_inside_of_something_waits_for_the_end_of_that() {
    for (name, act) in ACTS {
        must_end(move || {
            let told = Arc::new(AtomicU64::new(0));
            let counts = Arc::clone(&told);
            let inline = |job: Job| job();
            let cache: Audited<u64, u64> = audited(
                Cache::builder()
                    .record_stats(true)
                    .executor(inline)
                    .removal_listener(move |_| {
                        assert!(!INSIDE.get(), "inside of something");
                        counts.fetch_add(1, SeqCst);
                    })
                    .build(),
            );
            (0..100).for_each(|key| cache.insert(key, key));
            act(&cache, &|| {
                INSIDE.set(true);
                (2..100).for_each(|key| cache.invalidate(&key));
                cache.run_pending_tasks();
                INSIDE.set(false);
            });
            cache.run_pending_tasks();
            let panics = cache.stats().listener_panics;
            assert_eq!((told.load(SeqCst), panics), (99, 0), "{name}");
        });
    }
}
