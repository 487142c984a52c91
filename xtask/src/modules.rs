//! The module graph: the dependencies between the top-level modules of each crate.
//!
//! In layered crates, lib.rs lists the modules in the order of the data flow, and a module depends only on modules below
//! it. In acyclic crates, no modules form a cycle. In the others, at most [`LARGEST`] modules do. Tests do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    File, Item, ItemMod, ItemUse, UseTree,
    visit::{self, Visit},
};

use crate::Result;

/// The crates whose modules form layers.
const LAYERED: [&str; 18] = [
    "windlass-api",
    "windlass-cache",
    "windlass-cbor",
    "windlass-cel",
    "windlass-client",
    "windlass-decoders",
    "windlass-envtest",
    "windlass-etcd",
    "windlass-explore",
    "windlass-grpc",
    "windlass-import",
    "windlass-load",
    "windlass-manifests",
    "windlass-protobuf",
    "windlass-serve",
    "windlass-server",
    "windlass-storage",
    "windlass-views",
];

/// The crates without cycles among their modules, whose lib.rs follows the path of a change instead of the layers.
const ACYCLIC: [&str; 2] = ["windlass-queue", "windlass-runtime"];

/// The most modules that may form a cycle in the other crates.
const LARGEST: usize = 3;

/// The dependencies of each top-level module, in the order of lib.rs.
#[derive(Debug, Default)]
struct Modules {
    names: Vec<String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

/// Reads the sources of each crate and reports every violation.
pub(crate) fn check() -> Result {
    let mut crates: Vec<PathBuf> = fs::read_dir("crates")?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    crates.sort();
    let mut wrong = Vec::new();
    for path in &crates {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let modules = Modules::read(&path.join("src"))?;
        let found = match name {
            _ if LAYERED.contains(&name) => modules.upward(),
            _ if ACYCLIC.contains(&name) => modules.cycles_above(1),
            _ => modules.cycles_above(LARGEST),
        };
        wrong.extend(found.into_iter().map(|violation| format!("{name}: {violation}")));
    }
    if wrong.is_empty() {
        println!("module graph: {} crates, every dependency allowed", crates.len());
        return Ok(());
    }
    Err(format!("the module graph of ARCHITECTURE.md does not allow:\n  {}", wrong.join("\n  ")).into())
}

impl Modules {
    /// Reads the modules of a crate from its `src` folder.
    fn read(src: &Path) -> Result<Self> {
        let root = [src.join("lib.rs"), src.join("main.rs")].into_iter().find(|path| path.exists());
        let Some(root) = root else { return Ok(Self::default()) };
        let root = parse(&root)?;
        let mut modules = Self { names: declared(&root), edges: BTreeMap::new() };
        let exports = exports(&root, &modules.names);
        for path in sources(src)? {
            let place = path.strip_prefix(src)?.with_extension("");
            let place: Vec<String> = place.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let Some(top) = place.first().filter(|top| modules.names.contains(top)) else { continue };
            let mut uses = Uses { place: place.clone(), found: BTreeSet::new() };
            uses.visit_file(&parse(&path)?);
            let defined_in = |name: String| exports.get(&name).cloned().unwrap_or(name);
            let targets = uses.found.into_iter().map(defined_in);
            let targets = targets.filter(|target| target != top && modules.names.contains(target));
            modules.edges.entry(top.clone()).or_default().extend(targets);
        }
        Ok(modules)
    }

    /// The dependencies of modules on modules above them.
    fn upward(&self) -> Vec<String> {
        let place = |name: &String| self.names.iter().position(|known| known == name);
        let all = self.edges.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (from, to)));
        all.filter(|(from, to)| place(to) < place(from)).map(|(from, to)| format!("{from} → {to}")).collect()
    }

    /// The cycles with more modules than `limit`.
    fn cycles_above(&self, limit: usize) -> Vec<String> {
        let reach: BTreeMap<&String, BTreeSet<&String>> =
            self.names.iter().map(|name| (name, self.reachable(name))).collect();
        let mut cycles = BTreeSet::new();
        for (name, reached) in &reach {
            let cycle: Vec<&str> =
                reached.iter().filter(|other| reach[**other].contains(name)).map(|other| other.as_str()).collect();
            if cycle.len() > limit {
                cycles.insert(cycle.join(", "));
            }
        }
        cycles.into_iter().map(|cycle| format!("a cycle of {cycle}")).collect()
    }

    fn reachable(&self, from: &String) -> BTreeSet<&String> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(name) = open.pop() {
            for target in self.edges.get(name).into_iter().flatten() {
                if reached.insert(target) {
                    open.push(target);
                }
            }
        }
        reached
    }
}

