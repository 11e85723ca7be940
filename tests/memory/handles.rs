//! Handles, pinned references, and keys and values of all kinds.

use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, SECOND, TICK, Tested, tested};
use cortado::{Cache, Clock, CompResult, Entry, Equivalent, Op};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[test]
fn a_handle_keeps_its_value_whatever_happens_to_the_cache() {
    let value = Arc::new(7);
    let cache: Audited<u32, Arc<i32>> = audited(Cache::builder().max_capacity(10).build());
    cache.insert(1, Arc::clone(&value));
    let handle = cache.get_entry(&1).unwrap();
    let copies: Vec<Entry<_, _>> = (0..100).map(|_| handle.clone()).collect();
    cache.insert(1, Arc::new(8));
    cache.invalidate_all();
    (0..100).for_each(|key| cache.insert(key, Arc::new(key as i32)));
    cache.audit();
    assert_eq!((*handle.key(), **handle.value()), (1, 7));
    // No clone of the value was made, and none is dropped yet.
    assert_eq!(Arc::strong_count(&value), 2);
    drop(cache);
    assert!(copies.iter().all(|copy| ***copy == 7));
    drop(handle);
    std::thread::spawn(move || drop(copies)).join().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_handle_shows_what_was_so_at_the_lookup() {
    let cache: Tested<u32, u32> = tested(|builder| builder.time_to_live(MINUTE));
    cache.insert(1, 1);
    cache.hand.advance(10 * SECOND);
    let entry = cache.get_entry(&1).unwrap();
    cache.hand.advance(10 * SECOND);
    let later = cache.peek(&1).unwrap();
    cache.pass(MINUTE);
    assert_eq!((entry.age(), entry.expires_in()), (10 * SECOND, Some(50 * SECOND)));
    assert_eq!((later.age(), later.expires_in()), (20 * SECOND, Some(40 * SECOND)));
    assert!(!entry.is_fresh() && !later.is_fresh());
    assert_eq!((entry.weight(), entry.into_value()), (1, 1));
}

#[test]
fn the_results_of_computations_are_handles_too() {
    let cache: Tested<u32, String> = tested(|builder| builder);
    let inserted = cache.entry(1).and_compute_with(|_| Op::Put("one".into()));
    let replaced = cache.entry(1).and_compute_with(|_| Op::Put("uno".into()));
    let removed = cache.entry(1).and_compute_with(|_| Op::Remove);
    cache.audit();
    let (CompResult::Inserted(inserted), CompResult::ReplacedWith(replaced)) = (inserted, replaced)
    else {
        panic!("inserted, then replaced");
    };
    assert!(inserted.is_fresh() && replaced.is_fresh());
    assert_eq!((inserted.as_str(), replaced.as_str()), ("one", "uno"));
    assert!(matches!(removed, CompResult::Removed(entry) if *entry == "uno" && !entry.is_fresh()));
}

#[test]
fn pinned_references_stay_while_the_view_is_held() {
    let cache: Tested<u32, String> = tested(|builder| builder.max_capacity(100));
    (0..50).for_each(|key| cache.insert(key, format!("value {key}")));
    let mut pinned = cache.pin();
    let values: Vec<&String> = (0..50).map(|key| pinned.get(&key).unwrap()).collect();
    let value = pinned.get(&7).unwrap();
    cache.invalidate_all();
    (0..1000).for_each(|key| cache.insert(key, format!("other {key}")));
    cache.hand.advance(MINUTE);
    cache.settle();
    assert!(pinned.get(&7).is_none_or(|value| value == "other 7"));
    for (n, value) in values.into_iter().enumerate() {
        assert_eq!(*value, format!("value {n}"));
    }
    assert_eq!(value, "value 7");
    pinned.repin();
    assert!((900..1000).any(|key| pinned.get(&key).is_some()));
    drop(pinned);
    cache.audit();
}

#[test]
fn a_pinned_view_sees_what_happens_after_it_was_made() {
    let cache: Tested<u32, u32> = tested(|builder| builder.time_to_live(MINUTE));
    let pinned = cache.pin();
    assert_eq!(pinned.get(&1), None);
    cache.insert(1, 10);
    assert_eq!(pinned.get(&1), Some(&10));
    cache.insert(1, 11);
    assert_eq!(pinned.get(&1), Some(&11));
    cache.remove(&1);
    assert_eq!(pinned.get(&1), None);
    cache.insert(1, 12);
    cache.hand.advance(MINUTE);
    assert_eq!(pinned.get(&1), None);
    drop(pinned);
    cache.audit();
}

#[test]
fn keys_are_looked_up_by_what_they_borrow_as_and_by_what_is_equivalent() {
    /// A pair of borrowed parts for a key that owns them.
    struct Parts<'a>(&'a str, u32);

    impl Hash for Parts<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            (self.0, self.1).hash(state);
        }
    }

    impl Equivalent<(String, u32)> for Parts<'_> {
        fn equivalent(&self, key: &(String, u32)) -> bool {
            self.0 == key.0 && self.1 == key.1
        }
    }

    let cache: Audited<(String, u32), u32> = audited(Cache::new(10));
    cache.insert(("a".to_owned(), 1), 10);
    assert_eq!(cache.get(&Parts("a", 1)), Some(10));
    assert_eq!(cache.get(&Parts("a", 2)), None);
    assert!(cache.touch(&Parts("a", 1)) && cache.set_ttl(&Parts("a", 1), MINUTE));
    assert_eq!(cache.remove(&Parts("a", 1)), Some(10));
    let cache: Audited<String, u32> = audited(Cache::new(10));
    cache.insert("a".to_owned(), 1);
    assert_eq!((cache.get("a"), cache.get(&"a".to_owned())), (Some(1), Some(1)));
    assert!(cache.contains_key("a") && cache.pin().get("a").is_some());
    cache.invalidate("a");
}

