//! The cache of a case, by either face: as threads use it, or as tasks do. A task is polled without
//! pause, since nobody else runs; the code inside a load or a computation runs at its second poll.

use super::subject::{By, Key, Spread, Value};
use cortado::{Cache, CompResult, Entry, KeyEntry, Loaded, LoaderResult, Op, ReadTimes, future};
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// The cache. What has no asynchronous form, or waits for nothing, is the cache's own.
#[derive(Clone)]
pub struct Subject {
    cache: Cache<Key, Value, Spread>,
    /// The face for tasks, if the case uses that.
    tasks: Option<future::Cache<Key, Value, Spread>>,
}

impl Deref for Subject {
    type Target = Cache<Key, Value, Spread>;

    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// Polls to the end.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        assert!(woken.0.swap(false, Relaxed), "a task waits, and nobody else is there");
    }
}

/// What `init` returns, at the second poll.
async fn later<T>(init: impl FnOnce() -> T) -> T {
    let mut is_first = true;
    poll_fn(|context| {
        if std::mem::replace(&mut is_first, false) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
    init()
}

/// Methods of both faces that differ in nothing but the `await`.
macro_rules! both {
    ($($name:ident($($given:ident: $type:ty),*) $(-> $returns:ty)?;)*) => {
        $(pub fn $name(&self, $($given: $type),*) $(-> $returns)? {
            match &self.tasks {
                None => self.cache.$name($($given),*),
                Some(tasks) => run(tasks.$name($($given),*)),
            }
        })*
    };
}

/// Methods that load.
macro_rules! loads {
    ($($name:ident $by_ref:ident<$($error:ident)?>($made:ty) -> $returns:ty;)*) => {
        $(
            pub fn $name<$($error: Send + Sync + 'static)?>(
                &self,
                key: Key,
                init: impl FnOnce() -> $made,
            ) -> $returns {
                match &self.tasks {
                    None => self.cache.$name(key, init),
                    Some(tasks) => run(tasks.$name(key, later(init))),
                }
            }

            pub fn $by_ref<$($error: Send + Sync + 'static)?>(
                &self,
                key: &Key,
                init: impl FnOnce() -> $made,
            ) -> $returns {
                match &self.tasks {
                    None => self.cache.$by_ref(key, init),
                    Some(tasks) => run(tasks.$by_ref(key, later(init))),
                }
            }
        )*
    };
}

impl Subject {
    pub fn new(cache: Cache<Key, Value, Spread>, by_tasks: bool) -> Self {
        let tasks = by_tasks.then(|| cache.future());
        Self { cache, tasks }
    }

    both! {
        get(key: &By) -> Option<Value>;
        get_entry(key: &By) -> Option<Entry<Key, Value>>;
        touch(key: &By) -> bool;
        insert(key: Key, value: Value);
        insert_with_ttl(key: Key, value: Value, ttl: Duration);
        insert_until(key: Key, value: Value, deadline: Instant);
        remove(key: &By) -> Option<Value>;
        remove_entry(key: &By) -> Option<Entry<Key, Value>>;
        remove_if(key: &By, condition: impl FnMut(&Key, &Value) -> bool) -> Option<Value>;
        invalidate(key: &By);
        retain(keep: impl FnMut(&Key, &Value) -> bool);
        set_ttl(key: &By, ttl: Duration) -> bool;
        set_expires_at(key: &By, deadline: Instant) -> bool;
        persist(key: &By) -> bool;
        replace(key: Key, value: Value) -> Result<Entry<Key, Value>, Value>;
        replace_with_ttl(key: Key, value: Value, ttl: Duration)
            -> Result<Entry<Key, Value>, Value>;
        run_pending_tasks();
        close();
    }

    loads! {
        get_with get_with_by_ref<>(Value) -> Value;
        optionally_get_with optionally_get_with_by_ref<>(Option<Value>) -> Option<Value>;
        try_get_with try_get_with_by_ref<E>(Result<Value, E>) -> Result<Value, Arc<E>>;
    }

    pub fn load<R: LoaderResult<Value>>(
        &self,
        key: Key,
        init: impl FnOnce() -> R,
    ) -> R::Shared<Value> {
        match &self.tasks {
            None => self.cache.load(key, init),
            Some(tasks) => run(tasks.load(key, later(init))),
        }
    }

    pub fn load_by_ref<R: LoaderResult<Value>>(
        &self,
        key: &Key,
        init: impl FnOnce() -> R,
    ) -> R::Shared<Value> {
        match &self.tasks {
            None => self.cache.load_by_ref(key, init),
            Some(tasks) => run(tasks.load_by_ref(key, later(init))),
        }
    }

    pub fn get_if(&self, key: &By, accept: impl FnMut(&Value, ReadTimes) -> bool) -> Option<Value> {
        match &self.tasks {
            None => self.cache.get_if(key, accept),
            Some(tasks) => run(tasks.get_if(key, accept)),
        }
    }

    pub fn load_if<R: LoaderResult<Value>>(
        &self,
        key: &Key,
        init: impl FnOnce(Option<Entry<Key, Value>>) -> R,
        replace_if: impl FnMut(&Value, ReadTimes) -> bool,
    ) -> R::Shared<Value> {
        match &self.tasks {
            None => self.cache.load_if(key, init, replace_if),
            Some(tasks) => run(tasks.load_if(key, |old| later(|| init(old)), replace_if)),
        }
    }

    pub fn get_many<'q>(&self, keys: impl IntoIterator<Item = &'q By>) -> Vec<Option<Value>> {
        match &self.tasks {
            None => self.cache.get_many(keys),
            Some(tasks) => run(tasks.get_many(keys)),
        }
    }

    pub fn try_get_many_with<I: IntoIterator<Item = (Key, Value)>, E: Send + Sync + 'static>(
        &self,
        keys: impl IntoIterator<Item = Key>,
        mut loader: impl FnMut(&[&Key]) -> Result<I, E>,
    ) -> Result<Vec<Option<Value>>, Arc<E>> {
        match &self.tasks {
            None => self.cache.try_get_many_with(keys, loader),
            Some(tasks) => {
                let loader = |keys: &[&Key]| {
                    let made = loader(keys);
                    later(|| made)
                };
                run(tasks.try_get_many_with(keys, loader))
            }
        }
    }

    /// By tasks one by one: the driver compares what comes before each pair, and tasks would run
    /// the iterator to its end first.
    pub fn insert_many(&self, pairs: impl IntoIterator<Item = (Key, Loaded<Value>)>) {
        match &self.tasks {
            None => self.cache.insert_many(pairs),
            Some(tasks) => pairs.into_iter().for_each(|pair| run(tasks.insert_many([pair]))),
        }
    }

    /// As for [`insert_many`](Self::insert_many).
    pub fn invalidate_many<'q>(&self, keys: impl IntoIterator<Item = &'q By>) {
        match &self.tasks {
            None => self.cache.invalidate_many(keys),
            Some(tasks) => keys.into_iter().for_each(|key| run(tasks.invalidate_many([key]))),
        }
    }

    pub fn entry(&self, key: Key) -> Place<'_> {
        match &self.tasks {
            None => Place::Thread(self.cache.entry(key)),
            Some(tasks) => Place::Task(tasks.entry(key)),
        }
    }

    pub fn entry_by_ref<'a>(&'a self, key: &'a Key) -> Place<'a> {
        match &self.tasks {
            None => Place::ThreadByRef(self.cache.entry_by_ref(key)),
            Some(tasks) => Place::TaskByRef(tasks.entry_by_ref(key)),
        }
    }
}

