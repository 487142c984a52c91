//! How many lines the server has, and how many it may have: a fifth of the Go that it replaces.
//!
//! Both are counted alike: lines of files, with comments and blank lines, without tests, without what is generated. Ours are reached
//! from the crates' roots through their modules, and nothing that only tests see is among them; tables of facts (`data/`) are not code. Go's were
//! counted in the modules of Kubernetes 1.36.3 (`zz_generated*`, `*generated*`, `*_test.go` and folders of tests left out), folder by folder as they are named below.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{Result, upstream::root};

/// The server is these two: the expressions in its definitions and policies are its own as well.
const CRATES: &[&str] = &["crates/windlass-server/src/lib.rs", "crates/windlass-cel/src/lib.rs"];

/// Folders of Go that the server stands for, and their lines.
const REPLACED: &[(&str, usize)] = &[
    ("k8s.io/apiserver/pkg: endpoints, registry, storage", 36_201),
    ("k8s.io/apiserver/pkg: authentication, authorization", 4_823),
    ("k8s.io/apiserver/pkg: admission/plugin/webhook, and serviceaccount of kubernetes/plugin/pkg/admission", 4_363),
    ("k8s.io/apiserver/pkg: cel", 10_775),
    ("k8s.io/kubernetes/pkg: serviceaccount, and auth of kubernetes/plugin/pkg", 5_583),
    ("k8s.io/kubernetes/pkg: apis", 58_702),
    ("k8s.io/kubernetes/pkg: registry", 36_606),
    ("k8s.io/kubernetes/pkg: printers", 3_838),
    ("k8s.io/apiextensions-apiserver/pkg: apiserver, controller, registry", 14_026),
    ("k8s.io/apiextensions-apiserver/pkg: apis", 7_599),
    ("k8s.io/apimachinery/pkg: util/managedfields, util/strategicpatch", 5_653),
    ("k8s.io/apimachinery/pkg: runtime/serializer", 3_756),
    (
        "k8s.io/apimachinery/pkg: api/validation, apis/meta/v1/validation, apis/meta/internalversion, util/validation",
        3_135,
    ),
    ("k8s.io/kube-openapi/pkg: validation", 9_788),
    ("k8s.io/kube-openapi/pkg: builder, builder3, handler, handler3", 2_116),
    ("sigs.k8s.io/structured-merge-diff", 10_018),
    ("github.com/google/cel-go: checker, common, ext, interpreter, and parser without what is generated", 36_627),
    ("go.etcd.io/etcd/server: storage/mvcc", 3_771),
];

/// One line of ours may stand for so many of Go.
const SHARE: usize = 5;

/// How many of the modules are named, the largest first.
const NAMED: usize = 12;

/// Counts, prints, and fails above the budget.
pub(crate) fn check() -> Result {
    let mut modules = BTreeMap::new();
    for file in CRATES {
        count(&root().join(file), None, &mut modules)?;
    }
    let lines = modules.values().sum::<usize>();
    let replaced = REPLACED.iter().map(|(_, lines)| lines).sum::<usize>();
    let budget = replaced / SHARE;
    println!("the API server: {lines} lines; the budget is {budget}, a fifth of {replaced} of Go");
    let mut modules: Vec<_> = modules.into_iter().collect();
    modules.sort_by_key(|(name, lines)| (std::cmp::Reverse(*lines), name.clone()));
    for (name, lines) in modules.iter().take(NAMED) {
        println!("  {lines:6} {name}");
    }
    match lines.checked_sub(budget) {
        None | Some(0) => Ok(()),
        Some(more) => Err(format!("the API server has {more} lines too many").into()),
    }
}

/// Adds the lines of a file, and of the modules that it declares, to those of the crate's module that they are in.
fn count(file: &Path, within: Option<&str>, modules: &mut BTreeMap<String, usize>) -> Result {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let source = Source::of(&text);
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let crate_name = file.ancestors().nth(2).and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = within.map_or_else(|| format!("{crate_name}::{stem}"), str::to_owned);
    *modules.entry(name).or_default() += source.lines;
    // The modules of a crate's root stand beside it, those of others in a folder of their name.
    let folder = if within.is_none() { file.with_file_name("") } else { file.with_extension("") };
    for module in source.modules {
        let path: PathBuf = folder.join(format!("{module}.rs"));
        let top = within.map_or_else(|| format!("{crate_name}::{module}"), str::to_owned);
        count(&path, Some(&top), modules)?;
    }
    Ok(())
}

/// What a file says, as formatted by rustfmt.
#[derive(Debug, Default, PartialEq, Eq)]
struct Source<'a> {
    lines: usize,
    /// That are declared here and stand in files of their own.
    modules: Vec<&'a str>,
}

impl<'a> Source<'a> {
    fn of(text: &'a str) -> Self {
        let mut source = Self::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let code = line.trim();
            if code.starts_with("#[cfg(test)]") {
                skip_item(line, &mut lines);
            } else {
                source.lines += 1;
                source.modules.extend(declared(code));
            }
        }
        source
    }
}

/// Goes past the item that an attribute stands before. One that has a body ends with a brace as far in as it began.
fn skip_item<'a>(attribute: &str, lines: &mut impl Iterator<Item = &'a str>) {
    let margin = &attribute[..attribute.len() - attribute.trim_start().len()];
    for line in lines {
        let Some(code) = line.strip_prefix(margin) else { continue };
        if code.ends_with([';', ',', '}']) && !code.starts_with([' ', '#', '/']) {
            return;
        }
    }
}

/// The module that a line declares.
fn declared(code: &str) -> Option<&str> {
    let name = code.strip_suffix(';')?.rsplit_once("mod ")?;
    let visible = name.0.trim_end();
    (visible.is_empty() || visible.starts_with("pub")).then_some(name.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_see_is_not_counted() {
        let text = "\
//! Words.

pub(crate) mod near; // a module
mod far;

#[cfg(test)]
mod tests;

/// More words.
fn one() {
    #[cfg(test)]
    two();
    #[cfg(test)]
    fn helper(
        of: usize,
    ) {
        of;
    }
    three()
}

#[cfg(test)]
impl One {
    fn four() {}
}

const LAST: usize = 1;
";
        let text = text.replace(" // a module", "");
        assert_eq!(Source::of(&text), Source { lines: 13, modules: vec!["near", "far"] });
    }

    #[test]
    fn every_module_of_the_crates_is_found() {
        for file in CRATES {
            let mut modules = BTreeMap::new();
            count(&root().join(file), None, &mut modules).unwrap();
            assert!(modules.values().sum::<usize>() > 1_000, "{file}: {modules:?}");
        }
    }
}
