//! What is compared: caches in front of a server, and clients of it. Versions, which are numbers,
//! lie under keys, which are numbers, too.

mod amalgam;
mod by_hand;
mod copying;
mod plain;
mod tier;

pub use self::amalgam::Amalgam;
pub use by_hand::ByHand;
pub use copying::Copying;
pub use plain::{Plain, caching, connect};
pub use tier::{Tier, server_at};

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// More entries than any table has.
pub const CAPACITY: u64 = 200_000;

pub trait Reader: Clone + Send + Sync + 'static {
    fn read(&self, key: u64) -> impl Future<Output = Option<u64>> + Send;
}

pub trait Writer: Clone + Send + Sync + 'static {
    /// Returns when the server has acknowledged the write.
    fn write(&self, key: u64, version: u64) -> impl Future<Output = ()> + Send;
}

pub trait Loader: Clone + Send + Sync + 'static {
    /// Reads the key. If the server has no value, the origin is asked and the server gets its
    /// value.
    fn load(&self, key: u64, origin: Origin) -> impl Future<Output = u64> + Send;
}

/// Where loaded values come from.
#[derive(Clone)]
pub struct Origin {
    pub calls: Arc<AtomicU64>,
    pub takes: Duration,
}

impl Origin {
    pub async fn ask(self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.takes).await;
        7
    }
}

/// Runs the operation for each key, in so many tasks at once.
pub async fn for_each<F, R>(tasks: u64, keys: Range<u64>, operation: F)
where
    F: Fn(u64) -> R + Clone + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (operation, keys) = (operation.clone(), keys.clone());
        running.spawn(async move {
            for key in keys.skip(task as usize).step_by(tasks as usize) {
                operation(key).await;
            }
        });
    }
    running.join_all().await;
}
