use std::{fs, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_api::k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use windlass_client::Client;
use windlass_server::Server;

use super::*;
use crate::plan::Plan;

const SITE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\n";

#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

#[cfg(unix)]
#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the client of a new server, and an executor with a time limit for each step.
fn cluster(limit: Duration) -> (Client, Executor) {
    let server = Server::builder().build();
    let client = Client::from_service(server.service(), "default");
    (client.clone(), Executor::new(client, "/admin.kubeconfig".into(), None, limit))
}

fn patient() -> (Client, Executor) {
    cluster(Duration::from_mins(1))
}

async fn data(client: &Client) -> Value {
    let found = client.get_opt::<ConfigMap>("site").within("default").await.expect("the server answers");
    serde_json::to_value(found.map(|site| site.data)).expect("data is JSON")
}

#[test]
fn steps_run_in_the_order_of_their_numbers() {
    let wait = format!("{SITE}condition: object.data.a == '1'\n");
    let files = [
        ("9-first.yaml", SITE),
        ("10-second.patch.yml", SITE),
        ("010-equal.delete.json", SITE),
        ("30.wait.yaml", wait.as_str()),
        ("020-status.status.yaml", SITE),
        (".hidden", ""),
        ("README.md", ""),
    ];
    let directory = directory(&files);
    let steps = steps(directory.path()).unwrap();
    let names: Vec<_> = steps.iter().map(Step::name).collect();
    assert_eq!(
        names,
        ["9-first.yaml", "010-equal.delete.json", "10-second.patch.yml", "020-status.status.yaml", "30.wait.yaml"]
    );
    let actions: Vec<_> = steps.iter().map(|step| format!("{:?}", step.action)).collect();
    let expected = ["Apply", "Delete", "Patch", "PatchStatus", "Wait"];
    assert!(actions.iter().zip(expected).all(|(action, name)| action.starts_with(&format!("{name}("))), "{actions:?}");
}

#[test]
fn invalid_files_are_named() {
    let error = |name: &str, content: &str| {
        let directory = directory(&[(name, content)]);
        let text = steps(directory.path()).unwrap_err().to_string();
        text.replace(&format!("{}/", directory.path().display()), "")
    };
    assert_eq!(
        error("create.yaml", SITE),
        "create.yaml: the name of a step begins with its number, such as 010-create.yaml"
    );
    assert_eq!(error("1-notes.txt", "x"), "1-notes.txt: it is neither a manifest (*.yaml) nor executable");
    assert_eq!(error("1-a.yaml", "# empty\n"), "1-a.yaml: it has no documents");
    let two = format!("{SITE}---\nkind: Pod\n");
    assert_eq!(error("1-a.delete.yaml", &two), "1-a.delete.yaml: line 4: the document has no apiVersion");
    assert!(error("1-a.wait.yaml", SITE).starts_with("1-a.wait.yaml: line 1: a wait needs either"));
    assert!(steps(directory(&[]).path()).unwrap_err().to_string().ends_with(": it contains no steps"));
    assert_eq!(steps(Path::new("/missing")).unwrap_err().to_string(), "cannot read /missing");
}

#[test]
fn crds_are_read_and_other_kinds_rejected() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\n";
    let both = format!("{crd}---\n{crd}");
    let files =
        directory(&[("a.yaml", crd), ("b.yml", &both), ("notes.txt", "x"), ("kustomization.yaml", "resources: []")]);
    assert_eq!(crds(files.path()).unwrap().len(), 3);
    assert_eq!(crds(&files.path().join("b.yml")).unwrap().len(), 2);
    let other = directory(&[("a.yaml", &format!("{crd}---\n{SITE}"))]);
    let error = crds(other.path()).unwrap_err().to_string();
    assert!(error.ends_with("a.yaml: line 4: ConfigMap site is not a CustomResourceDefinition"), "{error}");
}

