//! Compares `cortado-redis` with other ways to keep copies of a server's values in a process. Each
//! table starts a `redis-server` of its own; `README.md` says how each is measured.
//!
//! ```sh
//! cargo run --release -p cortado-redis-bench                    # all tables, about ten minutes
//! cargo run --release -p cortado-redis-bench -- --quick         # does the program work?
//! cargo run --release -p cortado-redis-bench -- --only hits
//! ```

mod hits;
mod machine;
mod numbers;
mod process;
mod remote;
mod server;
mod stale_after;
mod staleness;
mod stampede;
mod subject;
mod table;

use std::process::ExitCode;

/// What the command line asks for.
pub struct Options {
    quick: bool,
    only: Option<String>,
}

impl Options {
    /// The size of a measurement.
    pub fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}

type Measure = fn(&Options);

const TABLES: [(&str, Measure); 5] = [
    ("hits", hits::measure),
    ("remote", remote::measure),
    ("staleness", staleness::measure),
    ("stale-after", stale_after::measure),
    ("stampede", stampede::measure),
];

fn usage() -> ExitCode {
    let names: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
    eprintln!("options: [--quick] [--only {}]", names.join("|"));
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let mut options = Options { quick: false, only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // The program starts itself again where a table needs several processes.
            process::CHILD => {
                let arguments: Vec<String> = arguments.collect();
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                match arguments[..] {
                    ["staleness", port, pace] => staleness::read(number(port), pace),
                    ["stampede", port, subject] => stampede::load(number(port), subject),
                    _ => return usage(),
                }
                return ExitCode::SUCCESS;
            }
            "--quick" => options.quick = true,
            "--only" => options.only = arguments.next(),
            _ => return usage(),
        }
    }
    if let Some(only) = &options.only
        && !TABLES.iter().any(|(name, _)| name == only)
    {
        return usage();
    }
    println!("{}\n", machine::description());
    println!("{}", machine::versions());
    for (name, measure) in TABLES {
        if options.only.as_deref().is_none_or(|only| only == name) {
            println!("\n## {name}\n");
            measure(&options);
        }
    }
    ExitCode::SUCCESS
}

fn number(port: &str) -> u16 {
    port.parse().expect("the parent says the port")
}

/// A runtime with so many worker threads.
pub fn runtime(workers: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().build().expect("a runtime starts")
}
