//! Running a loader under a lease, and storing what it makes.

use crate::error::{Error, LoadError};
use crate::key::RedisKey;
use crate::lease::Lease;
use crate::loaded::Loaded;
use crate::script::Script;
use crate::slot::millis;
use crate::span::{self, Work};
use crate::stats::count;
use crate::tier::Inner;
use crate::turn::{Lead, Made};
use crate::wire::{self, HEADER};
use futures_util::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A failed loader whose value was replaced by a stale one is asked again after so long.
const THROTTLE: Duration = Duration::from_secs(1);

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// Runs the loader under the lease, stores its value, and tells who waits in this process.
    pub async fn make<E, F>(
        &self,
        key: &K,
        optional: bool,
        lead: Lead<V, E>,
        loader: F,
    ) -> Made<V, E>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<Loaded<V>>, E>>,
    {
        count(&self.counts.loads);
        let Lead { lease, outcome } = lead;
        let loader = span::of_loader(Work::Load, &self.settings.name, loader);
        let made = while_renewed(loader, lease.renew(self.settings.lease)).await;
        let made = match made {
            Ok(made) => {
                let stored = self.store(key, lease, made.as_ref()).await;
                stored.map(|()| made.map(|made| made.value)).map_err(LoadError::Redis)
            }
            Err(error) => {
                count(&self.counts.load_failures);
                let stale = match lease.release().await {
                    Ok(true) => self.usable(key, optional),
                    // A removal has broken the lease: what was removed replaces no error.
                    Ok(false) => {
                        self.fallback.forget(key);
                        None
                    }
                    Err(_) => None,
                };
                match stale {
                    Some(stale) => {
                        self.fallback.has_failed(key, self.time_of(Instant::now() + THROTTLE));
                        count(&self.counts.stale_served);
                        Ok(stale.value)
                    }
                    None => Err(LoadError::Loader(Arc::new(error))),
                }
            }
        };
        outcome.send_replace(Some(made.clone()));
        made
    }

    /// Stores what a loader has made, if the lease stands.
    pub async fn store(
        &self,
        key: &K,
        lease: Lease,
        made: Option<&Loaded<V>>,
    ) -> Result<(), Error> {
        let life = self.life_of(made);
        let encoded = self.encode(made.map(|loaded| &loaded.value));
        let bytes = match encoded {
            Ok(bytes) if life.is_none_or(|life| !life.is_zero()) => bytes,
            unstored => {
                let _ = lease.release().await;
                self.fallback.forget(key);
                return unstored.map(drop);
            }
        };
        let arguments: [&[u8]; 3] = [&lease.token, &bytes, &millis(life)];
        match self.link.eval(Script::Store, &lease.raw, &arguments).await {
            Ok(answer) => {
                lease.settle();
                if !answer.reply.is_one() {
                    // Broken by a write or a removal: those who wait get the value, nobody keeps
                    // it.
                    count(&self.counts.overtaken_loads);
                }
            }
            // Stored or not. The lease is given back, if that succeeds, and ends in any case.
            Err(_) => count(&self.counts.write_failures),
        }
        // That there was nothing, as this process has read meanwhile; its next read gets the value.
        self.forget(key);
        Ok(())
    }

    /// The life on the server of what a loader has made.
    pub fn life_of(&self, made: Option<&Loaded<V>>) -> Option<Duration> {
        match made {
            Some(loaded) => loaded.life.or(self.settings.ttl),
            None => Some(self.settings.negative_ttl),
        }
    }

    /// The bytes of a value, or of "the origin has none".
    pub fn encode(&self, value: Option<&V>) -> Result<Vec<u8>, Error> {
        let mut bytes = wire::header(value.map(|_| self.codec.id()));
        if let Some(value) = value {
            self.codec.encode(value, &mut bytes).map_err(Error::of_codec)?;
        }
        let length = bytes.len() - HEADER;
        if length > self.settings.max_value_bytes {
            return Err(Error::TooLarge { bytes: length });
        }
        Ok(bytes)
    }
}

/// The loader's outcome; its lease is renewed meanwhile.
pub async fn while_renewed<T>(
    loader: impl Future<Output = T>,
    renewals: impl Future<Output = std::convert::Infallible>,
) -> T {
    match select(pin!(loader), pin!(renewals)).await {
        Either::Left((made, _)) => made,
        Either::Right((never, _)) => match never {},
    }
}