#[test]
fn directory_without_crds_is_rejected() {
    let empty = tempfile::tempdir().unwrap();
    let error = crds(empty.path()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: it contains no CustomResourceDefinition", empty.path().display()));
}

#[test]
fn crds_of_v1beta1_are_converted() {
    let crd = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\n\
               metadata: {name: as.example.com}\nspec:\n  group: example.com\n  version: v1\n  names: {plural: as, kind: A}\n  \
               subresources: {status: {}}\n";
    let files = directory(&[("a.yaml", crd)]);
    let found = crds(files.path()).unwrap();
    assert_eq!(found[0]["apiVersion"], "apiextensions.k8s.io/v1");
    let version = &found[0]["spec"]["versions"][0];
    assert_eq!((&version["name"], version["subresources"]["status"].is_object()), (&"v1".into(), true));
    let wrong = directory(&[("b.yaml", &format!("{crd}---\n{}", crd.replace("  version: v1\n", "")))]);
    let error = crds(wrong.path()).unwrap_err().to_string();
    assert!(error.contains("b.yaml: line 9: CustomResourceDefinition as.example.com: spec.versions: "), "{error}");
}

#[tokio::test]
async fn manifests_are_applied_patched_and_deleted() {
    let (client, executor) = patient();
    executor.execute(&Step::apply("a", &format!("{SITE}data: {{a: '1', b: '1'}}\n")).unwrap()).await.unwrap();
    assert_eq!(data(&client).await, serde_json::json!({"a": "1", "b": "1"}));
    // Another manager owns the field now; the step takes it back.
    executor.execute(&Step::patch("b", &format!("{SITE}data: {{a: '2', b: null}}\n")).unwrap()).await.unwrap();
    assert_eq!(data(&client).await, serde_json::json!({"a": "2"}));
    executor.execute(&Step::apply("c", &format!("{SITE}data: {{a: '3'}}\n")).unwrap()).await.unwrap();
    let site = client.get::<ConfigMap>("site").within("default").await.unwrap();
    let managers = site.metadata.managed_fields.unwrap_or_default();
    assert!(managers.iter().all(|entry| entry.manager.as_deref() == Some(execution::MANAGER)), "{managers:?}");
    executor.execute(&Step::delete("d", SITE).unwrap()).await.unwrap();
    assert_eq!(data(&client).await, Value::Null);
    let error = executor.execute(&Step::delete("d", SITE).unwrap()).await.unwrap_err().error;
    assert!(error.starts_with("d, line 1: ConfigMap site: ") && error.contains("not found"), "{error}");
}

#[tokio::test]
async fn status_is_patched_through_its_subresource() {
    let (client, executor) = patient();
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
    let template = "{metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}";
    let spec = format!("spec: {{selector: {{matchLabels: {{a: b}}}}, template: {template}}}\n");
    executor.execute(&Step::apply("a", &format!("{web}{spec}")).unwrap()).await.unwrap();
    let status = "spec: {replicas: 5}\nstatus: {replicas: 2}\n";
    executor.execute(&Step::patch_status("b", &format!("{web}{status}")).unwrap()).await.unwrap();
    let found = client.get::<Deployment>("web").within("default").await.unwrap();
    assert_eq!(found.status.and_then(|status| status.replicas), Some(2));
    assert_eq!(found.spec.and_then(|spec| spec.replicas), Some(1), "the subresource ignores the spec");
}

#[tokio::test]
async fn new_kinds_can_be_used_in_the_same_step() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: sites.example.com}\nspec:\n  group: example.com\n  scope: Cluster\n  \
               names: {kind: Site, plural: sites}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    \
               schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";
    let site = "apiVersion: example.com/v1\nkind: Site\nmetadata: {name: a}\n";
    let (_client, executor) = patient();
    executor.execute(&Step::apply("a", &format!("{crd}---\n{site}")).unwrap()).await.unwrap();
    executor.execute(&Step::wait("b", &format!("{site}condition: object.kind == 'Site'")).unwrap()).await.unwrap();
    let unknown = Step::apply("c", &site.replace("Site", "Sight")).unwrap();
    let error = executor.execute(&unknown).await.unwrap_err().error;
    assert!(error.starts_with("c, line 1: Sight a: no resource is of kind Sight.example.com"), "{error}");
}

#[tokio::test]
async fn wait_ends_when_the_condition_is_met() {
    let (client, executor) = patient();
    let wait = Step::wait("w", &format!("{SITE}condition: object.data.a == '2'\n")).unwrap();
    let write = async {
        for value in ["1", "2"] {
            let step = Step::apply("a", &format!("{SITE}data: {{a: '{value}'}}\n")).unwrap();
            executor.execute(&step).await.unwrap();
        }
    };
    let (waited, ()) = tokio::join!(executor.execute(&wait), write);
    waited.unwrap();
    assert_eq!(data(&client).await, serde_json::json!({"a": "2"}));
}

