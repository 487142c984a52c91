//! The crates as they are published: packages them, and checks their metadata and files.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    Result,
    cargo::{cargo, metadata},
};

/// The category slugs of crates.io that this workspace uses. crates.io ignores others.
const CATEGORIES: &[&str] = &[
    "api-bindings",
    "asynchronous",
    "authentication",
    "caching",
    "command-line-utilities",
    "concurrency",
    "cryptography",
    "data-structures",
    "database",
    "database-implementations",
    "development-tools",
    "development-tools::build-utils",
    "development-tools::procedural-macro-helpers",
    "development-tools::testing",
    "emulators",
    "encoding",
    "network-programming",
    "parser-implementations",
    "simulation",
    "web-programming::http-client",
    "web-programming::http-server",
];

/// The maximum number of keywords, and of categories, on crates.io.
const MOST: usize = 5;

/// The folder of the packaged crates in the target directory.
const PACKAGES: &str = "package";

/// Files that each package must contain.
const FILES: &[&str] = &["Cargo.toml", "LICENSE", "README.md"];

/// A packaged crate.
#[derive(Debug)]
pub(crate) struct Package {
    /// The crate as `cargo metadata` describes it.
    pub(crate) metadata: Value,
    /// The `.crate` file.
    pub(crate) file: PathBuf,
}

impl Package {
    /// Returns `name-version`, the name of the folder in the file.
    pub(crate) fn id(&self) -> String {
        id(&self.metadata)
    }
}

/// The treatment of files that are not committed: refused or packaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncommitted {
    Allowed,
    Refused,
}

/// Packages each published crate without building it. Returns an error if metadata or files are missing.
pub(crate) fn pack(uncommitted: Uncommitted) -> Result<Vec<Package>> {
    let metadata = metadata(&["--no-deps"])?;
    let crates = published(&metadata);
    let problems: Vec<String> = crates.iter().flat_map(|metadata| problems(metadata)).collect();
    if !problems.is_empty() {
        return Err(format!("the metadata of published crates:\n  {}", problems.join("\n  ")).into());
    }
    let mut package = cargo();
    package.args(["package", "--quiet", "--no-verify", "--locked"]);
    package.args((uncommitted == Uncommitted::Allowed).then_some("--allow-dirty"));
    package.args(crates.iter().flat_map(|metadata| ["--package", name(metadata)]));
    if !package.status()?.success() {
        return Err("cargo package failed".into());
    }
    let folder = Path::new(metadata["target_directory"].as_str().unwrap_or("target")).join(PACKAGES);
    let packages = crates.into_iter().map(|metadata| {
        let file = folder.join(format!("{}.crate", id(metadata)));
        Package { metadata: metadata.clone(), file }
    });
    let packages: Vec<Package> = packages.collect();
    let unpacked = folder.join("unpacked");
    for package in &packages {
        check_files(package, &unpacked)?;
    }
    Ok(packages)
}

/// Returns the members of the workspace that can be published.
pub(crate) fn published(metadata: &Value) -> Vec<&Value> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().filter(|package| package["publish"].is_null()).collect()
}

fn name(metadata: &Value) -> &str {
    metadata["name"].as_str().unwrap_or_default()
}

fn id(metadata: &Value) -> String {
    format!("{}-{}", name(metadata), metadata["version"].as_str().unwrap_or_default())
}

