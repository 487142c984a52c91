//! The REST layer: the request builder, pages, resuming watches, waiting, warnings.

use std::time::Duration;

use conformance::{Capability, Target, on_each_target, on_each_target_with, unique};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_api::{Entropy, FieldValidation, GroupVersion, ListOptions, ObjectExt, ObjectList, Patch, PatchKind};
use windlass_client::{
    Client, ClientMetrics, Verb, WatchEvent, metrics::Attempt, retry, wait, warnings::CollectWarnings,
};

/// The timeout for actions of the server.
const PATIENCE: Duration = Duration::from_secs(30);

async fn namespace(target: &Target) -> (Client, String) {
    let client = target.client.clone();
    let name = unique("rest");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    client.create::<Namespace>(&serde_json::from_value(namespace).unwrap()).await.unwrap();
    (client, name)
}

/// Counts the started watches.
#[derive(Debug)]
struct Watches(watch::Sender<u32>);

impl ClientMetrics for Watches {
    fn attempted(&self, attempt: &Attempt<'_>) {
        if attempt.operation.verb == Verb::Watch {
            self.0.send_modify(|watches| *watches += 1);
        }
    }
}

fn config_map(namespace: &str, name: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": namespace});
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
}

#[tokio::test]
async fn a_request_is_built_part_by_part() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let rest = client.rest(GroupVersion::new("", "v1"));
        let collection = || rest.post().namespace(&*ns).resource("configmaps");
        let created = collection().json(&config_map(&ns, "test")).send().await.unwrap();
        assert!(created.was_created());
        assert_eq!(created.content_type(), Some("application/json"));
        assert!(collection().json(&config_map(&ns, "test")).send().await.unwrap_err().is_already_exists());

        let found = rest.get().namespace(&*ns).resource("configmaps").name("test").send().await.unwrap();
        assert_eq!(found.into::<ConfigMap>().unwrap().name(), "test");
        let patch = rest.patch(PatchKind::Merge).namespace(&*ns).resource("configmaps").name("test");
        let patched = patch.json(&json!({"data": {"a": "b"}})).await.unwrap().into::<ConfigMap>().unwrap();
        assert_eq!(patched.data.unwrap()["a"], "b");
        let few = ListOptions { limit: Some(1), ..ListOptions::default() };
        let list = rest.get().namespace(&*ns).resource("configmaps").params(few.query_pairs());
        assert_eq!(list.send().await.unwrap().into::<ObjectList<ConfigMap>>().unwrap().len(), 1);
        let uri = format!("/api/v1/namespaces/{ns}/configmaps?fieldSelector=metadata.name%3Dtest");
        let by_uri = rest.get().request_uri(&uri).send().await.unwrap().into::<ObjectList<Value>>().unwrap();
        assert_eq!(by_uri.items[0]["metadata"]["name"], "test");

        rest.delete().namespace(&*ns).resource("configmaps").name("test").send().await.unwrap();
        let gone = rest.get().namespace(&*ns).resource("configmaps").name("test").send().await.unwrap_err();
        assert_eq!(gone.to_string(), format!(r#"get configmaps "{ns}/test": the server answered 404 NotFound"#));
        assert_eq!(rest.get().abs_path("/livez").send().await.unwrap().into_bytes(), "ok");
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn a_long_list_is_read_in_pages() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        for number in 0..7 {
            client.create(&config_map(&ns, &format!("paged-{number}"))).await.unwrap();
        }
        let whole = client.list::<ConfigMap>().within(&ns).await.unwrap();
        let paged = client.list::<ConfigMap>().within(&ns).limit(2).paged().await.unwrap();
        assert_eq!((paged.len(), paged.metadata.continue_token.as_deref()), (whole.len(), None));
        let items: Vec<_> = client.list::<ConfigMap>().within(&ns).limit(3).items().try_collect().await.unwrap();
        let names = |maps: &[ConfigMap]| maps.iter().map(|map| map.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&items), names(&whole.items));
        assert_eq!(names(&paged.items), names(&whole.items));
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn watch_resumes_after_the_server_ends_it() {
    on_each_target_with(&[Capability::InitialEvents], |target| async {
        let (client, ns) = namespace(&target).await;
        let (list, mut live) = client.watch::<ConfigMap>().within(&ns).with_list().await.unwrap();
        let version = list.metadata.resource_version;
        assert!(version.as_u64().is_some());
        let (count, mut begun) = watch::channel(0);
        let counted = client.clone().with_metrics(Watches(count));
        // The server ends each watch after a second.
        let watch = counted.watch::<ConfigMap>().within(&ns).resource_version(version.as_str());
        let mut events = watch.fields("metadata.name!=kube-root-ca.crt").timeout(Duration::from_secs(1)).retrying();
        let changes = async {
            for round in 0..3 {
                client.create(&config_map(&ns, "a")).await.unwrap();
                client.patch::<ConfigMap>("a", Patch::Merge(json!({"data": {"n": "1"}}))).within(&ns).await.unwrap();
                if round == 0 {
                    begun.wait_for(|watches| *watches > 1).await.unwrap();
                }
                client.delete::<ConfigMap>("a").within(&ns).await.unwrap();
            }
        };
        let seen = async {
            let mut seen = String::new();
            while seen.len() < 9 {
                seen.push(match events.next().await.unwrap().unwrap() {
                    WatchEvent::Added(_) => 'A',
                    WatchEvent::Modified(_) => 'M',
                    WatchEvent::Deleted(_) => 'D',
                    other => panic!("{other:?}"),
                });
            }
            seen
        };
        let ((), seen) = tokio::time::timeout(PATIENCE, futures::future::join(changes, seen)).await.unwrap();
        assert_eq!(seen, "AMDAMDAMD");
        // The watch without resuming has seen the same, if it was started in time.
        assert!(wait::until(&mut live, |event| matches!(event, WatchEvent::Deleted(_))).await.unwrap().is_some());
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn wait_returns_when_the_condition_holds() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let wait = || client.wait_for::<ConfigMap>("a").within(&ns).timeout(PATIENCE);
        assert_eq!(wait().until(wait::is_gone()).await.unwrap(), None);
        let create = async { client.create(&config_map(&ns, "a")).await.unwrap() };
        let (found, created) = futures::future::join(wait().until(wait::exists()), create).await;
        assert_eq!(found.unwrap().unwrap().uid(), created.uid());
        let entropy = Entropy::seeded(1);
        let change = retry::on_conflict(&entropy, || async {
            let mut map = client.get::<ConfigMap>("a").within(&ns).await?;
            map.data.get_or_insert_default().insert("phase".to_owned(), "done".to_owned());
            client.update(&map).await
        });
        let (found, changed) =
            futures::future::join(wait().until(wait::field(&["data", "phase"], "done")), change).await;
        assert_eq!(found.unwrap().unwrap().resource_version(), changed.unwrap().resource_version());
        let delete = async { client.delete::<ConfigMap>("a").within(&ns).await.unwrap() };
        let (gone, _) = futures::future::join(wait().until(wait::is_gone()), delete).await;
        assert_eq!(gone.unwrap(), None);
        let never = wait().timeout(Duration::from_millis(100)).until(wait::exists()).await.unwrap_err();
        assert!(never.is_timeout());
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn the_servers_warnings_reach_the_caller() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let warnings = CollectWarnings::default();
        let rest = client.clone().with_warnings(warnings.clone()).rest(GroupVersion::new("", "v1"));
        let mut unknown = serde_json::to_value(config_map(&ns, "a")).unwrap();
        unknown["nonsense"] = json!(1);
        let create = rest.post().namespace(&*ns).resource("configmaps").json(&unknown);
        let answer = create.param("fieldValidation", FieldValidation::Warn.as_str()).send().await.unwrap();
        let texts: Vec<_> = warnings.take().into_iter().map(|warning| warning.text).collect();
        assert_eq!(texts, [r#"unknown field "nonsense""#]);
        assert_eq!(answer.warnings()[0].text, texts[0]);
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}
