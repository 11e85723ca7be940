//! Asking the user: weigher, expiry hooks, conditions. No guard and no lock is held meanwhile. A
//! mark on the thread says which key is being asked about.

use crate::clock::{NEVER, Nanos, Timestamp};
use crate::engine::Engine;
use crate::engine::asked::{Answer, Basis, Terms};
use crate::engine::reentrancy;
use crate::epoch;
use crate::expiration::{HookLifetime, Lease, Lifetime, lifetime};
use crate::expiry::Expiry;
use crate::expiry::default_hook::{self, Hook, Sealed};
use crate::hash::LookupKey;
use crate::node::remaining;
use crate::pool::{HardDeadline, Local, RawHandle};
use crate::primitives::atomic::Ordering;
use crate::primitives::seeded;

/// When an entry ends: at the latest, and unless it is read before.
#[derive(Clone, Copy)]
pub struct Ends {
    pub hard_deadline: Timestamp,
    pub deadline: Timestamp,
}

/// Which readings of the clock a hook is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readings {
    /// A coarse one, and then a precise one if the answer is short.
    CoarseFirst,
    /// A precise one.
    Precise,
}

/// After so many rounds, whatever has changed the lifetime between the question and the commit was
/// most likely a read.
const ROUNDS_BESIDE_READS: u32 = 16;

impl<K, V> Engine<K, V> {
    /// The weigher's answer; 1 without a weigher.
    #[inline(always)]
    pub fn weigh(&self, node: &Local<'_, K, V>) -> u32 {
        let Some(weigher) = &self.weigher else { return 1 };
        let _mark = self.core.mark_callback(node.meta(), node.id());
        weigher(node.key(), node.value())
    }

    /// What is to be known of a value before its commit: asks the weigher and the refresh policy.
    #[inline(never)]
    pub fn terms(&self, node: &Local<'_, K, V>, lease: Lease) -> Terms {
        let Lease { lifetime, refresh } = lease;
        let refresh = refresh.or_else(|| self.ask_refresh(node));
        Terms { weight: self.weigh(node), lifetime, refresh }
    }

    /// The refresh policy's answer: the time until the value is stale.
    pub fn ask_refresh(&self, node: &Local<'_, K, V>) -> Option<Nanos> {
        self.reloads.as_ref()?.ask(&self.core, node)
    }

    /// Whether the hooks are asked about a value that is written with this term.
    #[inline(always)]
    pub fn is_asked(&self, lifetime: Lifetime) -> bool {
        self.expiry.is_some() && matches!(lifetime, Lifetime::Policy)
    }

    /// Whether the hooks' answer depends on the key's entry, which then has to be looked up first.
    #[inline]
    pub fn depends_on_entry(&self) -> bool {
        !self.updates_create.load(Ordering::Relaxed)
    }

    /// Whether a load or a reload asks the update hook again if another lifetime was set after the
    /// hook had been told the present one. Where reads change lifetimes, it does so for a limited
    /// number of rounds: beside a key that is read all the time it would ask without end.
    pub fn asks_again(&self, rounds: u32) -> bool {
        !self.mode.asks() || rounds < ROUNDS_BESIDE_READS
    }

    /// Asks a policy that [answers alone](Self::answers_alone) how long the node is to live.
    #[inline(never)]
    pub fn ask_alone(&self, node: &Local<'_, K, V>) -> Lifetime {
        let Some(expiry) = &self.expiry else { return Lifetime::Policy };
        let _mark = self.core.mark_callback(node.meta(), node.id());
        let start = self.core.ticker.start();
        Lifetime::AtMost(lifetime(expiry.expire_after_create(node.key(), node.value(), start)))
    }

    /// Asks the hooks how long the node is to live in place of `basis`. There is no basis if the
    /// answer does not depend on it.
    pub fn ask(
        &self,
        node: &Local<'_, K, V>,
        basis: Option<&Basis<K, V>>,
        readings: Readings,
    ) -> Answer {
        let ticker = &self.core.ticker;
        let mut coarsely = readings == Readings::CoarseFirst;
        let mut now = if coarsely { ticker.coarse() } else { ticker.now() };
        let pinned = seeded("hooks-are-asked-again-under-the-lock").then(epoch::pin);
        let mut _locked = None;
        loop {
            let hook = self.ask_at(node, basis, now);
            let left = || self.ends(Lifetime::Policy, hook, now).deadline.saturating_since(now);
            if !coarsely || !ticker.is_short(left()) {
                return Answer { hook, now };
            }
            (now, coarsely) = (ticker.now(), false);
            if let HookLifetime::Same(_) = hook {
                return Answer { hook, now };
            }
            // The hook may have computed the answer from the reading that it was told.
            _locked = pinned.as_ref().zip(basis).and_then(|(guard, basis)| {
                let Basis::Entry { node, .. } = basis else { return None };
                self.core.index.lock_id(guard, node.meta().hash(), node.id())
            });
        }
    }

