use clap::Parser;
use serde_json::json;
use windlass_api::{ApiResource, GroupVersionKind};

use super::*;
use crate::testing;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

/// Runs the command. Returns its output and its messages.
async fn get(client: &Client, arguments: &str) -> Result<(String, String), String> {
    let arguments = std::iter::once("get").chain(arguments.split_whitespace());
    let options = Command::try_parse_from(arguments).map_err(|error| error.to_string())?.options;
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    let run = Get { options: &options, client: client.clone(), out: &mut out, notices: &mut notices };
    run.run(&CachedDiscovery::in_memory(client.clone())).await.map_err(|error| error.to_string())?;
    Ok((String::from_utf8(out).unwrap(), String::from_utf8(notices).unwrap()))
}

async fn printed(client: &Client, arguments: &str) -> String {
    get(client, arguments).await.unwrap().0
}

/// Creates a server with two ConfigMaps in one namespace, one in another, and a Service.
async fn server() -> Client {
    let client = testing::client();
    let create = async |kind: &'static str, plural: &'static str, object: serde_json::Value| {
        let mut resource = ApiResource::namespaced(GroupVersionKind::new("", "v1", kind), plural);
        if kind == "Namespace" {
            resource = resource.cluster_scoped();
        }
        client.dynamic(&resource).create(&serde_json::from_value(object).unwrap()).await.unwrap();
    };
    create("Namespace", "namespaces", json!({"metadata": {"name": "other"}})).await;
    let map = |name: &str, namespace: &str, label: &str| json!({"metadata": {"name": name, "namespace": namespace, "labels": {"app": label}}, "data": {"k": name}});
    create("ConfigMap", "configmaps", map("one", "default", "a")).await;
    create("ConfigMap", "configmaps", map("two", "default", "b")).await;
    create("ConfigMap", "configmaps", map("three", "other", "a")).await;
    let service = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}});
    create("Service", "services", service).await;
    client
}

/// Removes the ages, which depend on the time.
fn without_ages(text: &str) -> Vec<String> {
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    text.lines()
        .map(|line| {
            cells(line).into_iter().filter(|cell| !cell.ends_with('s') || cell.len() > 3).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[tokio::test]
async fn a_table_has_the_columns_of_the_server() {
    let client = server().await;
    let text = printed(&client, "cm").await;
    assert!(text.starts_with("NAME "), "{text}");
    assert_eq!(without_ages(&text), ["NAME DATA AGE", "one 1", "two 1"]);
    assert_eq!(without_ages(&printed(&client, "configmap two one --no-headers").await), ["two 1", "one 1"]);
    assert_eq!(
        without_ages(&printed(&client, "configmaps -A -l app=a --show-labels -L app").await),
        ["NAMESPACE NAME DATA AGE APP LABELS", "default one 1 a app=a", "other three 1 a app=a"]
    );
    assert_eq!(
        without_ages(&printed(&client, "cm --field-selector metadata.name=two").await),
        ["NAME DATA AGE", "two 1"]
    );
    assert_eq!(without_ages(&printed(&client, "cm --chunk-size 1").await), ["NAME DATA AGE", "one 1", "two 1"]);
    let header = async |flags| printed(&client, flags).await.lines().next().unwrap().split_whitespace().count();
    assert_eq!((header("svc").await, header("svc -o wide").await), (6, 7));
}

#[tokio::test]
async fn several_types_are_printed_as_separate_tables() {
    let client = server().await;
    let text = printed(&client, "cm,svc").await;
    let (maps, services) = text.split_once("\n\n").unwrap();
    assert!(maps.contains("\nconfigmap/one ") && services.contains("\nservice/web "), "{text}");
    let text = printed(&client, "svc/web cm/one cm/two --no-headers").await;
    assert_eq!(
        text.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["service/web", "configmap/one", "configmap/two"]
    );
    assert!(printed(&client, "all -o name").await.contains("service/web\n"));
}

#[tokio::test]
async fn objects_are_shown_as_they_are() {
    let client = server().await;
    assert_eq!(printed(&client, "cm -o name").await, "configmap/one\nconfigmap/two\n");
    let text = printed(&client, "cm one -o json").await;
    let one: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&one["kind"], &one["apiVersion"], &one["data"]),
        (&json!("ConfigMap"), &json!("v1"), &json!({"k": "one"}))
    );
    assert!(
        text.starts_with("{\n    \"apiVersion\": \"v1\",\n    \"data\": {")
            && one["metadata"]["managedFields"].is_null()
    );
    assert!(printed(&client, "cm one -o json --show-managed-fields").await.contains("managedFields"));
    let list: serde_json::Value = serde_json::from_str(&printed(&client, "cm -o json").await).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("List"), 2));
    let yaml = printed(&client, "cm one -o yaml").await;
    assert!(yaml.starts_with("apiVersion: v1\ndata:\n  k: one\nkind: ConfigMap\nmetadata:\n"), "{yaml}");
    assert_eq!(printed(&client, "cm -o jsonpath={.items[*].data.k}").await, "one two");
    assert_eq!(printed(&client, "cm two -o jsonpath=data.k").await, "two");
    assert_eq!(
        printed(&client, "cm -o custom-columns=NAME:.metadata.name,X:.data.x").await,
        "NAME   X\none    <none>\ntwo    <none>\n"
    );
}

