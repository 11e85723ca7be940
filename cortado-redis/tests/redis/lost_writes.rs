//! Writes that fail, and writes whose callers are gone.

use crate::support::*;
use cortado_redis::{Coherence, Error, Outage};
use tokio::time::sleep;

#[test]
fn a_write_that_fails_leaves_no_copy() {
    with_server(async |server| {
        let outage = Outage::ServeStale { at_most: ms(60_000) };
        for outage in [Outage::Fail, outage] {
            let (proxy, cache) = through(&server, |it| it.outage(outage)).await;
            proxy.set(Mode::Silent);
            let lost = cache.insert("k", "lost".to_owned()).await;
            assert!(matches!(lost, Err(Error::TimedOut)), "{lost:?}");
            assert_eq!(cache.local().get("k"), None);
            assert!(cache.get("k").await.is_err(), "what was written over is not served");
            assert!(cache.stats().write_failures >= 1);
        }
    });
}

/// The server tells this process nothing, and the write is dropped before a read that began with it
/// has ended.
#[test]
fn a_dropped_write_leaves_no_copy_without_the_servers_word() {
    with_server(async |server| {
        write(&server, "old").await;
        // The server has the scripts then.
        assert_eq!(get(&texts(server.port, |it| it), "k").await.as_deref(), Some("old"));
        let proxy = Proxy::to(server.port).await;
        let cache = texts(proxy.port, |it| it.coherence(Coherence::Ttl(ms(60_000))));
        // Both wait for the first connection.
        let mut writing = Box::pin(cache.insert("k", "written".to_owned()));
        assert!(is_pending(writing.as_mut()).await);
        let mut reading = Box::pin(cache.get("k"));
        assert!(is_pending(reading.as_mut()).await);
        cache.ready().await.unwrap();
        // It is woken a little after that.
        sleep(ms(20)).await;
        proxy.set(Mode::Hold);
        // The read is sent first.
        assert!(is_pending(reading.as_mut()).await);
        assert!(is_pending(writing.as_mut()).await);
        sleep(ms(50)).await;
        proxy.set(Mode::Pass);
        drop(writing);
        assert_eq!(reading.await.unwrap().as_deref(), Some("old"));
        assert_eq!(get(&cache, "k").await.as_deref(), Some("written"));
    });
}

#[test]
fn a_dropped_write_leaves_no_copy() {
    with_server(async |server| {
        let (proxy, cache) = through(&server, |it| it).await;
        let other = texts(server.port, |it| it);
        proxy.set(Mode::Delay(ms(100)));
        let (key, write) = ("k".to_owned(), "written");
        let dropped = tokio::time::timeout(ms(30), cache.insert(&key, write.to_owned())).await;
        assert!(dropped.is_err());
        proxy.set(Mode::Pass);
        until("written", async || get(&other, "k").await.as_deref() == Some("written")).await;
        assert_eq!(get(&cache, "k").await.as_deref(), Some("written"));
        other.insert(&key, "next".to_owned()).await.unwrap();
        until("told", async || get(&cache, "k").await.as_deref() == Some("next")).await;
    });
}
