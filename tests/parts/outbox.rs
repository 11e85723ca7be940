//! The outbox: order, limit, re-entry, panics, and one deliverer at a time on real threads.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use cortado::internals::outbox::{Delivered, Outbox};

const NO_LIMIT: usize = usize::MAX;

fn filled(items: std::ops::Range<u32>) -> Outbox<u32> {
    let outbox = Outbox::with_limit(usize::MAX, false);
    items.for_each(|item| outbox.push(item));
    outbox
}

#[test]
fn items_come_in_order_and_within_the_limit() {
    let outbox = filled(0..5);
    assert_eq!((outbox.len(), outbox.is_empty()), (5, false));
    let mut got = Vec::new();
    let delivered = outbox.deliver(0, |item| got.push(item));
    assert_eq!(delivered, Delivered { count: 0, more: true });
    let delivered = outbox.deliver(3, |item| got.push(item));
    assert_eq!(delivered, Delivered { count: 3, more: true });
    let delivered = outbox.deliver(2, |item| got.push(item));
    assert_eq!(delivered, Delivered { count: 2, more: false });
    let delivered = outbox.deliver(2, |item| got.push(item));
    assert_eq!(delivered, Delivered { count: 0, more: false });
    assert_eq!(got, [0, 1, 2, 3, 4]);
    assert_eq!((outbox.len(), outbox.is_empty()), (0, true));
}

#[test]
fn a_callback_that_re_enters_leaves_its_items_to_the_outer_call() {
    let outbox = filled(0..2);
    let mut got = Vec::new();
    let delivered = outbox.deliver(NO_LIMIT, |item| {
        got.push(item);
        if item < 10 {
            outbox.push(item + 10);
            let inner = outbox.deliver(NO_LIMIT, |_| panic!("a second deliverer"));
            assert_eq!(inner, Delivered { count: 0, more: false });
        }
    });
    assert_eq!(delivered, Delivered { count: 4, more: false });
    assert_eq!(got, [0, 1, 10, 11]);
}

#[test]
fn a_callback_that_always_pushes_is_stopped_by_the_limit() {
    let outbox = filled(0..1);
    let delivered = outbox.deliver(100, |item| outbox.push(item + 1));
    assert_eq!(delivered, Delivered { count: 100, more: true });
    assert_eq!(outbox.len(), 1);
}

#[test]
fn a_callback_that_panics_loses_its_own_item_only() {
    let outbox = filled(0..4);
    let mut got = Vec::new();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        outbox.deliver(NO_LIMIT, |item| {
            assert!(item != 1, "seeded");
            got.push(item);
        })
    }));
    assert!(unwound.is_err());
    let delivered = outbox.deliver(NO_LIMIT, |item| got.push(item));
    assert_eq!(delivered, Delivered { count: 2, more: false });
    assert_eq!(got, [0, 2, 3]);
}

#[test]
fn what_is_not_delivered_is_dropped_with_the_outbox() {
    let item = std::sync::Arc::new(());
    let outbox = Outbox::with_limit(usize::MAX, false);
    outbox.push(std::sync::Arc::clone(&item));
    drop(outbox);
    assert_eq!(std::sync::Arc::strong_count(&item), 1);
}

#[test]
fn one_deliverer_at_a_time_and_nothing_is_stranded() {
    const THREADS: usize = 4;
    const ITEMS: usize = 10_000;
    let outbox = Outbox::with_limit(usize::MAX, false);
    let got = Mutex::new(vec![Vec::new(); THREADS]);
    let inside = AtomicBool::new(false);
    thread::scope(|scope| {
        for t in 0..THREADS {
            let (outbox, got, inside) = (&outbox, &got, &inside);
            scope.spawn(move || {
                for i in 0..ITEMS {
                    outbox.push((t, i));
                    while outbox
                        .deliver(7, |(t, i)| {
                            assert!(!inside.swap(true, SeqCst), "two at once");
                            got.lock().unwrap()[t].push(i);
                            inside.store(false, SeqCst);
                        })
                        .more
                    {}
                }
            });
        }
    });
    assert!(outbox.is_empty(), "{} stranded", outbox.len());
    for of_thread in got.into_inner().unwrap() {
        assert_eq!(of_thread, (0..ITEMS).collect::<Vec<_>>());
    }
}