#[tokio::test]
async fn objects_are_sorted_by_a_field() {
    let client = server().await;
    assert_eq!(
        without_ages(&printed(&client, "cm -A -l app --sort-by .data.k --no-headers").await),
        ["default one 1", "other three 1", "default two 1"]
    );
    let pages = printed(&client, "cm -A -l app --sort-by=metadata.labels.app --chunk-size 1").await;
    assert_eq!(without_ages(&pages)[1..], ["default one 1", "other three 1", "default two 1"]);
    assert_eq!(
        printed(&client, "cm -A -l app --sort-by {.metadata.namespace} -o name").await,
        "configmap/one\nconfigmap/two\nconfigmap/three\n"
    );
    let error = get(&client, "cm --sort-by .data.none").await.unwrap_err();
    assert_eq!(error, "couldn't find any field with path \"{.data.none}\" in the list of objects");
    assert!(get(&client, "cm --sort-by .data").await.unwrap_err().contains("object"));
}

#[tokio::test]
async fn a_part_of_an_object_is_shown_by_its_name() {
    let client = server().await;
    let deployment = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = ApiResource::namespaced(GroupVersionKind::new("apps", "v1", "Deployment"), "deployments");
    client.dynamic(&deployments).create(&serde_json::from_value(deployment).unwrap()).await.unwrap();
    let scale = printed(&client, "deploy/web --subresource scale -o yaml").await;
    assert!(scale.contains("kind: Scale\n") && scale.contains("replicas: 2\n"), "{scale}");
    let table = printed(&client, "deploy web --subresource=scale").await;
    assert!(table.starts_with("NAME") && table.contains("web"), "{table}");
    assert!(printed(&client, "deploy web --subresource=status").await.contains("0/2"));
    assert!(get(&client, "deploy --subresource scale").await.unwrap_err().contains("specify the objects of the scale"));
    assert!(get(&client, "deploy web --subresource soul").await.unwrap_err().contains("[possible values: status"));
}