#[tokio::test]
async fn steps_fail_at_the_time_limit_with_the_reason() {
    let (_client, executor) = cluster(Duration::from_millis(300));
    let finalizer = SITE.replace("{name: site}", "{name: site, finalizers: [example.com/a]}");
    executor.execute(&Step::apply("a", &finalizer).unwrap()).await.unwrap();
    let error = executor.execute(&Step::delete("d", SITE).unwrap()).await.unwrap_err().error;
    let expected =
        "d, line 1: ConfigMap site: not absent within 300ms: it is being deleted, with finalizers [\"example.com/a\"]";
    assert_eq!(error, expected);
    let wait = Step::wait("w", &format!("# x\n---\n{SITE}condition: object.data.a == '2'\n")).unwrap();
    let error = executor.execute(&wait).await.unwrap_err().error;
    let expected = "w, line 2: ConfigMap site: not object.data.a == '2' within 300ms: no such key: data";
    assert_eq!(error, expected);
}

#[cfg(unix)]
#[tokio::test]
async fn executables_succeed_or_fail_with_their_output() {
    let directory = directory(&[
        ("1-run", "#!/bin/sh\ntest $KUBECONFIG = /admin.kubeconfig\n"),
        ("2-fail", "#!/bin/sh\necho out; exit 3\n"),
        ("3-hang", "#!/bin/sh\necho up; sleep 1000\n"),
    ]);
    for name in ["1-run", "2-fail", "3-hang"] {
        make_executable(&directory.path().join(name));
    }
    let steps = steps(directory.path()).unwrap();
    let (_client, executor) = patient();
    executor.execute(&steps[0]).await.unwrap();
    assert_eq!(executor.execute(&steps[1]).await.unwrap_err().error, "2-fail: exit status: 3\nout");
    let (_client, executor) = cluster(Duration::from_millis(500));
    let error = executor.execute(&steps[2]).await.unwrap_err().error;
    assert!(error.starts_with("3-hang: it runs longer than 500ms"), "{error}");
    let missing = executor.execute(&Step::execute("m", "/missing")).await.unwrap_err().error;
    assert!(missing.starts_with("m: it cannot be started: No such file"), "{missing}");
}

/// Returns the steps that make and revert a change of the ConfigMap that a step applies.
#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
fn mutated(create: &Step, plan: &str) -> [Step; 2] {
    let plan: Plan = format!("{plan}@configmaps/default/site").parse().unwrap();
    let object = applied(std::slice::from_ref(create), |kind| kind.kind == "ConfigMap").remove(0);
    object.mutated(plan.mutation().unwrap())
}

#[tokio::test]
async fn field_is_changed_and_set_back() {
    let (client, executor) = patient();
    let create = Step::apply("a", &format!("{SITE}data: {{a: '1'}}\n")).unwrap();
    executor.execute(&create).await.unwrap();
    let [mutate, revert] = mutated(&create, r#"set(data/a,"2")"#);
    executor.execute(&mutate).await.unwrap();
    assert_eq!(data(&client).await, json!({"a": "2"}));
    executor.execute(&Step::patch("b", &format!("{SITE}data: {{b: '1'}}\n")).unwrap()).await.unwrap();
    executor.execute(&revert).await.unwrap();
    assert_eq!(data(&client).await, json!({"a": "1", "b": "1"}), "the change of another client stays");
}

#[tokio::test]
async fn rejected_change_is_reported() {
    let (client, executor) = patient();
    let create = Step::apply("a", &format!("{SITE}data: {{a: '1'}}\n")).unwrap();
    executor.execute(&create).await.unwrap();
    for plan in [r#"set(data/a%2Fb,"2")"#, "remove(data/b)"] {
        let [mutate, _] = mutated(&create, plan);
        let failure = executor.execute(&mutate).await.unwrap_err();
        assert!(failure.is_rejected && failure.error.starts_with("mutate, ConfigMap site: "), "{failure:?}");
    }
    assert_eq!(data(&client).await, json!({"a": "1"}));
    assert!(!executor.execute(&Step::execute("m", "/missing")).await.unwrap_err().is_rejected);
}
