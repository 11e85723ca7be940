//! What a report says of where it comes from.

use crate::heap::ALLOCATOR;
use crate::subject::Rival;
use std::fmt;
use std::thread::available_parallelism;

/// The version of a direct dependency, as locked when this was built.
///
/// # Panics
/// If there is no such dependency.
pub fn version_of(package: &str) -> &'static str {
    env!("BENCH_VERSIONS")
        .split(',')
        .filter_map(|entry| entry.split_once(' '))
        .find(|(name, _)| *name == package)
        .map(|(_, version)| version)
        .unwrap_or_else(|| panic!("{package} is no dependency"))
}

/// How many threads run at once.
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn processor() -> Option<String> {
    let information = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = information.lines().find(|line| line.starts_with("model name"))?;
    model.split_once(':').map(|(_, model)| model.trim().to_owned())
}

/// The machine and the compiler, on one line.
pub fn description() -> String {
    let processor = processor().unwrap_or_else(|| "unknown processor".to_owned());
    let optimised = if cfg!(debug_assertions) { ", NOT OPTIMISED" } else { "" };
    format!(
        "{} cores, {processor}, {} {}, {}{optimised}",
        cores(),
        std::env::consts::OS,
        std::env::consts::ARCH,
        env!("BENCH_RUSTC"),
    )
}

/// The same, with the allocator of a program whose allocator is [`Heap`](crate::heap::Heap).
pub fn description_with_allocator() -> String {
    format!("{}, {ALLOCATOR}", description())
}

/// These rivals with their versions and notes, a line each.
pub struct Versions<'a>(pub &'a [Rival]);

impl fmt::Display for Versions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rival in self.0 {
            let card = rival.card();
            let version = version_of(card.package);
            writeln!(f, "* {}: {} {version}; {}", rival.name(), card.package, card.note)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rival_has_a_version() {
        let text = Versions(Rival::all()).to_string();
        assert_eq!(text.lines().count(), Rival::all().len());
        assert!(version_of("moka").starts_with("0.12."));
    }
}