    #[inline(always)]
    fn ask_at(
        &self,
        node: &Local<'_, K, V>,
        basis: Option<&Basis<K, V>>,
        now: Timestamp,
    ) -> HookLifetime {
        let Some(expiry) = &self.expiry else { return HookLifetime::Same(NEVER) };
        if let Some(&Basis::Entry { ends, .. }) = basis {
            return self.ask_about_update(&**expiry, node, now, ends);
        }
        let instant = self.core.ticker.instant_of(now);
        // The mark covers the hook alone: the clock may use the cache as it likes.
        let _mark = self.core.mark_callback(node.meta(), node.id());
        HookLifetime::For(lifetime(expiry.expire_after_create(node.key(), node.value(), instant)))
    }

    #[inline(never)]
    fn ask_about_update(
        &self,
        expiry: &dyn Expiry<K, V>,
        node: &Local<'_, K, V>,
        now: Timestamp,
        hard_deadline: Timestamp,
    ) -> HookLifetime {
        let instant = self.core.ticker.instant_of(now);
        let _mark = self.core.mark_callback(node.meta(), node.id());
        let current = remaining(hard_deadline, now);
        let ask = || expiry.expire_after_update(node.key(), node.value(), instant, current);
        let (answer, is_default) = default_hook::asked(Hook::Update, expiry.identity(Sealed), ask);
        if is_default {
            self.updates_create.store(true, Ordering::Relaxed);
        }
        if answer == current && !is_default {
            HookLifetime::Same(hard_deadline)
        } else {
            HookLifetime::For(lifetime(answer))
        }
    }

    /// The deadlines of an entry written at `now`.
    #[inline(always)]
    pub fn ends(&self, lifetime: Lifetime, hook: HookLifetime, now: Timestamp) -> Ends {
        let lifetimes = &self.core.lifetimes;
        let hard_deadline = match lifetime {
            Lifetime::For(lifetime) => now.saturating_add(lifetime),
            Lifetime::Until(instant) => self.core.ticker.time_of(instant),
            Lifetime::Policy => lifetimes.hard_deadline(now, hook.end(now)),
            Lifetime::AtMost(lifetime) => {
                lifetimes.hard_deadline(now, now.saturating_add(lifetime))
            }
        };
        Ends { hard_deadline, deadline: lifetimes.deadline(now, hard_deadline) }
    }

    /// Refuses a write of a key from within a callback that was asked about it.
    ///
    /// # Panics
    /// If this call is such a write.
    #[inline(always)]
    pub fn check_key(&self, key: impl LookupKey<K>) {
        if reentrancy::is_in_callback() {
            self.check_key_slow(key);
        }
    }

    #[cold]
    fn check_key_slow(&self, key: impl LookupKey<K>) {
        for id in reentrancy::asked_about(self.core.id(), key.hash()) {
            // The caller of the callback has a count, so another one may be taken.
            self.pool.raw().meta(id).retain();
            let asked = self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), id));
            assert!(
                !key.is(asked.key()),
                "an expiry hook, a weigher or a condition writes the key that it was asked about"
            );
        }
    }
}

impl<K, V> Engine<K, V> {
    /// The key's living entry, about which the hooks are asked. Drops the guard. An expired entry
    /// is claimed.
    #[inline(always)]
    pub fn basis_of(&self, guard: epoch::Guard, key: impl LookupKey<K>) -> Basis<K, V> {
        loop {
            let Some(node) = self.find(&guard, key) else { return Basis::Absent };
            if self.is_live_at(node, self.core.ticker.coarse()) {
                let hard_deadline = self.pool.raw().hard_deadline(node.id());
                let ends = hard_deadline.map_or_else(|| node.seen(), HardDeadline::load);
                return Basis::Entry { node: self.handle_on(node), ends };
            }
            if self.confirm_miss(node) {
                return Basis::Absent;
            }
        }
    }
}
