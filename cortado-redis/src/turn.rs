//! How a load begins: the key is on one of the two levels, or somebody loads it, or this call has
//! its lease.
//!
//! A read of the server *is* a load of the local level, which the calls of this process share, and
//! which a change that the server tells of overtakes. It ends before a loader runs: nobody but
//! other loads waits for loaders.

use crate::error::{Error, LoadError};
use crate::key::RedisKey;
use crate::lease::Lease;
use crate::link::{Answer, Reply, locked};
use crate::read::{Fetched, Joined};
use crate::script::Script;
use crate::slot::{Slot, known_until, millis};
use crate::stats::count;
use crate::tier::Inner;
use crate::wake::Wake;
use crate::wire;
use cortado::{Entry, Loaded};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Without tracking, nobody is told that a lease has ended.
const POLL: Duration = Duration::from_millis(50);
/// What a script says of a lease that it has given.
const LEASED: i64 = -3;

/// What a loader has made.
pub type Made<V, E> = Result<Option<V>, LoadError<E>>;

/// What there is to do about a key.
pub enum Turn<V, E> {
    Found(Option<V>),
    /// The lease is this call's.
    Ours(Lead<V, E>),
    Wait(Wait<V, E>),
    Failed(LoadError<E>),
}

/// A lease, and how the other calls that have asked for the key at the same time hear what comes of
/// it.
pub struct Lead<V, E> {
    pub lease: Lease,
    pub outcome: watch::Sender<Option<Made<V, E>>>,
}

/// What ends a wait for somebody else's load.
pub enum Wait<V, E> {
    /// Of this process. Without an outcome: there was no loader, or it has panicked.
    Joined(watch::Receiver<Option<Made<V, E>>>),
    /// The server's next word about the key, or the end of the lease that it has.
    Lease(Arc<Wake>, Duration),
}

impl<V, E> Clone for Wait<V, E> {
    fn clone(&self) -> Self {
        match self {
            Self::Joined(outcome) => Self::Joined(outcome.clone()),
            Self::Lease(wake, limit) => Self::Lease(Arc::clone(wake), *limit),
        }
    }
}

