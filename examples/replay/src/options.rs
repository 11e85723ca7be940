//! The command line.

use crate::units::{
    parse_bytes, parse_count, parse_duration, parse_positive_count, parse_positive_duration,
    parse_share,
};
use clap::{ArgGroup, Parser, ValueEnum};
use cortado::Cache;
use std::path::PathBuf;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  replay                                      a built-in workload, a cache for a fifteenth of its keys
  replay --cluster cluster37 --max-weight 256MiB
  replay requests.csv --capacity 50k --ttl 5m
  replay trace.trc.zst --expire access --tti 10m
  replay --requests 1M --capacities 1k,3k,10k,30k --lifetimes 5m,1h,1d
  zcat log.gz | cut -d' ' -f1 | replay - --rate 2000 --ttl 30s

Text traces have lines `key[,ttl_ms[,weight[,timestamp_ms]]]`. With timestamps (or --rate) the trace's
own time drives the cache's clock, and an hour of traffic takes a second.";

/// Replays a workload through a cache whose entries have lifetimes of their own, to choose a
/// capacity and a lifetime policy before deploying them.
#[derive(Clone, Debug, Parser)]
#[command(name = "replay", version, after_help = AFTER_HELP)]
#[command(group = ArgGroup::new("bound").args(["capacity", "max_weight"]))]
pub struct Options {
    /// The trace: text lines or a `TRC1` file, either also zstd-compressed; `-` is standard input
    ///
    /// Without one, a built-in workload is made up.
    pub trace: Option<String>,

    /// The built-in workload, named after the published cluster that it is shaped like
    #[arg(long, value_name = "NAME", default_value = "cluster4", conflicts_with = "trace",
          value_parser = crate::workload::NAMES)]
    pub cluster: String,

    /// How many requests: of the built-in workload (10M unless told), or of the trace at most
    #[arg(long, value_name = "N", value_parser = parse_positive_count)]
    pub requests: Option<u64>,

    /// How much time the built-in workload spans [default: the cluster's own]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration,
          conflicts_with = "trace")]
    pub span: Option<Duration>,

    /// Seed of the built-in workload
    #[arg(long, value_name = "N", default_value_t = 42, conflicts_with = "trace")]
    pub seed: u64,

    /// Requests a second, for a trace without timestamps
    ///
    /// Without timestamps and rate, lifetimes run by the wall clock while the replay goes at full
    /// speed.
    #[arg(long, value_name = "N", value_parser = parse_positive_count, requires = "trace")]
    pub rate: Option<u64>,

    /// What separates the fields of a text trace: `,`, `;`, `tab` or another punctuation mark
    ///
    /// By default a comma does. The first lines are refused if something else seems to.
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter, requires = "trace")]
    pub delimiter: Option<char>,

    /// Bound of the cache in entries [default: 10k, or a fifteenth of the built-in workload's
    /// keys]
    ///
    /// A cache of 0 entries keeps nothing.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub capacity: Option<u64>,

    /// Bound of the cache in weight, e.g. 64MiB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub max_weight: Option<u64>,

    /// Lifetime of what the trace gives none, e.g. 30s [default: for ever]
    ///
    /// What has a lifetime of 0 is not cached.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub ttl: Option<Duration>,

    /// Compare these capacities: one table and one chart of miss ratios, a run for each
    #[arg(long, value_name = "N,…", value_parser = parse_positive_count, value_delimiter = ',',
          conflicts_with_all = ["capacity", "max_weight"])]
    pub capacities: Vec<u64>,

    /// Compare these lifetimes, in place of those of the trace, likewise
    #[arg(long, value_name = "TIME,…", value_parser = parse_positive_duration,
          value_delimiter = ',', conflicts_with_all = ["ttl", "obey_ttl", "ignore_ttl", "max_weight"])]
    pub lifetimes: Vec<Duration>,

    /// Which operations start a lifetime
    #[arg(long, value_name = "WHEN", default_value = "write")]
    pub expire: Expire,

    /// Besides, expire what has not been read or written for so long
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    pub tti: Option<Duration>,

    /// Obey the trace's lifetimes; the default
    #[arg(long, overrides_with = "ignore_ttl")]
    obey_ttl: bool,

    /// Ignore the trace's lifetimes, so that `--ttl` holds for all
    #[arg(long, overrides_with = "obey_ttl")]
    pub ignore_ttl: bool,

    /// Shorten each lifetime at random by up to this share, e.g. 10%
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0")]
    pub jitter: f64,

    /// How finely the cache tells deadlines apart, e.g. 10ms [default: the cache's own]
    #[arg(long, value_name = "TIME", value_parser = parse_resolution)]
    pub resolution: Option<Duration>,

    /// Threads that use the cache at once
    ///
    /// With several, requests run out of order within a chunk of the trace, and results vary a
    /// little.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,

    /// Where to write the chart
    #[arg(long, value_name = "PATH", default_value = "replay.svg")]
    pub svg: PathBuf,

    /// Write no chart
    #[arg(long, conflicts_with = "svg")]
    pub no_svg: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Expire {
    /// The lifetime begins when the entry is created; updates leave it
    Create,
    /// Each write begins a new lifetime
    Write,
    /// Each read and write begins a new lifetime
    Access,
}

/// A duration that the cache takes as its resolution.
fn parse_resolution(text: &str) -> Result<Duration, String> {
    let resolution = parse_duration(text)?;
    match Cache::<u64, u64>::builder().expiry_resolution(resolution).try_build() {
        Ok(_) => Ok(resolution),
        Err(error) => Err(error.to_string()),
    }
}

/// A character that can separate fields: it occurs in no number and begins no comment.
fn parse_delimiter(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        _ if text == "tab" || text == "\\t" => Ok('\t'),
        (Some(c), None) if c == '\t' || c == ' ' => Ok(c),
        (Some(c), None) if c.is_ascii_punctuation() && c != '#' => Ok(c),
        _ => Err("not `tab`, a space or one punctuation mark other than `#`".to_owned()),
    }
}
