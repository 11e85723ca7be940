//! The suites that scripts and documents name are there.
//!
//! A suite is a program of `tests/`, or a part of one. The test harness takes a part as a filter:
//! it runs each test whose name contains it, and is content if there is none. So a filter must have
//! tests, and all of them must be of the module that it names.

use crate::sources::{files, root};
use std::collections::BTreeMap;
use std::fs;

/// The documents that name suites.
const PAGES: [&str; 10] = [
    "CONTRIBUTING.md",
    "tests/README.md",
    "docs/how-to-change.md",
    "docs/reliability.md",
    "docs/unsafe.md",
    "docs/performance.md",
    "docs/eviction.md",
    "docs/flights.md",
    "docs/notifications.md",
    "docs/refresh.md",
];

/// Parts that other things than programs of `tests/` have.
const OTHERS: [&str; 2] = ["lib", "stalls"];

/// The programs, each with the full names of its tests: `drops::with_a_scheduler_too`.
pub fn tests() -> BTreeMap<String, Vec<String>> {
    let folder = root().join("tests");
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for path in files(&folder, "rs") {
        let file = path.strip_prefix(&folder).unwrap().with_extension("");
        let mut names: Vec<&str> = file.iter().map(|name| name.to_str().unwrap()).collect();
        let program = names.remove(0).to_owned();
        names.pop_if(|last| ["main", "mod"].contains(last));
        let text = fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("#[test]\n") {
            let (_, rest) = text[at..].split_once("fn ").expect("a test is a function");
            let name = rest.split('(').next().unwrap();
            let full = names.iter().copied().chain([name]).collect::<Vec<_>>().join("::");
            found.entry(program.clone()).or_default().push(full);
        }
    }
    found
}

/// Words of letters, `_` and `:`, as scripts and lists have them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '_' || c == ':'))
}

#[test]
fn parts_that_scripts_name_have_tests() {
    let tests = tests();
    let mut parts = 0;
    // Scripts have no extension.
    for script in files(&root().join(".ci"), "") {
        let name = script.strip_prefix(root()).unwrap().display();
        let text = fs::read_to_string(&script).unwrap();
        for word in words(&text) {
            let Some((program, part)) = word.split_once(':') else { continue };
            if !part.contains("::") || part.starts_with(':') || OTHERS.contains(&program) {
                continue;
            }
            let all = tests.get(program).unwrap_or_else(|| panic!("{name}: no program {program}"));
            assert!(all.iter().any(|test| test.starts_with(part)), "{name}: no test of {word}");
            parts += 1;
        }
    }
    assert!(parts > 60, "only {parts} parts found: the test does not see them");
}

/// Every line of the models' seeds names a model.
#[test]
fn models_that_have_seeds_are_there() {
    let list = fs::read_to_string(root().join(".ci/loom-seeds")).unwrap();
    let models = &tests()["loom"];
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let model = line.split(' ').next().unwrap();
        assert!(models.iter().any(|it| it == model), ".ci/loom-seeds: no model {model}");
    }
}

/// Every line of the suites' seeds that is about the library's own tests names a file with such.
#[test]
fn white_box_tests_that_have_seeds_are_there() {
    let list = fs::read_to_string(root().join(".ci/deep/suite-seeds")).unwrap();
    let sources = files(&root().join("src"), "rs");
    for name in list.lines().filter_map(|line| line.strip_prefix("lib:")) {
        let name = name.split(' ').next().unwrap();
        let of_name = |path: &&std::path::PathBuf| path.file_stem().is_some_and(|it| it == name);
        let has_tests = |path| fs::read_to_string(path).unwrap().contains("#[test]\n");
        let is_there = sources.iter().filter(of_name).any(has_tests);
        assert!(is_there, ".ci/deep/suite-seeds: no tests {name}");
    }
}

/// A module's name and `::` are part of the names of its own tests only.
#[test]
fn no_filter_meets_two_modules() {
    for (program, all) in tests() {
        for test in &all {
            let Some((module, _)) = test.rsplit_once("::") else { continue };
            let filter = format!("{module}::");
            let other = all.iter().find(|it| it.contains(&filter) && !it.starts_with(&filter));
            assert!(other.is_none(), "{program}: {filter} is part of {other:?}");
        }
    }
}

#[test]
fn suites_that_documents_name_are_there() {
    let tests = tests();
    let mut suites = 0;
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).unwrap();
        for code in text.split('`').skip(1).step_by(2) {
            // `memory::drops`, `cargo test --test memory drops::`
            let code = code.replace("cargo test --test ", "").replacen(' ', "::", 1);
            let Some((program, module)) = code.split_once("::") else { continue };
            let Some(all) = tests.get(program) else { continue };
            let filter = format!("{}::", module.trim_end_matches("::"));
            assert!(all.iter().any(|test| test.starts_with(&filter)), "{page}: no suite {code}");
            suites += 1;
        }
    }
    assert!(suites > 30, "only {suites} suites found: the test does not see them");
}
