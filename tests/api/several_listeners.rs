//! Several listeners of one cache, of both kinds.

use crate::common::audited::{Audited, audited};
use cortado::{Builder, Cache, RemovalCause};
use std::fmt::Display;
use std::sync::{Arc, Mutex};

/// What the listeners were told, and which of them.
type Log = Arc<Mutex<Vec<(char, u32, u32, RemovalCause)>>>;

fn hears(log: &Log, name: char) -> impl Fn(cortado::Removed<u32, u32>) + Send + Sync + 'static {
    let log = Arc::clone(log);
    move |removed| {
        let told = (name, *removed.key(), *removed.value(), removed.cause());
        log.lock().unwrap().push(told);
    }
}

fn listened(configure: impl FnOnce(Builder<u32, u32>, &Log) -> Builder<u32, u32>) -> Subject {
    let log = Log::default();
    let cache = audited(configure(Cache::builder().record_stats(true), &log).build());
    Subject { cache, log }
}

struct Subject {
    cache: Audited<u32, u32>,
    log: Log,
}

impl Subject {
    fn told(&self) -> Vec<(char, u32, u32, RemovalCause)> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

#[test]
fn each_hears_every_value_in_the_order_in_which_they_were_set() {
    let Subject { cache, log } = listened(|builder, log| {
        let second = Arc::clone(log);
        builder
            .removal_listener(hears(log, 'a'))
            .eviction_listener(move |key, value, cause| {
                second.lock().unwrap().push(('b', *key, value, cause));
            })
            .removal_listener(hears(log, 'c'))
    });
    cache.insert(1, 10);
    cache.insert(1, 11);
    cache.insert(2, 20);
    cache.invalidate(&1);
    cache.insert_with_ttl(3, 30, std::time::Duration::ZERO);
    cache.run_pending_tasks();
    let each = |key, value, cause| ['a', 'b', 'c'].map(|name| (name, key, value, cause));
    let expected = [
        each(1, 10, RemovalCause::Replaced),
        each(1, 11, RemovalCause::Explicit),
        each(3, 30, RemovalCause::Expired),
    ];
    assert_eq!(*log.lock().unwrap(), expected.concat());
}

#[test]
fn a_panic_of_one_keeps_no_other_from_being_told() {
    for panicking in 0..3 {
        let subject = listened(|mut builder, log| {
            for n in 0..3 {
                let hear = hears(log, char::from(b'a' + n));
                builder = builder.removal_listener(move |removed| {
                    hear(removed);
                    if n == panicking {
                        std::panic::resume_unwind(Box::new("a listener"));
                    }
                });
            }
            builder
        });
        let cache = &subject.cache;
        (1..=3).for_each(|key| cache.insert(key, key));
        (1..=3).for_each(|key| cache.invalidate(&key));
        cache.run_pending_tasks();
        let names: String = subject.told().iter().map(|told| told.0).collect();
        assert_eq!(names, "abcabcabc", "if {panicking} panics");
        assert_eq!(cache.stats().listener_panics, 3);
    }
}

/// What the first listener removes is announced to both, after both were told of the value before.
#[test]
fn what_a_listener_removes_is_announced_to_all_of_them_later() {
    let slot: Arc<Mutex<Option<Cache<u32, u32>>>> = Arc::default();
    let hand = Arc::clone(&slot);
    let subject = listened(|builder, log| {
        let hear = hears(log, 'a');
        builder
            .removal_listener(move |removed| {
                let next = *removed.key() + 1;
                hear(removed);
                if let Some(cache) = &*hand.lock().unwrap() {
                    cache.invalidate(&next);
                }
            })
            .removal_listener(hears(log, 'b'))
    });
    *slot.lock().unwrap() = Some((*subject.cache).clone());
    (1..=3).for_each(|key| subject.cache.insert(key, key));
    subject.cache.invalidate(&1);
    subject.cache.run_pending_tasks();
    slot.lock().unwrap().take();
    let told: Vec<_> = subject.told().iter().map(|told| (told.0, told.1)).collect();
    assert_eq!(told, [('a', 1), ('b', 1), ('a', 2), ('b', 2), ('a', 3), ('b', 3)]);
}

/// A listener may keep what it was told of.
#[test]
fn each_gets_a_handle_of_its_own() {
    let kept: Arc<Mutex<Vec<cortado::Removed<String, String>>>> = Arc::default();
    let mut builder = Cache::builder();
    for _ in 0..2 {
        let kept = Arc::clone(&kept);
        builder = builder.removal_listener(move |removed| kept.lock().unwrap().push(removed));
    }
    let cache = audited(builder.build());
    cache.insert("k".to_owned(), "v".to_owned());
    cache.invalidate("k");
    cache.run_pending_tasks();
    drop(cache);
    let kept = kept.lock().unwrap();
    assert_eq!(kept.iter().map(|it| &**it.value()).collect::<Vec<_>>(), ["v", "v"]);
    assert!(std::ptr::eq(kept[0].value(), kept[1].value()), "nothing is cloned");
}

/// The closure of moka's users, who get the key as an `Arc`.
#[test]
fn an_eviction_listener_gets_clones() {
    type Told = (Arc<String>, String, RemovalCause);
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let log = Arc::clone(&told);
    let builder = Cache::builder().max_capacity(1).eviction_listener(move |key, value, cause| {
        log.lock().unwrap().push((key, value, cause));
    });
    let cache = audited(builder.build());
    cache.insert("a".to_owned(), "1".to_owned());
    cache.invalidate("a");
    cache.run_pending_tasks();
    let told = told.lock().unwrap();
    assert_eq!(*told, [(Arc::new("a".to_owned()), "1".to_owned(), RemovalCause::Explicit)]);
}

#[test]
fn causes_are_printed_as_words() {
    let shown = |cause: &dyn Display| format!("{cause}|{cause:>9}|{cause:.3}");
    let words = RemovalCause::ALL.map(|cause| shown(&cause));
    assert_eq!(
        words,
        [
            "expired|  expired|exp",
            "explicit| explicit|exp",
            "replaced| replaced|rep",
            "size|     size|siz"
        ]
    );
    let evicted = RemovalCause::ALL.map(|cause| cause.was_evicted());
    assert_eq!(evicted, [true, false, false, true]);
}
