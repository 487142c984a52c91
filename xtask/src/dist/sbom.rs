//! The software bill of materials of `windlass`: a CycloneDX document with the crates of the program, their licenses,
//! checksums and dependencies.
//!
//! It is written here, not by cargo-cyclonedx, because that program writes a file beside the manifest of each member of
//! the workspace. `cargo tree` has the crates and features of one program and one target.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{Result, cargo::cargo};

/// A crate in the output of `cargo tree`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
}

/// The crates with their licenses and dependencies.
type Crates = BTreeMap<Crate, (String, BTreeSet<Crate>)>;

/// Returns the document for the program of a package.
pub(super) fn document(package: &str, target: &str, lock: &str) -> Result<Value> {
    let tree = cargo()
        .args(["tree", "--locked", "--edges=normal,build", "--prefix=depth", "--format={p}|{l}"])
        .args(["--package", package, "--target", target])
        .output()?;
    if !tree.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&tree.stderr)).into());
    }
    let (root, crates) = parse(&String::from_utf8(tree.stdout)?)?;
    Ok(render(&root, &crates, &checksums(lock)))
}

/// Returns the first crate and all crates of a tree.
fn parse(tree: &str) -> Result<(Crate, Crates)> {
    let mut crates = Crates::new();
    let mut path: Vec<Crate> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let digits = line.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(line.len());
        let depth: usize = line[..digits].parse().map_err(|_| format!("cargo tree: no depth in {line:?}"))?;
        let (id, license) =
            line[digits..].split_once('|').ok_or_else(|| format!("cargo tree: no license in {line:?}"))?;
        let mut words = id.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next().and_then(|version| version.strip_prefix('v')))
        else {
            return Err(format!("cargo tree: no version in {line:?}").into());
        };
        let found = Crate { name: name.to_owned(), version: version.to_owned() };
        // A crate that was printed before is followed by this mark, without its dependencies.
        let license = license.trim_end_matches(" (*)").to_owned();
        crates.entry(found.clone()).or_insert((license, BTreeSet::new()));
        path.truncate(depth);
        if let Some((_, dependencies)) = path.last().and_then(|user| crates.get_mut(user)) {
            dependencies.insert(found.clone());
        }
        path.push(found);
    }
    let root = path.first().cloned().ok_or("cargo tree: no crates")?;
    Ok((root, crates))
}

/// Returns the checksums in a Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<Crate, &str> {
    let value = |section: &str, key: &str| -> Option<String> {
        let line = section.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|rest| rest.trim_end_matches('"').to_owned())
    };
    let sections = lock.split("[[package]]").skip(1);
    let found = sections.filter_map(|section| {
        let of = Crate { name: value(section, "name")?, version: value(section, "version")? };
        let checksum = section.lines().find_map(|line| line.strip_prefix("checksum = \""))?;
        Some((of, checksum.trim_end_matches('"')))
    });
    found.collect()
}

fn render(root: &Crate, crates: &Crates, checksums: &BTreeMap<Crate, &str>) -> Value {
    let component = |of: &Crate, kind: &str| {
        let license = crates.get(of).map_or("", |(license, _)| license.as_str());
        let mut component = json!({
            "type": kind, "bom-ref": of.purl(), "name": of.name, "version": of.version, "purl": of.purl(),
        });
        if !license.is_empty() {
            // Old manifests separate alternatives with a slash.
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if let Some(checksum) = checksums.get(of) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    };
    let others: Vec<Value> = crates.keys().filter(|of| *of != root).map(|of| component(of, "library")).collect();
    let dependencies: Vec<Value> = crates
        .iter()
        .map(|(of, (_, on))| json!({"ref": of.purl(), "dependsOn": on.iter().map(Crate::purl).collect::<Vec<_>>()}))
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(root, "application")},
        "components": others,
        "dependencies": dependencies,
    })
}

impl Crate {
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_has_licenses_checksums_and_dependencies() {
        let tree = "0windlass-cli v0.1.0 (/w/crates/windlass-cli)|Apache-2.0\n1a v1.0.0|MIT/Apache-2.0\n2b v2.0.0 (proc-macro)|MIT\n1b v2.0.0 (proc-macro)|MIT (*)\n";
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"0a\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        let (root, crates) = parse(tree).unwrap();
        let document = render(&root, &crates, &checksums(lock));
        assert_eq!(document["metadata"]["component"]["purl"], "pkg:cargo/windlass-cli@0.1.0");
        let [a, b] = document["components"].as_array().unwrap().as_slice() else { panic!("{document}") };
        assert_eq!(a["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!((a["hashes"][0]["content"].as_str(), b["hashes"].as_array()), (Some("0a"), None));
        let on = |at: usize| document["dependencies"][at]["dependsOn"].clone();
        assert_eq!((on(0), on(1)), (json!(["pkg:cargo/b@2.0.0"]), json!([])));
        assert_eq!(on(2), json!(["pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0"]));
    }
}
