//! Loads: one for a key at a time, of all processes.

use crate::error::{Error, LoadError};
use crate::key::RedisKey;
use crate::lease::Lease;
use crate::link::{Answer, Reply, locked};
use crate::loaded::Loaded;
use crate::read::{Fetched, Original};
use crate::script::Script;
use crate::slot::{Slot, known_until, millis, whole};
use crate::stats::count;
use crate::tier::{Inner, TieredCache};
use crate::wake::Wake;
use crate::wire;
use cortado::{Entry, ToKey};
use futures_util::future::{Either, select};
use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// A failed loader whose value was replaced by a stale one is asked again after so long.
const THROTTLE: Duration = Duration::from_secs(1);
/// Without tracking, nobody is told that a lease has ended.
const POLL: Duration = Duration::from_millis(50);
/// What a script says of a lease that it has given.
const LEASED: i64 = -3;

/// Why a local load has no value; all who waited for it share it.
enum Stop<E> {
    /// Another process loads.
    Await(Arc<Wake>, Duration),
    Failed(LoadError<E>),
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> TieredCache<K, V> {
    /// Returns the key's value, and loads it if there is none on either level.
    ///
    /// Of all calls for a key, in all processes that share the cache, one polls its `loader`; the
    /// others wait for what it stores. If that process dies, another one loads when its
    /// [lease](crate::Builder::lease) has ended. A write or removal of the key during the load has
    /// the last word: the callers get the loaded value, and nobody keeps it.
    ///
    /// Give a `loader` that may hang a time limit of its own: as long as it runs, nobody else
    /// loads.
    ///
    /// A load is a task of the runtime: it goes on, and stores its value, also if this future is
    /// dropped. A `loader` that is not needed is dropped without being polled.
    ///
    /// # Errors
    /// The loader's, which all who wait in this process share; in other processes another loader
    /// runs then. [`LoadError::Redis`] if the server cannot be asked: the loader does not run then,
    /// so that an outage of the server is not one of the origin, too.
    ///
    /// ```no_run
    /// use cortado_redis::{Loaded, Server, TieredCache};
    /// use std::time::Duration;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::at("redis://127.0.0.1:6379")?;
    /// let tokens: TieredCache<String, String> = TieredCache::builder(server, "tokens").build();
    /// let token = tokens
    ///     .load("billing", async {
    ///         // As the issuer says.
    ///         Ok::<_, std::io::Error>(Loaded::with_ttl("t0ken".to_owned(), Duration::from_secs(300)))
    ///     })
    ///     .await?;
    /// assert_eq!(token, "t0ken");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn load<Q, L, E, F>(&self, key: &Q, loader: F) -> Result<V, LoadError<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        L: Into<Loaded<V>>,
        E: Send + Sync + 'static,
        F: Future<Output = Result<L, E>> + Send + 'static,
    {
        if let Some(slot) = self.inner.hit_to_load(key, false)
            && let Some(value) = slot.value.clone()
        {
            if self.inner.is_ending(&slot) {
                let loader = async { loader.await.map(|loaded| Some(loaded.into())) };
                self.inner.refresh(key.to_key(), slot.stamp, loader);
            }
            return Ok(value);
        }
        let loader = async { loader.await.map(|loaded| Some(loaded.into())) };
        let value = self.make(key.to_key(), false, loader).await?;
        Ok(value.expect("a load that wants a value has one"))
    }

    /// [`load`](Self::load) of what the origin may not have: `None` is kept, too, on both levels,
    /// for [`negative_ttl`](crate::Builder::negative_ttl).
    ///
    /// # Errors
    /// As `load`.
    pub async fn optionally_load<Q, E, F>(
        &self,
        key: &Q,
        loader: F,
    ) -> Result<Option<V>, LoadError<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<Loaded<V>>, E>> + Send + 'static,
    {
        match self.inner.hit_to_load(key, true) {
            Some(slot) => {
                if self.inner.is_ending(&slot) {
                    self.inner.refresh(key.to_key(), slot.stamp, loader);
                }
                Ok(slot.value)
            }
            None => self.make(key.to_key(), true, loader).await,
        }
    }

    /// Loads in a task, and waits for it as long as the settings say.
    async fn make<E, F>(&self, key: K, optional: bool, loader: F) -> Result<Option<V>, LoadError<E>>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<Loaded<V>>, E>> + Send + 'static,
    {
        let settings = &self.inner.settings;
        let old = settings.soft_limit.and_then(|_| self.inner.usable(&key, optional));
        let limit = if old.is_some() { settings.soft_limit } else { settings.hard_limit };
        let load = Arc::clone(&self.inner).load(key, optional, loader);
        #[cfg(feature = "tracing")]
        let load = tracing::Instrument::in_current_span(load);
        let mut task = tokio::spawn(load);
        let ended = match limit {
            None => (&mut task).await,
            Some(limit) => match timeout(limit, &mut task).await {
                Ok(ended) => ended,
                Err(_) => return self.inner.instead(old),
            },
        };
        ended.unwrap_or(Err(LoadError::Aborted))
    }
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// The local copy, if it can be trusted and says what the origin has.
    #[inline]
    fn hit_to_load<Q>(&self, key: &Q, optional: bool) -> Option<Slot<V>>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        let trusted = self.link.trusted();
        let good =
            |slot: &Slot<V>, times| slot.answers(optional) && self.is_good(slot, trusted, times);
        self.local.sync().get_if(key, good)
    }

