//! The programs that cargo does not compile as tests: `test = false` in Cargo.toml.
//!
//! A program without tests must have it, because cargo would otherwise compile and link it twice. One with tests must
//! not, because cargo would ignore them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use syn::{
    ItemFn, ItemMod,
    visit::{self, Visit},
};

use crate::{Result, cargo::metadata};

/// Checks each program of the workspace.
pub(crate) fn check() -> Result {
    let metadata = metadata(&["--no-deps"])?;
    let (mut count, mut wrong) = (0, Vec::new());
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let targets = package["targets"].as_array().into_iter().flatten();
        for program in targets.filter(|target| target["kind"][0] == "bin") {
            count += 1;
            let path = Path::new(program["src_path"].as_str().unwrap_or_default());
            wrong.extend(problem(program, Tests::of(path)?.count));
        }
    }
    if wrong.is_empty() {
        println!("programs: {count}, and only those with tests are compiled as tests");
        return Ok(());
    }
    Err(format!("`test` of the programs in Cargo.toml:\n  {}", wrong.join("\n  ")).into())
}

/// Returns the problem of a program with this number of tests.
fn problem(program: &Value, tests: usize) -> Option<String> {
    let name = program["name"].as_str().unwrap_or_default();
    match (program["test"] == true, tests) {
        (true, 0) => Some(format!("{name}: has no tests, set `test = false`")),
        (false, 1..) => Some(format!("{name}: has {tests} tests, which `test = false` disables")),
        _ => None,
    }
}

/// Counts the tests of a file and of its modules.
struct Tests {
    /// The folder of the modules that the current file declares.
    folder: PathBuf,
    /// The modules in other files.
    files: Vec<PathBuf>,
    count: usize,
}

impl Tests {
    /// Counts the tests of a program with this root.
    fn of(root: &Path) -> Result<Self> {
        let folder = root.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let mut tests = Self { folder, files: Vec::new(), count: 0 };
        tests.read(root)?;
        while let Some(file) = tests.files.pop() {
            let is_mod_file = file.file_name().is_some_and(|name| name == "mod.rs");
            tests.folder = if is_mod_file { file.with_file_name("") } else { file.with_extension("") };
            tests.read(&file)?;
        }
        Ok(tests)
    }

    fn read(&mut self, file: &Path) -> Result {
        let text = fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        self.visit_file(&syn::parse_file(&text).map_err(|error| format!("cannot parse {}: {error}", file.display()))?);
        Ok(())
    }
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
        };
        self.count += usize::from(item.attrs.iter().any(is_test));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        if item.content.is_none() {
            let files = [self.folder.join(format!("{name}.rs")), self.folder.join(&name).join("mod.rs")];
            self.files.extend(files.into_iter().find(|file| file.exists()));
            return;
        }
        self.folder.push(name);
        visit::visit_item_mod(self, item);
        self.folder.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_with_tests_are_compiled_as_tests() {
        let problem = |test: bool, tests: usize| problem(&serde_json::json!({"name": "a", "test": test}), tests);
        assert_eq!(problem(true, 0).as_deref(), Some("a: has no tests, set `test = false`"));
        assert_eq!(problem(false, 2).as_deref(), Some("a: has 2 tests, which `test = false` disables"));
        assert!(problem(true, 1).is_none() && problem(false, 0).is_none());
    }

    #[test]
    fn tests_of_modules_are_counted() {
        let folder = std::env::temp_dir().join(format!("windlass-targets-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("main.rs"), "mod a; #[test] fn one() {} mod inline { mod c; }").unwrap();
        fs::write(folder.join("a.rs"), "mod b; fn none() {}").unwrap();
        fs::write(folder.join("a/b.rs"), "mod tests { #[tokio::test(start_paused = true)] async fn two() {} }")
            .unwrap();
        fs::create_dir_all(folder.join("inline")).unwrap();
        fs::write(folder.join("inline/c.rs"), "#[test] fn three() {}").unwrap();
        let count = Tests::of(&folder.join("main.rs")).unwrap().count;
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(count, 3);
    }
}
