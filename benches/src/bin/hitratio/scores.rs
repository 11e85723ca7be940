//! The figures: those just measured, and those that reference files know.

use crate::options::Mode;
use crate::play::Ratios;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// A trace at a capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    pub trace: String,
    pub capacity: u64,
}

/// Who is no rival: the optimum, and what has no bound.
const MARKS: [&str; 2] = ["opt", "unbounded"];

#[derive(Debug, Default)]
pub struct Scores {
    /// In the order in which they were run.
    pub cases: Vec<Case>,
    /// The sizes that a case stands for: small ones of small traces coincide.
    classes: BTreeMap<Case, BTreeSet<usize>>,
    measured: BTreeMap<Case, BTreeMap<String, Ratios>>,
    known: BTreeMap<Case, BTreeMap<String, f64>>,
}

impl Scores {
    /// Adds what a reference file says; of lifetimes obeyed (`+ttl`) or ignored, as the mode is.
    pub fn read(&mut self, path: &Path, mode: Mode) -> Result<()> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        for (number, line) in text.lines().enumerate().skip(1) {
            let place = || format!("{}:{}: {line:?}", path.display(), number + 1);
            let fields: Vec<&str> = line.split(',').collect();
            ensure!(fields.len() >= 4, "{}: too few fields", place());
            let (policy, timed) = match fields[2].strip_suffix("+ttl") {
                Some(policy) => (policy, true),
                None => (fields[2], false),
            };
            if timed == (mode == Mode::Ttl) {
                let capacity = fields[1].parse().with_context(place)?;
                let ratio = fields[3].parse().with_context(place)?;
                let case = Case { trace: fields[0].to_owned(), capacity };
                self.known.entry(case).or_default().insert(policy.to_owned(), ratio);
            }
        }
        Ok(())
    }

    pub fn classify(&mut self, case: &Case, class: usize) {
        if !self.cases.contains(case) {
            self.cases.push(case.clone());
        }
        self.classes.entry(case.clone()).or_default().insert(class);
    }

    pub fn in_class(&self, case: &Case, class: usize) -> bool {
        self.classes[case].contains(&class)
    }

    pub fn add(&mut self, case: &Case, cache: &str, ratios: Ratios) {
        self.measured.entry(case.clone()).or_default().insert(cache.to_owned(), ratios);
    }

    pub fn ran(&self, case: &Case, cache: &str) -> bool {
        self.measured.get(case).is_some_and(|ran| ran.contains_key(cache))
    }

    pub fn measured(&self, case: &Case, cache: &str) -> Option<Ratios> {
        self.measured.get(case)?.get(cache).copied()
    }

    /// Everyone's hit ratios in a case, by name; measured ones replace known ones.
    pub fn ratios(&self, case: &Case) -> BTreeMap<&str, f64> {
        let known = self.known.get(case).into_iter().flatten();
        let measured = self.measured.get(case).into_iter().flatten();
        known
            .map(|(name, &ratio)| (name.as_str(), ratio))
            .chain(measured.map(|(name, ratios)| (name.as_str(), ratios.objects)))
            .collect()
    }

    /// The names of all that have a figure in each case, in alphabetical order.
    pub fn policies(&self) -> Vec<&str> {
        let names: BTreeSet<&str> =
            self.cases.iter().flat_map(|case| self.ratios(case).into_keys()).collect();
        names.into_iter().filter(|name| !MARKS.contains(name)).collect()
    }

    /// The best that others than `policy` and this repository's own reach in a case.
    pub fn best_rival(&self, case: &Case, policy: &str) -> Option<(&str, f64)> {
        let own = |name: &str| ["cortado", "simulated"].contains(&name);
        self.ratios(case)
            .into_iter()
            .filter(|(name, _)| *name != policy && !own(name) && !MARKS.contains(name))
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Points of hit ratio that `policy` is behind the best rival.
    pub fn lost(&self, case: &Case, policy: &str) -> Option<f64> {
        let own = *self.ratios(case).get(policy)?;
        let (_, best) = self.best_rival(case, policy)?;
        Some((best - own) * 100.0)
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = "trace,capacity,policy,hit_ratio,byte_hit_ratio\n".to_owned();
        for case in &self.cases {
            for (name, ratios) in self.measured.get(case).into_iter().flatten() {
                let Case { trace, capacity } = case;
                let Ratios { objects, bytes, .. } = ratios;
                writeln!(text, "{trace},{capacity},{name},{objects:.6},{bytes:.6}")?;
            }
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