/// The place of a key, by either face.
pub enum Place<'a> {
    Thread(KeyEntry<'a, Key, Value, Spread>),
    ThreadByRef(KeyEntry<'a, Key, Value, Spread, &'a Key>),
    Task(future::KeyEntry<'a, Key, Value, Spread>),
    TaskByRef(future::KeyEntry<'a, Key, Value, Spread, &'a Key>),
}

type Found = Entry<Key, Value>;

/// Calls a method of a place, with a closure or a future, and what follows it.
macro_rules! on_place {
    ($place:expr, $name:ident($given:expr, $future:expr $(, $more:expr)?)) => {
        match $place {
            Place::Thread(place) => place.$name($given $(, $more)?),
            Place::ThreadByRef(place) => place.$name($given $(, $more)?),
            Place::Task(place) => run(place.$name($future $(, $more)?)),
            Place::TaskByRef(place) => run(place.$name($future $(, $more)?)),
        }
    };
}

impl Place<'_> {
    pub fn or_insert_with(self, init: impl FnOnce() -> Value) -> Found {
        on_place!(self, or_insert_with(init, later(init)))
    }

    pub fn or_insert_with_if(
        self,
        init: impl FnOnce() -> Value,
        replace_if: impl FnMut(&Value) -> bool + Send,
    ) -> Found {
        on_place!(self, or_insert_with_if(init, later(init), replace_if))
    }

    pub fn or_optionally_insert_with(self, init: impl FnOnce() -> Option<Value>) -> Option<Found> {
        on_place!(self, or_optionally_insert_with(init, later(init)))
    }

    pub fn or_try_insert_with<E: Send + Sync + 'static>(
        self,
        init: impl FnOnce() -> Result<Value, E>,
    ) -> Result<Found, Arc<E>> {
        on_place!(self, or_try_insert_with(init, later(init)))
    }

    pub fn or_load_with<R: LoaderResult<Value>>(
        self,
        loader: impl FnOnce() -> R,
    ) -> R::Shared<Found> {
        on_place!(self, or_load_with(loader, later(loader)))
    }

    pub fn and_compute_with(
        self,
        decide: impl FnOnce(Option<Found>) -> Op<Value>,
    ) -> CompResult<Key, Value> {
        on_place!(self, and_compute_with(decide, |entry| later(|| decide(entry))))
    }

    pub fn and_try_compute_with<E>(
        self,
        decide: impl FnOnce(Option<Found>) -> Result<Op<Value>, E>,
    ) -> Result<CompResult<Key, Value>, E> {
        on_place!(self, and_try_compute_with(decide, |entry| later(|| decide(entry))))
    }

    pub fn and_upsert_with(self, make: impl FnOnce(Option<Found>) -> Value) -> Found {
        on_place!(self, and_upsert_with(make, |entry| later(|| make(entry))))
    }
}
