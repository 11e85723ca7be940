//! Loads: one caller makes the value, and all callers that want it share the outcome.

use super::commit::{Condition, Replaces, land_entry};
use crate::engine::Engine;
use crate::engine::flights::{
    EnteredFlight, Flight, FlightGuard, FlightKind, LoadOutcome, LoadedNode,
};
use crate::engine::maintenance::Core;
use crate::engine::reentrancy::{FlightToken, Frame, ReentrancyMark};
use crate::engine::step::{Step, block_on, block_until, is_owned};
use crate::entry::{Entry, Origin};
use crate::hash::{Hashed, LookupKey};
use crate::key_source::KeySource;
use crate::loaded::{Loaded, LoaderResult, Reason};
use crate::pool::OwnedDraft;
use crate::primitives::time::Instant;
use crate::primitives::{Arc, seeded};
use crate::span::{Span, Work};
use crate::to_key::ToKey;
use std::convert::Infallible;

/// Times a load, counts it, and holds its span. The load counts as failed if its loader makes no
/// value or panics.
pub struct LoadTimer<'a> {
    core: &'a Core,
    started: Option<Instant>,
    span: Span,
}

impl LoadTimer<'_> {
    /// The span, to be entered while the loader's code runs.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The loader has ended.
    pub fn stop(mut self, has_value: bool) {
        self.span.note_outcome(has_value);
        if has_value
            && let (Some(started), Some(recorder)) = (self.started.take(), &self.core.recorder)
        {
            recorder.loaded(started.elapsed());
        }
    }
}

impl Drop for LoadTimer<'_> {
    fn drop(&mut self) {
        if let (Some(started), Some(recorder)) = (self.started, &self.core.recorder) {
            recorder.load_failed(started.elapsed());
        }
    }
}

/// A call's loader, which is called at most once, with the entry that its value is to replace. It
/// is a trait object, so that the functions that take it are compiled once, and not for each
/// closure.
pub type Init<'a, K, V, N> = &'a mut dyn FnMut(Option<Entry<K, V>>) -> Result<Loaded<V>, N>;

/// A closure that may be called once, in the form in which it can be lent.
pub fn once<Q, T>(run: impl FnOnce(Q) -> T) -> impl FnMut(Q) -> T {
    let mut run = Some(run);
    move |question| run.take().expect("a closure is called once")(question)
}

/// The result of [`Engine::begin_load`].
pub enum Begun<K, V, N> {
    /// The key has an entry; or another call's load made this value, which need not be cached; or
    /// another call's loader made no value, and this call returns the same reason.
    Ended(Result<Entry<K, V>, N>),
    /// This call makes the value. It replaces this entry.
    Leading(FlightGuard, Option<Entry<K, V>>),
}

const _: () = is_owned::<OwnedDraft<String, String>>();
const _: () = is_owned::<Begun<String, String, std::convert::Infallible>>();

/// A load whose value is still to come. Its drop gives the load up.
pub struct PendingLoad<K, V> {
    // Declared, and so dropped, before the draft, which has the key.
    flight: FlightGuard,
    draft: OwnedDraft<K, V>,
    started: Instant,
    span: Span,
}

impl<K, V> PendingLoad<K, V> {
    pub fn key(&self) -> &K {
        self.draft.key()
    }
}

impl<K: Eq, V> Engine<K, V> {
    /// Returns the key's entry, or loads it. If `replace_if` holds for the entry, the key counts as
    /// absent.
    ///
    /// # Errors
    /// The reason, if this call's loader, or the loader that it waited for, made no value.
    pub fn load<R: LoaderResult<V>>(
        &self,
        key: Hashed<impl KeySource<K>>,
        init: impl FnOnce(Option<Entry<K, V>>) -> R,
        replace_if: Option<Condition<'_, V>>,
    ) -> Result<Entry<K, V>, R::Reason> {
        self.load_dyn(key, &mut once(|old| init(old).into_result()), replace_if)
    }

    fn load_dyn<N: Reason>(
        &self,
        key: Hashed<impl KeySource<K>>,
        init: Init<'_, K, V, N>,
        replace_if: Option<Condition<'_, V>>,
    ) -> Result<Entry<K, V>, N> {
        let mut replaces = Replaces::new(replace_if);
        match self.read_for_load(key.borrowed(), &mut replaces) {
            Some(entry) => Ok(entry),
            None => {
                let loaded = self.load_until(None, key.into_key(), init, &mut replaces);
                loaded.expect("there is no deadline")
            }
        }
    }

