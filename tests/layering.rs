//! The modules form a DAG: each may use only those on lower lines of this table. The test reads
//! every `crate::` path in `src/` and holds the code to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up. Modules on one line do not use each other.
const LAYERS: &[&[&str]] = &[
    // Ground: nothing of ours.
    &["sync"],
    &["clock", "epoch", "hash", "prefetch", "system"],
    // Mechanism: no K and V as a concept, no word of a cache.
    &["links"],
    &[
        "list",
        "sketch",
        "buffer",
        "drain",
        "outbox",
        "executor",
        "flight",
        "index",
        "scheduler",
        "wheel",
    ],
    // Vocabulary: public traits and plain values.
    &["error", "expiry", "removal"],
    &["stats", "expiration"],
    &["config"],
    // Nodes and policy.
    &["node", "policy"],
    &["pool"],
    &["entry"],
    &["compute"],
    // Everything behind the one `Arc`.
    &["engine"],
    // The face.
    &["pinned", "iter"],
    &["cache", "builder"],
];

/// The face's two halves: a cache is made by its builder and names it.
const MUTUAL: (&str, &str) = ("cache", "builder");

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// (file, text without comments), file relative to the crate.
fn crate_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    sources(&root.join("src"), &mut paths);
    assert!(paths.len() > 40, "only {} sources found", paths.len());
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            let text = fs::read_to_string(&path).unwrap();
            let code: Vec<&str> =
                text.lines().map(|line| line.split("//").next().unwrap()).collect();
            (name, code.join("\n"))
        })
        .collect()
}

fn module_of(file: &str) -> &str {
    let inside = file.strip_prefix("src/").unwrap();
    inside.split('/').next().unwrap().trim_end_matches(".rs")
}

fn uses(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("crate::").filter_map(|(at, _)| {
        let path = &code[at + "crate::".len()..];
        let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let is_ours = !code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (end > 0 && is_ours).then(|| &path[..end])
    })
}

#[test]
fn modules_use_only_what_is_below_them() {
    let layer: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(height, modules)| modules.iter().map(move |&module| (module, height)))
        .collect();
    let mut edges = 0;
    for (file, code) in crate_sources() {
        let module = module_of(&file);
        if module == "lib" {
            continue;
        }
        let height = *layer.get(module).unwrap_or_else(|| panic!("{module} is not in the table"));
        for used in uses(&code).filter(|used| *used != module) {
            edges += 1;
            let below = *layer.get(used).unwrap_or_else(|| panic!("{file}: crate::{used}?"));
            let mutual = [(module, used), (used, module)].contains(&MUTUAL);
            assert!(below < height || mutual, "{file} uses {used}, which is not below {module}");
        }
    }
    assert!(edges > 100, "only {edges} uses found: the test does not see them");
}

/// Blocks, functions and implementations.
fn uses_of_unsafe(code: &str) -> usize {
    ["unsafe {", "unsafe fn ", "unsafe impl"].iter().map(|what| code.matches(what).count()).sum()
}

/// `docs/unsafe.md` says of each file what it needs `unsafe` for and what guards it.
#[test]
fn the_inventory_of_unsafe_is_what_the_code_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/unsafe.md")).unwrap();
    let listed: BTreeMap<String, usize> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `src/")?.split('|').map(str::trim);
            let file = cells.next()?.trim_end_matches('`');
            Some((format!("src/{file}"), cells.next()?.parse().ok()?))
        })
        .collect();
    let found: BTreeMap<String, usize> = crate_sources()
        .into_iter()
        .filter(|(_, code)| code.contains("unsafe_code"))
        .map(|(file, code)| (file, uses_of_unsafe(&code)))
        .collect();
    assert_eq!(listed, found);
    // The models and tests that it names exist.
    let mut tests = Vec::new();
    sources(&root.join("tests"), &mut tests);
    let tests: Vec<(PathBuf, String)> =
        tests.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let rows = page.lines().filter(|line| line.starts_with("| `src/"));
    for name in rows.flat_map(|row| row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2)) {
        let is_there = tests.iter().any(|(path, text)| {
            path.file_stem().is_some_and(|stem| stem == name)
                || text.contains(&format!("fn {name}("))
        });
        assert!(is_there, "docs/unsafe.md: no test or model `{name}`");
    }
}

#[test]
fn only_the_facade_touches_std_sync() {
    // Types that no model checker needs to see: sharing with the user's code, and statics.
    let known = ["Arc", "OnceLock", "Weak", "atomic"];
    for (file, code) in crate_sources() {
        if ["sync", "lib"].contains(&module_of(&file)) {
            continue;
        }
        for (at, _) in code.match_indices("std::sync::") {
            let rest = &code[at + "std::sync::".len()..];
            assert!(
                known.iter().any(|name| rest.starts_with(name)),
                "{file}: std::sync::{}",
                &rest[..rest.len().min(30)]
            );
            assert!(!rest.starts_with("atomic") || file == "src/expiry.rs", "{file}: std atomics");
        }
    }
}

#[test]
fn files_stay_small() {
    for (file, _) in crate_sources() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        let lines = fs::read_to_string(path).unwrap().lines().count();
        assert!(lines <= 500, "{file} has {lines} lines");
    }
}
