//! Several processes that share a cache: each re-executes the test.

use crate::support::*;
use cortado_redis::TieredCache;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn tell(line: impl std::fmt::Display) {
    println!("= {line}");
    std::io::stdout().flush().unwrap();
}

/// Waits for a line of the parent's.
fn hear() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().lock().read_line(&mut line).unwrap() > 0).then(|| line.trim().to_owned())
}

const LEASE: Duration = Duration::from_millis(1_000);

/// A process of the stampede: for each line, a key and how many milliseconds its load takes, 1,000
/// tasks want the key at once.
fn stampede_child(port: u16) {
    let runtime = runtime();
    let cache = texts(port, |it| it.lease(LEASE));
    runtime.block_on(cache.ready()).unwrap();
    tell("ready");
    while let Some(line) = hear() {
        let (key, takes) = line.split_once(' ').unwrap();
        let (key, takes) = (key.to_owned(), Duration::from_millis(takes.parse().unwrap()));
        let loads = Arc::new(AtomicU64::new(0));
        runtime.block_on(async {
            let tasks = (0..1_000).map(|_| {
                let (cache, key, loads) = (cache.clone(), key.clone(), Arc::clone(&loads));
                tokio::spawn(async move {
                    let loader = async move {
                        loads.fetch_add(1, Ordering::Relaxed);
                        tell("loading");
                        sleep(takes).await;
                        Ok::<_, String>("v".to_owned())
                    };
                    assert_eq!(cache.load(&key, loader).await.unwrap(), "v");
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        tell(format_args!("loaded {}", loads.load(Ordering::Relaxed)));
    }
}

/// The number of loads that a process says, after what else it says.
fn loaded(child: &mut Child) -> u64 {
    loop {
        if let Some(loads) = child.line().strip_prefix("loaded ") {
            return loads.parse().unwrap();
        }
    }
}

#[test]
fn one_load_of_four_processes_with_a_thousand_tasks_each() {
    if is_child() {
        return stampede_child(argument().parse().unwrap());
    }
    let Some(server) = RedisServer::start() else { return };
    let test = "fleet::one_load_of_four_processes_with_a_thousand_tasks_each";
    let start = || {
        let mut child = again(test, &server.port.to_string());
        assert_eq!(child.line(), "ready");
        child
    };
    let mut children: Vec<Child> = (0..4).map(|_| start()).collect();
    for round in 0..10 {
        children.iter_mut().for_each(|child| child.say(&format!("k{round} 100")));
        let loads: u64 = children.iter_mut().map(loaded).sum();
        assert_eq!(loads, 1, "in round {round}");
    }
    // The holder dies while the others wait.
    children[0].say("killed 60000");
    assert_eq!(children[0].line(), "loading");
    children[1..].iter_mut().for_each(|child| child.say("killed 100"));
    std::thread::sleep(LEASE * 2);
    children[0].kill();
    let killed = Instant::now();
    let loads: u64 = children[1..].iter_mut().map(loaded).sum();
    assert_eq!(loads, 1, "two with the dead one's");
    assert!(killed.elapsed() < LEASE * 4, "{:?}", killed.elapsed());
}

const KEYS: u64 = 4;
/// Each of three readers reads at least so often.
const READS: u64 = 170_000;

/// A process of the hammer: reads until it is told to end. A value is a version; of each key they
/// only grow, and "settled" are those that nothing has followed for a while.
fn hammer_child(port: u16, writes: bool) {
    let runtime = runtime();
    let cache: TieredCache<u64, u64> =
        TieredCache::builder(at(port), "h").lease(Duration::from_millis(400)).build();
    runtime.block_on(async {
        cache.ready().await.unwrap();
        tell("ready");
        let (ended, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let tasks = (0..8).map(|task: u64| {
            let (cache, ended, total) = (cache.clone(), Arc::clone(&ended), Arc::clone(&total));
            tokio::spawn(async move {
                let (mut reads, mut last, mut backwards) = (0u64, HashMap::new(), 0u64);
                while ended.load(Ordering::Relaxed) == 0 {
                    let key = (task + reads) % KEYS;
                    // A loader that reads the truth, which the parent keeps elsewhere.
                    let truth = truth(port, key);
                    let value = cache.load(&key, truth).await.unwrap();
                    let before = last.insert(key, value).unwrap_or(0);
                    backwards += u64::from(value < before);
                    reads += 1;
                    if reads.is_multiple_of(16) {
                        if total.fetch_add(16, Ordering::Relaxed) + 16 == READS {
                            tell("enough");
                        }
                        tokio::task::yield_now().await;
                    }
                }
                (reads, backwards)
            })
        });
        let tasks: Vec<_> = tasks.collect();
        if writes {
            sleep(Duration::from_secs(3_600)).await;
        }
        tokio::task::spawn_blocking(hear).await.unwrap();
        ended.store(1, Ordering::Relaxed);
        let (mut reads, mut backwards) = (0, 0);
        for task in tasks {
            let (more, back) = task.await.unwrap();
            (reads, backwards) = (reads + more, backwards + back);
        }
        tell(format_args!("{reads} {backwards}"));
        // Everything has settled: what is here is the truth.
        for key in 0..KEYS {
            let value = cache.load(&key, truth(port, key)).await.unwrap();
            tell(format_args!("{key} {value}"));
        }
    });
}

async fn truth(port: u16, key: u64) -> Result<u64, String> {
    static CLIENT: tokio::sync::OnceCell<redis::aio::MultiplexedConnection> =
        tokio::sync::OnceCell::const_new();
    let connect = async || {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    };
    let mut connection = CLIENT.get_or_init(connect).await.clone();
    let truth: Option<u64> =
        redis::cmd("GET").arg(format!("truth:{key}")).query_async(&mut connection).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    Ok(truth.unwrap_or(0))
}

/// Readers, a writer that changes the truth and removes the copies, and processes that die.
#[test]
fn no_settled_value_is_wrong_while_processes_die() {
    if is_child() {
        let argument = argument();
        let (port, dies) = argument.split_once(' ').unwrap();
        return hammer_child(port.parse().unwrap(), dies == "dies");
    }
    let Some(server) = RedisServer::start() else { return };
    let start = |dies: &str| {
        let argument = format!("{} {dies}", server.port);
        let mut child = again("fleet::no_settled_value_is_wrong_while_processes_die", &argument);
        assert_eq!(child.line(), "ready");
        child
    };
    let mut readers: Vec<Child> = (0..3).map(|_| start("lives")).collect();
    let runtime = runtime();
    let cache: TieredCache<u64, u64> = TieredCache::builder(at(server.port), "h").build();
    let mut raw = server.raw();
    let mut version = 0u64;
    let begun = Instant::now();
    let long = std::env::var("CORTADO_REDIS_SECONDS").map_or(6, |seconds| seconds.parse().unwrap());
    let mut dying: Option<Child> = None;
    // The keys are changed for so long at the least, and until there were enough reads.
    let enough = std::thread::spawn(move || {
        readers.iter_mut().for_each(|reader| assert_eq!(reader.line(), "enough"));
        readers
    });
    while begun.elapsed() < Duration::from_secs(long) || !enough.is_finished() {
        if version.is_multiple_of(20)
            && let Some(mut child) = dying.replace(start("dies"))
        {
            child.kill();
        }
        for key in 0..KEYS {
            version += 1;
            redis::cmd("SET").arg(format!("truth:{key}")).arg(version).exec(&mut raw).unwrap();
            runtime.block_on(async {
                if version.is_multiple_of(3) {
                    cache.insert(&key, version).await.unwrap();
                } else {
                    cache.remove(&key).await.unwrap();
                }
            });
            std::thread::sleep(Duration::from_millis(5 + version % 7));
        }
    }
    if let Some(mut child) = dying {
        child.kill();
    }
    let mut readers = enough.join().unwrap();
    // A lease of a dead process's ends.
    std::thread::sleep(Duration::from_millis(1_000));
    let mut reads = 0;
    readers.iter_mut().for_each(|reader| reader.say("end"));
    for reader in &mut readers {
        let line = reader.line();
        let (more, backwards) = line.split_once(' ').unwrap();
        reads += more.parse::<u64>().unwrap();
        assert_eq!(backwards, "0", "versions only grow");
        for key in 0..KEYS {
            let line = reader.line();
            let truth: u64 = redis::cmd("GET").arg(format!("truth:{key}")).query(&mut raw).unwrap();
            assert_eq!(line, format!("{key} {truth}"));
        }
    }
    eprintln!("{reads} reads, {version} versions");
    assert!(reads >= 500_000, "{reads}");
}