    /// What is returned when the soft limit is over.
    fn instead<E>(&self, old: Option<Slot<V>>) -> Result<Option<V>, LoadError<E>> {
        let old = old.ok_or(LoadError::TimedOut)?;
        count(&self.counts.stale_served);
        Ok(old.value)
    }

    /// A value whose life is over, but that may be used in place of an error.
    fn usable(&self, key: &K, optional: bool) -> Option<Slot<V>> {
        let old = self.local.sync().peek(key).map(|old| (*old).clone());
        old.and_then(|old| self.may_replace_an_error(old, optional)).or_else(|| {
            let old = self.fallback.get(key)?;
            self.may_replace_an_error(old, optional)
        })
    }

    fn may_replace_an_error(&self, slot: Slot<V>, optional: bool) -> Option<Slot<V>> {
        let at_most = u64::try_from(self.settings.stale_on_error.as_nanos()).unwrap_or(u64::MAX);
        let known = known_until(&self.link, &slot)?;
        (slot.answers(optional) && self.now() < known.saturating_add(at_most)).then_some(slot)
    }

    pub async fn load<E, F>(
        self: Arc<Self>,
        key: K,
        optional: bool,
        loader: F,
    ) -> Result<Option<V>, LoadError<E>>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<Loaded<V>>, E>> + Send,
    {
        // A cell, since only one of the load's beginnings can use it.
        let loader = Mutex::new(Some(loader));
        let _loading = self.loading.begin(&key);
        loop {
            let trusted = self.link.trusted();
            let refused = |slot: &Slot<V>, times| {
                !(slot.answers(optional) && self.is_good(slot, trusted, times))
            };
            let begin = |old| self.lead(&key, optional, old, &loader);
            match self.local.load_if(&key, begin, refused).await {
                Ok(slot) if slot.answers(optional) => return Ok(slot.value),
                // A plain read that was joined has found nothing.
                Ok(_) => {}
                Err(stop) => match &*stop {
                    Stop::Await(wake, limit) => self.wait(wake, *limit).await,
                    Stop::Failed(error) => return Err(error.clone()),
                },
            }
        }
    }

    /// Waits for another process, outside of the local load: the word that ends the wait would
    /// overtake that.
    pub async fn wait(&self, wake: &Wake, limit: Duration) {
        count(&self.counts.lease_waits);
        let limit = match self.link.tracks() {
            true => limit.max(POLL) + Duration::from_millis(5),
            false => limit.min(POLL),
        };
        if timeout(limit, wake.wait()).await.is_err() {
            count(&self.counts.lease_timeouts);
        }
    }

