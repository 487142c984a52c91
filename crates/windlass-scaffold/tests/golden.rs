//! Comparison of the generated files with `tests/golden`. `WINDLASS_GOLDEN=write` updates the golden files.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{collections::BTreeMap, fs, path::Path};

use tempfile::TempDir;
use windlass_scaffold::{
    Changes, CreateApi, CreateWebhook, Edit, Error, FromKubebuilder, ImportedType, Init, Overwrite, Switch, Windlass,
};

/// Creates a folder with the project website-operator.
fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    init().plan(folder.path()).unwrap().write().unwrap();
    folder
}

fn init() -> Init {
    Init::new("example.com", "website-operator").unwrap()
}

fn website() -> CreateApi {
    CreateApi::new("shop", "v1", "Website").unwrap()
}

/// Returns the text of every file of a folder, by path.
fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

/// Compares changes, as a diff, with a file of tests/golden.
#[track_caller]
fn assert_golden(name: &str, changes: &Changes) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let diff = changes.diff();
    if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|mode| mode == "write") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, diff).unwrap();
        return;
    }
    let golden = fs::read_to_string(&path).unwrap();
    let differs = diff.lines().zip(golden.lines()).position(|(made, golden)| made != golden);
    let line = differs.unwrap_or_else(|| diff.lines().count().min(golden.lines().count()));
    assert!(
        diff == golden,
        "{name} differs at line {}: {:?}, golden {:?}",
        line + 1,
        diff.lines().nth(line),
        golden.lines().nth(line)
    );
}

#[test]
fn init_writes_a_project() {
    let folder = tempfile::tempdir().unwrap();
    assert_golden("init.diff", &init().plan(folder.path()).unwrap());
    assert!(tree(folder.path()).is_empty(), "a plan writes nothing");
}

#[test]
fn create_api_writes_a_type_and_its_controller() {
    let folder = project();
    assert_golden("create-api.diff", &website().plan(folder.path()).unwrap());
}

#[test]
fn a_kind_of_the_cluster_and_a_second_kind_fit_in() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    let second = CreateApi::new("shop", "v1alpha1", "HTTPGate").unwrap().namespaced(false);
    assert_golden("create-second-api.diff", &second.plan(folder.path()).unwrap());
}

fn webhooks() -> CreateWebhook {
    CreateWebhook::new("shop", "v1", "Website").unwrap().defaulting(true).validation(true)
}

#[test]
fn create_webhook_writes_webhooks_and_serves_them() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    assert_golden("create-webhook.diff", &webhooks().plan(folder.path()).unwrap());
}

#[test]
fn conversion_with_one_version_is_skipped_with_warning() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    let with = webhooks().conversion();
    assert_eq!(with.plan(folder.path()).unwrap().diff(), webhooks().plan(folder.path()).unwrap().diff());
    let warning = with.warning(folder.path()).unwrap().unwrap();
    assert!(warning.starts_with("Website has only version v1: no conversion is created"), "{warning}");
    assert_eq!(webhooks().warning(folder.path()).unwrap(), None);
    let alone = webhooks().defaulting(false).validation(false).conversion();
    let words = refused(folder.path(), |folder| alone.plan(folder));
    assert!(words.contains("there is no other version"), "{words}");
}

#[test]
fn the_second_webhooks_and_one_without_rules_fit_in() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    webhooks().plan(folder.path()).unwrap().write().unwrap();
    CreateApi::new("shop", "v1", "Shelf").unwrap().plan(folder.path()).unwrap().write().unwrap();
    let second = CreateWebhook::new("shop", "v1", "Shelf").unwrap().defaulting(true);
    assert_golden("create-second-webhook.diff", &second.plan(folder.path()).unwrap());
}

/// Creates a project with Website in v1 and v1beta1.
fn two_versions() -> TempDir {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    older().plan(folder.path()).unwrap().write().unwrap();
    folder
}

fn older() -> CreateApi {
    CreateApi::new("shop", "v1beta1", "Website").unwrap()
}

fn conversion() -> CreateWebhook {
    CreateWebhook::new("shop", "v1", "Website").unwrap().conversion()
}

#[test]
fn a_second_version_joins_the_first_which_stays_the_stored_one() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    assert_golden("create-second-version.diff", &older().plan(folder.path()).unwrap());
}

