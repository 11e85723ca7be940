//! The modules form a DAG: each may use only those on lower lines of this table. The test reads every
//! `crate::` path in `src/` and holds the code to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up. Modules on one line do not use each other.
const LAYERS: &[&[&str]] = &[
    // Ground: nothing of ours.
    &["sync"],
    &["clock", "hash", "prefetch"],
    // Mechanism: no K and V as a concept, no word of a cache.
    &["links"],
    &["list", "sketch", "buffer", "drain", "outbox", "flight", "index", "scheduler", "wheel"],
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

/// Where `unsafe` may be.
const UNSAFE: &[&str] = &[
    "src/clock.rs",
    "src/engine/lookup.rs",
    "src/index/memory.rs",
    "src/index/tags.rs",
    "src/pool/handle.rs",
    "src/pool/raw.rs",
    "src/pool/typed.rs",
    "src/prefetch.rs",
];

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

#[test]
fn unsafe_code_is_only_where_it_is_known_to_be() {
    let allowed: Vec<String> = crate_sources()
        .into_iter()
        .filter(|(_, code)| {
            code.contains("expect(unsafe_code") || code.contains("allow(unsafe_code")
        })
        .map(|(file, _)| file)
        .collect();
    let mut allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    allowed.sort_unstable();
    assert_eq!(allowed, UNSAFE);
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
