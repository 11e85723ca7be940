//! A reload whose entry was replaced before its loader began.

use crate::cache::Cache;
use crate::clock::Clock;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const MOMENT: Duration = Duration::from_nanos(1);

type Load<'a> = Pin<Box<dyn Future<Output = u32> + Send + 'a>>;

/// Polls on another thread, since the test's own runs the code of the reload.
fn poll(load: &mut Load<'_>) -> Poll<u32> {
    let poll = || load.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    std::thread::scope(|scope| scope.spawn(poll).join().expect("no panic"))
}

/// The reload finds the new entry. Then `set_ttl` shortens the entry's life, the entry expires, and
/// a load of the key waits for the reload. The load must not return the expired entry.
#[test]
fn a_vain_reload_shares_nothing() {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder()
        .refresh_after_write(Duration::from_secs(60))
        .executor(|job: crate::Job| job());
    let cache: Cache<u32, u32> = builder.clock(clock).build();
    cache.insert(1, 1);
    let replaced = cache.peek(&1).expect("just inserted");
    cache.insert(1, 2);
    let engine = cache.engine();
    let flight = engine.begin_reload(replaced.node()).expect("no other flight").enter();
    let (present, _) = engine.stable_entry(engine.hash(&1), &1);
    assert!(present.is_some());
    assert!(cache.set_ttl(&1, MOMENT));
    hand.advance(MOMENT);
    let tasks = cache.future();
    let mut load: Load<'_> = Box::pin(tasks.get_with(1, async { 3 }));
    assert!(poll(&mut load).is_pending());
    let _nothing = engine.land_nothing(present, flight);
    assert_eq!(poll(&mut load), Poll::Ready(3));
}
