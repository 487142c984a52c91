//! How many lines the server has, and how many it may have: a fifth of the Go that it replaces.
//!
//! What is counted is what somebody has to read to know what the program does: lines of code, reached from the crate's root
//! through its modules; no comments, no blank lines, nothing that only tests see. Tables of facts (`data/`) are not code. The Go figures are
//! of whole files without tests, comments and blank lines included, so that the comparison says a little more for us than for Go: of Go's lines about
//! two thirds are code.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{Result, upstream::root};

/// Something of ours, and the Go that it replaces.
struct Part {
    name: &'static str,
    /// Roots of crates.
    crates: &'static [&'static str],
    /// Lines of the real one.
    replaced: &'static [(&'static str, usize)],
}

const PARTS: &[Part] = &[
    Part {
        name: "the API server",
        crates: &["crates/windlass-server/src/lib.rs", "crates/windlass-cel/src/lib.rs"],
        replaced: &[
            ("endpoints, registry and storage", 34_900),
            ("structured merge and diff", 9_000),
            ("managed fields", 2_800),
            ("strategic merge patch", 2_800),
            ("API extensions", 9_100),
            ("rules", 10_800),
            ("defaults, validation and strategies", 60_000),
            ("printers", 3_500),
        ],
    },
    Part {
        name: "the controllers",
        crates: &["crates/windlass-controllers/src/lib.rs"],
        replaced: &[("controllers of workloads, namespaces, accounts, endpoints, garbage", 28_000)],
    },
];

/// One line of ours may stand for so many of Go.
const SHARE: usize = 5;

/// How many of the modules are named, the largest first.
const NAMED: usize = 12;

/// Counts, prints, and fails above the budget.
pub(crate) fn check() -> Result {
    let mut above = Vec::new();
    for part in PARTS {
        let mut modules = BTreeMap::new();
        for file in part.crates {
            count(&root().join(file), None, &mut modules)?;
        }
        let (lines, replaced) =
            (modules.values().sum::<usize>(), part.replaced.iter().map(|(_, lines)| lines).sum::<usize>());
        let budget = replaced / SHARE;
        println!("{}: {lines} lines of code; the budget is {budget}, a fifth of {replaced} of Go", part.name);
        let mut modules: Vec<_> = modules.into_iter().collect();
        modules.sort_by_key(|(name, lines)| (std::cmp::Reverse(*lines), name.clone()));
        for (name, lines) in modules.iter().take(NAMED) {
            println!("  {lines:6} {name}");
        }
        if let Some(more) = lines.checked_sub(budget + 1) {
            above.push(format!("{} has {} lines too many", part.name, more + 1));
        }
    }
    if above.is_empty() { Ok(()) } else { Err(above.join("; ").into()) }
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
            } else if !code.is_empty() && !code.starts_with("//") {
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
    fn what_only_tests_see_is_not_counted_nor_are_comments_and_blank_lines() {
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
        assert_eq!(Source::of(&text), Source { lines: 6, modules: vec!["near", "far"] });
    }

    #[test]
    fn every_module_of_the_crates_is_found() {
        for part in PARTS {
            let mut modules = BTreeMap::new();
            for file in part.crates {
                count(&root().join(file), None, &mut modules).unwrap();
            }
            assert!(modules.values().sum::<usize>() > 1_000, "{}: {modules:?}", part.name);
        }
    }
}