/// The first segments of the paths in a file, relative to the crate.
struct Uses {
    /// The module path of the file.
    place: Vec<String>,
    found: BTreeSet<String>,
}

impl Uses {
    /// Adds a path, if it leads to another top-level module.
    fn add(&mut self, path: &[String]) {
        let ups = path.iter().take_while(|segment| *segment == "super").count();
        let target = match path.first().map(String::as_str) {
            Some("crate") => path.get(1),
            Some("super") if ups == self.place.len() => path.get(ups),
            _ => None,
        };
        self.found.extend(target.cloned());
    }

    fn add_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.add(&with(name.ident.to_string())),
            UseTree::Rename(rename) => self.add(&with(rename.ident.to_string())),
            UseTree::Glob(_) => self.add(before),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(before, item)),
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&[], &item.tree);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        self.place.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.place.pop();
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&segments);
        visit::visit_path(self, path);
    }
}

/// The modules that a file declares, without those of tests.
fn declared(file: &File) -> Vec<String> {
    let modules = file.items.iter().filter_map(|item| match item {
        Item::Mod(module) if !is_test(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    });
    modules.collect()
}

/// The modules that define the names which lib.rs re-exports.
fn exports(root: &File, modules: &[String]) -> BTreeMap<String, String> {
    fn collect(module: Option<&str>, tree: &UseTree, modules: &[String], found: &mut BTreeMap<String, String>) {
        let mut insert = |name: String| {
            if let Some(module) = module {
                found.insert(name, module.to_owned());
            }
        };
        match tree {
            UseTree::Path(path) => {
                let name = path.ident.to_string();
                let module = module.or_else(|| modules.iter().find(|known| **known == name).map(String::as_str));
                collect(module, &path.tree, modules, found);
            }
            UseTree::Name(name) => insert(name.ident.to_string()),
            UseTree::Rename(rename) => insert(rename.rename.to_string()),
            UseTree::Group(group) => group.items.iter().for_each(|item| collect(module, item, modules, found)),
            UseTree::Glob(_) => {}
        }
    }
    let mut found = BTreeMap::new();
    for item in &root.items {
        if let Item::Use(item) = item {
            collect(None, &item.tree, modules, &mut found);
        }
    }
    found
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let is_test = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    };
    attributes.iter().any(is_test)
}

/// The Rust files under a folder, without those of tests.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

fn parse(path: &Path) -> Result<File> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(syn::parse_file(&text).map_err(|error| format!("cannot parse {}: {error}", path.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(names: &[&str], edges: &[(&str, &str)]) -> Modules {
        let mut modules =
            Modules { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Modules::default() };
        for (from, to) in edges {
            modules.edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        modules
    }

    fn uses(place: &[&str], text: &str) -> Vec<String> {
        let place = place.iter().map(|part| (*part).to_owned()).collect();
        let mut uses = Uses { place, found: BTreeSet::new() };
        uses.visit_file(&syn::parse_str(text).unwrap());
        uses.found.into_iter().collect()
    }

    #[test]
    fn dependency_on_module_above_is_rejected() {
        let names = ["server", "http", "codec"];
        assert!(modules(&names, &[("server", "http"), ("http", "codec")]).upward().is_empty());
        assert_eq!(modules(&names, &[("codec", "http")]).upward(), ["codec → http"]);
    }

    #[test]
    fn cycle_of_four_modules_is_rejected() {
        let names = ["a", "b", "c", "d"];
        let three = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")];
        assert!(modules(&names, &three).cycles_above(LARGEST).is_empty());
        let four = [&three[..], &[("d", "a")]].concat();
        assert_eq!(modules(&names, &four).cycles_above(LARGEST), ["a cycle of a, b, c, d"]);
    }

    #[test]
    fn uses_and_inline_paths_are_found() {
        let text =
            "use crate::{codec::Format, state::{self, State}}; fn f() { crate::table::row(); super::super::wire() }";
        assert_eq!(uses(&["http", "route"], text), ["codec", "state", "table", "wire"]);
        assert_eq!(uses(&["http"], "use super::codec; use self::body::Body; mod tests { use super::x; }"), ["codec"]);
        assert_eq!(uses(&["http"], "#[cfg(test)] mod tests { use crate::server; }"), [""; 0]);
    }

    #[test]
    fn exported_names_lead_to_their_modules() {
        let root = syn::parse_str("mod error; mod tls; pub use self::{error::Error, tls::{Config as Tls}};").unwrap();
        let exports = exports(&root, &declared(&root));
        assert_eq!((exports["Error"].as_str(), exports["Tls"].as_str()), ("error", "tls"));
    }
}
