//! The migration of a kube-rs operator, compared with `tests/golden`. `cargo xtask migrate` compiles the result.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{fs, path::Path};

use tempfile::TempDir;
use windlass_scaffold::{FromKube, Migration};

const MANIFEST: &str = "[package]\nname = \"p\"\n\n[dependencies]\nkube = \"5\"\nschemars = \"1\"\n";

/// Migrates a project with one source file.
fn migrated(source: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(folder.path().join("src/main.rs"), source).unwrap();
    let Migration { changes, left } = FromKube::default().plan(folder.path()).unwrap();
    changes.write().unwrap();
    let text = fs::read_to_string(folder.path().join("src/main.rs")).unwrap();
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (text, left.iter().map(ToString::to_string).collect())
}

fn operator() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kube-operator");
    fs::create_dir(folder.path().join("src")).unwrap();
    for file in ["Cargo.toml", "src/main.rs", "src/api.rs"] {
        fs::copy(from.join(file), folder.path().join(file)).unwrap();
    }
    folder
}

#[test]
fn operator_is_rewritten_as_recorded() {
    let folder = operator();
    let Migration { changes, left } = FromKube::default().plan(folder.path()).unwrap();
    let left: String = left.iter().map(|left| format!("{left}\n")).collect();
    for (name, text) in [("from-kube.diff", changes.diff()), ("from-kube.left", left)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|mode| mode == "write") {
            fs::write(&path, text).unwrap();
            continue;
        }
        let golden = fs::read_to_string(&path).unwrap();
        assert!(text == golden, "{name} differs; WINDLASS_GOLDEN=write updates it:\n{text}");
    }
}

#[test]
fn migrated_operator_is_not_changed_again() {
    let folder = operator();
    FromKube::default().plan(folder.path()).unwrap().changes.write().unwrap();
    let again = FromKube::default().plan(folder.path()).unwrap();
    assert_eq!(again.changes.diff(), "");
}

const CONTROLLER: &str = "
use kube::runtime::{Controller, controller::Action, watcher};
use kube::{api::Api, client::Client};

async fn run(client: Client) {
    let api: Api<Site> = Api::all(client.clone());
    Controller::new(api, watcher::Config::default())
        CALLS
        .run(reconcile, |_, _, _| Action::requeue(Duration::ZERO), Arc::new(client))
        .for_each(|_| async {})
        .await;
}
";

#[test]
fn controller_without_counterpart_stays_with_its_action() {
    let source = CONTROLLER.replace("CALLS", ".watches(other, watcher::Config::default(), map)");
    let (text, left) = migrated(&source);
    assert_eq!(text, source);
    let reason = "src/main.rs:7: Controller::new: the method .watches(…)";
    assert!(left.iter().any(|left| left.starts_with(reason)), "{left:#?}");
    // All controllers stay, because they share the type of their actions.
    let two = format!("{}\nmod other {{ {} }}", CONTROLLER.replace("CALLS", ""), source);
    assert_eq!(migrated(&two).0, two);
}

#[test]
fn controller_becomes_a_manager_and_its_policy_is_called() {
    let (text, left) = migrated(&CONTROLLER.replace("CALLS", ".with_config(Config::default().concurrency(4))"));
    for part in [
        "windlass::Controller::<Site>::new().concurrency(4).reconcile(move |object, _: windlass::Context| {",
        "let _ = (|_, _, _| Action::requeue_after(Duration::ZERO))(object, error, context);",
        ".await.expect(\"the manager has a configuration\");",
        "use windlass::Action;",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("watcher") && !text.contains("api: Api<Site>"), "{text}");
    assert!(left.iter().any(|left| left.contains("the delay of the error policy")), "{left:#?}");
}

