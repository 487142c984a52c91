//! The Rust files of a project.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::Span;
use syn::{Expr, Token, UseTree, punctuated::Punctuated, visit::Visit};

use super::names::Names;
use crate::{Error, source::parse};

/// A Rust file.
pub(super) struct Source {
    /// The path, relative to the project.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) file: syn::File,
    pub(super) names: Names,
}

impl Source {
    pub(super) fn of(path: PathBuf, text: String) -> Result<Self, Error> {
        let file = parse(&path, &text)?;
        let mut names = Names::default();
        Imports(&mut names).visit_file(&file);
        Ok(Self { path, text, file, names })
    }

    pub(super) fn text_of(&self, span: Span) -> &str {
        &self.text[span.byte_range()]
    }
}

/// Reads the Rust files of a project, sorted by path. Hidden folders, folders with another Cargo.toml and the build
/// output are skipped.
pub(super) fn read(folder: &Path) -> Result<Vec<Source>, Error> {
    let mut paths = Vec::new();
    collect(folder, Path::new(""), &mut paths)?;
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(folder.join(&path));
        let text = text.map_err(|source| Error::File { doing: "reading", path: path.clone(), source })?;
        Source::of(path, text)
    };
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, within: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::File { doing: "reading", path: folder.join(within), source };
    for entry in fs::read_dir(folder.join(within)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (name, path) = (entry.file_name(), within.join(entry.file_name()));
        if entry.file_type().map_err(failed)?.is_dir() {
            let is_other = name == "target" || name.to_string_lossy().starts_with('.');
            if !is_other && !entry.path().join("Cargo.toml").is_file() {
                collect(folder, &path, paths)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns the arguments of a macro, if they are expressions, as those of `println!`.
pub(super) fn arguments(call: &syn::Macro) -> Vec<Expr> {
    let arguments = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
    arguments.into_iter().flatten().collect()
}

/// Collects the imports of a file, also those of its inner modules.
struct Imports<'n>(&'n mut Names);

impl Visit<'_> for Imports<'_> {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.tree(&item.tree, &mut Vec::new());
    }
}

impl Imports<'_> {
    fn tree(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.tree(&inner.tree, path);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, path)),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = path.last().cloned() {
                    self.0.import(last, path.clone());
                }
            }
            UseTree::Name(name) => self.leaf(name.ident.to_string(), name.ident.to_string(), path),
            UseTree::Rename(rename) => self.leaf(rename.rename.to_string(), rename.ident.to_string(), path),
            UseTree::Glob(_) => {}
        }
    }

    fn leaf(&mut self, name: String, ident: String, path: &[String]) {
        let mut full = path.to_vec();
        full.push(ident);
        self.0.import(name, full);
    }
}
