//! For how long a process returns an old value after another process has replaced it.
//!
//! The parent writes. Readers are processes, and note for each version when the last read began
//! that found it in the process. A version's staleness is the time from the acknowledgement of the
//! next one until then, or zero.

use crate::numbers::{Numbers, Sorted, now};
use crate::process::Child;
use crate::server::RedisServer;
use crate::subject::{Reader, Tier, Writer};
use crate::table::{Table, rounded};
use crate::{Options, machine, runtime};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const READERS: usize = 3;
const KEYS: u64 = 16;
/// Between two writes.
const PAUSE: Duration = Duration::from_millis(2);

/// How readers read: without a pause, or with one after each pass over the keys.
const SPINNING: &str = "spinning";
const PACED: &str = "paced";
const PACE: Duration = Duration::from_micros(100);

/// What a reader has seen of a key.
#[derive(Default)]
struct Seen {
    /// By version: when the last read began that found it in the process; 0 for never.
    last: Vec<u64>,
    newest: u64,
    backwards: u64,
}

impl Seen {
    fn note(&mut self, version: u64) {
        self.backwards += u64::from(version < self.newest);
        self.newest = self.newest.max(version);
    }

    fn note_hit(&mut self, version: u64, begun: u64) {
        self.note(version);
        let place = version as usize;
        if self.last.len() <= place {
            self.last.resize(place + 1, 0);
        }
        self.last[place] = begun;
    }
}

/// A reader: reads until its parent says a word, and prints what it has seen.
pub fn read(port: u16, pace: &str) {
    runtime(1).block_on(async {
        let tier = Tier::connect(port).await;
        let mut seen: Vec<Seen> = (0..KEYS).map(|_| Seen::default()).collect();
        let stopped = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&stopped);
        std::thread::spawn(move || {
            let _ = std::io::stdin().lock().read_line(&mut String::new());
            stop.store(true, Ordering::SeqCst);
        });
        println!("ready");
        while !stopped.load(Ordering::Relaxed) {
            for (key, seen) in (0..KEYS).zip(&mut seen) {
                let begun = now();
                match tier.0.local().get(&key) {
                    Some(version) => seen.note_hit(version, begun),
                    None => seen.note(tier.read(key).await.expect("the parent has written it")),
                }
            }
            if pace == PACED {
                // This thread is none of the runtime's.
                std::thread::sleep(PACE);
            }
        }
        for (key, seen) in seen.iter().enumerate() {
            for (version, last) in seen.last.iter().enumerate().filter(|(_, last)| **last > 0) {
                println!("{key} {version} {last}");
            }
        }
        let newest: Vec<String> = seen.iter().map(|seen| seen.newest.to_string()).collect();
        let backwards: u64 = seen.iter().map(|seen| seen.backwards).sum();
        println!("end {backwards} {}", newest.join(","));
    });
}

/// What all readers together have seen.
#[derive(Default)]
struct Report {
    /// In milliseconds.
    staleness: Vec<f64>,
    backwards: u64,
    /// Keys of readers that did not have the newest version in the end.
    unsettled: usize,
}

impl Report {
    /// Reads what a reader prints. `written` has, by key and version, when it was acknowledged.
    fn add(&mut self, reader: &mut Child, written: &[Vec<u64>]) {
        loop {
            let line = reader.line();
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["end", backwards, newest] => {
                    self.backwards += backwards.parse::<u64>().expect("a number");
                    let newest = newest.split(',').map(|newest| newest.parse::<usize>());
                    let newest = newest.map(|newest| newest.expect("a number"));
                    let settled =
                        |(written, newest): (&Vec<u64>, usize)| newest + 1 == written.len();
                    self.unsettled += KEYS as usize
                        - written.iter().zip(newest).filter(|it| settled(*it)).count();
                    return;
                }
                [key, version, last] => {
                    let key: usize = key.parse().expect("a number");
                    let version: usize = version.parse().expect("a number");
                    let last: u64 = last.parse().expect("a number");
                    if let Some(replaced) = written[key].get(version + 1) {
                        self.staleness.push(last.saturating_sub(*replaced) as f64 / 1e6);
                    }
                }
                _ => panic!("a reader says {line}"),
            }
        }
    }
}

fn run(pace: &str, time: Duration) -> Report {
    let server = RedisServer::start();
    let port = server.port.to_string();
    runtime(1).block_on(async {
        let tier = Tier::connect(server.port).await;
        // Version 0 of a key is none.
        let mut written: Vec<Vec<u64>> = vec![vec![0]; KEYS as usize];
        let write = async |written: &mut [Vec<u64>], key: u64| {
            let written = &mut written[key as usize];
            tier.write(key, written.len() as u64).await;
            written.push(now());
        };
        for key in 0..KEYS {
            write(&mut written, key).await;
        }
        let mut readers: Vec<Child> =
            (0..READERS).map(|_| Child::start(&["staleness", &port, pace])).collect();
        readers.iter_mut().for_each(|reader| assert_eq!(reader.line(), "ready"));
        let (mut numbers, end) = (Numbers(2), tokio::time::Instant::now() + time);
        while tokio::time::Instant::now() < end {
            write(&mut written, numbers.below(KEYS)).await;
            tokio::time::sleep(PAUSE).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        readers.iter_mut().for_each(|reader| reader.say("stop"));
        let mut report = Report::default();
        readers.iter_mut().for_each(|reader| report.add(reader, &written));
        report
    })
}

pub fn measure(options: &Options) {
    let time = Duration::from_secs(options.size(20, 2));
    println!(
        "Milliseconds from an acknowledged write to the last hit with the old value. {READERS} reader \
         processes, {KEYS} keys, a write each {} ms or so for {} s. *Paced* readers pause {} µs after \
         each pass over the keys.\n",
        PAUSE.as_millis(),
        time.as_secs(),
        PACE.as_micros()
    );
    let table = Table::new([
        "readers",
        "p50",
        "p99",
        "longest",
        "measured",
        "versions that went backwards",
        "not settled after 0.5 s",
        "load average",
    ]);
    for pace in [PACED, SPINNING] {
        let report = run(pace, time);
        let staleness = Sorted::new(report.staleness);
        table.row(
            pace,
            &[
                &rounded(staleness.median()),
                &rounded(staleness.quantile(0.99)),
                &rounded(staleness.most()),
                &staleness.len(),
                &report.backwards,
                &report.unsettled,
                &machine::load(),
            ],
        );
    }
}
