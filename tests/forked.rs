//! A forked child has none of its parent's threads. A scheduled cache that the child builds starts
//! the scheduler anew, for the caches that it has inherited, too; and the workers that deliver.
//!
//! Seen to fail under the seeds `scheduler-ignores-forks` and `executor-ignores-forks`.
#![cfg(all(target_os = "linux", not(cortado_loom)))]

mod common;

use common::HANG;
use common::audited::{Audited, audited};
use common::noted::eventually;
use cortado::{Cache, RemovalCause};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// After this something in the child has not happened. Only a failure takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

type Told = Receiver<(u64, RemovalCause)>;

/// A cache that the scheduler tends, and what its listener was told.
fn scheduled() -> (Audited<u64, u64>, Told) {
    let (sender, told) = channel();
    let builder = Cache::builder()
        .time_to_live(Duration::from_millis(20))
        .expiry_resolution(Duration::from_millis(1))
        .scheduler(true)
        .removal_listener(move |removed: cortado::Removed<u64, u64>| {
            // At the end of a test nobody listens any more.
            let _ = sender.send((*removed.key(), removed.cause()));
        });
    (audited(builder.build()), told)
}

/// An entry that nobody looks for expires and is announced.
fn expires((cache, told): &(Audited<u64, u64>, Told), key: u64) {
    cache.insert(key, key);
    assert_eq!(told.recv_timeout(PATIENCE), Ok((key, RemovalCause::Expired)));
}

/// Reads release what has been removed, if no other thread does.
fn releases_by_itself((cache, value): &(Audited<u64, Arc<()>>, Arc<()>)) {
    (0..100).for_each(|key| cache.insert(key, Arc::clone(value)));
    (0..50).for_each(|key| cache.invalidate(&key));
    let is_released = || cache.get(&99).is_some() && Arc::strong_count(value) == 51;
    eventually("reads release", is_released);
}

/// The names of the threads of the library's, if all of them sleep.
fn asleep() -> Option<Vec<String>> {
    let mut names = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        // A thread may end meanwhile.
        let stat = fs::read_to_string(task.join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1;
        if name.starts_with("cortado-") {
            if !tail.trim_start().starts_with('S') {
                return None;
            }
            names.push(name.to_owned());
        }
    }
    Some(names)
}

/// Waits until the scheduler's thread sleeps, and a worker beside it, or none. A fork at a moment
/// at which one of them holds a lock is documented to leave the child without that lock.
fn settle(parent: &(Audited<u64, u64>, Told), with_worker: bool) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < HANG, "the threads do not come to rest");
        if let Some(names) = asleep() {
            assert!(names.iter().any(|name| name.starts_with("cortado-sched")), "{names:?}");
            if names.iter().any(|name| name.starts_with("cortado-work")) == with_worker {
                return;
            }
            if with_worker {
                // It has ended for want of work.
                expires(parent, 2);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the work in a forked child, which must not panic.
fn in_a_child(work: impl FnOnce()) {
    #[expect(unsafe_code, reason = "there is no other way to fork")]
    // SAFETY: the child has this thread only. It uses locks of other threads only if these slept
    // at the fork, outside of them, and glibc makes its allocator usable in the child. It leaves
    // by `_exit`, so that it runs nothing of the test harness's.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            let result = catch_unwind(AssertUnwindSafe(work));
            libc::_exit(i32::from(result.is_err()));
        }
        child
    };
    assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
    let begun = Instant::now();
    let mut status = 0;
    #[expect(unsafe_code, reason = "the child is not one of std's")]
    // SAFETY: `status` is a place for an `i32`.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > HANG {
            #[expect(unsafe_code, reason = "the child is not one of std's")]
            // SAFETY: a call without pointers. The child was not waited for, so the id is its own.
            unsafe {
                libc::kill(child, libc::SIGKILL)
            };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child has failed");
}

#[test]
fn a_child_has_a_scheduler_and_workers_of_its_own() {
    let parent = scheduled();
    let counted = (audited(Cache::builder().scheduler(true).build()), Arc::new(()));
    expires(&parent, 1);
    for with_worker in [true, false] {
        settle(&parent, with_worker);
        in_a_child(|| {
            // What is inherited works, as a cache without a scheduler.
            parent.0.insert_with_ttl(3, 3, Duration::MAX);
            assert_eq!(parent.0.get(&3), Some(3));
            releases_by_itself(&counted);
            let own = scheduled();
            expires(&own, 4);
            // From now on for both.
            expires(&parent, 5);
            expires(&own, 6);
            assert_eq!(parent.0.get(&3), Some(3));
        });
        // The parent notices nothing.
        assert_eq!(parent.0.get(&3), None);
        expires(&parent, 7);
    }
}