#[test]
fn create_webhook_adds_conversion_to_the_hub() {
    let folder = two_versions();
    webhooks().plan(folder.path()).unwrap().write().unwrap();
    assert_golden("create-conversion.diff", &conversion().plan(folder.path()).unwrap());
}

#[test]
fn a_third_version_becomes_a_spoke_beside_the_second() {
    let folder = two_versions();
    conversion().plan(folder.path()).unwrap().write().unwrap();
    CreateApi::new("shop", "v1alpha1", "Website").unwrap().plan(folder.path()).unwrap().write().unwrap();
    let edited = folder.path().join("src/webhook/website_conversion/v1beta1.rs");
    fs::write(&edited, "// Mine.\n").unwrap();
    conversion().plan(folder.path()).unwrap().write().unwrap();
    assert_eq!(fs::read_to_string(edited).unwrap(), "// Mine.\n");
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    let hub = read("src/webhook/website_conversion.rs");
    for version in ["v1alpha1", "v1beta1"] {
        assert_eq!(hub.matches(&format!(".spoke::<crate::api::{version}::website::Website>()")).count(), 1, "{hub}");
        assert_eq!(hub.matches(&format!("pub mod {version};")).count(), 1, "{hub}");
    }
    assert!(read("PROJECT").contains("spoke:"), "{}", read("PROJECT"));
    assert_eq!(read("config/crd/bases/shop.example.com_websites.yaml").matches("storage: true").count(), 1);
}

#[test]
fn several_groups_go_together() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    CreateApi::new("net", "v1", "Gate").unwrap().plan(folder.path()).unwrap().write().unwrap();
    let manifests = fs::read_to_string(folder.path().join("src/manifests.rs")).unwrap();
    assert!(manifests.contains("v1::website::Website") && manifests.contains("v1::gate::Gate"), "{manifests}");
    assert!(folder.path().join("config/crd/bases/net.example.com_gates.yaml").exists());
}

#[test]
fn kind_of_the_same_name_in_another_group_gets_its_own_names() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    let of_net = |version| CreateApi::new("net", version, "Website").unwrap();
    let changes = of_net("v1").plan(folder.path()).unwrap();
    assert_golden("create-namesake.diff", &changes);
    changes.write().unwrap();
    let before = tree(folder.path());

    // Versions and webhooks of one group leave the files of the other unchanged.
    of_net("v1beta1").plan(folder.path()).unwrap().write().unwrap();
    let hooks = || CreateWebhook::new("net", "v1", "Website").unwrap().defaulting(true).validation(true).conversion();
    let changes = hooks().plan(folder.path()).unwrap();
    assert_golden("create-namesake-webhook.diff", &changes);
    changes.write().unwrap();
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    for path in ["src/api/v1/website.rs", "src/controller/website.rs", "config/rbac/website_editor_role.yaml"] {
        assert_eq!(before[path], read(path), "{path}");
    }
    let manifests = read("src/manifests.rs");
    assert!(manifests.contains(".kind::<crate::api::v1::website::Website>()"), "{manifests}");
    assert!(manifests.contains(".definition(net_website())"), "{manifests}");

    older().plan(folder.path()).unwrap().write().unwrap();
    conversion().plan(folder.path()).unwrap().write().unwrap();
    let manifests = read("src/manifests.rs");
    assert!(
        manifests.contains(".definition(website())") && manifests.contains(".definition(net_website())"),
        "{manifests}"
    );
    for again in [
        website().controller(true).overwrite(Overwrite::Force).plan(folder.path()),
        of_net("v1").controller(true).overwrite(Overwrite::Force).plan(folder.path()),
        of_net("v1beta1").overwrite(Overwrite::Force).plan(folder.path()),
        hooks().overwrite(Overwrite::Force).plan(folder.path()),
    ] {
        assert_eq!(again.unwrap().diff(), "");
    }
}