/// Why a read of the server has brought no value; all who waited for it share it.
enum Stop<V, E> {
    Wait(Wait<V, E>),
    /// A loader has just failed, and this replaces its error.
    Stale(Slot<V>),
    Failed(LoadError<E>),
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// Looks the key up on both levels, or takes its lease. Waits for no loader.
    pub async fn turn<E: Send + Sync + 'static>(&self, key: &K, optional: bool) -> Turn<V, E> {
        let mut joined = Joined::default();
        loop {
            let ours = Mutex::new(None);
            let trusted = self.link.trusted();
            let refused = |slot: &Slot<V>, times| {
                !(slot.answers(optional) && self.is_good(slot, trusted, times))
            };
            let read = |old| {
                joined.asks();
                self.read_or_lease(key, optional, old, &ours)
            };
            let read = self.local.load_if(key, read, refused);
            let Some(read) = self.unless_held(key, read).await else { continue };
            return match read {
                Ok(slot) if joined.is_old(|| self.may_be_returned(&slot)) => continue,
                Ok(slot) if slot.answers(optional) => Turn::Found(slot.value),
                // A plain read that was joined has found nothing.
                Ok(_) => continue,
                Err(stop) => match (locked(&ours).take(), &*stop) {
                    (Some(lead), _) => Turn::Ours(lead),
                    (None, Stop::Wait(wait)) => Turn::Wait(wait.clone()),
                    (None, Stop::Stale(slot)) if slot.answers(optional) => {
                        Turn::Found(slot.value.clone())
                    }
                    // Good for loads that take "the origin has none", and joined.
                    (None, Stop::Stale(_)) => continue,
                    (None, Stop::Failed(error)) => Turn::Failed(error.clone()),
                },
            };
        }
    }

    /// Reads the key, or takes its lease.
    async fn read_or_lease<E>(
        &self,
        key: &K,
        optional: bool,
        old: Option<Entry<K, Slot<V>>>,
        ours: &Mutex<Option<Lead<V, E>>>,
    ) -> Result<Loaded<Slot<V>>, Stop<V, E>> {
        let wake = self.wakes.register(key);
        let fail = |error: Error| Stop::Failed(LoadError::Redis(error));
        if let Some(old) = &old {
            self.keep_for_errors(key, old);
        }
        let stale = self.fallback.after_an_error(key, self.now());
        if let Some(stale) = stale.filter(|slot| slot.answers(optional)) {
            return match self.ask(key).await {
                Ok((Fetched::Original(original), _)) if original.slot.answers(optional) => {
                    Ok(self.copy(original))
                }
                Ok(_) => {
                    count(&self.counts.stale_served);
                    Err(Stop::Stale(stale))
                }
                Err(error) => Err(fail(error)),
            };
        }
        match self.fetch_or_lease(key, optional).await {
            Ok(Leased::Found(Fetched::Original(original))) => Ok(self.copy(original)),
            Ok(Leased::Found(Fetched::Lease(left))) => Err(Stop::Wait(Wait::Lease(wake, left))),
            Ok(Leased::Found(Fetched::Absent)) => unreachable!("a lease was taken"),
            Ok(Leased::Ours(lease)) => {
                let (outcome, joined) = watch::channel(None);
                *locked(ours) = Some(Lead { lease, outcome });
                Err(Stop::Wait(Wait::Joined(joined)))
            }
            Err(error) => {
                let answers = |slot: &Slot<V>| slot.answers(optional);
                self.during_outage(old, error, answers).map_err(fail)
            }
        }
    }

    /// Waits for what ends the wait, and returns what it has brought, if that is known.
    pub async fn wait<E>(&self, wait: Wait<V, E>) -> Option<Made<V, E>> {
        let (wake, limit) = match wait {
            Wait::Joined(mut outcome) => {
                let made = outcome.wait_for(Option::is_some).await.ok();
                return made.and_then(|made| made.clone());
            }
            Wait::Lease(wake, limit) => (wake, limit),
        };
        count(&self.counts.lease_waits);
        let limit = match self.link.tracks() {
            true => limit.max(POLL) + Duration::from_millis(5),
            false => limit.min(POLL),
        };
        let _ = timeout(limit, wake.wait()).await;
        None
    }

    /// A value whose life is over, but that may be used in place of an error.
    pub fn usable(&self, key: &K, optional: bool) -> Option<Slot<V>> {
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

    /// Keeps what may replace an error, since the server's word about a lease, or about the end of
    /// a life, drops the local copy.
    pub fn keep_for_errors(&self, key: &K, old: &Slot<V>) {
        if !self.settings.stale_on_error.is_zero()
            && let Some(old) = self.may_replace_an_error(old.clone(), true)
        {
            let stamp = old.stamp;
            let is_here =
                || self.local.sync().peek(key).is_some_and(|present| present.stamp == stamp);
            // A write of this process drops the copy first: what it drops is not kept after it.
            if is_here() && self.fallback.keep(key, old) && !is_here() {
                self.fallback.forget(key);
            }
        }
    }

    /// The server says that the key has changed. If its life is over, this is what is said. (A copy
    /// with a limit of its own may end before its original, which may have been removed.)
    pub fn keep_expired(&self, key: &K) {
        if self.settings.stale_on_error.is_zero() || self.settings.local_ttl.is_some() {
            return;
        }
        if let Some(old) = self.local.sync().peek(key).filter(|old| self.now() >= old.fresh_until) {
            self.keep_for_errors(key, &old);
        }
    }

    async fn fetch_or_lease(&self, key: &K, optional: bool) -> Result<Leased<V>, Error> {
        count(&self.counts.fetches);
        let (raw, token) = (self.raw(key), wire::token());
        let lease = millis(Some(self.settings.lease));
        let over: &[u8] = if optional { b"0" } else { b"1" };
        let most = self.most();
        let arguments: [&[u8]; 4] = [&most, &token, &lease, over];
        // Given back also if the answer does not come: the server may have given it.
        let leased = Lease::new(&self.link, raw.clone(), token);
        let answer = self.link.eval(Script::Lease, &raw, &arguments).await?;
        if let Answer { reply: Reply::List(parts), .. } = &answer
            && matches!(parts[..], [Reply::Nil, Reply::Number(LEASED)])
        {
            return Ok(Leased::Ours(leased));
        }
        leased.settle();
        Ok(Leased::Found(self.found(key, answer)?))
    }
}

enum Leased<V> {
    Found(Fetched<V>),
    Ours(Lease),
}

impl<V> Slot<V> {
    /// Whether it says what the origin has: a value, or, if that is asked for, that there is none.
    pub fn answers(&self, optional: bool) -> bool {
        self.value.is_some() || optional && self.stamp.is_some()
    }
}
