//! Reads of the server. A read *is* a load of the local level: it is registered before the request
//! is sent, so a change that the server tells of meanwhile overtakes it. The callers get what was
//! read, and nobody keeps it.

use crate::builder::Outage;
use crate::error::Error;
use crate::key::RedisKey;
use crate::link::{Answer, Coherence, Reply};
use crate::script::Script;
use crate::slot::{Slot, far, known_until, life};
use crate::stats::count;
use crate::tier::Inner;
use crate::wire::{self, Found, HEADER, LEASE};
use cortado::{Entry, Loaded};
use futures_util::stream::{self, StreamExt};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What the server has for a key.
pub(crate) enum Fetched<V> {
    Original(Original<V>),
    /// Nothing.
    Absent,
    /// A lease of somebody's, for so long.
    Lease(Duration),
}

/// A value on the server: the slot for its copy, and how much life it had left when the request was
/// sent.
pub(crate) struct Original<V> {
    pub slot: Slot<V>,
    pub left: Option<Duration>,
    pub sent: Instant,
}

/// A read of the server under way.
pub(crate) type Reading<'i, V> =
    Pin<Box<dyn Future<Output = Result<Option<V>, Error>> + Send + 'i>>;

/// Whether a call has waited for another call's read. The first such read may have begun long
/// before the call, and its outcome may be too old for a copy. A second one has begun after the
/// call.
#[derive(Default)]
pub(crate) struct Joined {
    asks: AtomicBool,
    has_waited: bool,
}

impl Joined {
    /// This call asks the server.
    pub fn asks(&self) {
        self.asks.store(true, Ordering::Relaxed);
    }

    /// Whether what was read is too old.
    pub fn is_old(&mut self, is_good: impl FnOnce() -> bool) -> bool {
        let is_first = !std::mem::replace(&mut self.has_waited, true);
        is_first && !*self.asks.get_mut() && !is_good()
    }
}

/// By which connection, and when, a request was sent.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    generation: u32,
    sent: Instant,
}

/// What `PTTL` says of a key without an end.
const FOR_EVER: i64 = -1;
const NOTHING: i64 = -2;
const TOO_LONG: i64 = -4;

/// A call for many keys has so many requests under way: more would wait in the client, at the cost
/// of the time limits of all.
pub const AT_ONCE: usize = 256;

