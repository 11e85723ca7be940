//! The sources of the library, and the paths that they name.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// A path as it is written, from the root of the crate: `["engine", "core", "Core"]`.
pub type Names = Vec<String>;

pub struct Source {
    /// Relative to `src`: `engine/base/mod.rs`.
    pub file: String,
    /// The module that it is: `["engine", "core"]`.
    pub module: Names,
    pub text: String,
    /// Every path that begins with `crate`, `super` or `self`, re-exports of children left out.
    pub uses: BTreeSet<Names>,
    /// Names that the module re-exports from a child, with the child.
    pub reexports: Vec<(String, String)>,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files with this extension in a folder and below it.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().unwrap_or_default() == extension {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The library's sources.
pub fn library() -> Vec<Source> {
    let src = root().join("src");
    let sources: Vec<Source> = files(&src, "rs").iter().map(|path| read(&src, path)).collect();
    assert!(sources.len() > 80, "only {} sources found", sources.len());
    assert!(sources.iter().map(|it| it.uses.len()).sum::<usize>() > 1000, "paths are not seen");
    sources
}

fn read(src: &Path, path: &Path) -> Source {
    let file = path.strip_prefix(src).unwrap().to_str().unwrap().replace('\\', "/");
    let mut module: Names = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    let text = fs::read_to_string(path).unwrap();
    let syntax = syn::parse_file(&text).unwrap_or_else(|why| panic!("{file}: {why}"));
    let mut collector = Collector { module: module.clone(), ..Collector::default() };
    collector.visit_file(&syntax);
    let Collector { uses, reexports, .. } = collector;
    Source { file, module, text, uses, reexports }
}

#[derive(Default)]
struct Collector {
    module: Names,
    uses: BTreeSet<Names>,
    reexports: Vec<(String, String)>,
}

impl Collector {
    fn add(&mut self, path: &[String]) {
        let mut base = match path[0].as_str() {
            "crate" => Names::new(),
            "super" | "self" => self.module.clone(),
            _ => return,
        };
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "self" | "crate" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            rest = others;
        }
        base.extend(rest.iter().cloned());
        self.uses.insert(base);
    }

    fn add_tree(&mut self, prefix: &mut Names, tree: &syn::UseTree, found: &mut Vec<Names>) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_tree(prefix, &path.tree, found);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_tree(prefix, item, found));
            }
            leaf => {
                let name = match leaf {
                    syn::UseTree::Name(name) => Some(name.ident.to_string()),
                    syn::UseTree::Rename(rename) => Some(rename.ident.to_string()),
                    _ => None,
                };
                found.push(prefix.iter().cloned().chain(name).collect());
            }
        }
    }

    /// Paths inside a macro's tokens.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let mut path = Vec::new();
            while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
                path.push(ident.to_string());
                at += 1;
                let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
                if !(is_colon(at) && is_colon(at + 1)) {
                    break;
                }
                at += 2;
            }
            if path.len() > 1 {
                self.add(&path);
            } else if path.is_empty() {
                if let TokenTree::Group(group) = &tokens[at] {
                    self.scan(group.stream());
                }
                at += 1;
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        self.add_tree(&mut Vec::new(), &item.tree, &mut found);
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        for path in found {
            // `pub use child::Name`, `pub use self::child::Name`
            let local: &[String] = if path[0] == "self" { &path[1..] } else { &path };
            let foreign = ["crate", "super", "std", "core"].contains(&path[0].as_str());
            if is_public && !foreign && local.len() > 1 {
                let last = local[local.len() - 1].clone();
                self.reexports.push((last, local[0].clone()));
            } else {
                self.add(&path);
                // A child's name without `self`.
                let own: Names =
                    std::iter::once("self".to_owned()).chain(path.iter().cloned()).collect();
                if !foreign && path[0] != "self" {
                    self.add(&own);
                }
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|it| it.ident.to_string()).collect();
        self.add(&names);
        if names.len() == 1 {
            // A re-exported name, or one of this module's own.
            self.uses.insert(self.module.iter().cloned().chain(names).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.scan(item.mac.tokens.clone());
        visit::visit_item_macro(self, item);
    }
}
