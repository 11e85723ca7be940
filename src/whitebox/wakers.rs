//! Tests of the slots of wakers.

use super::*;

#[test]
fn slots_are_used_again_and_belong_to_their_tasks() {
    let mut wakers = Wakers::default();
    let (mut first, mut second) = (None, None);
    assert!(wakers.keep(&mut first, Waker::noop().clone()).is_none());
    assert!(wakers.keep(&mut second, Waker::noop().clone()).is_none());
    assert!(wakers.keep(&mut first, Waker::noop().clone()).is_some());
    assert_eq!(wakers.take_all().len(), 2);
    assert!(wakers.keep(&mut second, Waker::noop().clone()).is_none());
    assert!(wakers.release(first.unwrap()).is_none());
    let mut third = None;
    assert!(wakers.keep(&mut third, Waker::noop().clone()).is_none());
    assert_eq!(third, first);
    assert!(wakers.release(second.unwrap()).is_some());
    assert!(wakers.release(third.unwrap()).is_some());
    assert!(wakers.slots.is_empty(), "nobody waits");
    assert!(wakers.take_all().is_empty());
}
