//! The stack of user code inside a bulk load: as high for many keys as for one.

use crate::cache::Cache;
use crate::engine::frames;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// How high the stack is while the loader of a thread runs.
fn in_a_call(keys: u32) -> usize {
    let cache: Cache<u32, u32> = Cache::new(1000);
    let mut height = 0;
    cache.get_many_with(0..keys, |asked| {
        assert_eq!(asked.len(), keys as usize);
        height = frames();
        Vec::<(u32, u32)>::new()
    });
    height
}

/// The same while a task's loader is called, and at each of two polls of its future.
fn in_a_task(keys: u32) -> Vec<usize> {
    let cache = Cache::<u32, u32>::new(1000).future();
    let heights = RefCell::new(Vec::new());
    let load = cache.get_many_with(0..keys, |asked| {
        assert_eq!(asked.len(), keys as usize);
        heights.borrow_mut().push(frames());
        poll_fn(|_| {
            heights.borrow_mut().push(frames());
            if heights.borrow().len() < 3 {
                Poll::Pending
            } else {
                Poll::Ready(Vec::<(u32, u32)>::new())
            }
        })
    });
    let mut load = pin!(load);
    let mut context = Context::from_waker(Waker::noop());
    assert!(load.as_mut().poll(&mut context).is_pending());
    assert_eq!(frames(), 0);
    assert!(load.as_mut().poll(&mut context).is_ready());
    heights.take()
}

#[test]
fn a_loader_of_many_keys_is_marked_once() {
    assert_eq!(in_a_call(100), in_a_call(1));
    assert_eq!(in_a_task(100), in_a_task(1));
    assert_eq!(frames(), 0);
}
