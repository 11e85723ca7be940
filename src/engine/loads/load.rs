//! Loads: one caller makes the value, and all callers that want it get it.

use crate::clock::{NEVER, Timestamp};
use crate::engine::Engine;
use crate::engine::flights::{
    Entered, FlightGuard, InFlight, Joining, Kind, Landed, Obstacle, Step, block_on,
};
use crate::engine::write::{Basis, Readings, Terms, fresh};
use crate::entry::Entry;
use crate::expiration::Lifetime;
use crate::hash::Hash32;
use crate::pool::OwnedDraft;
use crate::sync::{Arc, seeded};
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// Counts a load; as failed, if the loader panics.
struct LoadTimer<'a, K, V, S> {
    engine: &'a Engine<K, V, S>,
    started: Option<Instant>,
}

impl<K, V, S> LoadTimer<'_, K, V, S> {
    fn succeed(mut self) {
        if let (Some(started), Some(recorder)) = (self.started.take(), &self.engine.core.recorder) {
            recorder.loaded(started.elapsed());
        }
    }
}

impl<K, V, S> Drop for LoadTimer<'_, K, V, S> {
    fn drop(&mut self) {
        if let (Some(started), Some(recorder)) = (self.started, &self.engine.core.recorder) {
            recorder.load_failed(started.elapsed());
        }
    }
}

/// What the first steps of a load come to.
enum Begun<K, V> {
    /// The key has an entry.
    There(Entry<K, V>),
    /// This call makes the value.
    Leading(FlightGuard),
}