/// Returns the problems of a crate's metadata.
fn problems(metadata: &Value) -> Vec<String> {
    let name = name(metadata);
    let mut problems = Vec::new();
    for field in ["description", "documentation", "license", "readme", "repository", "rust_version"] {
        if metadata[field].as_str().is_none_or(str::is_empty) {
            problems.push(format!("{name}: no {field}"));
        }
    }
    for field in ["keywords", "categories"] {
        let count = metadata[field].as_array().map_or(0, Vec::len);
        if !(1..=MOST).contains(&count) {
            problems.push(format!("{name}: {count} {field}; expected 1 to {MOST}"));
        }
    }
    let categories = metadata["categories"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for category in categories.filter(|category| !CATEGORIES.contains(category)) {
        problems.push(format!("{name}: the unknown category {category}"));
    }
    let mut targets = metadata["targets"].as_array().into_iter().flatten();
    let has_library = targets.any(|target| target["doc"] == true);
    if has_library && metadata["metadata"]["docs"]["rs"].is_null() {
        problems.push(format!("{name}: no [package.metadata.docs.rs]"));
    }
    problems
}

/// Unpacks a crate and checks that it contains the files that its sources include.
fn check_files(package: &Package, unpacked: &Path) -> Result {
    fs::create_dir_all(unpacked)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&package.file).arg("-C").arg(unpacked);
    if !tar.status()?.success() {
        return Err(format!("{} is no archive", package.file.display()).into());
    }
    let folder = unpacked.join(package.id());
    for file in FILES {
        if !folder.join(file).is_file() {
            return Err(format!("{}: {file} is missing", package.id()).into());
        }
    }
    for source in sources(&folder)? {
        let text = fs::read_to_string(&source)?;
        let shown = source.strip_prefix(unpacked).unwrap_or(&source);
        for included in &includes(&text) {
            let path = normal(&source.with_file_name(included));
            if !path.starts_with(&folder) || !path.is_file() {
                return Err(format!("{}: includes {included}, which is not in the package", shown.display()).into());
            }
        }
    }
    Ok(())
}

/// Returns the Rust sources of an unpacked crate that are compiled for its users.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("reading {}: {error}", folder.display()))? {
            let path = entry?.path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() && !is_test {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Returns the paths in `include_str!` and `include_bytes!` before the tests of a source. Pages that are only compiled as
/// documentation tests stay in the checkout.
fn includes(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code = code.replace("#[cfg(doctest)]\n#[doc = include_str!(\"", "");
    let mut paths = Vec::new();
    for call in ["include_str!(\"", "include_bytes!(\""] {
        paths.extend(code.split(call).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    paths
}

/// Resolves `..` in a path without reading the file system.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(component);
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_metadata_is_reported() {
        let complete = serde_json::json!({
            "name": "a", "description": "b", "documentation": "c", "license": "d", "readme": "e", "repository": "f",
            "rust_version": "1", "keywords": ["g"], "categories": ["caching"], "targets": [{"doc": true}],
            "metadata": {"docs": {"rs": {}}},
        });
        assert!(problems(&complete).is_empty(), "{:?}", problems(&complete));
        let mut other = complete.clone();
        other["readme"] = Value::Null;
        other["keywords"] = serde_json::json!(["1", "2", "3", "4", "5", "6"]);
        other["categories"] = serde_json::json!(["cache"]);
        other["metadata"] = Value::Null;
        let expected = [
            "a: no readme",
            "a: 6 keywords; expected 1 to 5",
            "a: the unknown category cache",
            "a: no [package.metadata.docs.rs]",
        ];
        assert_eq!(problems(&other), expected);
    }

    #[test]
    fn includes_of_tests_are_ignored() {
        let text =
            "const A: &str = include_str!(\"../data/a.tsv\");\n#[cfg(test)]\nmod tests { include_str!(\"../../b\"); }";
        assert_eq!(includes(text), ["../data/a.tsv"]);
        assert!(includes("#[cfg(doctest)]\n#[doc = include_str!(\"../../c.md\")]\nmod guide {}\n").is_empty());
        assert_eq!(normal(Path::new("/x/src/../data/a.tsv")), Path::new("/x/data/a.tsv"));
    }

    #[test]
    fn private_crates_are_not_published() {
        let metadata = serde_json::json!({"packages": [{"name": "a", "publish": null}, {"name": "b", "publish": []}]});
        assert_eq!(published(&metadata).into_iter().map(name).collect::<Vec<_>>(), ["a"]);
    }
}
