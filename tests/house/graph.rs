//! Within each folder of the library the files use each other in one direction only.

use crate::sources::{Names, Source, library};
use std::collections::{BTreeMap, BTreeSet};

/// Who uses whom among the parts of a folder: its files, its folders, and `mod.rs` itself as "".
type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The part of `folder` that a path leads to, if it leads there. `parts` are the folder's modules.
fn part<'a>(
    path: &'a [String],
    folder: &[String],
    parts: &BTreeSet<&'a str>,
    reexports: &'a [(String, String)],
) -> Option<&'a str> {
    let rest = path.strip_prefix(folder)?;
    let first = rest.first()?.as_str();
    if parts.contains(first) {
        return Some(first);
    }
    let reexported = reexports.iter().find(|(name, _)| name == first);
    Some(reexported.map_or("", |(_, child)| child.as_str()))
}

fn uses_within(folder: &[String], sources: &[Source]) -> Uses {
    let own = sources.iter().find(|source| source.module == folder);
    let reexports = own.map_or(&[][..], |own| &own.reexports);
    let inside = |source: &&Source| source.module.starts_with(folder);
    let inside: Vec<&Source> = sources.iter().filter(inside).collect();
    let name =
        |source: &Source| source.module.get(folder.len()).map_or("", String::as_str).to_owned();
    let names: BTreeSet<String> = inside.iter().map(|source| name(source)).collect();
    let parts: BTreeSet<&str> =
        names.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    let mut found = Uses::new();
    for source in inside {
        let user = name(source);
        for path in &source.uses {
            let is_local =
                path.len() == source.module.len() + 1 && path.starts_with(&source.module);
            let Some(used) = part(path, folder, &parts, reexports) else { continue };
            // A name of this file's own, not a path.
            if used.is_empty() && is_local {
                continue;
            }
            if used != user {
                let example = format!("{}: {}", source.file, path.join("::"));
                found
                    .entry(user.clone())
                    .or_default()
                    .entry(used.to_owned())
                    .or_default()
                    .insert(example);
            }
        }
    }
    found
}

/// Whether `to` can be reached from `from`.
fn reaches(uses: &Uses, from: &str, to: &str, seen: &mut BTreeSet<String>) -> bool {
    uses.get(from)
        .into_iter()
        .flat_map(BTreeMap::keys)
        .any(|next| next == to || (seen.insert(next.clone()) && reaches(uses, next, to, seen)))
}

/// The uses that are part of a circle, one line each.
fn circles(folder: &[String], uses: &Uses) -> Vec<String> {
    let mut found = Vec::new();
    for (user, all) in uses {
        for (used, examples) in all {
            if reaches(uses, used, user, &mut BTreeSet::new()) {
                let show =
                    |part: &str| if part.is_empty() { "mod.rs".into() } else { part.to_owned() };
                let first = examples.first().map_or("", String::as_str);
                let folder = folder.join("/");
                found.push(format!("{folder}/: {} → {} ({first})", show(user), show(used)));
            }
        }
    }
    found
}

#[test]
fn no_folder_has_a_circle() {
    let sources = library();
    let folders: BTreeSet<Names> = sources
        .iter()
        .filter(|source| source.file.contains('/'))
        .map(|source| source.file.split('/').rev().skip(1).map(str::to_owned).collect::<Names>())
        .map(|folder| folder.into_iter().rev().collect())
        .collect();
    assert!(folders.len() > 12, "{folders:?}");
    let found: Vec<String> =
        folders.iter().flat_map(|folder| circles(folder, &uses_within(folder, &sources))).collect();
    assert!(found.is_empty(), "circles:\n{}", found.join("\n"));
    let edges: usize = folders
        .iter()
        .map(|folder| uses_within(folder, &sources).values().map(BTreeMap::len).sum::<usize>())
        .sum();
    assert!(edges > 100, "only {edges} uses found: the test does not see them");
}

/// The test can fail.
#[test]
fn a_circle_is_seen() {
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (user, used) in pairs {
            let all = uses.entry((*user).to_owned()).or_default();
            all.entry((*used).to_owned()).or_default().insert("here".to_owned());
        }
        uses
    };
    assert_eq!(circles(&[], &uses(&[("a", "b"), ("b", "c"), ("a", "c")])), Vec::<String>::new());
    assert_eq!(circles(&[], &uses(&[("a", "b"), ("b", "c"), ("c", "b")])).len(), 2);
}
