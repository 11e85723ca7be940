//! Where the requests come from, and the bar that shows how far they are.

use crate::options::Options;
use crate::trace::{Records, Request, TraceError};
use crate::workload::{self, Cluster, Workload};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DEFAULT_REQUESTS: u64 = 10_000_000;
const DEFAULT_CAPACITY: u64 = 10_000;

type Requests = Box<dyn Iterator<Item = Result<Request, TraceError>>>;

pub struct Source {
    /// What is replayed, for a headline.
    pub title: String,
    pub requests: Requests,
    /// Whether the requests carry the time.
    pub timed: bool,
    pub builtin: Option<&'static Cluster>,
    /// What the cache is bounded by if the options do not say.
    pub capacity: u64,
    pub progress: Progress,
}

impl Source {
    pub fn open(options: &Options) -> Result<Self> {
        match &options.trace {
            Some(path) => Self::trace(path, options),
            None => Self::builtin(options),
        }
    }

    fn builtin(options: &Options) -> Result<Self> {
        let cluster = workload::cluster(&options.cluster).context("no such cluster")?;
        let requests = options.requests.unwrap_or(DEFAULT_REQUESTS);
        let span = options.span.unwrap_or_else(|| cluster.span());
        let made = Workload::new(cluster, requests, span, options.seed)?;
        let limit = usize::try_from(requests)?;
        Ok(Self {
            title: format!("{}-like workload: {}", cluster.name, cluster.what),
            requests: Box::new(made.take(limit).map(Ok)),
            timed: true,
            builtin: Some(cluster),
            capacity: (cluster.keys(requests) / 15.0).ceil() as u64,
            progress: Progress::new(Some(requests), "requests", None),
        })
    }

    fn trace(path: &str, options: &Options) -> Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let (name, input, length): (_, Box<dyn Read>, _) = if path == "-" {
            ("standard input", Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).with_context(|| format!("cannot open {path}"))?;
            let data = file.metadata().with_context(|| format!("cannot read {path}"))?;
            if data.is_dir() {
                bail!("{path} is a directory, not a trace");
            }
            (path, Box::new(file), data.is_file().then_some(data.len()))
        };
        let input = Metered { input, read: Arc::clone(&read) };
        let mut records = Records::open(name, BufReader::with_capacity(1 << 16, input))?;
        records.delimiter = options.delimiter;
        let announced = records.announced();
        let first = match records.next() {
            Some(first) => first?,
            None => bail!("{name}: no requests"),
        };
        let dated = first.at.is_some();
        if dated && options.rate.is_some() {
            bail!("{name}: --rate is for traces without timestamps, and this one has them");
        }
        let requests = iter::once(Ok(first)).chain(records);
        let limit = options.requests.map_or(Ok(usize::MAX), usize::try_from)?;
        let mut made = 0u64;
        let rate = options.rate;
        let requests = requests.take(limit).map(move |request| {
            let mut request = request?;
            if let Some(rate) = rate {
                request.at = Some(Duration::from_secs_f64(made as f64 / rate as f64));
                made += 1;
            }
            Ok(request)
        });
        let progress = match (options.requests, length) {
            (None, Some(length)) => Progress::new(Some(length), "bytes", Some(read)),
            (limit, _) => Progress::new(limit.or(announced), "requests", None),
        };
        Ok(Self {
            title: format!("trace {}", name.rsplit('/').next().unwrap_or(name)),
            requests: Box::new(requests),
            timed: dated || rate.is_some(),
            builtin: None,
            capacity: DEFAULT_CAPACITY,
            progress,
        })
    }
}

/// Counts what is read.
struct Metered {
    input: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A bar on standard error, if that is a terminal.
pub struct Progress {
    bar: ProgressBar,
    /// Bytes read, where the bar counts bytes.
    read: Option<Arc<AtomicU64>>,
}

impl Progress {
    fn new(length: Option<u64>, unit: &str, read: Option<Arc<AtomicU64>>) -> Self {
        let counts = match (length, unit) {
            (Some(_), "bytes") => "{binary_bytes} of {binary_total_bytes}",
            (Some(_), _) => "{human_pos} of {human_len} requests",
            (None, _) => "{human_pos} requests",
        };
        let template = match length {
            Some(_) => format!("{{wide_bar:.cyan/blue}} {counts} · {{msg}} · {{eta}} left"),
            None => format!("{{spinner}} {counts} · {{msg}}"),
        };
        let style = ProgressStyle::with_template(&template);
        let bar = length.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("━━─"));
        }
        Self { bar, read }
    }

    pub fn show(&self, requests: u64, hit_ratio: &str) {
        let read = self.read.as_ref().map(|read| read.load(Ordering::Relaxed));
        self.bar.set_position(read.unwrap_or(requests));
        self.bar.set_message(format!("hit ratio {hit_ratio}"));
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