#[test]
fn controller_as_a_future_becomes_a_block() {
    let source = CONTROLLER.replace("CALLS", "").replace("    Controller::new", "    let all = Controller::new");
    let (text, _) = migrated(&source.replace("\n        .await;", ";\n    all.await;"));
    assert!(text.contains("let all = {\nlet context = Arc::new(client);\nasync move {"), "{text}");
}

const KIND: &str = "
use kube::CustomResource;
use schemars::JsonSchema;

#[derive(CustomResource, Clone, JsonSchema)]
#[kube(group = \"example.com\", version = \"v1\", kind = \"HTTPSite\", root = \"HttpSite\" MORE)]
pub(crate) struct SiteSpec {
    #[schemars(FIELD)]
    image: Vec<Image>,
}

#[derive(JsonSchema)]
struct Image {
    #[schemars(range(max = 3))]
    size: i32,
}
";

#[test]
fn kind_keeps_its_name_scope_and_visibility() {
    let (text, _) =
        migrated(&KIND.replace("MORE", ", deprecated, storage = false").replace("FIELD", "length(equal = 2)"));
    for part in [
        "#[resource(group = \"example.com\", version = \"v1\", deprecated, storage = false, scope = \"Cluster\", kind = \"HTTPSite\")]",
        "pub(crate) struct HttpSite {",
        "#[schema(min_items = 2, max_items = 2)]",
        "#[derive(windlass::Schema)]\nstruct Image",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("use kube") && !text.contains("schemars"), "{text}");
}

#[test]
fn kind_with_an_unknown_attribute_keeps_its_derive() {
    let source = KIND.replace("MORE", ", no_spec").replace("FIELD", "length(max = 2)");
    let (text, left) = migrated(&source);
    assert_eq!(text, source);
    assert!(left.iter().any(|left| left.contains("src/main.rs:5: ") && left.contains("no_spec")), "{left:#?}");
}

#[test]
fn schema_without_counterpart_is_bridged() {
    let (text, left) = migrated(&KIND.replace("MORE", "").replace("FIELD", "schema_with = \"images\""));
    for part in [
        "impl windlass::Schema for SiteSpec {",
        "<windlass_kube::Schemars<Self> as windlass::Schema>::schema()",
        "#[schemars(schema_with = \"images\")]",
        // The bridged schema contains this one.
        "#[derive(JsonSchema, windlass::Schema)]\nstruct Image",
        "#[schemars(range(max = 3))]\n#[schema(maximum = 3)]",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(left.iter().any(|left| left.contains("#[derive(JsonSchema)] of SiteSpec")), "{left:#?}");
}

#[test]
fn invalid_source_is_an_error_and_nothing_is_written() {
    let folder = operator();
    fs::write(folder.path().join("src/other.rs"), "fn {").unwrap();
    let before = fs::read_to_string(folder.path().join("src/main.rs")).unwrap();
    let error = FromKube::default().plan(folder.path()).unwrap_err().to_string();
    assert_eq!(error, "src/other.rs, line 1: invalid Rust syntax");
    assert_eq!(fs::read_to_string(folder.path().join("src/main.rs")).unwrap(), before);
}

#[test]
fn manifest_names_other_versions_and_loses_unused_crates() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[dependencies]\nkube = { version = \"2.0\", features = [\"derive\"] }\nk8s-openapi = { version = \"0.29\", features = [\"v1_33\"] }\nschemars = \"1\"\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.path().join("lib.rs"), "use kube::Client;\n").unwrap();
    let Migration { changes, left } = FromKube::default().plan(folder.path()).unwrap();
    let left: Vec<_> = left.iter().map(ToString::to_string).collect();
    assert!(left.iter().any(|left| left.starts_with("Cargo.toml:2: ") && left.contains("is version 2.0")), "{left:#?}");
    let diff = changes.diff();
    assert!(diff.contains("+windlass = { version = \"0.1.0\", default-features = false }"), "{diff}");
    assert!(diff.contains("-schemars = \"1\"") && !diff.contains("\n-kube"), "{diff}");
}
