//! Builds each feature of each crate alone.

use serde_json::Value;

use crate::{Result, cargo::cargo};

/// Runs `cargo check` for every library without features, and with each feature alone.
pub(crate) fn check() -> Result {
    let output = cargo().args(["metadata", "--format-version=1", "--no-deps"]).output()?;
    let combinations = combinations(&serde_json::from_slice(&output.stdout)?);
    for (package, feature) in &combinations {
        let mut check = cargo();
        check.args(["check", "--quiet", "--no-default-features", "--package", package]);
        if let Some(feature) = feature {
            check.args(["--features", feature]);
        }
        let label = feature.as_deref().unwrap_or("no features");
        if !check.status()?.success() {
            return Err(format!("{package} does not build with {label} alone").into());
        }
        println!("{package}: {label}");
    }
    Ok(())
}

/// Returns each crate that has features, once without features and once per feature. `default` is excluded, because it
/// only names other features.
fn combinations(metadata: &Value) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let features = package["features"].as_object().into_iter().flat_map(|features| features.keys());
        let features: Vec<_> = features.filter(|feature| *feature != "default").cloned().collect();
        if features.is_empty() {
            continue;
        }
        all.push((name.to_owned(), None));
        all.extend(features.into_iter().map(|feature| (name.to_owned(), Some(feature))));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_combined_alone_and_none() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "features": {"default": ["x"], "x": []}},
            {"name": "b", "features": {}},
        ]});
        let expected = [("a".to_owned(), None), ("a".to_owned(), Some("x".to_owned()))];
        assert_eq!(combinations(&metadata), expected);
    }
}
