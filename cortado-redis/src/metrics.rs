//! An exporter of [`Stats`] through the crate [metrics](https://docs.rs/metrics), by the feature
//! `metrics`.

use crate::stats::Stats;
use ::metrics::{Label, SharedString, counter};

/// Publishes the statistics of one cache to the recorder that the program has installed.
///
/// Each count of [`Stats`] is a counter `cortado_redis.` and its name, with the label `cache.name`.
/// The local level's are those of [`cortado::metrics::Exporter`], with the same label.
///
/// The cache never calls it, so a metric is as old as the last call.
///
/// ```
/// use cortado_redis::metrics::Exporter;
/// use cortado_redis::{Server, TieredCache};
///
/// # fn main() -> Result<(), cortado_redis::Error> {
/// let server = Server::at("redis://127.0.0.1:6379")?;
/// let users: TieredCache<u64, String> =
///     TieredCache::builder(server, "users").record_stats(true).build();
/// let mut exporter = Exporter::new("users");
/// exporter.publish(&users.stats()); // every ten seconds, or when the exporter is asked
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Exporter {
    name: SharedString,
    local: cortado::metrics::Exporter,
}

impl Exporter {
    /// Makes an exporter with this value of the label `cache.name`.
    #[must_use]
    pub fn new(cache_name: impl Into<String>) -> Self {
        let name = cache_name.into();
        Self { local: cortado::metrics::Exporter::new(name.clone()), name: name.into() }
    }

    /// Publishes these statistics, which must be newer than those of the last call.
    pub fn publish(&mut self, stats: &Stats) {
        for (metric, count) in stats.named() {
            let label = Label::new("cache.name", self.name.clone());
            counter!(metric, vec![label]).absolute(count);
        }
        self.local.publish(&stats.local);
    }
}