#[tokio::test]
async fn objects_of_files_are_read_from_the_cluster() {
    let client = server().await;
    let path = std::env::temp_dir().join(format!("windlass-get-{}.yaml", std::process::id()));
    let map =
        |name: &str, rest: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{rest}}}\n");
    std::fs::write(&path, map("three", ", namespace: other") + &map("one", "")).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(without_ages(&printed(&client, &format!("-f {file}")).await), ["NAME DATA AGE", "three 1", "one 1"]);
    std::fs::write(&path, map("two", "")).unwrap();
    assert_eq!(printed(&client, &format!("--filename={file} -o jsonpath={{.data.k}}")).await, "two");
    std::fs::write(&path, "").unwrap();
    assert_eq!(get(&client, &format!("-f {file}")).await.unwrap_err(), "the files hold no objects");
    assert!(get(&client, &format!("cm -f {file}")).await.unwrap_err().contains("cannot be used with"));
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn missing_template_keys_are_allowed_by_flag() {
    let client = server().await;
    assert_eq!(printed(&client, "cm one -o jsonpath={.data.none}").await, "");
    let strict = "cm one --allow-missing-template-keys=false -o jsonpath=";
    assert_eq!(get(&client, &format!("{strict}{{.data.none}}")).await.unwrap_err(), "none is not found");
    assert_eq!(printed(&client, &format!("{strict}{{.data.k}}")).await, "one");
}

#[tokio::test]
async fn missing_resources_are_reported() {
    let client = server().await;
    assert_eq!(
        get(&client, "pods").await.unwrap(),
        (String::new(), "No resources found in default namespace.\n".to_owned())
    );
    assert_eq!(get(&client, "pods -A").await.unwrap().1, "No resources found\n");
    assert!(get(&client, "cm nope").await.unwrap_err().contains("404 NotFound"));
    assert_eq!(get(&client, "cm nope --ignore-not-found").await.unwrap(), (String::new(), String::new()));
    assert_eq!(get(&client, "cats").await.unwrap_err(), r#"the server has no resource type "cats""#);
    assert!(get(&client, "cm/one cm").await.unwrap_err().contains("TYPE/NAME"));
    assert!(get(&client, "cm -o nonsense").await.unwrap_err().contains("unknown output format"));
    assert!(get(&client, "cm,svc -w").await.unwrap_err().contains("only one object"));
}

#[tokio::test]
async fn raw_path_is_requested_unchanged() {
    let client = server().await;
    assert!(printed(&client, "--raw /version").await.contains("gitVersion"));
    assert!(get(&client, "--raw /nothing").await.unwrap_err().contains("404"));
}

/// A writer whose output a test can read.
#[derive(Clone)]
struct Shared(tokio::sync::watch::Sender<String>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_modify(|text| text.push_str(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn watched(arguments: &str, first: &str, then: &str) {
    let client = server().await;
    let options = Command::try_parse_from(std::iter::once("get").chain(arguments.split_whitespace())).unwrap().options;
    let (text, mut seen) = tokio::sync::watch::channel(String::new());
    let discovery = CachedDiscovery::in_memory(client.clone());
    let (mut out, mut notices) = (Shared(text), Vec::new());
    let run = Get { options: &options, client: client.clone(), out: &mut out, notices: &mut notices };
    let change = async {
        seen.wait_for(|text| text.contains(first)).await.unwrap();
        let maps = ApiResource::namespaced(GroupVersionKind::new("", "v1", "ConfigMap"), "configmaps");
        let late = json!({"metadata": {"name": "late", "namespace": "default"}});
        client.dynamic(&maps).create(&serde_json::from_value(late).unwrap()).await.unwrap();
        seen.wait_for(|text| text.contains(then)).await.unwrap().clone()
    };
    let text = tokio::select! {
        ended = run.run(&discovery) => panic!("{ended:?}"),
        text = change => text,
        () = tokio::time::sleep(std::time::Duration::from_secs(20)) => panic!("nothing changes"),
    };
    assert_eq!(text.matches("NAME").count(), usize::from(arguments == "cm -w"), "{text}");
}

#[tokio::test]
async fn watch_prints_changes_after_the_list() {
    watched("cm -w", "two", "\nlate   0").await;
    watched("cm -w -o name", "configmap/two\n", "configmap/late\n").await;
}
