//! `docs/unsafe.md` says of each file what it needs `unsafe` for and what guards it.

use crate::sources::{library, root};
use crate::suites::tests;
use std::collections::BTreeMap;
use std::fs;

/// Blocks, functions and implementations.
fn uses_of_unsafe(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let forms = ["unsafe {", "unsafe fn ", "unsafe impl"];
    code.map(|line| forms.iter().map(|form| line.matches(form).count()).sum::<usize>()).sum()
}

#[test]
fn the_inventory_is_what_the_code_has() {
    let page = fs::read_to_string(root().join("docs/unsafe.md")).unwrap();
    let listed: BTreeMap<String, usize> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `src/")?.split('|').map(str::trim);
            let file = cells.next()?.trim_end_matches('`');
            Some((file.to_owned(), cells.next()?.parse().ok()?))
        })
        .collect();
    let found: BTreeMap<String, usize> = library()
        .into_iter()
        .filter(|source| source.text.contains("unsafe_code") && source.file != "lib.rs")
        .map(|source| (source.file, uses_of_unsafe(&source.text)))
        .collect();
    assert_eq!(listed, found);
    let tests = tests();
    let rows = page.lines().filter(|line| line.starts_with("| `src/"));
    for name in rows.flat_map(|row| row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2)) {
        let is_there = match name.split_once("::") {
            Some((program, module)) => {
                let module = format!("{module}::");
                tests.get(program).is_some_and(|all| all.iter().any(|it| it.starts_with(&module)))
            }
            None => {
                let model = format!("::{name}");
                tests.contains_key(name) || tests["loom"].iter().any(|it| it.ends_with(&model))
            }
        };
        assert!(is_there, "docs/unsafe.md: no test or model `{name}`");
    }
}

/// The lint is denied for the crate, so a file outside of the list cannot have any.
#[test]
fn the_crate_denies_it() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"deny\""));
}