/// The outcomes of all, in their order.
pub async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    stream::iter(futures).buffered(AT_ONCE).collect().await
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    #[cold]
    pub fn reading(&self, key: K) -> Reading<'_, V> {
        Box::pin(self.read(key))
    }

    async fn read(&self, key: K) -> Result<Option<V>, Error> {
        let mut joined = Joined::default();
        loop {
            let trusted = self.link.trusted();
            let refused = |slot: &Slot<V>, times| !self.is_good(slot, trusted, times);
            let fetch = |old| {
                joined.asks();
                self.fetch(&key, old)
            };
            let read = self.local.load_if(&key, fetch, refused);
            match self.unless_held(&key, read).await {
                Some(Ok(slot)) if joined.is_old(|| self.may_be_returned(&slot)) => {}
                Some(made) => {
                    return made.map(|slot| slot.value).map_err(|failed| (*failed).clone());
                }
                None => {}
            }
        }
    }

    /// Whether a read that begins now may return it: it is the server's value, and alive; or no
    /// copy is trusted, and stale ones are allowed.
    pub fn may_be_returned(&self, slot: &Slot<V>) -> bool {
        let (trusted, now) = (self.link.trusted(), self.now());
        slot.is_good(trusted, now, || self.now())
            || (trusted.generation == 0 || now >= trusted.until) && self.is_served_stale(slot)
    }

    /// Whether it may be served while the server is away.
    fn is_served_stale(&self, slot: &Slot<V>) -> bool {
        let Outage::ServeStale { at_most } = self.settings.outage else { return false };
        let at_most = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        let known = known_until(&self.link, slot).unwrap_or(0);
        self.now() < known.saturating_add(at_most)
    }

    /// The outcome of a shared read; `None` if it takes longer than any exchange. Then the call
    /// that asks the server is polled no more, or its runtime stands still: this read is given
    /// up, and another one can begin.
    pub async fn unless_held<T>(&self, key: &K, read: impl Future<Output = T>) -> Option<T> {
        let limit = self.link.longest_exchange();
        let outcome = tokio::time::timeout(limit, read).await.ok();
        if outcome.is_none() && self.hit(key).is_none() {
            self.local.sync().invalidate(key);
        }
        outcome
    }

    /// Reads the key, without a lease.
    async fn fetch(
        &self,
        key: &K,
        old: Option<Entry<K, Slot<V>>>,
    ) -> Result<Loaded<Slot<V>>, Error> {
        if let Some(old) = &old {
            self.keep_for_errors(key, old);
        }
        match self.ask(key).await {
            Ok((found, answered)) => Ok(self.understand(found, answered)),
            Err(error) => self.during_outage(old, error, |_| true),
        }
    }

    /// What the server has, and by which connection and when it was asked.
    pub async fn ask(&self, key: &K) -> Result<(Fetched<V>, Asked), Error> {
        count(&self.counts.fetches);
        let answer = self.link.eval(Script::Read, &self.raw(key), &[&self.most()]).await?;
        let asked = Asked { generation: answer.generation, sent: answer.sent };
        Ok((self.found(key, answer)?, asked))
    }

    /// The most bytes under a key, for scripts.
    pub fn most(&self) -> Vec<u8> {
        self.settings.max_value_bytes.saturating_add(HEADER).max(LEASE).to_string().into_bytes()
    }

    /// The copy of what a plain read has found: that there is nothing is kept, too, and that
    /// somebody loads the value, as long as the server says nothing else.
    fn understand(&self, found: Fetched<V>, asked: Asked) -> Loaded<Slot<V>> {
        let Asked { generation, sent } = asked;
        let nothing = |left| Original { slot: Slot::new(generation, None, None), left, sent };
        self.copy(match found {
            Fetched::Original(original) => original,
            Fetched::Absent => nothing(None),
            Fetched::Lease(left) => nothing(Some(left)),
        })
    }

    /// What a script has found.
    pub fn found(&self, key: &K, answer: Answer) -> Result<Fetched<V>, Error> {
        let Answer { reply, generation, sent } = answer;
        let (bytes, left) = match reply.pair() {
            Some((Reply::Nil, NOTHING)) => return Ok(Fetched::Absent),
            Some((Reply::Number(bytes), TOO_LONG)) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(HEADER);
                return Err(Error::TooLarge { bytes });
            }
            Some((Reply::Bytes(bytes), left)) => (bytes, left),
            other => return Err(Error::Server(format!("an unexpected reply: {other:?}").into())),
        };
        let left = (left != FOR_EVER).then(|| life(left).unwrap_or_default());
        let (value, stamp) = match wire::parse(&bytes)? {
            Found::Lease => return Ok(Fetched::Lease(left.unwrap_or_default())),
            Found::Negative { stamp } => (None, stamp),
            Found::Value { codec, stamp, payload } => {
                if codec != self.codec.id() {
                    return Err(Error::UnknownFormat { version: 1, codec });
                }
                (Some(self.codec.decode(payload).map_err(Error::of_codec)?), stamp)
            }
        };
        count(&self.counts.found);
        self.fallback.forget(key);
        let slot = Slot::new(generation, value, Some(stamp));
        Ok(Fetched::Original(Original { slot, left, sent }))
    }

    /// The local copy. It ends when the original does, counted from before the request was sent.
    pub fn copy(&self, original: Original<V>) -> Loaded<Slot<V>> {
        let Original { slot, left, sent } = original;
        let limit = match self.link.settings.coherence {
            Coherence::Ttl(limit) => Some(limit),
            _ => None,
        };
        let after = |left: Option<Duration>| {
            left.and_then(|left| sent.checked_add(left)).unwrap_or_else(|| far(sent))
        };
        let end = after(left.into_iter().chain(limit).chain(self.settings.local_ttl).min());
        let last = end.checked_add(self.settings.kept()).unwrap_or_else(|| far(end));
        let ahead = self.settings.refresh_ahead;
        let refresh_ahead = match left {
            Some(left) if !ahead.is_zero() => {
                end.saturating_duration_since(after(Some(left.saturating_sub(ahead))))
            }
            _ => Duration::ZERO,
        };
        Loaded::new(slot.until(self.time_of(end), refresh_ahead)).until(last)
    }

    /// What a read returns while the server cannot be asked.
    pub fn during_outage(
        &self,
        old: Option<Entry<K, Slot<V>>>,
        error: Error,
        answers: impl Fn(&Slot<V>) -> bool,
    ) -> Result<Loaded<Slot<V>>, Error> {
        let Outage::ServeStale { at_most } = self.settings.outage else { return Err(error) };
        if !error.is_outage() {
            return Err(error);
        }
        let old = old.filter(|old| answers(old) && self.is_served_stale(old)).ok_or(error)?;
        count(&self.counts.stale_served);
        // As it is: the next read tries the server again.
        let left = old.expires_in().unwrap_or(at_most);
        Ok(Loaded::with_ttl((*old).clone(), left))
    }

    /// The present. Kept out of a hit's code, which has it coarsely.
    #[inline(never)]
    pub fn now(&self) -> u64 {
        self.local.sync().clock_now().into()
    }
}
