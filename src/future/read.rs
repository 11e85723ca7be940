//! Reads. They never wait.

use super::Cache;
use crate::async_listener::Share;
use crate::clock::ReadTimes;
use crate::entry::Entry;
use equivalent::Equivalent;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A read that awaits the asynchronous listeners: its result, and the wait.
///
/// In a box, and dropped by a cold function, so that futures of other reads stay small and end by a
/// comparison.
struct Telling<'a, V>(Option<Box<Told<'a, V>>>);

type Told<'a, V> = (Option<V>, Pin<Box<dyn Future<Output = ()> + Send + 'a>>);

impl<V> Drop for Telling<'_, V> {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn drop_told<T>(_: T) {}

        if let Some(told) = self.0.take() {
            drop_told(told);
        }
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// See [`crate::Cache::get`].
    pub fn get<'a, Q>(&'a self, key: &'a Q) -> impl Future<Output = Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        self.reading(move |cache| cache.get(key))
    }

    /// See [`crate::Cache::get_if`].
    pub fn get_if<'a, Q>(
        &'a self,
        key: &'a Q,
        mut accept: impl FnMut(&V, ReadTimes) -> bool + 'a,
    ) -> impl Future<Output = Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        self.reading(move |cache| cache.get_if(key, &mut accept))
    }

    /// The future of a read.
    fn reading(
        &self,
        mut read: impl FnMut(&crate::Cache<K, V, S>) -> Option<V>,
    ) -> impl Future<Output = Option<V>> {
        let mut telling = Telling(None);
        poll_fn(move |context| {
            if let Some(told) = &mut telling.0 {
                return told.1.as_mut().poll(context).map(|()| told.0.take());
            }
            let result = read(&self.cache);
            if !self.engine().tells_after_read() {
                // The result never is in the future's state.
                return Poll::Ready(result);
            }
            self.poll_telling(result, &mut telling, context)
        })
    }

    #[cold]
    fn poll_telling<'a>(
        &'a self,
        result: Option<V>,
        telling: &mut Telling<'a, V>,
        context: &mut Context<'_>,
    ) -> Poll<Option<V>> {
        let told = (result, self.tell_boxed(Share::Reader));
        let (result, listeners) = &mut **telling.0.insert(Box::new(told));
        listeners.as_mut().poll(context).map(|()| result.take())
    }

    /// See [`crate::Cache::get_entry`].
    pub async fn get_entry<Q>(&self, key: &Q) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let result = self.cache.get_entry(key);
        self.tell_listeners().await;
        result
    }

    /// See [`crate::Cache::touch`].
    pub async fn touch<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        let result = self.cache.touch(key);
        self.tell_listeners().await;
        result
    }

    /// See [`crate::Cache::get_many`].
    pub async fn get_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>) -> Vec<Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized + 'q,
        V: Clone,
    {
        let result = self.cache.get_many(keys);
        self.tell_listeners().await;
        result
    }

    /// See [`crate::Cache::contains_key`].
    pub fn contains_key<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        self.cache.contains_key(key)
    }
}
