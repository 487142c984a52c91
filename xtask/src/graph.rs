//! The crate graph: the permitted dependencies between the crates of this workspace.
//!
//! ARCHITECTURE.md shows this table with its reasons. Any other edge fails CI, including dev-dependencies, which can
//! also create cycles.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Result, cargo::metadata};

/// Each crate, and the crates of the workspace that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("windlass-api", &[]),
    ("windlass-queue", &[]),
    ("windlass-cbor", &[]),
    ("windlass-serve", &[]),
    ("windlass-tls", &[]),
    ("windlass-derive-model", &[]),
    ("windlass-derive", &["windlass-derive-model"]),
    ("windlass-apply-configurations", &["windlass-api"]),
    // Its tests have kinds with derived views.
    ("windlass-views", &["windlass-api", "windlass-derive", "windlass-protobuf"]),
    ("windlass-import", &["windlass-api", "windlass-derive-model"]),
    ("windlass-cel", &["windlass-api"]),
    ("windlass-protobuf", &["windlass-api"]),
    ("windlass-manifests", &["windlass-api", "windlass-cel", "windlass-derive"]),
    ("windlass-decoders", &["windlass-api", "windlass-protobuf"]),
    ("windlass-client", &["windlass-api", "windlass-cbor", "windlass-decoders", "windlass-protobuf", "windlass-tls"]),
    ("windlass-cache", &["windlass-api", "windlass-decoders", "windlass-protobuf", "windlass-views"]),
    ("windlass-webhook", &["windlass-api", "windlass-serve", "windlass-tls"]),
    ("windlass-server", &["windlass-api", "windlass-cbor", "windlass-cel", "windlass-serve", "windlass-tls"]),
    (
        "windlass-runtime",
        &[
            "windlass-api",
            "windlass-client",
            "windlass-cache",
            "windlass-queue",
            "windlass-serve",
            "windlass-tls",
            "windlass-views",
            "windlass-webhook",
        ],
    ),
    // The tests of the controllers use the test kit for fault exploration.
    ("windlass-controllers", &["windlass-cel", "windlass-runtime", "windlass-envtest", RUNTIME_AND_BELOW]),
    (
        "windlass-envtest",
        &["windlass-apply-configurations", "windlass-derive", "windlass-runtime", "windlass-server", RUNTIME_AND_BELOW],
    ),
    (
        "windlass",
        &[
            "windlass-api",
            "windlass-apply-configurations",
            "windlass-derive",
            "windlass-manifests",
            "windlass-client",
            "windlass-cache",
            "windlass-queue",
            "windlass-runtime",
            "windlass-webhook",
            "windlass-envtest",
            "windlass-server",
            "windlass-views",
        ],
    ),
    // Its tests depend on the crate itself, with its features.
    (
        "windlass-kube",
        &[
            "windlass",
            "windlass-api",
            "windlass-client",
            "windlass-derive",
            "windlass-envtest",
            "windlass-kube",
            "windlass-manifests",
            "windlass-runtime",
        ],
    ),
    ("windlass-grpc", &[]),
    ("windlass-storage", &["windlass-api", "windlass-grpc", "windlass-protobuf", "windlass-server"]),
    ("windlass-etcd", &["windlass-grpc", "windlass-server", "windlass-tls"]),
    ("windlass-scaffold", &["windlass-api"]),
    // Its tests run against the embedded server, with the built-in controllers.
    ("windlass-load", &["windlass-api", "windlass-client", "windlass-controllers", "windlass-envtest"]),
    // Its example is an operator with a kind of its own.
    (
        "windlass-explore",
        &[
            "windlass-api",
            "windlass-cache",
            "windlass-cel",
            "windlass-client",
            "windlass-controllers",
            "windlass-derive",
            "windlass-runtime",
            "windlass-serve",
            "windlass-server",
        ],
    ),
    ("windlass-cli", &[ALL]),
    ("windlass-examples", &[ALL]),
    ("guestbook", &["windlass"]),
    // These examples start their own cluster, with the built-in controllers.
    ("ingress-manager", &["windlass", "windlass-controllers"]),
    ("registry-sync", &["windlass", "windlass-controllers"]),
    ("evolution", &["windlass"]),
    ("extension-server", &["windlass"]),
    ("bench-bucket-operator", &["windlass"]),
    ("website-operator", &["windlass"]),
    ("windlass-bench", &[ALL]),
    ("conformance", &[ALL]),
    ("xtask", &[]),
];

