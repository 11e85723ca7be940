//! How often the origin is asked when many tasks of several processes want one missing key.

use crate::numbers::Sorted;
use crate::process::Child;
use crate::server::RedisServer;
use crate::subject::{Amalgam, ByHand, Loader, Origin, Tier};
use crate::table::{Table, rounded};
use crate::{Options, runtime};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const PROCESSES: usize = 4;
const TASKS: usize = 250;
const ORIGIN: Duration = Duration::from_millis(100);

const TIER: &str = "tier";
const AMALGAM: &str = "amalgam";
const BY_HAND: &str = "by-hand";

/// One of the processes: loads the keys that its parent says.
pub fn load(port: u16, subject: &str) {
    runtime(2).block_on(async {
        match subject {
            TIER => load_each(Tier::connect(port).await).await,
            AMALGAM => load_each(Amalgam::<u64>::connect(port).await).await,
            _ => load_each(ByHand::connect(port).await).await,
        }
    });
}

async fn load_each(cache: impl Loader) {
    println!("ready");
    loop {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_ok_and(|read| read == 0) {
            return;
        }
        let key: u64 = line.trim().parse().expect("the parent says a key");
        let calls = Arc::<AtomicU64>::default();
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (cache, calls) = (cache.clone(), Arc::clone(&calls));
            let origin = Origin { calls, takes: ORIGIN };
            tasks.spawn(async move { cache.load(key, origin).await });
        }
        let values = tasks.join_all().await;
        assert!(values.iter().all(|value| *value == 7), "all have the origin's value");
        println!("{} {}", calls.load(Ordering::Relaxed), begun.elapsed().as_secs_f64() * 1e3);
    }
}

/// By round: how often the origin was asked, and after how many milliseconds all had the value.
struct Rounds {
    calls: Vec<f64>,
    times: Vec<f64>,
}

fn run(subject: &str, rounds: u64) -> Rounds {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let mut processes: Vec<Child> =
        (0..PROCESSES).map(|_| Child::start(&["stampede", &port, subject])).collect();
    processes.iter_mut().for_each(|process| assert_eq!(process.line(), "ready"));
    let mut report = Rounds { calls: Vec::new(), times: Vec::new() };
    for key in 0..rounds {
        processes.iter_mut().for_each(|process| process.say(&key.to_string()));
        let (mut calls, mut longest) = (0.0, 0.0_f64);
        for process in &mut processes {
            let line = process.line();
            let (asked, time) = line.split_once(' ').expect("a process says two figures");
            calls += asked.parse::<f64>().expect("a number");
            longest = longest.max(time.parse().expect("a number"));
        }
        report.calls.push(calls);
        report.times.push(longest);
    }
    report
}

pub fn measure(options: &Options) {
    let rounds = options.size(10, 2);
    println!(
        "{PROCESSES} processes, {TASKS} tasks in each, one missing key a round, {rounds} rounds. The \
         origin takes {} ms.\n",
        ORIGIN.as_millis()
    );
    let table = Table::new([
        "cache",
        "loads per round: least",
        "median",
        "most",
        "all have it after, ms: median",
        "most",
    ]);
    for (name, subject) in [
        ("cortado-redis", TIER),
        ("amalgam-cache, with its locker", AMALGAM),
        ("moka by hand", BY_HAND),
    ] {
        let rounds = run(subject, rounds);
        let (calls, times) = (Sorted::new(rounds.calls), Sorted::new(rounds.times));
        table.row(
            name,
            &[
                &calls.least(),
                &calls.median(),
                &calls.most(),
                &rounded(times.median()),
                &rounded(times.most()),
            ],
        );
    }
}