    /// Reads the key, or takes the lease and loads.
    async fn lead<E, F>(
        &self,
        key: &K,
        optional: bool,
        old: Option<Entry<K, Slot<V>>>,
        loader: &Mutex<Option<F>>,
    ) -> Result<cortado::Loaded<Slot<V>>, Stop<E>>
    where
        F: Future<Output = Result<Option<Loaded<V>>, E>>,
    {
        let registered = self.wakes.register(key);
        let fail = |error: Error| Stop::Failed(LoadError::Redis(error));
        if let Some(slot) =
            old.as_ref().and_then(|old| self.may_replace_an_error((**old).clone(), optional))
        {
            // The server's word about the lease drops the local copy.
            self.fallback.keep(key, slot);
        }
        if let Some(stale) = self.fallback.after_an_error(key, self.now()) {
            return match self.look_again(key, optional).await {
                Ok(Some(original)) => Ok(self.copy(original)),
                Ok(None) => Ok(self.stale(stale)),
                Err(error) => Err(fail(error)),
            };
        }
        match self.fetch_or_lease(key, optional).await {
            Ok(Leased::Found(Fetched::Original(original))) => {
                self.fallback.forget(key);
                Ok(self.copy(original))
            }
            Ok(Leased::Found(Fetched::Lease(left))) => Err(Stop::Await(registered.wake(), left)),
            Ok(Leased::Found(Fetched::Absent)) => unreachable!("a lease was taken"),
            Ok(Leased::Ours(lease, generation)) => {
                let Some(loader) = locked(loader).take() else {
                    return Err(Stop::Failed(LoadError::Aborted));
                };
                match self.make_one(key, lease, generation, loader).await {
                    Err(error @ LoadError::Loader(_)) => match self.usable(key, optional) {
                        Some(slot) => {
                            let again = self.time_of(Instant::now() + THROTTLE);
                            self.fallback.has_failed(key, again);
                            Ok(self.stale(slot))
                        }
                        None => Err(Stop::Failed(error)),
                    },
                    made => made.map_err(Stop::Failed),
                }
            }
            Err(error) => {
                let answers = |slot: &Slot<V>| slot.answers(optional);
                self.during_outage(old, error, answers).map_err(fail)
            }
        }
    }

    /// A stale slot, for those who wait.
    fn stale(&self, slot: Slot<V>) -> cortado::Loaded<Slot<V>> {
        count(&self.counts.stale_served);
        cortado::Loaded::with_ttl(slot, Duration::ZERO)
    }

    /// Whether the server has a value by now.
    async fn look_again(&self, key: &K, optional: bool) -> Result<Option<Original<V>>, Error> {
        count(&self.counts.fetches);
        let answer = self.link.eval(Script::Read, &self.raw(key), &[&self.most()]).await?;
        Ok(match self.found(answer)? {
            Fetched::Original(original) if original.slot.answers(optional) => {
                self.fallback.forget(key);
                Some(original)
            }
            _ => None,
        })
    }

    pub async fn fetch_or_lease(&self, key: &K, optional: bool) -> Result<Leased<V>, Error> {
        count(&self.counts.fetches);
        let (raw, token) = (self.raw(key), wire::token());
        let lease = millis(Some(self.settings.lease));
        let over: &[u8] = if optional { b"0" } else { b"1" };
        let most = self.most();
        let arguments: [&[u8]; 4] = [&most, &token, &lease, over];
        // Given back also if the answer does not come: the server may have given it.
        let leased = Lease::new(&self.link, raw.clone(), token);
        let answer = self.link.eval(Script::Lease, &raw, &arguments).await?;
        if let Answer { reply: Reply::List(parts), generation, .. } = &answer
            && matches!(parts[..], [Reply::Nil, Reply::Number(LEASED)])
        {
            return Ok(Leased::Ours(leased, *generation));
        }
        leased.settle();
        let found = self.found(answer)?;
        if matches!(found, Fetched::Original(_)) {
            count(&self.counts.found);
        }
        Ok(Leased::Found(found))
    }

