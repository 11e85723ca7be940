//! What a loader has made of many keys; and the error of a call of whose keys some have failed.

use crate::engine::WithHasher;
use crate::flight::board::spread;
use crate::hash::Hashed;
use crate::loaded::Loaded;
use crate::primitives::plain::Arc;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// Pairs that a loader has made and was not asked for.
pub type Unasked<K, V> = Vec<(Hashed<K>, Loaded<V>)>;

/// What a loader has made of one key.
pub enum Made<V, E> {
    Unused(Loaded<V>),
    /// The value of the key at this position.
    UsedAt(usize),
    Failed(Arc<E>),
}

impl<V, E> Made<V, E> {
    /// Takes the value for the key at this position.
    pub fn take(&mut self, position: usize) -> Self {
        match self {
            Self::Unused(_) => std::mem::replace(self, Self::UsedAt(position)),
            Self::UsedAt(other) => Self::UsedAt(*other),
            Self::Failed(error) => Self::Failed(Arc::clone(error)),
        }
    }
}

/// What a loader has made, to be looked up by key. Of several results of a key it is the last.
pub type MadeByKey<K, V, E> = HashTable<(Hashed<K>, Made<V, E>)>;

impl<K: Hash + Eq, V, S: BuildHasher> WithHasher<K, V, S> {
    pub fn made_by_key<E>(
        &self,
        pairs: impl IntoIterator<Item = (K, Result<Loaded<V>, E>)>,
    ) -> MadeByKey<K, V, E> {
        let mut table: MadeByKey<K, V, E> = HashTable::new();
        for (key, result) in pairs {
            let (key, hash_of) = (self.owned(key), |key: &Hashed<K>| spread(key.hash));
            let made = result.map_or_else(|error| Made::Failed(Arc::new(error)), Made::Unused);
            match table.find_mut(hash_of(&key), |(other, _)| other.key == key.key) {
                Some((_, other)) => *other = made,
                None => {
                    table.insert_unique(hash_of(&key), (key, made), |(key, _)| hash_of(key));
                }
            }
        }
        table
    }
}

/// The error of the first key that has failed, in the order of the call's keys.
pub struct FirstError<E>(Option<(usize, Arc<E>)>);

impl<E> FirstError<E> {
    pub const NONE: Self = Self(None);

    /// Notes the error of the key at this position.
    pub fn note(&mut self, position: usize, error: Arc<E>) {
        if self.0.as_ref().is_none_or(|(first, _)| position < *first) {
            self.0 = Some((position, error));
        }
    }

    /// Takes out the error, unless the key at one of these positions may still have one before it.
    pub fn settled(&mut self, mut missing: impl Iterator<Item = usize>) -> Option<Arc<E>> {
        let first = self.0.as_ref()?.0;
        if missing.any(|position| position < first) {
            return None;
        }
        self.0.take().map(|(_, error)| error)
    }
}
