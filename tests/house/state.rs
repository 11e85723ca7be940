//! Which rooms of the engine use which fields of its state, `Core`.

use crate::sources::{Source, library};
use std::collections::{BTreeMap, BTreeSet};

/// Fields that any room may use, and why.
const SHARED: [(&str, &str); 8] = [
    ("pool", "every room goes from an id to its node"),
    ("index", "reads search it, writes lock its buckets, passes grow and sweep it"),
    ("ticker", "every room reads the clock"),
    ("lifetimes", "reads, writes and hooks compute deadlines"),
    ("flights", "every write looks at it under its bucket's lock"),
    ("recorder", "every room counts"),
    ("max_capacity", "a write that is too heavy is refused before a pass hears of it"),
    ("hot", "the words that every read looks at"),
];

/// Fields that belong to a room, with the folders in which they may be named.
const OWNED: [(&str, &[&str]); 3] = [
    // `audit` recounts everything.
    ("upkeep", &["engine/core/", "engine/maintenance/", "engine/audit.rs"]),
    ("notices", &["engine/core/", "engine/delivery/", "engine/audit.rs"]),
    ("is_bounded", &["engine/core/"]),
];

/// The fields of a struct, by its text.
fn fields(source: &Source, name: &str) -> BTreeSet<String> {
    let syntax = syn::parse_file(&source.text).unwrap();
    let found = syntax.items.iter().find_map(|item| match item {
        syn::Item::Struct(found) if found.ident == name => Some(found),
        _ => None,
    });
    let found = found.unwrap_or_else(|| panic!("{}: no struct {name}", source.file));
    found.fields.iter().map(|field| field.ident.as_ref().unwrap().to_string()).collect()
}

/// Where `.field` follows `core` or, in the core's own methods, `self`.
fn uses(source: &Source, field: &str) -> usize {
    let own = if source.text.contains("impl Core") { "self" } else { "core" };
    let owners = ["core", "core()", own];
    let wanted = format!(".{field}");
    source
        .text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|code| code.match_indices(&wanted).map(move |(at, _)| (code, at)))
        .filter(|(code, at)| {
            let after = code[at + 1 + field.len()..].chars().next();
            let is_whole =
                after.is_none_or(|next| !next.is_alphanumeric() && next != '_' && next != '(');
            is_whole && owners.iter().any(|owner| code[..*at].ends_with(owner))
        })
        .count()
}

#[test]
fn fields_stay_in_their_rooms() {
    let sources = library();
    let core =
        sources.iter().find(|it| it.file == "engine/core/shared.rs").expect("the core is there");
    let fields = fields(core, "Core");
    let known: BTreeSet<String> = SHARED
        .iter()
        .map(|it| it.0)
        .chain(OWNED.iter().map(|it| it.0))
        .map(str::to_owned)
        .collect();
    assert_eq!(fields, known, "each field is shared, with a reason, or a room's own");
    let mut outside = BTreeMap::new();
    for source in sources.iter().filter(|it| !it.file.starts_with("whitebox/")) {
        for field in &fields {
            let count = uses(source, field);
            let room = source.file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            if count > 0 && room != "engine/core" {
                *outside.entry((field.clone(), room)).or_insert(0) += count;
            }
            if let Some((_, rooms)) = OWNED.iter().find(|it| it.0 == field) {
                let is_at_home = rooms.iter().any(|home| source.file.starts_with(home));
                assert!(count == 0 || is_at_home, "src/{} uses `{field}`", source.file);
            }
        }
    }
    for ((field, room), count) in &outside {
        eprintln!("{field:14} {room:20} {count}");
    }
    assert!(outside.values().sum::<usize>() > 50, "the test does not see them");
}
