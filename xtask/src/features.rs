//! Builds each feature of each crate alone, and the minor versions of Kubernetes.

use serde_json::Value;

use crate::{
    Result,
    cargo::{cargo, metadata},
};

/// The feature with the minor version of the tests.
const TESTED: &str = "v1_36";

/// A crate with the features to build it with.
#[derive(Debug, PartialEq, Eq)]
struct Combination {
    package: String,
    features: Vec<String>,
}

/// The minor versions to build the facade with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Minors {
    /// The first supported one.
    Earliest,
    /// All.
    All,
}

/// Runs `cargo check` for every library without features and with each feature alone, and for the facade with all
/// features and other minor versions.
pub(crate) fn check(minors: Minors) -> Result {
    let metadata = metadata(&["--no-deps"])?;
    for Combination { package, features } in combinations(&metadata).into_iter().chain(facade(&metadata, minors)) {
        let mut check = cargo();
        check.args(["check", "--quiet", "--no-default-features", "--package", &package]);
        check.args(["--features", &features.join(",")]);
        let label = if features.is_empty() { "no features".to_owned() } else { features.join(", ") };
        if !check.status()?.success() {
            return Err(format!("{package} does not build with {label}").into());
        }
        println!("{package}: {label}");
    }
    Ok(())
}

/// Returns each crate that has features, once without features and once per feature. `default` is excluded, because it
/// only names other features. Crates with built-in types get the tested minor version, because they do not build
/// without any.
fn combinations(metadata: &Value) -> Vec<Combination> {
    let mut all = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let (minors, others) = features(package);
        let version: Vec<String> = minors.iter().filter(|minor| *minor == TESTED).cloned().collect();
        if minors.is_empty() && others.is_empty() {
            continue;
        }
        all.push(Combination { package: name.to_owned(), features: version.clone() });
        all.extend(others.into_iter().map(|feature| {
            let features = [feature].into_iter().chain(version.clone()).collect();
            Combination { package: name.to_owned(), features }
        }));
    }
    all
}

/// Returns the facade with all other features, once per minor version.
fn facade(metadata: &Value, minors: Minors) -> Vec<Combination> {
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let Some(facade) = packages.find(|package| package["name"] == "windlass") else { return Vec::new() };
    let (mut versions, others) = features(facade);
    versions.retain(|version| version.starts_with("v1_") && version != TESTED);
    versions.sort();
    if minors == Minors::Earliest {
        versions.truncate(1);
    }
    let with = |version| others.iter().cloned().chain([version]).collect();
    versions
        .into_iter()
        .map(|version| Combination { package: "windlass".to_owned(), features: with(version) })
        .collect()
}

/// Returns the features of a package that select a minor version of Kubernetes, and the others.
fn features(package: &Value) -> (Vec<String>, Vec<String>) {
    let features = package["features"].as_object().into_iter().flat_map(|features| features.keys());
    features
        .filter(|feature| *feature != "default")
        .cloned()
        .partition(|feature| feature.starts_with("v1_") || ["earliest", "latest"].contains(&feature.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combination(package: &str, features: &[&str]) -> Combination {
        let features = features.iter().map(|feature| (*feature).to_owned()).collect();
        Combination { package: package.to_owned(), features }
    }

    #[test]
    fn each_feature_is_combined_alone_and_none() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "features": {"default": ["x"], "x": []}},
            {"name": "b", "features": {}},
        ]});
        assert_eq!(combinations(&metadata), [combination("a", &[]), combination("a", &["x"])]);
    }

    #[test]
    fn built_in_types_need_one_minor_version() {
        let features = serde_json::json!({"x": [], "v1_33": [], "v1_36": [], "v1_37": [], "latest": []});
        let metadata = serde_json::json!({"packages": [{"name": "windlass", "features": features}]});
        let expected = [combination("windlass", &["v1_36"]), combination("windlass", &["x", "v1_36"])];
        assert_eq!(combinations(&metadata), expected);
        let (first, last) = (combination("windlass", &["x", "v1_33"]), combination("windlass", &["x", "v1_37"]));
        assert_eq!(facade(&metadata, Minors::All), [first, last]);
        assert_eq!(facade(&metadata, Minors::Earliest), [combination("windlass", &["x", "v1_33"])]);
    }
}
