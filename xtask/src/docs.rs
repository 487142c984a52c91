//! The documentation of the workspace, with warnings denied.

use serde_json::Value;

use crate::{
    Result,
    cargo::{cargo, lints, metadata, succeed},
};

/// An example of the workspace. With one, cargo enables the features of the dev-dependencies.
const EXAMPLE: &str = "speed";

/// Builds the documentation of the libraries and programs.
///
/// The features and the compiler are those of `cargo clippy --all-targets`, whose metadata of all crates is used.
/// `cargo doc` alone would check all of them again.
pub(crate) fn check() -> Result {
    let metadata = metadata(&["--no-deps"])?;
    let mut doc = cargo();
    doc.args(["doc", "--workspace", "--no-deps", "--locked", "--lib", "--example", EXAMPLE]);
    doc.args(programs(&metadata).into_iter().flat_map(|name| ["--bin", name]));
    succeed(doc.env("RUSTDOCFLAGS", "--deny warnings").envs(lints()?))
}

/// Returns the programs that cargo documents by default: those with another name than their library.
fn programs(metadata: &Value) -> Vec<&str> {
    let mut programs = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let targets = || package["targets"].as_array().into_iter().flatten();
        let name = |target: &Value| target["name"].as_str().unwrap_or_default().replace('-', "_");
        let library = targets().find(|target| target["doctest"] == true).map(name);
        let documented = targets().filter(|target| target["kind"][0] == "bin" && target["doc"] == true);
        let documented = documented.filter(|target| Some(name(target)) != library);
        programs.extend(documented.filter_map(|target| target["name"].as_str()));
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_named_like_their_library_are_left_out() {
        let target = |kind: &str, name: &str, doc: bool| serde_json::json!({"kind": [kind], "name": name, "doc": doc, "doctest": kind == "lib"});
        let targets = [
            target("lib", "web_operator", true),
            target("bin", "web-operator", true),
            target("bin", "manifests", true),
            target("bin", "hidden", false),
            target("test", "all", false),
        ];
        assert_eq!(programs(&serde_json::json!({"packages": [{"targets": targets}]})), ["manifests"]);
    }
}