/// Inserts, updates, removes and expires many of them, in pools with and without an idle time.
fn go_through<K, V>(key: impl Fn(u32) -> K, value: impl Fn(u32) -> V)
where
    K: Hash + Eq + Clone + std::fmt::Debug + Send + Sync + 'static,
    V: Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static,
{
    for idle in [false, true] {
        let (clock, hand) = Clock::manual();
        let mut builder = Cache::builder().max_capacity(500).clock(clock);
        if idle {
            builder = builder.time_to_idle(MINUTE);
        }
        let cache: Audited<K, V> = audited(builder.build());
        for n in 0..2000 {
            cache.insert(key(n), value(n));
            assert_eq!(cache.peek(&key(n)).as_deref(), Some(&value(n)));
            if n % 3 == 0 {
                assert_eq!(cache.remove(&key(n)), Some(value(n)));
            }
            let computed = cache.entry(key(n)).and_compute_with(|_| Op::Put(value(n + 1)));
            assert!(matches!(computed, CompResult::Inserted(_) | CompResult::ReplacedWith(_)));
            hand.advance(SECOND / 50);
        }
        cache.audit();
        assert!(
            cache.entries().all(|entry| cache.get(entry.key()).as_ref() == Some(entry.value()))
        );
        hand.advance(MINUTE + TICK);
        cache.audit();
        assert_eq!(cache.entry_count() == 0, idle || cache.entries().count() == 0);
    }
}

#[test]
fn keys_and_values_of_every_size_and_alignment() {
    /// Wants more alignment than a cache line.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    #[repr(align(256))]
    struct Wide(u32);

    impl Drop for Wide {
        fn drop(&mut self) {
            assert_eq!(std::ptr::from_ref(self).addr() % 256, 0, "misaligned");
        }
    }

    /// More than fits a byte, and as much as a page.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    #[repr(align(4096))]
    struct Page(u32);

    go_through(|n| n as u8, |n| n as u16);
    go_through(|n| n, |_| ());
    go_through(|_| (), |n| n);
    go_through(|n| n.to_string(), |n| vec![n; (n % 7) as usize]);
    go_through(|n| [n; 40], |n| [u64::from(n); 100]);
    go_through(Wide, |n| n as u8);
    go_through(|n| n as u8, Wide);
    go_through(Page, |n| n as u8);
    go_through(u128::from, |n| Some(Box::new(n)));
}

#[test]
fn types_that_should_be_shared_can_be() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Cache<String, Vec<u8>>>();
    shared::<Entry<String, Vec<u8>>>();
    shared::<cortado::Removed<String, Vec<u8>>>();
    shared::<Clock>();
    shared::<cortado::ManualClock>();
    sent::<cortado::Builder<String, Vec<u8>>>();
    sent::<cortado::Iter<'_, String, Vec<u8>>>();
}
