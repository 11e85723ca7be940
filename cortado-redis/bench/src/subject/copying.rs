//! A writer that knows nothing of the cache whose values it writes, as `redis-cli` or a script
//! does.

use super::{Plain, Writer};

/// The bytes of each version are made under a spare key, by a cache that knows their form. A plain
/// `COPY` puts them in place.
#[derive(Clone)]
pub struct Copying<W> {
    pub maker: W,
    pub server: Plain,
    /// What the cache's keys begin with on the server.
    pub prefix: &'static str,
}

/// Spare keys are so far from the others.
const SPARE: u64 = 1 << 40;

impl<W: Writer> Writer for Copying<W> {
    async fn write(&self, key: u64, version: u64) {
        let (prefix, spare) = (self.prefix, key + SPARE);
        self.maker.write(spare, version).await;
        let mut connection = self.server.0.clone();
        let mut copy = redis::cmd("COPY");
        copy.arg(format!("{prefix}{spare}")).arg(format!("{prefix}{key}")).arg("REPLACE");
        let copied: u64 = copy.query_async(&mut connection).await.expect("the server answers");
        assert_eq!(copied, 1, "the spare key is there");
    }
}
