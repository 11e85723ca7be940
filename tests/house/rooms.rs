//! Where the methods of the engine's two states are: `Core`, without types, and `Engine`, with
//! them. Their private fields are in the folders that own them, which rustc sees to.

use crate::sources::library;
use std::collections::BTreeMap;
use syn::{ImplItem, Item, Type};

/// The name of the type that an `impl` block without a trait is of.
fn owner(item: &Item) -> Option<(String, usize)> {
    let Item::Impl(block) = item else { return None };
    let Type::Path(path) = &*block.self_ty else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    let methods = block.items.iter().filter(|it| matches!(it, ImplItem::Fn(_))).count();
    block.trait_.is_none().then_some((name, methods))
}

#[test]
fn methods_of_the_states_by_room() {
    let homes = [("Core", "engine/maintenance"), ("Engine", "engine/typed.rs")];
    let mut by_room = BTreeMap::new();
    for source in library().iter().filter(|it| it.file.starts_with("engine/")) {
        let room = match source.file.matches('/').count() {
            1 => source.file.as_str(),
            _ => source.file.rsplit_once('/').expect("it has a folder").0,
        };
        for (name, methods) in syn::parse_file(&source.text).unwrap().items.iter().filter_map(owner)
        {
            if homes.iter().any(|home| home.0 == name) {
                *by_room.entry((name, room.to_owned())).or_insert(0) += methods;
            }
        }
    }
    for (name, home) in homes {
        let of = by_room.iter().filter(|it| it.0.0 == name);
        let (mut inside, mut outside) = (0, 0);
        for ((_, room), methods) in of {
            eprintln!("{name:8} {room:24} {methods:4}");
            *if room == home { &mut inside } else { &mut outside } += methods;
        }
        eprintln!("{name:8} {inside} methods in {home}, {outside} outside of it");
        assert!(inside > 3 && outside > 3, "the test does not see them");
    }
}