    /// [`load`](Self::load) of a clone of the value. A hit makes no handle, so it costs what a read
    /// costs: a plain hit writes nothing that threads share, and reads no precise clock.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_value<R: LoaderResult<V>>(
        &self,
        key: Hashed<impl KeySource<K>>,
        init: impl FnOnce() -> R,
    ) -> Result<V, R::Reason>
    where
        V: Clone,
    {
        self.load_value_dyn(key, &mut once(|_| init().into_result()))
    }

    fn load_value_dyn<N: Reason>(
        &self,
        key: Hashed<impl KeySource<K>>,
        init: Init<'_, K, V, N>,
    ) -> Result<V, N>
    where
        V: Clone,
    {
        if let Some(value) = self.read_clone(key.borrowed()) {
            return Ok(value);
        }
        let loaded = self.load_until(None, key.into_key(), init, &mut Replaces::none());
        loaded.expect("there is no deadline").map(Entry::into_value)
    }

    /// The key's entry as a read finds it. One that is to be replaced is judged before the read,
    /// which then is a miss, and leaves no trace in that entry.
    pub fn read_for_load(
        &self,
        key: impl LookupKey<K>,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Option<Entry<K, V>> {
        let mut judged = None;
        if replaces.has_condition() {
            judged = self.peek_entry(key);
            if judged.as_ref().is_some_and(|entry| self.is_replaced(entry, replaces)) {
                self.count(false);
                if self.core.is_maintenance_due(self.core.ticker.coarse()) {
                    self.after_read();
                }
                return None;
            }
        }
        let (found, due) = self.read_entry(key);
        if due {
            self.after_read();
        }
        let judged = judged.map(|entry| entry.node().id());
        found
            .filter(|entry| judged == Some(entry.node().id()) || !self.is_replaced(entry, replaces))
    }

    /// [`load`](Self::load) for a caller that has just found the key without an entry. Waits for
    /// another call's load no longer than until `deadline`, and returns `None` then.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_after_miss<R: LoaderResult<V>>(
        &self,
        key: Hashed<K>,
        init: impl FnOnce() -> R,
        deadline: Option<Instant>,
    ) -> Option<Result<Entry<K, V>, R::Reason>> {
        let mut init = once(|_| init().into_result());
        self.load_until(deadline, key, &mut init, &mut Replaces::none())
    }

    fn load_until<N: Reason>(
        &self,
        deadline: Option<Instant>,
        key: Hashed<K>,
        init: Init<'_, K, V, N>,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Option<Result<Entry<K, V>, N>> {
        let (draft, mut joined) = (self.draft_for_load(key), None);
        let begin = || self.begin_load::<N>(None, &draft, &mut joined, replaces);
        let (flight, old) = match block_until(deadline, begin)? {
            Begun::Ended(loaded) => return Some(loaded),
            Begun::Leading(flight, old) => (flight.enter(), old),
        };
        let timer = self.time_load(Work::Load);
        let made = {
            let _entered = timer.span().enter();
            init(old)
        };
        timer.stop(made.is_ok());
        Some(self.land_made(draft, made, flight, replaces))
    }

    /// A loader is about to run.
    pub fn time_load(&self, work: Work) -> LoadTimer<'_> {
        let started = self.core.recorder.is_some().then(Instant::now);
        LoadTimer { core: &self.core, started, span: Span::begin(work, self.name()) }
    }

    /// A node with the key, for a load of it.
    pub fn draft_for_load(&self, key: Hashed<K>) -> OwnedDraft<K, V> {
        self.check_key(key.as_ref());
        self.pool.draft(key).detach()
    }

    /// The first steps: waits for a load or computation of the key, or registers this call's load
    /// and looks again.
    /// `joined` carries the awaited flight to the next step. A call that may have begun other loads
    /// has the token of the first.
    pub fn begin_load<N: Reason>(
        &self,
        call: Option<FlightToken>,
        draft: &OwnedDraft<K, V>,
        joined: &mut Option<Arc<Flight>>,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Step<Begun<K, V, N>> {
        let key = draft.hashed();
        if let Some(flight) = joined.take() {
            if let Some(begun) = self.join(&flight, replaces) {
                return Ok(begun);
            }
            let entry = self.peek_entry(key);
            if let Some(entry) = entry.filter(|entry| !self.is_replaced(entry, replaces)) {
                return Ok(Begun::Ended(Ok(entry)));
            }
        }
        let other =
            match self.begin_flight(key, FlightKind::Load, call, &|| draft.share(), &|_| false) {
                Ok(flight) => return Ok(self.look_again(flight, draft, replaces)),
                Err(other) => other,
            };
        // The key got this entry after the call had missed it.
        if other.kind == FlightKind::Reload
            && let Some(entry) = self.peek_entry(key)
            && !self.is_replaced(&entry, replaces)
        {
            return Ok(Begun::Ended(Ok(entry)));
        }
        *joined = Some(Arc::clone(&other));
        Err(other)
    }

    /// Ends a load by what its loader has made.
    ///
    /// # Errors
    /// The loader's reason.
    pub fn land_made<N: Reason>(
        &self,
        draft: OwnedDraft<K, V>,
        made: Result<Loaded<V>, N>,
        flight: EnteredFlight,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Result<Entry<K, V>, N> {
        match made {
            Ok(loaded) => Ok(self.land_value(draft, loaded, flight, replaces)),
            Err(reason) => {
                if seeded("absences-keep-the-flight") {
                    std::mem::forget(flight);
                    return Err(reason);
                }
                flight.land_with(|| Some(LoadOutcome::NoValue(reason.share())));
                Err(reason)
            }
        }
    }

    /// The entry in place of the flight, if the key has got one between the read and the
    /// registration. Then the flight lands with that entry.
    pub fn look_again<N>(
        &self,
        flight: FlightGuard,
        draft: &OwnedDraft<K, V>,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Begun<K, V, N> {
        let judged = {
            // The comparisons are user code, which may load the key.
            let _mark = flight.mark_poll();
            self.judged_entry(&flight, draft.hashed(), replaces)
        };
        match judged {
            Some((entry, false)) => {
                land_entry(flight.enter(), &entry, entry.deadline());
                Begun::Ended(Ok(entry))
            }
            replaced => Begun::Leading(flight, replaced.map(|(entry, _)| entry)),
        }
    }

    /// Commits a loaded value and ends its flight.
    pub fn land_value(
        &self,
        draft: OwnedDraft<K, V>,
        loaded: Loaded<V>,
        flight: EnteredFlight,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Entry<K, V> {
        let (value, lease) = loaded.into_parts();
        let node = draft.attach(&self.pool).fill(value);
        let (entry, ends) = self.commit_load(node, lease, &flight, replaces);
        land_entry(flight, &entry, ends);
        self.after_write();
        entry
    }

    /// The outcome of another call's load, if this call can use it: not a value whose life is over
    /// by now.
    fn join<N: Reason>(
        &self,
        flight: &Flight,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Option<Begun<K, V, N>> {
        match flight.outcome()? {
            LoadOutcome::Value(LoadedNode { node, mut ends, mut deadline, is_made }) => {
                let now = self.core.ticker.now();
                if !is_made {
                    // It may have ended since, or have left.
                    ends = node.meta().deadline();
                    deadline = ends;
                    if self.core.hot.is_cleared(node.meta()) {
                        return None;
                    }
                }
                if ends <= now && !seeded("joined-loads-are-not-judged") {
                    return None;
                }
                let handle = self.pool.handle(node);
                let entry = Entry::new(handle, now, deadline.max(now), Origin::Found);
                // An entry that the other call has only found is judged like any other.
                let is_usable = is_made || !self.is_replaced(&entry, replaces);
                is_usable.then_some(Begun::Ended(Ok(entry)))
            }
            LoadOutcome::NoValue(reason) => {
                N::adopt(&reason).map(|reason| Begun::Ended(Err(reason)))
            }
        }
    }

    /// The key's entry, read or loaded by another call.
    ///
    /// # Errors
    /// The load of the key, which is the caller's duty, if there is no entry.
    pub fn value_or_load<Q: ToKey<K> + ?Sized>(
        &self,
        key: Hashed<&Q>,
    ) -> Result<Entry<K, V>, PendingLoad<K, V>> {
        let mut replaces = Replaces::none();
        if let Some(entry) = self.read_for_load(key, &mut replaces) {
            return Ok(entry);
        }
        // Back-pressure comes before the load: its end may be in a task.
        self.after_write();
        let (draft, mut joined) = (self.draft_for_load(key.to_key()), None);
        let begun = block_on(|| self.begin_load(None, &draft, &mut joined, &mut replaces));
        self.lead(begun, draft)
    }

    /// The load that the caller leads now, or else its outcome.
    ///
    /// # Errors
    /// The load.
    pub fn lead(
        &self,
        begun: Begun<K, V, Infallible>,
        draft: OwnedDraft<K, V>,
    ) -> Result<Entry<K, V>, PendingLoad<K, V>> {
        match begun {
            Begun::Ended(Ok(entry)) => Ok(entry),
            Begun::Leading(flight, _) => {
                let span = Span::begin(Work::Load, self.name());
                Err(PendingLoad { flight, draft, started: Instant::now(), span })
            }
        }
    }

    /// Ends the load with its value. It blocks no thread, since the caller may be a task.
    pub fn finish_pending(&self, load: PendingLoad<K, V>, loaded: Loaded<V>) -> Entry<K, V> {
        let PendingLoad { flight, draft, started, span } = load;
        LoadTimer { core: &self.core, started: Some(started), span }.stop(true);
        let _mark = ReentrancyMark::push(Frame::Task);
        self.land_value(draft, loaded, flight.enter(), &mut Replaces::none())
    }
}

impl<K, V> Engine<K, V> {
    /// Gives the load up. One of its waiters leads next.
    pub fn give_up_pending(&self, load: PendingLoad<K, V>) {
        let (started, span) = (Some(load.started), load.span.clone());
        drop(LoadTimer { core: &self.core, started, span });
        if seeded("guards-keep-the-flight") {
            return std::mem::forget(load);
        }
        drop(load);
    }
}