    /// Runs the loader under the lease, and stores what it makes.
    async fn make_one<E, F>(
        &self,
        key: &K,
        lease: Lease,
        generation: u64,
        loader: F,
    ) -> Result<cortado::Loaded<Slot<V>>, LoadError<E>>
    where
        F: Future<Output = Result<Option<Loaded<V>>, E>>,
    {
        count(&self.counts.loads);
        #[cfg(feature = "tracing")]
        let loader = tracing::Instrument::instrument(loader, tracing::debug_span!("load"));
        let made = {
            let renewals = pin!(lease.renew(self.settings.lease));
            match select(pin!(loader), renewals).await {
                Either::Left((made, _)) => made,
                Either::Right(((), _)) => unreachable!("renewals do not end"),
            }
        };
        let stored = match made {
            Ok(made) => self.store(lease, generation, made).await.map_err(LoadError::Redis),
            Err(error) => {
                count(&self.counts.load_failures);
                lease.release().await;
                Err(LoadError::Loader(Arc::new(error)))
            }
        };
        if stored.is_ok() {
            self.fallback.forget(key);
        }
        stored
    }

    /// Stores what a loader has made, if the lease stands.
    pub async fn store(
        &self,
        lease: Lease,
        generation: u64,
        made: Option<Loaded<V>>,
    ) -> Result<cortado::Loaded<Slot<V>>, Error> {
        let (value, life) = match made {
            Some(Loaded { value, life }) => (Some(value), life.or(self.settings.ttl)),
            None => (None, Some(self.settings.negative_ttl)),
        };
        let encoded = self.encode(value.as_ref());
        let bytes = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                lease.release().await;
                return Err(error);
            }
        };
        let slot = Slot { generation, ..Slot::new(value, wire::stamp_of(&bytes)) };
        let unkept = |slot| Ok(cortado::Loaded::with_ttl(slot, Duration::ZERO));
        if life.is_some_and(|life| life.is_zero()) {
            lease.release().await;
            return unkept(slot);
        }
        let sent = Instant::now();
        let arguments: [&[u8]; 3] = [&lease.token, &bytes, &millis(life)];
        let stored = self.link.eval(Script::Store, &lease.raw, &arguments).await;
        match stored {
            Ok(answer) if answer.reply.is_one() => {
                lease.settle();
                let slot = Slot { generation: answer.generation, ..slot };
                let left = life.map(whole);
                // As a rule overtaken by the server's word about the lease: the next read keeps it.
                Ok(self.copy(Original { slot, left, sent }))
            }
            // Broken by a write or a removal: who waited gets the value, nobody keeps it.
            Ok(_) => {
                lease.settle();
                count(&self.counts.overtaken_loads);
                unkept(slot)
            }
            // Stored or not. The lease is given back when the server can be asked.
            Err(_) => {
                count(&self.counts.write_failures);
                unkept(slot)
            }
        }
    }

    /// The bytes of a value, or of "the origin has none".
    pub fn encode(&self, value: Option<&V>) -> Result<Vec<u8>, Error> {
        let mut bytes = wire::header(value.map(|_| self.codec.id()));
        if let Some(value) = value {
            self.codec.encode(value, &mut bytes).map_err(Error::of_codec)?;
        }
        if bytes.len() > self.settings.max_value_bytes {
            return Err(Error::TooLarge { bytes: bytes.len() });
        }
        Ok(bytes)
    }
}

pub(crate) enum Leased<V> {
    Found(Fetched<V>),
    /// A lease, by a connection of this generation.
    Ours(Lease, u64),
}

impl<V> Slot<V> {
    /// Whether it says what the origin has: a value, or, if that is asked for, that there is none.
    pub fn answers(&self, optional: bool) -> bool {
        self.value.is_some() || optional && self.stamp != [0; 16]
    }
}
