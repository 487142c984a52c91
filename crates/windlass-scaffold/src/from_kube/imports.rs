//! Imports from kube-rs and schemars, after everything else is rewritten.

use std::{collections::BTreeSet, path::Path};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Item, ItemUse, UseTree, spanned::Spanned as _, visit::Visit};

use super::{
    Steps,
    edits::{Edits, whole_lines},
};
use crate::{Error, source::parse};

/// Removes imports that were used before the migration and no longer are, and replaces those of rewritten items.
pub(super) fn rewritten(path: &Path, before: &str, after: &str, steps: &Steps) -> Result<String, Error> {
    let (old, new) = (parse(path, before)?, parse(path, after)?);
    let [old, used] = [&old, &new].map(names);
    let mut uses = Uses(Vec::new());
    uses.visit_file(&new);
    let mut edits = Edits::default();
    for item in uses.0 {
        let mut pruned = Pruned { steps, old: &old, used: &used, added: Vec::new(), removed: false };
        let root = item.tree.to_token_stream().to_string();
        if !["kube", "schemars"].iter().any(|name| root.starts_with(name)) {
            continue;
        }
        let tree = pruned.tree(&item.tree, &mut Vec::new());
        if !pruned.removed {
            continue;
        }
        let visibility = match &item.vis {
            syn::Visibility::Inherited => String::new(),
            written => format!("{} ", &after[written.span().byte_range()]),
        };
        let mut lines: Vec<_> = tree.into_iter().map(|tree| format!("{visibility}use {tree};")).collect();
        lines.extend(pruned.added.iter().map(|import| format!("{visibility}use {import};")));
        let range = item.span().byte_range();
        if lines.is_empty() {
            edits.replace(whole_lines(after, range), "");
        } else {
            edits.replace(range, lines.join("\n"));
        }
    }
    Ok(edits.apply(after))
}

struct Pruned<'p> {
    steps: &'p Steps,
    /// The names in the old text, without those in imports.
    old: &'p Mentioned,
    /// The names in the new text.
    used: &'p Mentioned,
    added: Vec<String>,
    removed: bool,
}

impl Pruned<'_> {
    /// Returns the rest of a tree as text.
    fn tree(&mut self, tree: &UseTree, path: &mut Vec<String>) -> Option<String> {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                let rest = self.tree(&inner.tree, path);
                path.pop();
                rest.map(|rest| format!("{}::{rest}", inner.ident))
            }
            UseTree::Group(group) => {
                let kept: Vec<_> = group.items.iter().filter_map(|item| self.tree(item, path)).collect();
                match kept.as_slice() {
                    [] => None,
                    [one] if one != "self" => Some(one.clone()),
                    all => Some(format!("{{{}}}", all.join(", "))),
                }
            }
            UseTree::Name(name) => {
                let ident = name.ident.to_string();
                let local = if ident == "self" { path.last().cloned().unwrap_or_default() } else { ident.clone() };
                self.leaf(path, &ident, &local, "").then_some(ident)
            }
            UseTree::Rename(rename) => {
                let (ident, local) = (rename.ident.to_string(), rename.rename.to_string());
                let alias = format!(" as {local}");
                self.leaf(path, &ident, &local, &alias).then(|| format!("{ident}{alias}"))
            }
            UseTree::Glob(_) => Some("*".to_owned()),
        }
    }

    /// Reports whether an import stays. Adds its replacement.
    fn leaf(&mut self, path: &[String], ident: &str, local: &str, alias: &str) -> bool {
        let mut full = path.to_vec();
        if ident != "self" {
            full.push(ident.to_owned());
        }
        let full = full.join("::").replace("kube_runtime::", "kube::runtime::");
        let replacement = match full.as_str() {
            _ if !self.steps.controllers => None,
            "kube::runtime::controller::Action" => Some("windlass::Action".to_owned()),
            _ => full.strip_prefix("kube::runtime::finalizer").map(|rest| format!("windlass_kube::finalizer{rest}")),
        };
        if let Some(replacement) = replacement {
            self.added.push(format!("{replacement}{alias}"));
            self.removed = true;
            return false;
        }
        // The functions of the trait, which is not named where they are called.
        const CALLS: [&str; 4] = ["crd", "crd_name", "shortnames", "api_resource"];
        let is_unused = match ident {
            "CustomResourceExt" => {
                self.old.within.contains("crd") && !CALLS.iter().any(|call| self.used.within.contains(*call))
            }
            _ => self.old.first.contains(local) && !self.used.first.contains(local),
        };
        self.removed |= is_unused;
        !is_unused
    }
}

/// The names of a file, without those in imports.
#[derive(Default)]
struct Mentioned {
    /// The names that an import can mean.
    first: BTreeSet<String>,
    /// The names behind `::` and `.`.
    within: BTreeSet<String>,
}

fn names(file: &syn::File) -> Mentioned {
    let mut names = Mentioned::default();
    let mut rest = file.clone();
    without_uses(&mut rest.items);
    collect(rest.to_token_stream(), &mut names);
    names
}

fn without_uses(items: &mut Vec<Item>) {
    items.retain(|item| !matches!(item, Item::Use(_)));
    for item in items {
        if let Item::Mod(syn::ItemMod { content: Some((_, items)), .. }) = item {
            without_uses(items);
        }
    }
}

fn collect(tokens: TokenStream, names: &mut Mentioned) {
    let (mut is_within, mut is_joint) = (false, false);
    for token in tokens {
        match &token {
            TokenTree::Ident(ident) if is_within => drop(names.within.insert(ident.to_string())),
            TokenTree::Ident(ident) => drop(names.first.insert(ident.to_string())),
            TokenTree::Group(group) => collect(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        let punct = match &token {
            TokenTree::Punct(punct) => Some((punct.as_char(), punct.spacing())),
            _ => None,
        };
        // The first colon of `::` is joint; a colon before a type is not.
        is_within = matches!(punct, Some(('.', Spacing::Alone))) || (is_joint && matches!(punct, Some((':', _))));
        is_joint = matches!(punct, Some((':', Spacing::Joint)));
    }
}

/// Collects the imports of a file, also those of its inner modules.
struct Uses(Vec<ItemUse>);

impl Visit<'_> for Uses {
    fn visit_item_use(&mut self, item: &ItemUse) {
        self.0.push(item.clone());
    }
}
