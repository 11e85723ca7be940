//! The modules form a DAG: each may use only those in rows above its own in the table of
//! `docs/architecture.md`.

use crate::sources::{library, root};
use std::collections::BTreeMap;

/// The API's two halves: a builder makes the cache that names it.
const MUTUAL: [&str; 2] = ["cache", "builder"];

/// The number of each module's row.
fn rows() -> BTreeMap<String, usize> {
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let section = page.split("## The rooms").nth(1).expect("the section is there");
    let table = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let table = table.take_while(|line| line.starts_with('|'));
    let mut rows = BTreeMap::new();
    for (number, line) in table.enumerate() {
        let cell = line.split('|').nth(2).expect("a column of modules");
        for module in cell.split('`').skip(1).step_by(2) {
            assert!(rows.insert(module.to_owned(), number).is_none(), "{module} is there twice");
        }
    }
    rows
}

#[test]
fn modules_use_only_what_is_above_them_in_the_table() {
    let rows = rows();
    assert!(rows.len() > 25, "only {} modules are in the table", rows.len());
    let (mut edges, mut used_modules) = (0, BTreeMap::new());
    for source in library() {
        let Some(module) = source.module.first().cloned() else { continue };
        let row = *rows.get(&module).unwrap_or_else(|| panic!("{module} is not in the table"));
        used_modules.insert(module.clone(), ());
        for used in source.uses.iter().filter_map(|path| path.first()) {
            let Some(&above) = rows.get(used).filter(|_| *used != module) else { continue };
            edges += 1;
            let mutual = MUTUAL.contains(&module.as_str()) && MUTUAL.contains(&used.as_str());
            assert!(
                above < row || mutual,
                "{} uses {used}, which is not above {module}",
                source.file
            );
        }
    }
    assert!(edges > 100, "only {edges} uses found: the test does not see them");
    assert_eq!(used_modules.len(), rows.len(), "the table has modules that do not exist");
}

#[test]
fn only_the_facade_touches_std_sync() {
    // Types that no model checker needs to see: sharing with the user's code, and statics.
    let known = ["Arc", "OnceLock", "Weak"];
    for source in library() {
        if source.module.first().is_none_or(|module| module == "primitives") {
            continue;
        }
        for (number, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (at, _) in code.match_indices("std::sync::") {
                let names = code[at + "std::sync::".len()..].trim_start_matches('{');
                let names = names.split(['}', ';', '<', ':', '(']).next().unwrap_or_default();
                let names = names.split(" as ").next().unwrap_or_default();
                let is_known = |name: &str| {
                    known.contains(&name) || (name == "atomic" && source.file == "expiry.rs")
                };
                let all_known = names.split(',').map(str::trim).all(is_known);
                assert!(all_known, "src/{}:{}: std::sync::{names}", source.file, number + 1);
            }
        }
    }
}
