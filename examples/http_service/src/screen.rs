//! What the program shows: a line each second, a bar below it where the output is a terminal, and
//! the summary.
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use crate::Options;
use crate::load::{Latencies, Meters, latencies};
use crate::service::Service;
use crate::upstream::{Server, Upstream};
use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use cortado::RemovalCause;
use indicatif::{ProgressBar, ProgressStyle};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// The counts at the end of a second.
#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    calls: u64,
    despite_errors: u64,
    failed: u64,
}

pub struct Screen {
    begun: Instant,
    seconds: u32,
    shown: u32,
    last: Counts,
    all: Latencies,
    bar: ProgressBar,
}

impl Screen {
    pub fn new(options: &Options, [upstream, service]: [SocketAddr; 2]) -> Self {
        println!("upstream  http://{upstream}/pages/0   50 to 200 ms a response");
        println!("service   http://{service}/pages/0   a cache of {} pages", options.capacity);
        println!("clients   {}, which ask for {} pages\n", options.clients, options.pages);
        println!(
            "{:>6}  {:>10}  {:<24}  {:>10}  {:>7}  {:>8}  {:>8}  {:>8}  upstream",
            "second", "requests/s", "hit ratio", "upstream/s", "stale/s", "failed/s", "p50", "p99"
        );
        let bar = ProgressBar::new(options.seconds * 10);
        bar.set_style(
            ProgressStyle::with_template("        {bar:66.cyan/blue} {msg}")
                .expect("a template")
                .progress_chars("━╸─"),
        );
        Self {
            begun: Instant::now(),
            seconds: u32::try_from(options.seconds).unwrap_or(u32::MAX),
            shown: 0,
            last: Counts::default(),
            all: latencies(),
            bar,
        }
    }

    /// Moves the bar, and prints a line if a second is over.
    pub fn tick(&mut self, meters: &Meters, service: &Service, server: &Server) {
        let elapsed = self.begun.elapsed();
        let stats = service.pages().stats();
        self.bar.set_position(elapsed.as_millis() as u64 / 100);
        self.bar.set_message(format!("{} entries", stats.entries));
        if elapsed < SECOND * (self.shown + 1) {
            return;
        }
        self.shown += 1;
        let latencies = meters.take();
        let now = Counts {
            hits: stats.hits,
            misses: stats.misses,
            calls: server.calls(),
            despite_errors: service.despite_errors(),
            failed: meters.failed(),
        };
        let (hits, misses) = (now.hits - self.last.hits, now.misses - self.last.misses);
        let ratio = percent(hits, hits + misses);
        let line = format!(
            "{:>6}  {:>10}  {} {ratio:>6.2} %  {:>10}  {:>7}  {:>8}  {:>8}  {:>8}  {}",
            self.shown,
            thousands(latencies.len()),
            gauge(ratio),
            now.calls - self.last.calls,
            thousands(now.despite_errors - self.last.despite_errors),
            now.failed - self.last.failed,
            millis(latencies.value_at_quantile(0.5)),
            millis(latencies.value_at_quantile(0.99)),
            if server.is_stopped() { "STOPPED" } else { "up" },
        );
        self.bar.suspend(|| println!("{line}"));
        self.last = now;
        self.all += latencies;
    }

    /// Prints the last line, if it is missing, and the summary.
    pub fn finish(
        mut self,
        meters: &Meters,
        service: &Service,
        (server, upstream): (&Server, &Upstream),
    ) {
        if self.shown < self.seconds {
            self.tick(meters, service, server);
        }
        self.bar.finish_and_clear();
        self.all += meters.take();
        println!("\n{}", self.summary(meters, service, upstream));
    }

    fn summary(&self, meters: &Meters, service: &Service, upstream: &Upstream) -> Table {
        let stats = service.pages().stats();
        let requests = stats.hits + stats.misses;
        let calls = upstream.calls();
        let share = requests as f64 / calls.max(1) as f64;
        let left = |cause| thousands(stats.removed(cause));
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).apply_modifier(UTF8_ROUND_CORNERS);
        let mut row = |name: &str, value: String, note: String| {
            table.add_row([name.to_owned(), value, note]);
        };
        row("requests", thousands(requests), format!("in {} s", self.begun.elapsed().as_secs()));
        let note = "answered from the cache".to_owned();
        row("hit ratio", format!("{:.2} %", percent(stats.hits, requests)), note);
        let note = "in the background: most requests had the stale page at once".to_owned();
        row("reloads", thousands(stats.reloads), note);
        let note = "the page was the same: no transfer".to_owned();
        row("… not modified", thousands(upstream.not_modified()), note);
        let note = format!("{} requests had the stale page despite", service.despite_errors());
        row("… failed", thousands(stats.reload_failures), note);
        let note =
            "requests for pages that were not there, or not to be used, in that time".to_owned();
        row("failed", thousands(meters.failed()), note);
        row("upstream calls", thousands(calls), format!("one for {share:.1} requests"));
        let note = "for one page: the others wait, unless it is not to be kept".to_owned();
        row("… most at once", upstream.most_at_once().to_string(), note);
        let (p50, p99) = (self.all.value_at_quantile(0.5), self.all.value_at_quantile(0.99));
        let note = format!("p99 {}, max {}", millis(p99), millis(self.all.max()));
        row("latency, p50", millis(p50), note);
        let (expired, evicted) = (left(RemovalCause::Expired), left(RemovalCause::Size));
        row("expired", expired, format!("or not to be kept; {evicted} left for want of room"));
        row("entries", thousands(stats.entries), "at the end".to_owned());
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// A bar of 15 columns.
fn gauge(percent: f64) -> String {
    let filled = (percent / 100.0 * 15.0).round() as usize;
    format!("{}{}", "█".repeat(filled), "░".repeat(15 - filled.min(15)))
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn millis(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{:.2} ms", micros as f64 / 1000.0),
        _ => format!("{} ms", micros / 1000),
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}
