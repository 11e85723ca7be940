//! What loaders and other user code of a program answer, at once or after some polls. Now and then
//! they panic instead.

use super::ledger::{Key, Ledger, Value};
use crate::hand::pends;
use cortado::{AsyncLoader, Loaded, Loader, Op, Reloaded};
use std::sync::Arc;

/// How many calls of user code there are for each that panics.
const CALLS: u64 = 12;

impl Ledger {
    /// A value, unless the user's code panics.
    pub fn answer(self: &Arc<Self>) -> Value {
        self.may_panic(CALLS);
        self.value()
    }

    pub fn optional_answer(self: &Arc<Self>) -> Option<Value> {
        self.once_in(2).then(|| self.answer())
    }

    pub fn fallible_answer(self: &Arc<Self>) -> Result<Value, u8> {
        self.optional_answer().ok_or(1)
    }

    /// A value with a lifetime of its own, or without one.
    pub fn loaded(self: &Arc<Self>) -> Loaded<Value> {
        let value = self.answer();
        if self.once_in(3) {
            let loaded = Loaded::with_ttl(value, self.seconds_below(30));
            return loaded.refresh_after(self.seconds_below(5));
        }
        Loaded::new(value)
    }

    pub fn fallibly_loaded(self: &Arc<Self>) -> Result<Loaded<Value>, u8> {
        if self.once_in(5) { Err(1) } else { Ok(self.loaded()) }
    }

    fn reloaded(self: &Arc<Self>) -> Result<Reloaded<Value>, u8> {
        self.may_panic(CALLS);
        match self.below(6) {
            0 => Err(1),
            1 => Ok(Reloaded::gone()),
            2 => Ok(Reloaded::not_modified()),
            3 => Ok(Reloaded::not_modified_with_ttl(self.seconds_below(20))),
            _ => Ok(self.loaded().into()),
        }
    }

    /// What a computation makes of an entry.
    pub fn op(self: &Arc<Self>) -> Op<Value> {
        self.may_panic(CALLS);
        match self.below(4) {
            0 => Op::Nop,
            1 => Op::Remove,
            2 => Op::PutLoaded(Loaded::with_ttl(self.value(), self.seconds_below(40))),
            _ => Op::Put(self.value()),
        }
    }

    pub fn fallible_op(self: &Arc<Self>) -> Result<Op<Value>, u8> {
        if self.once_in(3) { Err(1) } else { Ok(self.op()) }
    }

    /// Values for most of these keys, and for one that nobody may have asked for.
    pub fn answers(self: &Arc<Self>, mut keys: Vec<u64>) -> Result<Vec<(Key, Value)>, u8> {
        self.may_panic(CALLS);
        if self.once_in(4) {
            return Err(1);
        }
        keys.push(self.below(20));
        keys.retain(|_| !self.once_in(4));
        Ok(keys.into_iter().map(|key| (self.key(key), self.value())).collect())
    }

    /// Whether a condition holds for an entry.
    pub fn condition(&self) -> bool {
        self.may_panic(CALLS);
        self.once_in(2)
    }

    /// Waits up to three times, and then makes the answer.
    pub async fn later<T>(self: &Arc<Self>, answer: impl Fn(&Arc<Self>) -> T) -> T {
        pends(self.below(4) as u32).await;
        answer(self)
    }
}

/// The numbers of keys that a loader of many has to load.
pub fn numbers(keys: &[&Key]) -> Vec<u64> {
    keys.iter().map(|key| key.number).collect()
}

/// The stored loader.
pub struct Stored(pub Arc<Ledger>);

impl Loader<Key, Value> for Stored {
    type Error = u8;

    fn load(&self, _: &Key) -> Result<Loaded<Value>, u8> {
        self.0.fallibly_loaded()
    }

    fn reload(&self, _: &Key, _: &Value) -> Result<Reloaded<Value>, u8> {
        self.0.reloaded()
    }
}

impl AsyncLoader<Key, Value> for Stored {
    type Error = u8;

    async fn load(&self, _: &Key) -> Result<Loaded<Value>, u8> {
        self.0.later(Ledger::fallibly_loaded).await
    }

    async fn reload(&self, _: &Key, _: &Value) -> Result<Reloaded<Value>, u8> {
        self.0.later(Ledger::reloaded).await
    }
}
