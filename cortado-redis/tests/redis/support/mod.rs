//! Servers, proxies and other processes for the tests. Each test has its own server.

mod process;
mod proxy;
mod resp;
mod server;

pub use process::{Child, again, again_with, argument, is_child};
pub use proxy::{Mode, Proxy};
pub use resp::Resp;
pub use server::{RedisServer, free_port};

use cortado_redis::{Builder, LoadError, Server, TieredCache};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

pub type Texts = TieredCache<String, String>;

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn at(port: u16) -> Server {
    Server::at(&format!("redis://127.0.0.1:{port}")).unwrap()
}

/// A cache of texts, with the settings that a test adds.
pub fn texts(port: u16, set: impl FnOnce(TextsBuilder) -> TextsBuilder) -> Texts {
    set(TieredCache::builder(at(port), "t")).build()
}

/// Waits until the condition holds; a test that hangs is one that fails.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        tokio::time::sleep(ms(2)).await;
    }
}

pub async fn get(cache: &Texts, key: &str) -> Option<String> {
    cache.get(key).await.unwrap()
}

/// Runs a test on a runtime of two threads with a server of its own, if the machine has one.
pub fn with_server<F: Future<Output = ()>>(test: impl FnOnce(RedisServer) -> F) {
    if let Some(server) = RedisServer::start() {
        with_runtime(async { test(server).await });
    }
}

/// Runs a test on a runtime of two threads.
pub fn with_runtime(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let test = async { tokio::time::timeout(Duration::from_secs(120), test).await };
    runtime.unwrap().block_on(test).expect("the test ends within two minutes");
}

/// Reads until this process has a copy.
pub async fn kept(cache: &Texts, key: &str, text: &str) {
    until("kept", async || {
        assert_eq!(get(cache, key).await.as_deref(), Some(text));
        cache.local().get(key).is_some()
    })
    .await;
}

pub type Outcome = Result<String, LoadError<String>>;

/// A load whose loader takes so long.
pub async fn load(cache: &Texts, key: &str, text: &str, takes: Duration) -> Outcome {
    let text = text.to_owned();
    let loader = async move {
        tokio::time::sleep(takes).await;
        Ok::<_, String>(text)
    };
    cache.load(key, loader).await
}

/// For so long after the call, looks for this local copy all the time. Returns when a look last
/// began that found it; zero if none did.
pub async fn last_seen(cache: &Texts, key: &str, text: &str, during: Duration) -> Duration {
    let (begun, mut last) = (Instant::now(), ms(0));
    while begun.elapsed() < during {
        let asked = begun.elapsed();
        if cache.local().get(key).as_deref() == Some(text) {
            last = asked;
        }
        tokio::time::sleep(ms(1)).await;
    }
    last
}

/// What the first read returns that is no error.
pub async fn first_read(cache: &Texts, key: &str) -> Option<String> {
    let mut found = None;
    until("a read that is no error", async || match cache.get(key).await {
        Ok(value) => {
            found = value;
            true
        }
        Err(_) => false,
    })
    .await;
    found
}

/// Polls once. Returns whether it is pending.
pub async fn is_pending<T>(mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// A cache through a proxy, with a copy of `k`.
pub async fn through(
    server: &RedisServer,
    set: impl FnOnce(TextsBuilder) -> TextsBuilder,
) -> (Proxy, Texts) {
    let proxy = Proxy::to(server.port).await;
    let cache = texts(proxy.port, |it| set(it.reply_within(ms(200))));
    cache.insert("k", "old".to_owned()).await.unwrap();
    kept(&cache, "k", "old").await;
    (proxy, cache)
}

pub type TextsBuilder = Builder<String, String>;

/// A write by another client, with this cache's format.
pub async fn write(server: &RedisServer, text: &str) {
    let other = texts(server.port, |it| it);
    other.insert("k", text.to_owned()).await.unwrap();
}