/// What an operation holds between two steps may go to another thread, and borrows nothing.
const _: () = {
    const fn is_owned<T: Send + 'static>() {}
    is_owned::<OwnedDraft<String, String>>();
    is_owned::<Begun<String, String>>();
};

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The key's entry, read or loaded.
    pub fn load(&self, key: K, init: impl FnOnce() -> V) -> Entry<K, V> {
        let (found, due) = {
            let guard = crate::epoch::pin();
            let lookup = self.read(&guard, &key);
            (lookup.node.map(|node| self.entry_of(node)), lookup.due)
        };
        if due {
            self.after_read();
        }
        match found {
            Some(entry) => {
                // Dropped before the entry is the return value: a panic of theirs would leak it.
                drop((key, init));
                entry
            }
            None => self.load_missing(key, init),
        }
    }

    fn load_missing(&self, key: K, init: impl FnOnce() -> V) -> Entry<K, V> {
        let hash = self.hash(&key);
        self.check_key(hash, &key);
        let draft = self.pool.draft(hash, key).detach();
        let mut joined = None;
        match block_on(|| self.begin_load(&draft, &mut joined)) {
            Begun::There(entry) => {
                drop((draft, init));
                entry
            }
            Begun::Leading(flight) => self.finish_load(flight, draft, init),
        }
    }

    /// The first steps: waits for a load or computation of the key, or leads. `joined` is the
    /// flight that the step before has waited for.
    fn begin_load(
        &self,
        draft: &OwnedDraft<K, V>,
        joined: &mut Option<Arc<InFlight>>,
    ) -> Step<Begun<K, V>> {
        let (hash, key) = (draft.hash(), draft.key());
        if let Some(flight) = joined.take() {
            let entry = flight.landed().and_then(|landed| self.join(landed));
            if let Some(entry) = entry.or_else(|| self.peek_entry(hash, key)) {
                return Step::Done(Begun::There(entry));
            }
        }
        loop {
            match self.flight_of(hash, key) {
                Err(seen) => {
                    if let Some(flight) = self.take_off(Kind::Load, draft.share(), seen) {
                        return Step::Done(Begun::Leading(flight));
                    }
                }
                Ok((_, other)) if self.is_passed_over(hash, &other, Joining::Waiting) => {}
                Ok((_, other)) => {
                    *joined = Some(Arc::clone(&other));
                    return Step::Wait(other);
                }
            }
        }
    }

    /// The last step: runs the loader and commits, unless another load has ended between the first
    /// look and the take-off.
    fn finish_load(
        &self,
        flight: FlightGuard,
        draft: OwnedDraft<K, V>,
        init: impl FnOnce() -> V,
    ) -> Entry<K, V> {
        let flight = flight.enter();
        let (hash, key) = (draft.hash(), draft.key());
        if let (Some(entry), _) = self.stable_entry(hash, key) {
            flight.land(Some(landed(&entry, entry.deadline())));
            drop((draft, init));
            return entry;
        }
        let (entry, ends) = self.lead(draft, init, &flight);
        flight.land(Some(landed(&entry, ends)));
        self.after_write();
        entry
    }

    /// The result of another call's load, unless its life is over by now.
    fn join(&self, landed: Landed) -> Option<Entry<K, V>> {
        let now = self.core.ticker.now();
        let is_over = landed.ends <= now && !seeded("joined-loads-are-not-judged");
        (!is_over).then(|| {
            let deadline = landed.ends.max(now);
            Entry::new(self.pool.handle(landed.node), now, deadline, false)
        })
    }

    /// Runs the loader and commits the value. Returns also when the value's life ends, for the
    /// waiters.
    fn lead(
        &self,
        draft: OwnedDraft<K, V>,
        init: impl FnOnce() -> V,
        flight: &Entered,
    ) -> (Entry<K, V>, Timestamp) {
        let hash = draft.hash();
        let started = self.core.recorder.is_some().then(Instant::now);
        let timer = LoadTimer { engine: self, started };
        let value = init();
        timer.succeed();
        let node = draft.attach(&self.pool).fill(value);
        let terms = Terms { weight: self.weigh(&node), lifetime: Lifetime::Policy };
        if let Some(entry) = self.stable_entry(hash, node.key()).0 {
            let ends = entry.deadline();
            return (entry, ends);
        }
        let asks = self.hooks.expiry.is_some();
        let answer = asks.then(|| self.ask(&node, Some(&Basis::Absent), Readings::CoarseFirst));
        let guard = crate::epoch::pin();
        loop {
            let (found, old) = self.search_exact(&guard, hash, node.key());
            let now = self.core.ticker.now();
            if let Some(old) = old.filter(|old| self.core.is_live(old.meta(), now)) {
                return (self.entry_of(old), old.seen());
            }
            if let Some(answer) = answer
                && let Err(_) | Ok(Some(_)) = self.living_for((answer, &Basis::Absent), old)
            {
                continue;
            }
            let put = self.prepare((&node, hash), old, terms, answer);
            let ends = if put.refused.is_some() { NEVER } else { put.deadline };
            match self.core.commit_put(found, &put, flight.clearance()) {
                Ok(done) => {
                    let handle = node.handle();
                    self.finish_put(node, done, terms.weight, put.now);
                    return (fresh(handle, put.now, put.deadline), ends);
                }
                Err(Obstacle::Overtaken) => {
                    return (fresh(node.handle(), put.now, put.deadline), ends);
                }
                Err(_) => {}
            }
        }
    }

    /// The key's living entry, read without side effects.
    fn peek_entry(&self, hash: Hash32, key: &K) -> Option<Entry<K, V>> {
        let guard = crate::epoch::pin();
        let coarse = self.core.ticker.coarse();
        let node = self.find(&guard, hash, key)?;
        self.is_live_at(node, coarse).then(|| self.entry_of(node))
    }
}

/// The result of a load, for its waiters.
fn landed<K, V>(entry: &Entry<K, V>, ends: Timestamp) -> Landed {
    Landed { node: entry.node().raw().clone(), ends }
}

#[cfg(cortado_loom)]
impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    /// Takes off for a load and gives it up, as unwinding from a loader does, without unwinding:
    /// loom's threads share one thread's count of panics. False if another is in the air.
    pub fn abandon_load(&self, key: K) -> bool {
        let hash = self.hash(&key);
        let draft = self.pool.draft(hash, key);
        let Err(seen) = self.flight_of(hash, draft.key()) else { return false };
        self.take_off(Kind::Load, draft.share(), seen).is_some()
    }
}
