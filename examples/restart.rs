//! A cache that survives a restart: the first process saves its entries, and a second one goes on
//! with them, with what is left of their lifetimes.
//!
//! ```text
//! cargo run --example restart
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = { version = "0.1", features = ["serde"] }
//! serde = { version = "1", features = ["derive"] }
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, Snapshot, SnapshotError};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, io, thread};

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    user: String,
    cart: Vec<String>,
}

fn sessions() -> Cache<u64, Session> {
    Cache::builder().max_capacity(10_000).build()
}

/// A crash while this writes leaves the last snapshot whole.
fn save(sessions: &Cache<u64, Session>, path: &Path) -> Result<u64, SnapshotError> {
    let unfinished = path.with_extension("unfinished");
    let file = File::create(&unfinished)?;
    let saved = sessions.save(&file)?;
    file.sync_all()?;
    fs::rename(unfinished, path)?;
    Ok(saved)
}

/// A hundred at a time, so that a service answers meanwhile. It begins with those that are worth
/// most.
fn restore(sessions: &Cache<u64, Session>, path: &Path) -> Result<usize, SnapshotError> {
    let mut snapshot = Snapshot::read(File::open(path)?)?;
    let down = SystemTime::now().duration_since(snapshot.saved_at()).unwrap_or_default();
    println!("second process: {} sessions, saved {down:.0?} ago", snapshot.len());
    let mut restored = 0;
    loop {
        match sessions.restore(&mut snapshot, 100) {
            0 => return Ok(restored),
            some => restored += some,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn first_process(path: &Path) -> Result<(), SnapshotError> {
    let sessions = sessions();
    let cart = vec!["a grinder".to_owned()];
    sessions.insert_with_ttl(1, Session { user: "alice".to_owned(), cart }, hours(12));
    for id in 2..=1_000 {
        let session = Session { user: format!("user {id}"), cart: Vec::new() };
        let lifetime = if id % 2 == 0 { hours(1) } else { Duration::from_millis(1) };
        sessions.insert_with_ttl(id, session, lifetime);
    }
    thread::sleep(Duration::from_millis(2));
    println!("first process: saved {} sessions, the others have timed out", save(&sessions, path)?);
    Ok(())
}

fn second_process(path: &Path) -> Result<(), SnapshotError> {
    let sessions = sessions();
    match restore(&sessions, path) {
        Ok(restored) => println!("second process: restored {restored}"),
        // A snapshot that is damaged, or of another version, is no reason not to start.
        Err(error) => println!("second process: begins empty, since {error}"),
    }
    if let Some(alice) = sessions.get(&1) {
        let left = sessions.expires_in(&1).due().unwrap_or_default();
        println!("second process: {} has {:?} for {left:.0?}", alice.user, alice.cart);
    }
    Ok(())
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

fn main() -> Result<(), SnapshotError> {
    if let Some(path) = env::args_os().nth(1).map(PathBuf::from) {
        return second_process(&path);
    }
    let path = env::temp_dir().join(format!("sessions-{}.snapshot", std::process::id()));
    first_process(&path)?;
    let status = Command::new(env::current_exe()?).arg(&path).status()?;
    fs::write(&path, "not a snapshot")?;
    Command::new(env::current_exe()?).arg(&path).status()?;
    fs::remove_file(&path)?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other("the second process failed").into())
    }
}
