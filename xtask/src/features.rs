//! Checks the combinations of features: none, all, and all but one; and the minor versions of Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    Result,
    cargo::{cargo, metadata},
};

/// The feature with the minor version of the tests.
const TESTED: &str = "v1_36";
/// The facade. Its features are those of other crates, so it is checked only with none and with all.
const FACADE: &str = "windlass";
/// The crate whose features are the providers of TLS.
const TLS: &str = "windlass-tls";
/// The provider of the other combinations. `certificates` needs it.
const PROVIDER: &str = "ring";
/// The other providers. Only the crate of the providers has code for them.
const OTHER_PROVIDERS: [&str; 4] = ["aws-lc-rs", "fips", "graviola", "openssl"];
/// The providers whose build compiles a library in C for minutes, or needs one of the system.
const SLOW_PROVIDERS: [&str; 3] = ["aws-lc-rs", "fips", "openssl"];
/// The crates that must not be in the build of a minimal client with `graviola`, because they run a C compiler.
const C_COMPILERS: [&str; 2] = ["cc", "cmake"];
/// The maximum number of crates in the build of a minimal client: those of kube 5 with the same abilities, which are
/// the features `client`, `rustls-tls`, `ring` and `proxy`.
const MINIMAL_CLIENT: usize = 122;

/// A crate with the features to build it with.
#[derive(Debug, PartialEq, Eq)]
struct Combination {
    package: String,
    features: Vec<String>,
    label: String,
}

/// The combinations to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The facade without features, for the first minor version; and the TLS providers that compile quickly.
    Quick,
    /// All crates without features, with all, and without each single one; all minor versions and TLS providers.
    Complete,
}

/// Runs `cargo check` for the combinations of features, and checks the dependencies of a minimal client.
pub(crate) fn check(extent: Extent) -> Result {
    minimal_client()?;
    let metadata = metadata(&["--no-deps"])?;
    let all = combinations(&metadata, extent).into_iter().chain(providers(extent)).chain(facade(&metadata, extent));
    for Combination { package, features, label } in all {
        let mut check = cargo();
        check.args(["check", "--quiet", "--no-default-features", "--package", &package]);
        check.args(["--features", &features.join(",")]);
        // Without warnings, cargo prints nothing. RUSTFLAGS could deny them, but would also rebuild all dependencies.
        let output = check.output()?;
        if !output.status.success() || !output.stderr.is_empty() {
            let messages = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{package} does not build {label} without warnings:\n{messages}").into());
        }
        println!("{package}: {label}");
    }
    if extent == Extent::Complete { connections() } else { Ok(()) }
}

/// Runs the test of the client's connections without a provider of TLS, and with those that need no further tools.
fn connections() -> Result {
    for provider in ["", "aws-lc-rs", "graviola", "openssl"] {
        let mut test = cargo();
        test.args([
            "test",
            "--quiet",
            "--package",
            "windlass-client",
            "--test",
            "tls_provider",
            "--no-default-features",
        ]);
        if !test.args(["--features", &format!("{provider},{TESTED}")]).status()?.success() {
            return Err(format!("windlass-client does not connect with the features {provider:?}").into());
        }
    }
    Ok(())
}

/// Checks that a minimal client needs no more crates than before, and no C compiler with `graviola`.
fn minimal_client() -> Result {
    let ours = dependencies(&[PROVIDER])?;
    if ours.len() > MINIMAL_CLIENT {
        let count = ours.len();
        return Err(format!("a minimal client has {count} crates, more than the {MINIMAL_CLIENT} of kube").into());
    }
    let without_c = dependencies(&["graviola"])?;
    if let Some(name) =
        C_COMPILERS.iter().find(|name| without_c.iter().any(|crate_| crate_.starts_with(&format!("{name} "))))
    {
        return Err(format!("a minimal client with `graviola` needs a C compiler: its build depends on {name}").into());
    }
    println!("minimal client: {} crates, {} with graviola, which needs no C compiler", ours.len(), without_c.len());
    Ok(())
}

/// Returns the crates in the build of windlass-client with only these features, with their versions.
fn dependencies(features: &[&str]) -> Result<BTreeSet<String>> {
    let features = [features, &[TESTED]].concat().join(",");
    let mut tree = cargo();
    tree.args(["tree", "--package", "windlass-client", "--no-default-features", "--features", &features]);
    tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let output = tree.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(|line| line.split(" (").next().unwrap_or_default().to_owned()).collect())
}

/// Returns the combinations of each crate that has features: none, all, and all but one. `default` is excluded, because
/// it only names other features. Crates with built-in types get a minor version, because they do not build without any:
/// the tested one, or the first one in the quick check, which builds no other combination.
fn combinations(metadata: &Value, extent: Extent) -> Vec<Combination> {
    let mut all = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let (minors, others) = features(package);
        let is_checked = extent == Extent::Complete || name == FACADE;
        if name == TLS || minors.is_empty() && others.is_empty() || !is_checked {
            continue;
        }
        let first = minors.iter().filter(|minor| minor.starts_with("v1_")).min().cloned();
        let tested = minors.into_iter().find(|minor| minor == TESTED);
        let version: Vec<String> = if extent == Extent::Quick { first } else { tested }.into_iter().collect();
        let mut seen = BTreeSet::new();
        let mut add = |features: Vec<String>, label: String| {
            if seen.insert(features.clone()) {
                all.push(Combination {
                    package: name.to_owned(),
                    features: [features, version.clone()].concat(),
                    label,
                });
            }
        };
        if extent == Extent::Quick {
            add(Vec::new(), format!("without features, with {}", version.concat()));
            continue;
        }
        add(Vec::new(), "without features".to_owned());
        add(others.clone(), "with all features".to_owned());
        for feature in others.iter().filter(|feature| name != FACADE && *feature != PROVIDER) {
            let independent = others.iter().filter(|other| !enables(package, other, feature));
            add(independent.cloned().collect(), format!("without {feature}"));
        }
    }
    all
}

