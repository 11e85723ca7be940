//! Writes, on both levels.

use crate::error::Error;
use crate::key::RedisKey;
use crate::link::Reply;
use crate::loaded::Loaded;
use crate::script::Script;
use crate::slot::millis;
use crate::stats::count;
use crate::tier::{Inner, TieredCache};
use cortado::ToKey;
use std::hash::Hash;
use std::time::Duration;

impl<K: RedisKey, V: Clone + Send + Sync + 'static> TieredCache<K, V> {
    /// Stores a value, in place of any other. This process's next read gets it from the server;
    /// other processes' reads do when the invalidation has arrived.
    ///
    /// It overtakes loads of the key, and breaks another process's lease. If the future is dropped,
    /// the value may be on the server or not.
    ///
    /// # Errors
    /// With [`Error::Codec`] and [`Error::TooLarge`], nothing was sent. With others, the server may
    /// have the value or not. The local copy is gone.
    pub async fn insert<Q>(&self, key: &Q, value: impl Into<Loaded<V>>) -> Result<(), Error>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        self.put(&key.to_key(), value.into(), Script::Write).await.map(drop)
    }

    /// Stores a value if the server has none, and says whether it did. A lease, and a kept `None`,
    /// count as none.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn insert_if_absent<Q>(
        &self,
        key: &Q,
        value: impl Into<Loaded<V>>,
    ) -> Result<bool, Error>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        self.put(&key.to_key(), value.into(), Script::WriteIfAbsent).await
    }

    async fn put(&self, key: &K, loaded: Loaded<V>, script: Script) -> Result<bool, Error> {
        let inner = &self.inner;
        let Loaded { value, life } = loaded;
        let life = life.or(inner.settings.ttl);
        if life.is_some_and(|life| life.is_zero()) {
            return match script {
                Script::Write => self.remove(key).await,
                _ => Ok(false),
            };
        }
        let bytes = inner.encode(Some(&value))?;
        inner.change(key, script, &[&bytes, &millis(life)]).await
    }

    /// Removes the key on both levels, and says whether the server had a value. A load under way
    /// is not stored.
    ///
    /// # Errors
    /// If the server does not say so. The local copy is gone all the same.
    pub async fn remove<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<bool, Error> {
        self.inner.change(&key.to_key(), Script::Remove, &[]).await
    }

    /// Gives the key's value so much life from now on, and says whether there is one.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub async fn expire<Q>(&self, key: &Q, ttl: Duration) -> Result<bool, Error>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        if ttl.is_zero() {
            return self.remove(key).await;
        }
        self.inner.change(&key.to_key(), Script::Expire, &[&millis(Some(ttl))]).await
    }

    /// Lets the key's value live until it is removed, and says whether there is one.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub async fn persist<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<bool, Error> {
        self.inner.change(&key.to_key(), Script::Expire, &[&millis(None)]).await
    }

    /// Counts as a use of the key on both levels, for their evictions, and says whether the server
    /// has the key, be it by a lease. It changes no lifetime.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn touch<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<bool, Error> {
        self.inner.local.sync().touch(key);
        let raw = self.inner.raw(&key.to_key());
        let answer = self.inner.link.command(&[b"TOUCH", &raw]).await?;
        Ok(answer.reply.is_one())
    }

    /// Removes all keys of this cache, on both levels. Keys that are written meanwhile may stay.
    ///
    /// It goes through all keys of the database (`SCAN`), a thousand at a time.
    ///
    /// # Errors
    /// If the server cannot be asked. Some keys may be gone then.
    pub async fn clear(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        inner.local.invalidate_all();
        let _after = ForgetAll(inner);
        let pattern = glob(&inner.link.settings.prefix);
        let mut cursor = b"0".to_vec();
        loop {
            let scan: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", b"1000"];
            let answer = inner.link.command(&scan).await?;
            let unexpected = || Error::Server("SCAN has an unexpected reply".into());
            let Reply::List(parts) = answer.reply else { return Err(unexpected()) };
            let [Reply::Bytes(next), Reply::List(keys)] = &parts[..] else {
                return Err(unexpected());
            };
            let keys = keys.iter().filter_map(|key| match key {
                Reply::Bytes(key) => Some(key.as_slice()),
                _ => None,
            });
            let words: Vec<&[u8]> = std::iter::once(b"UNLINK".as_slice()).chain(keys).collect();
            if words.len() > 1 {
                inner.link.command(&words).await?;
            }
            if next == b"0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }
}

/// The pattern of all keys with this prefix.
fn glob(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for &byte in prefix {
        if b"*?[]\\^".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

/// Drops the local copy at the end, also if the write's future is dropped: the server's word about
/// the write comes after its answer.
struct Forget<'i, K: RedisKey, V: Clone + Send + Sync + 'static>(&'i Inner<K, V>, &'i K);

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Drop for Forget<'_, K, V> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

/// Drops all local copies at the end.
struct ForgetAll<'i, K: RedisKey, V: Clone + Send + Sync + 'static>(&'i Inner<K, V>);

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Drop for ForgetAll<'_, K, V> {
    fn drop(&mut self) {
        self.0.local.invalidate_all();
        self.0.fallback.forget_all();
    }
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// Drops what this process has of the key, and overtakes what it reads or loads.
    pub fn forget(&self, key: &K) {
        self.local.sync().invalidate(key);
        self.fallback.forget(key);
    }

    /// Runs a script that writes the key.
    pub async fn change(
        &self,
        key: &K,
        script: Script,
        arguments: &[&[u8]],
    ) -> Result<bool, Error> {
        count(&self.counts.writes);
        self.forget(key);
        let _forget = Forget(self, key);
        let answer = self.link.eval(script, &self.raw(key), arguments).await;
        if answer.is_err() {
            count(&self.counts.write_failures);
        }
        Ok(answer?.reply.is_one())
    }
}
