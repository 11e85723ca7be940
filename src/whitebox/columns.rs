//! The words that nodes have beside their fixed part: a cache has those that its settings ask for,
//! and its nodes are no larger for them.

use crate::builder::Builder;
use crate::cache::Cache;
use crate::loaded::Loaded;
use crate::pool::Column;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const COLUMNS: [Column; 2] = [Column::HardDeadline, Column::Refresh];

/// The columns of a cache's nodes, and the distance in bytes from one node to the next.
fn laid_out<V: Default + Send + Sync + 'static>(
    builder: Builder<u32, V>,
    has_loader: bool,
) -> (Vec<Column>, usize) {
    let load = |_: u32| Ok::<_, ()>(Loaded::new(V::default()));
    let cache = match has_loader {
        true => builder.build_with_loader(load).cache().clone(),
        false => builder.build(),
    };
    // The ids of two nodes that were made one after the other are neighbours.
    let ids = [1, 2].map(|key| {
        cache.insert(key, V::default());
        cache.peek(&key).map(|entry| entry.node().id()).expect("it was inserted")
    });
    let pool = cache.engine().pool.raw();
    let has = |column: &Column| pool.column(ids[0], *column).is_some();
    let [first, second] = ids.map(|id| std::ptr::from_ref(pool.meta(id)).addr());
    cache.audit();
    (COLUMNS.into_iter().filter(has).collect(), first.abs_diff(second))
}

#[test]
fn a_cache_without_refresh_has_no_words_for_it() {
    let idle = [Column::HardDeadline];
    let refresh = [Column::Refresh];
    let plain = || Cache::<u32, u32>::builder().max_capacity(100);
    assert_eq!(laid_out(plain(), false), (vec![], 64));
    assert_eq!(laid_out(plain().time_to_live(HOUR), false), (vec![], 64));
    assert_eq!(laid_out(plain().time_to_idle(HOUR), false), (idle.to_vec(), 64));
    assert_eq!(laid_out(plain().refresh_after_write(HOUR), true), (refresh.to_vec(), 64));
    assert_eq!(laid_out(plain(), true), (refresh.to_vec(), 64));
    let both = laid_out(plain().time_to_idle(HOUR).refresh_after_write(HOUR), true);
    assert_eq!(both, (COLUMNS.to_vec(), 64));
    // Of a node that is larger than a cache line.
    let large = || Cache::<u32, [u64; 8]>::builder();
    let (none, stride) = laid_out(large(), false);
    assert_eq!((none, stride > 64), (vec![], true));
    assert_eq!(laid_out(large().refresh_after_write(HOUR), true), (refresh.to_vec(), stride));
}