/// Matches every crate of the workspace.
const ALL: &str = "*";
/// Matches the runtime and its dependencies, whose types are part of its API.
const RUNTIME_AND_BELOW: &str = "runtime and below";

/// Reads `cargo metadata` and returns an error that lists every forbidden edge.
pub(crate) fn check() -> Result {
    let edges = edges(&metadata(&["--no-deps"])?);
    let wrong = violations(&edges);
    if wrong.is_empty() {
        println!("crate graph: {} crates, every edge allowed", edges.len());
        return Ok(());
    }
    Err(format!("the crate graph of ARCHITECTURE.md does not allow:\n  {}", wrong.join("\n  ")).into())
}

/// Returns each crate of the workspace with its dependencies in the workspace, of all kinds.
fn edges(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: Vec<String> = packages.iter().map(name).collect();
    let depends_on = |package: &Value| {
        let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        dependencies.iter().map(name).filter(|dependency| ours.contains(dependency)).collect()
    };
    packages.iter().map(|package| (name(package), depends_on(package))).collect()
}

fn violations(edges: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (user, dependencies) in edges {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == user) else {
            wrong.push(format!("{user}: the crate is not in the table"));
            continue;
        };
        for dependency in dependencies {
            if !allowed.iter().any(|allowed| covers(allowed, dependency)) {
                wrong.push(format!("{user} → {dependency}"));
            }
        }
    }
    wrong
}

fn covers(allowed: &str, dependency: &str) -> bool {
    let runtime = ALLOWED.iter().find(|(name, _)| *name == "windlass-runtime").map_or(&[][..], |(_, below)| *below);
    match allowed {
        ALL => true,
        RUNTIME_AND_BELOW => dependency == "windlass-runtime" || runtime.contains(&dependency),
        allowed => allowed == dependency,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(user: &str, dependency: &str) -> Vec<String> {
        violations(&BTreeMap::from([(user.to_owned(), vec![dependency.to_owned()])]))
    }

    #[test]
    fn the_four_absences_are_enforced() {
        assert_eq!(graph("windlass-cache", "windlass-client"), ["windlass-cache → windlass-client"]);
        assert_eq!(graph("windlass-queue", "windlass-api"), ["windlass-queue → windlass-api"]);
        assert_eq!(graph("windlass-server", "windlass-client"), ["windlass-server → windlass-client"]);
        assert_eq!(graph("windlass-client", "windlass-runtime"), ["windlass-client → windlass-runtime"]);
    }

    #[test]
    fn crates_above_runtime_may_use_its_reexports() {
        assert!(graph("windlass-controllers", "windlass-cache").is_empty());
        assert!(!graph("windlass-controllers", "windlass-server").is_empty());
        assert!(graph("windlass-cli", "windlass-server").is_empty());
    }

    #[test]
    fn an_unknown_crate_must_be_put_into_the_table() {
        assert_eq!(graph("windlass-new", "windlass-api"), ["windlass-new: the crate is not in the table"]);
    }

    #[test]
    fn dev_dependencies_count() {
        let metadata = serde_json::json!({"packages": [
            {"name": "windlass-queue", "dependencies": [{"name": "windlass-runtime", "kind": "dev"}, {"name": "tokio"}]},
            {"name": "windlass-runtime", "dependencies": []},
        ]});
        assert_eq!(edges(&metadata)["windlass-queue"], ["windlass-runtime"]);
    }
}
