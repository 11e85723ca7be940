//! Every cache that a test makes is audited at its end: it is made as the argument of `audited`, of
//! `tasks_audited` if it is one for tasks, or of `loading_audited` if it has a stored loader. Their
//! guards do so. Or it stands in the table below with a reason. The test reads the tests.

use crate::sources::{files, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Caches that are not made as the argument of `audited`: file, function, how many, why.
const OTHERS: &[(&str, &str, usize, &str)] = &[
    // The helpers that audit in a way of their own.
    ("common/mod.rs", "tested", 1, "`Tested` audits when it is dropped"),
    ("common/fuse.rs", "new", 1, "`Subject::check` audits; it is the end of each case"),
    ("callbacks/refreshing.rs", "begun", 1, "`end` calls `Subject::check`"),
    ("tasks/fused.rs", "new", 1, "`Fused::check` calls `Subject::check`"),
    ("model/harness/subject.rs", "build", 1, "the driver audits before and after the close"),
    // Measured, and nothing else may be in memory.
    ("resident.rs", "small_values", 1, MEASURED),
    ("resident.rs", "values_of_four_kilobytes_behind_an_arc", 1, MEASURED),
    ("resident.rs", "writes_under_a_view", 1, MEASURED),
    // They go on until the process ends.
    ("common/neighbour.rs", "hold_guards", 1, "its thread never ends"),
    ("common/neighbour.rs", "make_garbage", 1, "its thread never ends"),
    ("common/neighbour.rs", "start_threads", 1, "its thread never ends"),
    // Nothing drops a static.
    (
        "callbacks/listener.rs",
        "removals_that_it_causes_are_announced_after_it_has_returned",
        1,
        AUDITS,
    ),
    ("api/events.rs", "a_listener_may_call_anything_on_the_cache", 1, AUDITS),
    // Somebody else than the test drops the last handle, with work left to do: an audit would do
    // the work.
    (
        "callbacks/last_handles.rs",
        "the_last_handle_is_dropped_by_the_destructor_of_a_thread_local",
        1,
        LAST,
    ),
    ("callbacks/last_handles.rs", "the_last_handle_is_dropped_by_another_cache", 2, LAST),
    ("callbacks/last_handles.rs", "the_last_handle_is_dropped_on_the_schedulers_thread", 1, LAST),
    (
        "real_time/scheduled.rs",
        "the_last_handle_may_be_dropped_by_the_listener_on_the_background_thread",
        1,
        LAST,
    ),
    (
        "memory/reclaim.rs",
        "a_thousand_caches_leave_nothing_behind",
        1,
        "audits some; others end in disorder",
    ),
    (
        "callbacks/reentrancy.rs",
        "the_last_handle_may_be_dropped_by_a_value_of_the_cache",
        1,
        AUDITS,
    ),
    (
        "api/load_guards.rs",
        "a_guard_keeps_its_cache_and_gives_a_lifetime_if_it_has_one",
        1,
        "a guard is its last handle",
    ),
    // None is made.
    ("tasks/received.rs", "a_receiver_and_a_listener_exclude_each_other", 1, "refused"),
    ("api/refresh/renewals.rs", "a_reload_needs_a_stored_loader", 3, "refused"),
    ("api/extremes.rs", "builders_take_what_makes_sense_and_name_what_does_not", 2, "refused"),
];

const AUDITS: &str = "audits by a call of its own";
const MEASURED: &str = "its process has nothing but this cache";
const LAST: &str = "its last handle is dropped where it cannot be audited";

/// Every call that makes a cache ends in one of these. (On a line of `runtime`, it makes that.)
const MAKERS: [&str; 6] = [
    ".build()",
    ".try_build()",
    ".build_with_hasher(",
    ".build_with_loader(",
    ".try_build_with_loader(",
    "Cache::new(",
];

/// The tests and what they share, without comments; but not what must not compile, not the models,
/// whose caches cannot be audited in a destructor (see below), and not this file.
fn sources() -> Vec<(String, String)> {
    let tests = root().join("tests");
    let name =
        |path: &Path| path.strip_prefix(&tests).unwrap().to_str().unwrap().replace('\\', "/");
    let others = ["compile_fail/", "loom/", "house/audits.rs"];
    files(&tests, "rs")
        .iter()
        .map(|path| (name(path), code(path)))
        .filter(|(name, _)| !others.iter().any(|other| name.starts_with(other)))
        .collect()
}

fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap()).collect();
    lines.join("\n").replace("Cache::<u32, u32>::", "Cache::")
}

/// What audits a cache, if what ends here is its argument.
fn auditor(before: &str) -> Option<&str> {
    let mut closed = 0;
    for (at, c) in before.char_indices().rev() {
        match c {
            ')' | ']' | '}' => closed += 1,
            '(' | '[' | '{' if closed > 0 => closed -= 1,
            '(' => {
                let called = &before[..at];
                let types = called.rfind("::<").filter(|_| called.ends_with('>'));
                let called = &called[..types.unwrap_or(called.len())];
                let name = called.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
                let auditors =
                    ["audited", "tasks_audited", "loading_audited", "tasks_loading_audited"];
                return auditors.contains(&name).then_some(name);
            }
            '[' | '{' | ';' if closed == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The name of the function that the end of `before` is in.
fn function(before: &str) -> &str {
    let at = before.rfind("fn ").expect("calls are in functions") + "fn ".len();
    before[at..].split(['(', '<']).next().unwrap()
}

#[test]
fn every_test_ends_in_an_audit() {
    let files = sources();
    let (mut audited, mut for_tasks, mut others) = (0, 0, BTreeMap::new());
    for (file, code) in &files {
        for (at, _) in MAKERS.iter().flat_map(|maker| code.match_indices(maker)) {
            let line = code[..at].rsplit('\n').next().unwrap();
            match auditor(&code[..at]) {
                None if line.contains("runtime") => {}
                Some("audited" | "loading_audited") => audited += 1,
                Some(_) => for_tasks += 1,
                None => *others.entry((file.as_str(), function(&code[..at]))).or_insert(0) += 1,
            }
        }
    }
    let listed: BTreeMap<_, _> =
        OTHERS.iter().map(|&(file, function, times, _)| ((file, function), times)).collect();
    assert_eq!(others, listed, "caches that nobody audits, and those that may be so");
    assert!(audited > 70, "only {audited} caches found: the test does not see them");
    assert!(for_tasks > 8, "only {for_tasks} caches for tasks found: the test does not see them");
    for (file, function, _, why) in OTHERS.iter().filter(|other| other.3 == AUDITS) {
        let (_, code) = files.iter().find(|(name, _)| name == file).unwrap();
        let body = code.split_once(&format!("fn {function}(")).unwrap().1;
        let body = body.split("\nfn ").next().unwrap();
        assert!(body.contains(".audit()"), "{file}: {function} {why}?");
    }
}

/// A model's threads and memory have to be gone by an order of their own, so it audits by `finish`,
/// which `settle` calls.
#[test]
fn every_model_of_the_engine_ends_in_an_audit() {
    let code = |file: &str| code(&root().join("tests/loom").join(file));
    let (engine, outcomes) = (code("engine.rs"), code("outcomes.rs"));
    let models: Vec<&str> =
        [&engine, &outcomes].into_iter().flat_map(|code| code.split("#[test]").skip(1)).collect();
    assert!(models.len() > 14, "only {} models found", models.len());
    for model in models {
        let ends = ["settle(", "finish(", "race_for("].iter().any(|end| model.contains(end));
        assert!(ends, "no audit: {model}");
    }
}
