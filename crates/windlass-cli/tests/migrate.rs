//! `windlass migrate` as a command.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{fs, path::Path, process::Command};

/// Runs a command. Returns its output and its error messages.
fn windlass(folder: &Path, line: &str) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(line.split(' ')).current_dir(folder).env_remove("WINDLASS_LOG");
    let output = command.output().unwrap();
    let [told, complained] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (told, complained)
}

const KIND: &str = "#[derive(kube::CustomResource, schemars::JsonSchema)]\n\
                    #[kube(group = \"example.com\", version = \"v1\", kind = \"Site\", namespaced)]\n\
                    struct SiteSpec {}\n";

#[test]
fn migration_is_shown_by_default_and_written_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("operator/lib.rs");
    fs::create_dir(folder.path().join("operator")).unwrap();
    fs::write(folder.path().join("operator/Cargo.toml"), "[dependencies]\nkube = \"5\"\n").unwrap();
    fs::write(&source, KIND).unwrap();

    for line in ["migrate --from kube operator", "migrate --from kube operator --dry-run"] {
        let (diff, review) = windlass(folder.path(), line);
        assert!(diff.starts_with("--- a/Cargo.toml\n") && diff.contains("+struct Site {"), "{diff}{review}");
        assert!(review.contains("\n  lib.rs:1: the kind Site: compare"), "{review}");
        assert!(review.ends_with("next: windlass migrate --from kube operator --write\n"), "{review}");
        assert_eq!(fs::read_to_string(&source).unwrap(), KIND);
    }
    let (written, review) = windlass(folder.path(), "migrate --from kube operator --write");
    assert_eq!(written, "Cargo.toml\nlib.rs\n");
    assert!(review.ends_with("next: cargo fmt, cargo check\n"), "{review}");
    assert!(fs::read_to_string(&source).unwrap().contains("struct Site {"));
    let manifest = fs::read_to_string(folder.path().join("operator/Cargo.toml")).unwrap();
    assert_eq!(manifest, "[dependencies]\nwindlass = { version = \"0.1.0\" }\n", "kube is not used any more");

    let (_, error) = windlass(folder.path(), "migrate --from kube");
    assert!(error.contains("adding to Cargo.toml"), "{error}");
    let (_, error) = windlass(folder.path(), "migrate");
    assert!(error.contains("--from <LIBRARY>"), "{error}");
}
