//! The system's clock is moved under a running process, by libfaketime: an hour and a century
//! ahead, and back. Without that library (`FAKETIME_LIB`, or where Debian's package `libfaketime`
//! puts it) the test says so and does nothing.
#![cfg(all(target_os = "linux", not(cortado_loom)))]

mod common;

use common::audited::{Audited, audited};
use cortado::{Cache, RemovalCause};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Names the file that the library reads the time's displacement from; set in the process that is
/// moved.
const DISPLACEMENT: &str = "FAKETIME_TIMESTAMP_FILE";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: i64 = 3600;
const CENTURY: i64 = 100 * 365 * 86_400;
/// A clock that goes back further than this does not count as one.
const DECADES: i64 = 30 * 365 * 86_400;
/// A lifetime that is counted exactly, and one that is counted from a coarse reading.
const LIVES: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(60)];

fn library() -> Option<PathBuf> {
    let named = std::env::var_os("FAKETIME_LIB").map(PathBuf::from);
    let folder =
        format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    named.or(Some(folder.into())).filter(|path| path.exists())
}

#[test]
fn the_systems_clock_is_moved() {
    if let Some(file) = std::env::var_os(DISPLACEMENT) {
        return moved(Path::new(&file));
    }
    let Some(library) = library() else {
        eprintln!("skipped: no libfaketime");
        return;
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("displacement");
    fs::write(&file, "+0").unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_systems_clock_is_moved", "--nocapture"])
        .env("LD_PRELOAD", library)
        .env(DISPLACEMENT, file)
        .env("FAKETIME_NO_CACHE", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && told.contains("1 passed"), "{}: {told}", run.status);
}

/// The displacement of the time, in seconds.
struct Displaced<'a> {
    file: &'a Path,
    by: i64,
}

impl Displaced<'_> {
    fn step(&mut self, by: i64) {
        let before = Instant::now();
        self.by += by;
        // At once for whoever reads it.
        let other = self.file.with_extension("new");
        fs::write(&other, format!("{:+}", self.by)).unwrap();
        fs::rename(&other, self.file).unwrap();
        // A second less: the library's arithmetic is not exact.
        let least = Duration::from_secs(by.unsigned_abs()) - SECOND;
        let now = Instant::now();
        let moved = if by > 0 { now - before } else { before - now };
        assert!(moved >= least, "moved by {moved:?} instead of {by}: another library?");
    }
}

fn moved(file: &Path) {
    let mut displaced = Displaced { file, by: 0 };
    for (scheduled, idles) in [(false, false), (true, false), (false, true), (true, true)] {
        for step in [HOUR, CENTURY, -HOUR, HOUR, -DECADES, 1] {
            let mut builder = Cache::builder()
                .max_capacity(1000)
                .scheduler(scheduled)
                .expiry_resolution(Duration::from_millis(1))
                .record_stats(true);
            if idles {
                builder = builder.time_to_idle(2 * LIVES[1]);
            }
            let cache: Audited<usize, u64> = audited(builder.build());
            for (key, life) in LIVES.into_iter().enumerate() {
                cache.insert_with_ttl(key, 0, life);
            }
            cache.insert(2, 0);
            cache.run_pending_tasks();
            displaced.step(step);
            // What is written now lives as long as it should, by the clock as it is now.
            for (key, life) in LIVES.into_iter().enumerate() {
                let begun = Instant::now();
                cache.insert_with_ttl(key + 10, 1, life);
                let found = cache.get(&(key + 10));
                assert!(found == Some(1) || begun.elapsed() >= life - SECOND, "{step}: early");
                let left = cache.expires_in(&(key + 10)).into_options().flatten();
                assert!(left.is_none_or(|left| left <= life), "{step}: {left:?} of {life:?}");
            }
            if step >= HOUR {
                assert!((0..2).all(|key| !cache.contains_key(&key)), "{step}: over and found");
            }
            if step >= HOUR && idles {
                assert!(!cache.contains_key(&2), "{step}: idle and found");
            }
            // Then its time is over, too.
            displaced.step(2 * HOUR);
            assert!((10..12).all(|key| !cache.contains_key(&key)), "{step}: over and found");
            removed(&cache, if step < 0 { 2 } else { 4 });
        }
    }
}

/// Waits until what is over is gone: in the end all of it, whichever way the clock went. (Not for
/// the scheduler: the library moves what a process reads, not what the kernel wakes it by.)
fn removed(cache: &Cache<usize, u64>, expired: u64) {
    let begun = Instant::now();
    while cache.stats().removed(RemovalCause::Expired) < expired {
        assert!(begun.elapsed() < common::HANG, "immortal: {}", cache.entry_count());
        cache.run_pending_tasks();
    }
}
