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
use crate::wire::{self, Found};
use cortado::{Entry, Loaded};
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

/// A read that found nothing to return; those who waited for it share it.
pub(crate) type Failed = Error;

/// What `PTTL` says of a key without an end.
const FOR_EVER: i64 = -1;
const NOTHING: i64 = -2;
const TOO_LONG: i64 = -4;

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    pub async fn read(&self, key: K) -> Result<Option<V>, Error> {
        if self.loading.has(&key) {
            // It would wait for the loader.
            return self.look(&key).await;
        }
        let trusted = self.link.trusted();
        let refused = |slot: &Slot<V>, times| !self.is_good(slot, trusted, times);
        let made = self.local.load_if(&key, |old| self.fetch(&key, old), refused).await;
        made.map(|slot| slot.value).map_err(|failed| (*failed).clone())
    }

    /// What the server has, kept by nobody.
    async fn look(&self, key: &K) -> Result<Option<V>, Error> {
        count(&self.counts.fetches);
        let answer = self.link.eval(Script::Read, &self.raw(key), &[&self.most()]).await?;
        Ok(match self.found(answer)? {
            Fetched::Original(original) => original.slot.value,
            Fetched::Absent | Fetched::Lease(_) => None,
        })
    }

    /// Reads the key, without a lease.
    async fn fetch(
        &self,
        key: &K,
        old: Option<Entry<K, Slot<V>>>,
    ) -> Result<Loaded<Slot<V>>, Failed> {
        count(&self.counts.fetches);
        let most = self.most();
        match self.link.eval(Script::Read, &self.raw(key), &[&most]).await {
            Ok(answer) => self.understand(answer),
            Err(error) => self.during_outage(old, error, |_| true),
        }
    }

    /// The most bytes of a value, for scripts.
    pub fn most(&self) -> Vec<u8> {
        self.settings.max_value_bytes.to_string().into_bytes()
    }

    /// The copy of what a plain read has found: that there is nothing is kept, too, but not what
    /// stands for a value that is being loaded.
    fn understand(&self, answer: Answer) -> Result<Loaded<Slot<V>>, Error> {
        let (generation, sent) = (answer.generation, answer.sent);
        let nothing = Slot { generation, ..Slot::new(None, [0; 16]) };
        Ok(match self.found(answer)? {
            Fetched::Original(original) => {
                count(&self.counts.found);
                self.copy(original)
            }
            Fetched::Absent => self.copy(Original { slot: nothing, left: None, sent }),
            Fetched::Lease(_) => Loaded::with_ttl(nothing, Duration::ZERO),
        })
    }

    /// What a script has found.
    pub fn found(&self, answer: Answer) -> Result<Fetched<V>, Error> {
        let Answer { reply, generation, sent } = answer;
        let (bytes, left) = match reply.pair() {
            Some((Reply::Nil, NOTHING)) => return Ok(Fetched::Absent),
            Some((Reply::Number(bytes), TOO_LONG)) => {
                return Err(Error::TooLarge {
                    bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
                });
            }
            Some((Reply::Bytes(bytes), left)) => (bytes, left),
            other => return Err(Error::Server(format!("an unexpected reply: {other:?}").into())),
        };
        let left = (left != FOR_EVER).then(|| life(left).unwrap_or_default());
        let (value, stamp) = match wire::parse(&bytes)? {
            Found::Lease { .. } => return Ok(Fetched::Lease(left.unwrap_or_default())),
            Found::Negative { stamp } => (None, stamp),
            Found::Value { codec, stamp, payload } => {
                if codec != self.codec.id() {
                    return Err(Error::UnknownFormat { version: 1, codec });
                }
                (Some(self.codec.decode(payload).map_err(Error::of_codec)?), stamp)
            }
        };
        let slot = Slot { generation, ..Slot::new(value, stamp) };
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
        let ahead = self.settings.refresh_ahead;
        let refresh_at = match left.map(|left| left.saturating_sub(ahead)) {
            Some(left) if !ahead.is_zero() && slot.stamp != [0; 16] => {
                self.time_of(after(Some(left)))
            }
            _ => u64::MAX,
        };
        let end = after(left.into_iter().chain(limit).chain(self.settings.local_ttl).min());
        let last = end.checked_add(self.settings.kept()).unwrap_or_else(|| far(end));
        let slot = Slot { fresh_until: self.time_of(end), refresh_at, ..slot };
        Loaded::new(slot).until(last)
    }

    /// What a read returns while the server cannot be asked.
    pub fn during_outage(
        &self,
        old: Option<Entry<K, Slot<V>>>,
        error: Error,
        answers: impl Fn(&Slot<V>) -> bool,
    ) -> Result<Loaded<Slot<V>>, Failed> {
        let Outage::ServeStale { at_most } = self.settings.outage else { return Err(error) };
        if !error.is_outage() {
            return Err(error);
        }
        let old = old.filter(|old| answers(old)).filter(|old| {
            let known = known_until(&self.link, old).unwrap_or(0);
            self.now() < known.saturating_add(u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX))
        });
        let old = old.ok_or(error)?;
        count(&self.counts.stale_served);
        // As it is: the next read tries the server again.
        let left = old.expires_in().unwrap_or(at_most);
        Ok(Loaded::with_ttl((*old).clone(), left))
    }

    pub fn now(&self) -> u64 {
        self.local.sync().clock_now().into()
    }
}