#[test]
fn built_in_and_third_party_kinds_get_controllers() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    let deployments = || CreateApi::new("apps", "v1", "Deployment").unwrap().resource(false);
    let changes = deployments().plan(folder.path()).unwrap();
    assert_golden("create-core.diff", &changes);
    changes.write().unwrap();
    let words = refused(folder.path(), |folder| deployments().plan(folder));
    assert!(words.starts_with("the controller of apps/v1, Deployment: already exists"), "{words}");
    let certificates = || CreateApi::new("cert-manager", "v1", "Certificate").unwrap();
    let changes = certificates().external("crate::certificates", "io").unwrap().plan(folder.path()).unwrap();
    assert_golden("create-external.diff", &changes);
    changes.write().unwrap();
    let again = certificates().external("crate::certificates", "io").unwrap().overwrite(Overwrite::Force);
    assert_eq!(again.plan(folder.path()).unwrap().diff(), "");
    let none = certificates().external("crate::certificates", "io").unwrap().controller(false);
    let words = refused(folder.path(), |folder| none.plan(folder));
    assert!(words.ends_with("only a controller can be created for a kind of another project"), "{words}");
    assert!(certificates().external("certificates.rs", "io").is_err());
}

#[test]
fn controllers_of_kinds_of_the_same_name_have_different_names() {
    let folder = project();
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    CreateApi::new("apps", "v1", "Deployment").unwrap().resource(false).plan(folder.path()).unwrap().write().unwrap();
    CreateApi::new("net", "v1", "Deployment").unwrap().plan(folder.path()).unwrap().write().unwrap();
    let certificates = CreateApi::new("cert-manager", "v1", "Deployment").unwrap();
    let certificates = certificates.external("crate::certificates", "io").unwrap();
    certificates.plan(folder.path()).unwrap().write().unwrap();
    assert!(!read("src/controller/deployment.rs").contains(".named("));
    for (module, name) in [
        ("net_deployment", r#".named("deployment.net.example.com")"#),
        ("cert_manager_deployment", r#".named("deployment.cert-manager.io")"#),
    ] {
        let controller = read(&format!("src/controller/{module}.rs"));
        assert!(controller.contains(name), "{controller}");
        assert!(read("PROJECT").contains(&format!("  module: {module}\n")), "{}", read("PROJECT"));
        assert!(read("src/main.rs").contains(&format!("controller::{module}::controller()")));
    }
    let again = certificates.overwrite(Overwrite::Force).plan(folder.path()).unwrap();
    assert_eq!(again.diff(), "");
}

#[test]
fn kubebuilder_kinds_of_the_same_name_are_imported_separately() {
    let go = tempfile::tempdir().unwrap();
    let path = go.path().join("PROJECT");
    let resource = |group: &str| {
        format!(
            "- api: {{crdVersion: v1, namespaced: true}}\n  controller: true\n  domain: example.com\n  group: {group}\n  \
             kind: Captain\n  version: v1\n  webhooks: {{defaulting: true, webhookVersion: v1}}\n"
        )
    };
    let resources = ["crew", "port"].map(resource).concat();
    let head =
        "domain: example.com\nlayout: [go.kubebuilder.io/v4]\nmultigroup: true\nprojectName: fleet\nversion: '3'\n";
    fs::write(&path, format!("{head}resources:\n{resources}")).unwrap();
    let ty = |group: &str| ImportedType {
        group: format!("{group}.example.com"),
        version: "v1".to_owned(),
        kind: "Captain".to_owned(),
        source: format!("//! The captains of {group}.\n"),
    };
    let folder = tempfile::tempdir().unwrap();
    let import = FromKubebuilder::read(&path).unwrap().types(["crew", "port"].map(ty));
    let plan = import.plan(folder.path()).unwrap();
    assert!(!plan.left.iter().any(|left| left.contains("skipped")), "{:?}", plan.left);
    plan.changes.write().unwrap();
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    assert_eq!(read("src/api/v1/captain.rs"), "//! The captains of crew.\n");
    assert_eq!(read("src/api/v1/port_captain.rs"), "//! The captains of port.\n");
    for (module, named) in [("captain", false), ("port_captain", true)] {
        let controller = read(&format!("src/controller/{module}.rs"));
        assert_eq!(controller.contains(r#".named("captain.port.example.com")"#), named, "{controller}");
        let path = format!("use crate::api::v1::{module}::Captain;");
        assert!(
            controller.contains(&path) && read(&format!("src/webhook/{module}.rs")).contains(&path),
            "{controller}"
        );
        assert!(read("src/webhook.rs").contains(&format!("= {module}::register(webhooks);")));
    }
}

#[test]
fn plural_can_be_given() {
    let folder = project();
    let admiral = |version| CreateApi::new("crew", version, "Admiral").unwrap().namespaced(false);
    let changes = admiral("v1").plural("admirales").unwrap().plan(folder.path()).unwrap();
    assert_golden("create-plural.diff", &changes);
    changes.write().unwrap();
    let words = refused(folder.path(), |folder| admiral("v2").plural("admirals").unwrap().plan(folder));
    assert_eq!(words, "crew/v2, Admiral: its plural is already admirales");
    admiral("v2").plan(folder.path()).unwrap().write().unwrap();
    let older = fs::read_to_string(folder.path().join("src/api/v2/admiral.rs")).unwrap();
    assert!(older.contains("plural = \"admirales\""), "{older}");
    assert!(CreateApi::new("crew", "v1", "Admiral").unwrap().plural("Admirals").is_err());
}

fn edited(switch: Switch) -> Edit {
    Edit::default().namespaced(switch).network_policy(switch).prometheus(switch)
}

#[test]
fn edit_enables_and_disables_parts() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    let before = tree(folder.path());
    let on = edited(Switch::On).plan(folder.path()).unwrap();
    assert_golden("edit.diff", &on);
    on.write().unwrap();
    assert_eq!(edited(Switch::On).plan(folder.path()).unwrap().diff(), "", "a second run changes nothing");
    let init = init().overwrite(Overwrite::Force).plan(folder.path()).unwrap();
    assert_eq!(init.diff(), "", "overwriting a project keeps edited files");
    edited(Switch::Off).plan(folder.path()).unwrap().write().unwrap();
    let mut after = tree(folder.path());
    assert!(after.remove("config/namespaced/kustomization.yaml").is_some(), "files stay");
    assert_eq!(after, before);
}

#[test]
fn namespaced_operator_has_no_cluster_roles() {
    let folder = project();
    let gate = CreateApi::new("net", "v1", "Gate").unwrap().namespaced(false);
    gate.plan(folder.path()).unwrap().write().unwrap();
    let namespaced = Edit::default().namespaced(Switch::On);
    let words = refused(folder.path(), |folder| namespaced.plan(folder));
    assert_eq!(words, "an operator of one namespace, with net/v1, Gate: the kind is cluster-scoped");

    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    namespaced.plan(folder.path()).unwrap().write().unwrap();
    let words = refused(folder.path(), |folder| gate.plan(folder));
    assert!(words.ends_with("the kind is cluster-scoped"), "{words}");
    let words = refused(folder.path(), |folder| webhooks().plan(folder));
    assert!(words.contains("shop/v1, Website: its webhook configurations are cluster-scoped"), "{words}");
    let words = refused(folder.path(), |folder| Edit::default().plan(folder));
    assert!(words.contains("nothing to do: set --namespaced"), "{words}");
    fs::write(folder.path().join("config/namespaced/kustomization.yaml"), "# Mine.\n").unwrap();
    let words = refused(folder.path(), |folder| namespaced.plan(folder));
    assert!(words.ends_with("--force overwrites them: config/namespaced/kustomization.yaml"), "{words}");
}

#[test]
fn written_files_match_the_dry_run() {
    let folder = project();
    let before = tree(folder.path());
    let changes = website().plan(folder.path()).unwrap();
    let shown: Vec<_> = changes.paths().map(|path| path.display().to_string()).collect();
    changes.write().unwrap();
    let after = tree(folder.path());
    let mut changed: Vec<_> = after.keys().filter(|path| before.get(*path) != after.get(*path)).cloned().collect();
    changed.sort_by(|a, b| Path::new(a).cmp(Path::new(b)));
    assert_eq!(changed, shown);
    assert!(before.keys().all(|path| after.contains_key(path)));
}

#[test]
fn repeated_command_changes_nothing() {
    let folder = project();
    website().plan(folder.path()).unwrap().write().unwrap();
    let again = website().overwrite(Overwrite::Force).plan(folder.path()).unwrap();
    assert_eq!(again.diff(), "");
    webhooks().plan(folder.path()).unwrap().write().unwrap();
    let again = webhooks().overwrite(Overwrite::Force).plan(folder.path()).unwrap();
    assert_eq!(again.diff(), "");
    let again = website().overwrite(Overwrite::Force).plan(folder.path()).unwrap();
    assert_eq!(again.diff(), "", "a kind keeps its webhooks");
    let again = init().overwrite(Overwrite::Force).plan(folder.path()).unwrap();
    assert_eq!(again.diff(), "");
    older().plan(folder.path()).unwrap().write().unwrap();
    conversion().plan(folder.path()).unwrap().write().unwrap();
    for again in [
        website().controller(true).overwrite(Overwrite::Force).plan(folder.path()),
        older().overwrite(Overwrite::Force).plan(folder.path()),
        webhooks().overwrite(Overwrite::Force).plan(folder.path()),
        conversion().overwrite(Overwrite::Force).plan(folder.path()),
    ] {
        assert_eq!(again.unwrap().diff(), "", "the other versions and their conversion are kept");
    }
}

#[test]
fn edited_files_survive() {
    let folder = project();
    let main = folder.path().join("src/main.rs");
    let edited = fs::read_to_string(&main).unwrap().replace("let mut manager", "// Mine.\n    let mut manager");
    fs::write(&main, &edited).unwrap();
    website().plan(folder.path()).unwrap().write().unwrap();
    let with_controller = fs::read_to_string(&main).unwrap();
    let added = "    manager.add(website_operator::controller::website::controller());\n";
    assert_eq!(with_controller.replace(added, ""), edited);
    assert!(with_controller.contains(added));

    init().overwrite(Overwrite::Force).plan(folder.path()).unwrap().write().unwrap();
    assert_eq!(fs::read_to_string(&main).unwrap(), with_controller, "also when init is forced");
}

#[test]
fn forced_init_updates_windlass_and_unchanged_files() {
    let folder = project();
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    let anew = |domain: &str| Init::new(domain, "website-operator").unwrap().overwrite(Overwrite::Force);
    let moved = anew("example.com").windlass(Windlass::At("/elsewhere".into()));
    moved.plan(folder.path()).unwrap().write().unwrap();
    assert_eq!(
        read("Cargo.toml").matches("path = \"/elsewhere/crates/windlass\"").count(),
        2,
        "{}",
        read("Cargo.toml")
    );
    anew("example.com").plan(folder.path()).unwrap().write().unwrap();
    assert!(read("Cargo.toml").contains("/elsewhere"), "the option was not set");

    fs::write(folder.path().join("src/api.rs"), "//! Mine.\n").unwrap();
    anew("example.org").plan(folder.path()).unwrap().write().unwrap();
    assert!(read("src/main.rs").contains("website-operator.example.org"), "{}", read("src/main.rs"));
    assert_eq!(read("src/api.rs"), "//! Mine.\n");

    website().plan(folder.path()).unwrap().write().unwrap();
    let words = refused(folder.path(), |folder| anew("example.net").plan(folder));
    assert!(words.starts_with("the domain example.net: the project has kinds of example.org"), "{words}");
}

#[test]
fn folder_of_another_tool_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let words = Windlass::at(folder.path()).unwrap_err().to_string();
    assert!(words.contains("crates/windlass/Cargo.toml: not the Cargo.toml of the crate windlass"), "{words}");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_eq!(Windlass::at(&repository).unwrap(), Windlass::At(repository.clone()));
}

/// Returns the message of an error, and checks that nothing was written.
#[track_caller]
fn refused(folder: &Path, plan: impl FnOnce(&Path) -> Result<Changes, Error>) -> String {
    let before = tree(folder);
    let error = plan(folder).unwrap_err();
    assert_eq!(tree(folder), before);
    error.to_string()
}

#[test]
fn existing_project_and_api_are_not_recreated() {
    let folder = project();
    let words = refused(folder.path(), |folder| init().plan(folder));
    let expected = "PROJECT: the project website-operator is already initialized; --force overwrites its files";
    assert!(words.ends_with(expected), "{words}");
    website().plan(folder.path()).unwrap().write().unwrap();
    let words = refused(folder.path(), |folder| website().plan(folder));
    assert_eq!(words, "the API shop/v1, Website: already exists; --force overwrites its files");
    let words = refused(folder.path(), |folder| website().resource(false).plan(folder));
    assert_eq!(words, "the controller of shop/v1, Website: already exists; --force overwrites its files");
    webhooks().plan(folder.path()).unwrap().write().unwrap();
    let words = refused(folder.path(), |folder| webhooks().plan(folder));
    assert_eq!(words, "webhooks of shop/v1, Website: already exists; --force overwrites its files");
}

#[test]
fn foreign_file_is_not_overwritten_without_force() {
    let folder = project();
    fs::create_dir_all(folder.path().join("tests")).unwrap();
    fs::write(folder.path().join("tests/website.rs"), "// Mine.\n").unwrap();
    let words = refused(folder.path(), |folder| website().plan(folder));
    assert!(words.ends_with("--force overwrites them: tests/website.rs"), "{words}");
    website().overwrite(Overwrite::Force).plan(folder.path()).unwrap().write().unwrap();
    assert!(fs::read_to_string(folder.path().join("tests/website.rs")).unwrap().contains("Environment"));
}

#[test]
fn missing_parts_are_named_in_the_error() {
    let empty = tempfile::tempdir().unwrap();
    let words = refused(empty.path(), |folder| website().plan(folder));
    assert!(words.contains("PROJECT: no such file; `windlass init"), "{words}");

    let folder = project();
    let words = refused(folder.path(), |folder| website().resource(false).plan(folder));
    assert_eq!(words, "shop/v1, Website: the type does not exist; --resource creates it");
    let words = refused(folder.path(), |folder| website().resource(false).controller(false).plan(folder));
    assert!(words.contains("nothing to do"), "{words}");
    let words = refused(folder.path(), |folder| webhooks().plan(folder));
    assert_eq!(words, "webhooks of shop/v1, Website: the API does not exist; `windlass create api` creates it");
    website().plan(folder.path()).unwrap().write().unwrap();
    let words = refused(folder.path(), |folder| webhooks().defaulting(false).validation(false).plan(folder));
    assert!(words.contains("nothing to do: set --defaulting"), "{words}");
    let words = refused(folder.path(), |folder| older().controller(true).plan(folder));
    assert_eq!(words, "shop/v1beta1, Website: the kind already has a controller, for version v1");
    let words = refused(folder.path(), |folder| older().namespaced(false).plan(folder));
    assert!(words.contains("its other versions have another value of --namespaced"), "{words}");
    let words = refused(folder.path(), |folder| conversion().plan(folder));
    let what = "the conversion of shop/v1, Website";
    assert_eq!(words, format!("{what}: there is no other version; `windlass create api` creates one"));
    older().plan(folder.path()).unwrap().write().unwrap();
    let words = refused(folder.path(), |folder| conversion().spoke("v2").unwrap().plan(folder));
    assert_eq!(words, format!("{what}: there is no version v2; `windlass create api` creates it"));
    conversion().plan(folder.path()).unwrap().write().unwrap();
    let words = refused(folder.path(), |folder| conversion().plan(folder));
    assert_eq!(words, format!("{what}: already exists; --force overwrites its files"));
    let other_hub = CreateWebhook::new("shop", "v1beta1", "Website").unwrap().conversion();
    let words = refused(folder.path(), |folder| other_hub.plan(folder));
    assert!(words.ends_with("version v1 is already the hub"), "{words}");

    fs::write(folder.path().join("src/main.rs"), "fn main() {}\n").unwrap();
    let words = refused(folder.path(), |folder| CreateApi::new("shop", "v1", "Shelf").unwrap().plan(folder));
    assert!(words.starts_with("src/main.rs: there is no statement that calls .run() on a variable"), "{words}");
    fs::remove_file(folder.path().join("src/api.rs")).unwrap();
    let words = refused(folder.path(), |folder| CreateApi::new("shop", "v1", "Shelf").unwrap().plan(folder));
    assert_eq!(words, "adding to src/api.rs");
}

#[test]
fn a_project_file_of_another_tool_is_not_taken_for_ours() {
    let folder = tempfile::tempdir().unwrap();
    let text = "domain: example.com\nlayout:\n- go.kubebuilder.io/v4\nprojectName: website-operator\nversion: \"3\"\n";
    fs::write(folder.path().join("PROJECT"), text).unwrap();
    let error = website().plan(folder.path()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "its layout is go.kubebuilder.io/v4, not windlass.dev/v1");
}
