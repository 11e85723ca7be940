//! What a read costs that goes to the server: another client has written the key, and this process
//! has never read it.

use crate::numbers::{Sorted, micros};
use crate::server::RedisServer;
use crate::subject::{Amalgam, ByHand, Plain, Reader, Tier, Writer, connect, for_each};
use crate::table::{Table, rounded};
use crate::{Options, runtime};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TASKS: u64 = 64;

/// What was measured of a subject.
#[derive(Default)]
struct Times {
    /// Each read's time, in microseconds.
    one: Vec<f64>,
    many: Vec<f64>,
    /// All the time in which many tasks read.
    elapsed: Duration,
}

/// The rounds of a subject: each reads keys that nobody has read before.
struct Subject<R, W> {
    name: &'static str,
    reader: R,
    writer: W,
    next: u64,
    times: Times,
}

impl<R: Reader, W: Writer> Subject<R, W> {
    fn new(name: &'static str, reader: R, writer: W) -> Self {
        Self { name, reader, writer, next: 0, times: Times::default() }
    }

    async fn fresh(&mut self, count: u64) -> Range<u64> {
        let keys = self.next..self.next + count;
        self.next = keys.end;
        let writer = self.writer.clone();
        let write = move |key| {
            let writer = writer.clone();
            async move { writer.write(key, key).await }
        };
        for_each(TASKS, keys.clone(), write).await;
        keys
    }

    /// Reads the keys in so many tasks at once, and returns each read's time.
    async fn read(&self, tasks: u64, keys: Range<u64>) -> Vec<f64> {
        let (reader, times) = (self.reader.clone(), Arc::<Mutex<Vec<f64>>>::default());
        let all = Arc::clone(&times);
        let read = move |key| {
            let (reader, times) = (reader.clone(), Arc::clone(&times));
            async move {
                let begun = Instant::now();
                let value = reader.read(key).await;
                let time = micros(begun.elapsed());
                assert_eq!(value, Some(key), "the other client has written it");
                times.lock().expect("no task panics").push(time);
            }
        };
        for_each(tasks, keys, read).await;
        std::mem::take(&mut *all.lock().expect("no task panics"))
    }

    async fn round(&mut self, reads: u64) {
        let keys = self.fresh(reads).await;
        let one = self.read(1, keys).await;
        self.times.one.extend(one);
        let keys = self.fresh(reads * 4).await;
        let begun = Instant::now();
        let many = self.read(TASKS, keys).await;
        self.times.elapsed += begun.elapsed();
        self.times.many.extend(many);
    }

    fn print(self, table: &Table) {
        let (one, many) = (Sorted::new(self.times.one), Sorted::new(self.times.many));
        let rate = many.len() as f64 / self.times.elapsed.as_secs_f64();
        table.row(
            self.name,
            &[
                &rounded(one.median()),
                &rounded(one.quantile(0.99)),
                &rounded(many.median()),
                &rounded(many.quantile(0.99)),
                &format!("{rate:.0}"),
            ],
        );
    }
}

pub fn measure(options: &Options) {
    let (rounds, reads) = (options.size(5, 1), options.size(2_000, 500));
    let server = RedisServer::start();
    let port = server.port;
    runtime(2).block_on(async {
        let mut plain =
            Subject::new("redis-rs, `GET`", Plain(connect(port).await), Plain(connect(port).await));
        let mut tier = Subject::new(
            "cortado-redis, miss",
            Tier::connect(port).await,
            Tier::connect(port).await,
        );
        let mut amalgam = Subject::new(
            "amalgam-cache, miss",
            Amalgam::<u64>::connect(port).await,
            Amalgam::<u64>::connect(port).await,
        );
        let writer = Plain(connect(port).await);
        let mut by_hand =
            Subject::new("moka by hand, miss", ByHand::connect(port).await, writer);
        // Their keys on the server are plain ones, as those of the first.
        by_hand.next = 1 << 32;
        for _ in 0..rounds {
            plain.round(reads).await;
            tier.round(reads).await;
            amalgam.round(reads).await;
            by_hand.round(reads).await;
        }
        println!(
            "Microseconds; {rounds} rounds of {reads} reads by one task, and of {} by {TASKS} tasks \
             at once, interleaved.\n",
            reads * 4
        );
        let table = Table::new([
            "read",
            "one task: p50",
            "p99",
            "64 tasks: p50",
            "p99",
            "reads per second",
        ]);
        plain.print(&table);
        tier.print(&table);
        amalgam.print(&table);
        by_hand.print(&table);
    });
}