/// Reports whether a feature is, or enables, another one of the same crate.
fn enables(package: &Value, feature: &str, other: &str) -> bool {
    let enabled = package["features"][feature].as_array().into_iter().flatten().filter_map(Value::as_str);
    feature == other || enabled.into_iter().any(|enabled| enables(package, enabled, other))
}

/// Returns the crate of the TLS providers, without any and once per provider.
fn providers(extent: Extent) -> Vec<Combination> {
    let is_checked = |provider: &&str| extent == Extent::Complete || !SLOW_PROVIDERS.contains(provider);
    let checked = [PROVIDER].into_iter().chain(OTHER_PROVIDERS).filter(is_checked);
    let with = |provider: &str| Combination {
        package: TLS.to_owned(),
        features: vec![provider.to_owned()],
        label: format!("with {provider}"),
    };
    let none = Combination { package: TLS.to_owned(), features: Vec::new(), label: "without features".to_owned() };
    [none].into_iter().chain(checked.map(with)).collect()
}

/// Returns the facade with all other features, once per minor version. The quick check has none of them.
fn facade(metadata: &Value, extent: Extent) -> Vec<Combination> {
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let Some(facade) = packages.find(|package| package["name"] == FACADE) else { return Vec::new() };
    let (mut versions, others) = features(facade);
    versions.retain(|version| version.starts_with("v1_") && version != TESTED);
    versions.sort();
    if extent == Extent::Quick {
        versions.clear();
    }
    let with = |version: String| Combination {
        package: FACADE.to_owned(),
        label: format!("with all features and {version}"),
        features: others.iter().cloned().chain([version]).collect(),
    };
    versions.into_iter().map(with).collect()
}

/// Returns the features of a package that select a minor version of Kubernetes, and the others except for further
/// providers of TLS.
fn features(package: &Value) -> (Vec<String>, Vec<String>) {
    let features = package["features"].as_object().into_iter().flat_map(|features| features.keys());
    features
        .filter(|feature| *feature != "default" && !OTHER_PROVIDERS.contains(&feature.as_str()))
        .cloned()
        .partition(|feature| feature.starts_with("v1_") || ["earliest", "latest"].contains(&feature.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(metadata: &Value) -> Vec<String> {
        let all = combinations(metadata, Extent::Complete).into_iter();
        all.map(|it| format!("{} {}: {}", it.package, it.label, it.features.join(","))).collect()
    }

    #[test]
    fn features_are_combined_as_none_all_and_all_but_one() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "features": {"default": ["x"], "x": [], "y": ["x"], "z": ["dep:z"], "ring": [], "fips": []}},
            {"name": "b", "features": {}},
        ]});
        assert_eq!(
            labels(&metadata),
            [
                "a without features: ",
                "a with all features: x,y,z,ring",
                "a without x: z,ring",
                "a without y: x,z,ring",
                "a without z: x,y,ring",
            ]
        );
    }

    #[test]
    fn quick_check_builds_the_facade_without_features() {
        let metadata = serde_json::json!({"packages": [
            {"name": "windlass", "features": {"x": [], "y": []}},
            {"name": "windlass-server", "features": {"x": []}},
        ]});
        let quick: Vec<_> =
            combinations(&metadata, Extent::Quick).into_iter().map(|it| (it.package, it.features)).collect();
        assert_eq!(quick, [("windlass".to_owned(), Vec::<String>::new())]);
    }

    #[test]
    fn built_in_types_need_one_minor_version() {
        let features = serde_json::json!({"x": [], "v1_33": [], "v1_36": [], "v1_37": [], "latest": []});
        let metadata = serde_json::json!({"packages": [{"name": "windlass", "features": features}]});
        assert_eq!(labels(&metadata), ["windlass without features: v1_36", "windlass with all features: x,v1_36"]);
        let versions =
            |extent| -> Vec<String> { facade(&metadata, extent).into_iter().map(|it| it.features.join(",")).collect() };
        assert_eq!(versions(Extent::Complete), ["x,v1_33", "x,v1_37"]);
        assert!(versions(Extent::Quick).is_empty());
        let quick: Vec<_> = combinations(&metadata, Extent::Quick).into_iter().map(|it| it.features).collect();
        assert_eq!(quick, [["v1_33"]]);
    }

    #[test]
    fn providers_in_c_are_checked_only_in_the_complete_check() {
        let checked = |minors| providers(minors).into_iter().map(|it| it.features.join(",")).collect::<Vec<_>>();
        assert_eq!(checked(Extent::Quick), ["", "ring", "graviola"]);
        assert_eq!(checked(Extent::Complete), ["", "ring", "aws-lc-rs", "fips", "graviola", "openssl"]);
    }
}
