//! What a report says of where it comes from.

use std::process::Command;
use std::thread::available_parallelism;

/// The versions that this program was built with.
const LOCK_FILE: &str = include_str!("../../Cargo.lock");

const COMPARED: [&str; 5] = ["cortado", "cortado-redis", "redis", "moka", "amalgam-cache"];

fn version_of(package: &str) -> &'static str {
    let name = format!("name = \"{package}\"");
    let mut lines = LOCK_FILE.lines().skip_while(|line| **line != name);
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
    version.map_or("?", |version| version.trim_matches('"'))
}

/// The first line that a program prints, if there is such a program.
fn first_line(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

fn processor() -> Option<String> {
    let information = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = information.lines().find(|line| line.starts_with("model name"))?;
    model.split_once(':').map(|(_, model)| model.trim().to_owned())
}

/// The load average of the last minute.
pub fn load() -> String {
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}

/// The machine, on one line.
pub fn description() -> String {
    let cores = available_parallelism().map_or(1, usize::from);
    let processor = processor().unwrap_or_else(|| "unknown processor".to_owned());
    let rustc = first_line("rustc").unwrap_or_else(|| "unknown rustc".to_owned());
    let rustc = rustc.split(" (").next().unwrap_or_default().to_owned();
    let optimised = if cfg!(debug_assertions) { ", NOT OPTIMISED" } else { "" };
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{cores} cores, {processor}, {os} {arch}, {rustc}, load average {}{optimised}", load())
}

/// The server and the compared crates, on one line.
pub fn versions() -> String {
    let server = first_line("redis-server").unwrap_or_default();
    let server = server.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or("?");
    let crates = COMPARED.map(|package| format!("{package} {}", version_of(package)));
    format!("redis-server {server}, {}", crates.join(", "))
}
