//! How long files and comments are.

use crate::sources::{files, library, root};

#[test]
fn files_stay_small() {
    for source in library() {
        let lines = source.text.lines().count();
        assert!(lines <= 500, "src/{} has {lines} lines", source.file);
    }
}

/// Comments are wrapped at 100 columns, but for table rows, links, and fenced code and drawings.
#[test]
fn comments_are_wrapped() {
    let folders = ["src", "tests", "benches", "fuzz", "examples"];
    let mut comments = 0;
    for path in folders.iter().flat_map(|folder| files(&root().join(folder), "rs")) {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if name.contains("target/") {
            continue;
        }
        let mut is_fenced = false;
        for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            comments += 1;
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            is_fenced ^= comment.starts_with("```");
            let is_fixed = is_fenced || comment.starts_with(['|', '[']) || comment.contains("://");
            let width = line.chars().count();
            assert!(width <= 100 || is_fixed, "{name}:{}: {width} columns", number + 1);
        }
    }
    assert!(comments > 3000, "only {comments} lines of comments found");
}

/// Every seeded bug is one that a suite or a model must notice.
#[test]
fn seeds_are_listed() {
    let list = |name: &str| std::fs::read_to_string(root().join(".ci").join(name)).unwrap();
    // One takes more preemptions than `.ci/loom` spends: its model names it.
    let models = std::fs::read_to_string(root().join("tests/loom/engine.rs")).unwrap();
    let lists = [list("deep/suite-seeds"), list("loom-seeds"), models].concat();
    let listed: Vec<&str> = lists.split(|c: char| c.is_whitespace() || c == '`').collect();
    let mut seeds = 0;
    for source in library() {
        for seed in source.text.split("seeded(\"").skip(1) {
            let seed = seed.split('"').next().unwrap_or_default();
            seeds += 1;
            assert!(listed.contains(&seed), "src/{}: no suite is to notice `{seed}`", source.file);
        }
    }
    assert!(seeds > 80, "only {seeds} seeds found");
}
