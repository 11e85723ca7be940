//! Asking the user: weigher, expiry hooks, conditions. No guard and no lock is held meanwhile, and
//! a mark on the thread says what is being asked about.

use super::Engine;
use super::lookup::NodeRef;
use super::reentry::{self, Mark};
use crate::clock::NEVER;
use crate::expiration::{Term, lifetime};
use crate::expiry::Expiry;
use crate::expiry::default_hook::{self, Hook, Sealed};
use crate::node::remaining;
use crate::pool::{Cap, Handle, Local, RawHandle};
use crate::sync::atomic::Ordering;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// What an expiry hook said of a new value.
#[derive(Clone, Copy)]
pub enum HookLifetime {
    /// So many nanoseconds from the present; [`NEVER`] is for ever.
    For(u64),
    /// The same end as before.
    Same(u64),
}

impl HookLifetime {
    pub fn end(self, now: u64) -> u64 {
        match self {
            Self::For(nanos) => now.saturating_add(nanos),
            Self::Same(end) => end,
        }
    }
}

/// What the hooks said of a new value, and by which reading of the clock.
#[derive(Clone, Copy)]
pub struct Answer {
    pub lifetime: HookLifetime,
    pub now: u64,
}

/// What the key had when the hooks were asked, where their answer depends on it.
pub enum Basis<K, V> {
    /// No living entry.
    Absent,
    /// This one, which was to end at `ends`, idle time aside. The count keeps its id from becoming
    /// another's.
    Entry { node: Handle<K, V>, ends: u64 },
}

impl<K, V> Basis<K, V> {
    /// Whether it is this living entry, or none.
    pub fn is_still(&self, living: Option<NodeRef<'_, K, V>>) -> bool {
        match (self, living) {
            (Self::Absent, None) => true,
            (Self::Entry { node, .. }, Some(living)) => node.id() == living.id(),
            _ => false,
        }
    }
}

/// Which readings of the clock a hook is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readings {
    /// A coarse one, and then a precise one if the answer is short.
    CoarseFirst,
    /// A precise one.
    Precise,
}

impl<K, V, S> Engine<K, V, S> {
    /// What the weigher says; 1 without one.
    pub fn weigh(&self, node: &Local<'_, K, V>) -> u32 {
        let Some(weigher) = &self.hooks.weigher else { return 1 };
        let _mark = Mark::callback(&self.core, node.meta().hash(), node.id());
        weigher(node.key(), node.value())
    }

    /// Whether the hooks are asked about a value that is written with this term.
    #[inline(always)]
    pub fn is_asked(&self, term: Term) -> bool {
        self.hooks.expiry.is_some() && matches!(term, Term::Policy)
    }

    /// Whether the answer of the hooks depends on what is there, so that it has to be looked up
    /// before.
    #[inline]
    pub fn depends_on_entry(&self) -> bool {
        !self.updates_create.load(Ordering::Relaxed)
    }

    /// Asks the hooks how long the node is to live: in the place of `basis`, or of anything if they
    /// answer regardless of that.
    pub fn ask(
        &self,
        node: &Local<'_, K, V>,
        basis: Option<&Basis<K, V>>,
        readings: Readings,
    ) -> Answer {
        let ticker = &self.core.ticker;
        let coarsely = readings == Readings::CoarseFirst;
        let mut now = if coarsely { ticker.coarse() } else { ticker.now() };
        let mut lifetime = self.ask_at(node, basis, now);
        if coarsely {
            let (_, deadline) = self.ends(Term::Policy, lifetime, now);
            if ticker.is_short(deadline.saturating_sub(now)) {
                now = ticker.now();
                if let HookLifetime::For(_) = lifetime {
                    // The answer may have been made of the reading that it was given.
                    lifetime = self.ask_at(node, basis, now);
                }
            }
        }
        Answer { lifetime, now }
    }

    #[inline(always)]
    fn ask_at(
        &self,
        node: &Local<'_, K, V>,
        basis: Option<&Basis<K, V>>,
        now: u64,
    ) -> HookLifetime {
        let Some(expiry) = &self.hooks.expiry else { return HookLifetime::Same(NEVER) };
        let instant = self.core.ticker.instant_of(now);
        if let Some(&Basis::Entry { ends, .. }) = basis {
            return self.ask_about_update(&**expiry, node, (instant, now), ends);
        }
        // Around the hook alone: the clock may do as it likes.
        let _mark = Mark::callback(&self.core, node.meta().hash(), node.id());
        HookLifetime::For(lifetime(expiry.expire_after_create(node.key(), node.value(), instant)))
    }

    #[inline(never)]
    fn ask_about_update(
        &self,
        expiry: &dyn Expiry<K, V>,
        node: &Local<'_, K, V>,
        (instant, now): (Instant, u64),
        cap: u64,
    ) -> HookLifetime {
        let _mark = Mark::callback(&self.core, node.meta().hash(), node.id());
        let current = remaining(cap, now);
        let ask = || expiry.expire_after_update(node.key(), node.value(), instant, current);
        let (answer, is_default) = default_hook::asked(Hook::Update, expiry.identity(Sealed), ask);
        if is_default {
            self.updates_create.store(true, Ordering::Relaxed);
        }
        if answer == current && !is_default {
            HookLifetime::Same(cap)
        } else {
            HookLifetime::For(lifetime(answer))
        }
    }

    /// The cap and the deadline of an entry written at `now`.
    #[inline(always)]
    pub fn ends(&self, term: Term, lifetime: HookLifetime, now: u64) -> (u64, u64) {
        let lifetimes = &self.core.lifetimes;
        let cap = match term {
            Term::For(nanos) => now.saturating_add(nanos),
            Term::Until(instant) => instant,
            Term::Policy => lifetimes.cap(now, lifetime.end(now)),
        };
        (cap, lifetimes.deadline(now, cap))
    }

    /// Refuses a write of a key from within a callback that was asked about it.
    ///
    /// # Panics
    /// If this is one.
    #[inline(always)]
    pub fn check_key<Q>(&self, hash: u32, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        if reentry::is_in_callback() {
            self.check_key_slow(hash, key);
        }
    }

    #[cold]
    fn check_key_slow<Q>(&self, hash: u32, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        for id in reentry::asked_about(&self.core, hash) {
            // From an existing count: that of the callback's caller.
            self.pool.raw().meta(id).retain();
            let asked = self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), id));
            assert!(
                !key.equivalent(asked.key()),
                "an expiry hook, a weigher or a condition writes the key that it was asked about"
            );
        }
    }
}

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    /// The key's living entry for the hooks to be asked about, with no guard left. One that has
    /// expired is claimed.
    pub fn basis_of<Q>(&self, hash: u32, key: &Q) -> Basis<K, V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let guard = crate::epoch::pin();
        loop {
            let coarse = self.core.ticker.coarse();
            let Some(node) = self.find(&guard, hash, key) else { return Basis::Absent };
            if self.was_living(node, coarse) {
                let cap = self.pool.raw().cap(node.id());
                let ends = cap.map_or_else(|| node.seen(), Cap::load);
                return Basis::Entry { node: self.handle_on(node), ends };
            }
            if self.is_final_miss(node) {
                return Basis::Absent;
            }
        }
    }
}
