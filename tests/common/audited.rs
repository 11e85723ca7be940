//! Caches whose end is an audit.
#![allow(dead_code, reason = "each test binary uses its part")]

use cortado::{Cache, LoadingCache, future};
use std::ops::Deref;

/// A cache that is audited when this is dropped: at the end of the test that made it, when its
/// threads have been joined and its views are gone. A test that has failed already is left to say
/// so.
pub struct Audited<K, V, S = cortado::RandomState>(Cache<K, V, S>);

pub fn audited<K, V, S>(cache: Cache<K, V, S>) -> Audited<K, V, S> {
    super::neighbour::start();
    Audited(cache)
}

impl<K, V, S> Deref for Audited<K, V, S> {
    type Target = Cache<K, V, S>;

    fn deref(&self) -> &Cache<K, V, S> {
        &self.0
    }
}

impl<K, V, S> Drop for Audited<K, V, S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.audit();
        }
    }
}

/// The same for a cache for tasks, whose tasks have ended or were dropped.
pub struct TasksAudited<K, V, S = cortado::RandomState>(future::Cache<K, V, S>);

pub fn tasks_audited<K, V, S>(cache: future::Cache<K, V, S>) -> TasksAudited<K, V, S> {
    super::neighbour::start();
    TasksAudited(cache)
}

impl<K, V, S> Deref for TasksAudited<K, V, S> {
    type Target = future::Cache<K, V, S>;

    fn deref(&self) -> &future::Cache<K, V, S> {
        &self.0
    }
}

impl<K, V, S> Drop for TasksAudited<K, V, S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.sync().audit();
        }
    }
}

/// The same for a cache with a stored loader.
pub struct LoadingAudited<K, V, E, S = cortado::RandomState>(LoadingCache<K, V, E, S>);

pub fn loading_audited<K, V, E, S>(cache: LoadingCache<K, V, E, S>) -> LoadingAudited<K, V, E, S> {
    super::neighbour::start();
    LoadingAudited(cache)
}

impl<K, V, E, S> Deref for LoadingAudited<K, V, E, S> {
    type Target = LoadingCache<K, V, E, S>;

    fn deref(&self) -> &LoadingCache<K, V, E, S> {
        &self.0
    }
}

impl<K, V, E, S> Drop for LoadingAudited<K, V, E, S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.cache().audit();
        }
    }
}

/// The same for tasks.
pub struct TasksLoadingAudited<K, V, E, S = cortado::RandomState>(future::LoadingCache<K, V, E, S>);

pub fn tasks_loading_audited<K, V, E, S>(
    cache: future::LoadingCache<K, V, E, S>,
) -> TasksLoadingAudited<K, V, E, S> {
    super::neighbour::start();
    TasksLoadingAudited(cache)
}

impl<K, V, E, S> Deref for TasksLoadingAudited<K, V, E, S> {
    type Target = future::LoadingCache<K, V, E, S>;

    fn deref(&self) -> &future::LoadingCache<K, V, E, S> {
        &self.0
    }
}

impl<K, V, E, S> Drop for TasksLoadingAudited<K, V, E, S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.cache().sync().audit();
        }
    }
}
