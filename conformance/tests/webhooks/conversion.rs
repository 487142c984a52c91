//! Versions with different requirements, and a conversion webhook.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use conformance::{Target, eventually, on_each_target, unique};
use futures::StreamExt as _;
use k8s_openapi::{api::autoscaling::v1::Scale, apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::{
    ApiResource, BoxError, DynamicObject, GroupKind, GroupVersion, GroupVersionKind, ObjectExt as _, ObjectRef, Patch,
};
use windlass_client::{Client, WatchEvent};
use windlass_runtime::webhook::CaBundleTarget;
use windlass_webhook::{WebhookMetrics, WebhookPath, Webhooks, conversion::Converter};

use super::{Program, namespace};

/// The names of a field in the first version, and in the second, stored version.
const NAMES: [(&str, &str); 3] = [("image", "container"), ("replicas", "count"), ("size", "volume")];

/// Converts objects, and counts: each review, and the versions of each object in it.
///
/// The real server sends more reviews, because its caches follow each version, and it reads written objects again.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<Mutex<Vec<String>>>, Arc<AtomicBool>);

impl Counted {
    /// Rejects objects without the required field of their version from now on.
    fn be_strict(&self) {
        self.1.store(true, Ordering::Relaxed);
    }

    /// Returns and clears the counted reviews.
    fn take(&self) -> Vec<String> {
        mem::take(&mut *self.0.lock())
    }
}

impl WebhookMetrics for Counted {
    fn started(&self, _: &WebhookPath) {
        self.0.lock().push("review".to_owned());
    }
}

impl Converter for Counted {
    async fn convert(&self, mut object: Value, to: &GroupVersion) -> Result<Value, BoxError> {
        let from = object["apiVersion"].as_str().and_then(|version| version.rsplit('/').next()).unwrap_or_default();
        self.0.lock().push(format!("{from}>{}", to.version));
        let required = if from == "v1" { NAMES[0].0 } else { NAMES[0].1 };
        if self.1.load(Ordering::Relaxed) && object["spec"].get(required).is_none() {
            return Err(format!("spec.{required} is missing").into());
        }
        for part in ["spec", "status"] {
            let Some(fields) = object[part].as_object_mut() else { continue };
            for (first, second) in NAMES {
                let (from, to) = if to.version == "v1" { (second, first) } else { (first, second) };
                if let Some(value) = fields.remove(from) {
                    fields.insert(to.to_owned(), value);
                }
            }
        }
        Ok(object)
    }
}

/// Returns a CRD with two versions, each with its own required fields, defaults and scale.
fn definition(group: &str, conversion: &Value) -> extensions::CustomResourceDefinition {
    let version = |name: &str, [image, replicas, size]: [&str; 3]| {
        let spec = json!({
            "type": "object", "required": [image],
            "properties": {
                image: {"type": "string", "maxLength": 9}, replicas: {"type": "integer"},
                size: {"type": "string", "default": format!("that of {name}")},
            },
        });
        let status = json!({"type": "object", "properties": {replicas: {"type": "integer"}}});
        let scale = json!({"specReplicasPath": format!(".spec.{replicas}"), "statusReplicasPath": format!(".status.{replicas}")});
        json!({
            "name": name, "served": true, "storage": name == "v2", "subresources": {"status": {}, "scale": scale},
            "schema": {"openAPIV3Schema": {
                "type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status},
            }},
        })
    };
    let definition = json!({
        "metadata": {"name": format!("websites.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
            "versions": [version("v1", NAMES.map(|(first, _)| first)), version("v2", NAMES.map(|(_, second)| second))],
            "conversion": conversion,
        },
    });
    serde_json::from_value(definition).unwrap()
}

/// The two versions and their objects.
struct Websites<'c> {
    client: &'c Client,
    group: String,
    namespace: String,
}

impl Websites<'_> {
    fn resource(&self, version: &str) -> ApiResource {
        ApiResource::namespaced(GroupVersionKind::new(self.group.clone(), version.to_owned(), "Website"), "websites")
    }

    fn object(&self, version: &str, name: &str, spec: Value) -> DynamicObject {
        let mut object = DynamicObject::new(&self.resource(version), name).within(&*self.namespace);
        object.data.insert("spec".to_owned(), spec);
        object
    }

    async fn create(&self, version: &str, name: &str, spec: Value) -> Result<Value, String> {
        let object = self.object(version, name, spec);
        answer(self.client.dynamic(&self.resource(version)).create(&object).await)
    }

    async fn patch(&self, version: &str, name: &str, spec: Value) -> Result<Value, String> {
        let patch = Patch::Merge(json!({"spec": spec}));
        answer(self.client.dynamic(&self.resource(version)).patch(name, patch).within(&*self.namespace).await)
    }

    async fn apply(&self, version: &str, name: &str, spec: Value) -> Result<Value, String> {
        let client = self.client.clone().with_field_owner("applier");
        let object = self.object(version, name, spec);
        answer(client.dynamic(&self.resource(version)).apply(&object).force().await)
    }

    async fn get(&self, version: &str, name: &str) -> Result<Value, String> {
        let key = ObjectRef::new(name).within(&*self.namespace);
        answer(self.client.dynamic(&self.resource(version)).get(key).await)
    }

    async fn scale(&self, version: &str, name: &str) -> Scale {
        let key = ObjectRef::new(name).within(&*self.namespace);
        self.client.dynamic(&self.resource(version)).get_scale(key).await.unwrap()
    }
}

/// Returns the spec of the response, or the error.
fn answer(answer: windlass_client::Result<DynamicObject>) -> Result<Value, String> {
    match answer {
        Ok(object) => Ok(object.data["spec"].clone()),
        Err(error) => Err(error.status().unwrap_or_else(|| panic!("{}", error.chain())).message.clone()),
    }
}

/// Creates both versions, with a conversion webhook if `converts` is set.
async fn with_websites(target: &Target, converts: bool) -> (Option<Program>, Counted, Websites<'_>) {
    let (client, namespace, group) =
        (&target.client, namespace(target).await, format!("{}.example.com", unique("versions")));
    let counted = Counted::default();
    let name = format!("websites.{group}");
    let program = if converts {
        let kind = GroupKind::new(group.clone(), "Website");
        let webhooks = Webhooks::builder().converter(kind, counted.clone()).metrics(counted.clone()).build().unwrap();
        let bundle_target = CaBundleTarget::conversion(name.clone());
        Some(
            Program::start(target, &namespace, webhooks, |certificates| certificates.inject_into([bundle_target]))
                .await,
        )
    } else {
        None
    };
    let conversion = match &program {
        Some(program) => {
            let webhook =
                json!({"clientConfig": program.client_config("/convert"), "conversionReviewVersions": ["v1"]});
            json!({"strategy": "Webhook", "webhook": webhook})
        }
        None => json!({"strategy": "None"}),
    };
    client.create(&definition(&group, &conversion)).await.unwrap();
    let websites = Websites { client, group, namespace };
    let field = if converts { "image" } else { "container" };
    let probe = websites.object(if converts { "v1" } else { "v2" }, "probe", json!({field: "a"}));
    let resource = websites.resource(if converts { "v1" } else { "v2" });
    eventually("websites are served, and converted", async || {
        client.dynamic(&resource).create(&probe).dry_run().await.ok()
    })
    .await;
    (program, counted, websites)
}

impl Websites<'_> {
    /// Deletes objects that would affect other tests.
    async fn unregister(self, program: Option<Program>) {
        let name = format!("websites.{}", self.group);
        self.client.delete::<extensions::CustomResourceDefinition>(&*name).await.unwrap();
        if let Some(program) = program {
            program.stop().await;
        }
    }
}

#[tokio::test]
async fn each_version_has_its_own_rules_defaults_and_scale() {
    on_each_target(|target| async {
        let (program, counted, websites) = with_websites(&target, true).await;
        let invalid = |name: &str, why: &str| Err(format!("Website.{} \"{name}\" is invalid: {why}", websites.group));
        let first =
            |image: &str, replicas: i32| Ok(json!({"image": image, "replicas": replicas, "size": "that of v1"}));
        let second = |image: &str, count: i32| Ok(json!({"container": image, "count": count, "volume": "that of v1"}));

        counted.take();
        let made = websites.create("v1", "a", json!({"image": "a:1", "replicas": 3})).await;
        if target.name == Target::EMBEDDED {
            assert_eq!(counted.take(), ["review", "v1>v2", "review", "v2>v1"], "to be stored, and to be answered with");
        }
        assert_eq!((made, websites.get("v2", "a").await), (first("a:1", 3), second("a:1", 3)));
        let made = websites.create("v2", "b", json!({"container": "b:1"})).await;
        assert_eq!(made, Ok(json!({"container": "b:1", "volume": "that of v2"})));
        assert_eq!(websites.get("v1", "b").await, Ok(json!({"image": "b:1", "size": "that of v2"})));

        counted.take();
        let refused = websites.create("v1", "c", json!({})).await;
        assert_eq!(refused, invalid("c", "spec.image: Required value"));
        let refused = websites.create("v1", "c", json!({"image": "0123456789"})).await;
        assert_eq!(refused, invalid("c", "spec.image: Too long: may not be more than 9 bytes"));
        let refused = websites.create("v2", "c", json!({})).await;
        assert_eq!(refused, invalid("c", "spec.container: Required value"));
        if target.name == Target::EMBEDDED {
            assert_eq!(counted.take(), Vec::<String>::new(), "what is refused is not converted");
        }

        let refused = websites.patch("v1", "a", json!({"image": null})).await;
        assert_eq!(refused, invalid("a", "spec.image: Required value"));
        assert_eq!(websites.patch("v1", "a", json!({"image": "a:2"})).await, first("a:2", 3));
        assert_eq!(websites.apply("v1", "a", json!({"image": "a:3"})).await, first("a:3", 3));
        assert_eq!(websites.get("v2", "a").await, second("a:3", 3));
        let applied = websites.apply("v2", "d", json!({"container": "d:1"})).await;
        assert_eq!(applied, Ok(json!({"container": "d:1", "volume": "that of v2"})));
        let applied = websites.apply("v1", "d", json!({"image": "d:2"})).await;
        assert_eq!(applied, Ok(json!({"image": "d:2", "size": "that of v2"})));

        for version in ["v1", "v2"] {
            assert_eq!(websites.scale(version, "a").await.spec.unwrap().replicas, Some(3), "the scale of {version}");
        }
        let mut scale = websites.scale("v1", "a").await;
        scale.spec.get_or_insert_default().replicas = Some(5);
        let scaled = websites.client.dynamic(&websites.resource("v1")).update_scale(&scale).await.unwrap();
        assert_eq!(scaled.spec.unwrap().replicas, Some(5));
        assert_eq!(websites.get("v2", "a").await, second("a:3", 5));
        assert_eq!(websites.get("v1", "a").await, first("a:3", 5));
        websites.unregister(program).await;
        target
    })
    .await;
}

#[tokio::test]
async fn stored_object_is_defaulted_in_its_storage_version() {
    on_each_target(|target| async {
        let (program, _, websites) = with_websites(&target, false).await;
        let made = websites.create("v2", "b", json!({"container": "b:1"})).await;
        assert_eq!(made, Ok(json!({"container": "b:1", "volume": "that of v2"})));
        assert_eq!(
            websites.get("v1", "b").await,
            Ok(json!({})),
            "nothing is filled in by the version that is asked for"
        );
        // Fields that the stored version does not have are lost, even if they are required.
        assert_eq!(websites.create("v1", "a", json!({"image": "a:1", "replicas": 1})).await, Ok(json!({})));
        assert_eq!(websites.get("v2", "a").await, Ok(json!({"volume": "that of v2"})));
        websites.unregister(program).await;
        target
    })
    .await;
}

#[tokio::test]
async fn apply_across_versions_converts_only_objects_that_exist() {
    on_each_target(|target| async {
        let (program, counted, websites) = with_websites(&target, true).await;
        counted.be_strict();
        let made = websites.create("v1", "a", json!({"image": "a:1"})).await;
        assert_eq!(made, Ok(json!({"image": "a:1", "size": "that of v1"})));
        let applied = websites.apply("v1", "a", json!({"replicas": 3})).await;
        assert_eq!(applied, Ok(json!({"image": "a:1", "replicas": 3, "size": "that of v1"})));
        let applied = websites.apply("v2", "a", json!({"count": 4})).await;
        assert_eq!(applied, Ok(json!({"container": "a:1", "count": 4, "volume": "that of v1"})));
        // The remainder without the fields of the last apply is converted, too, and lacks a required field.
        let failed = websites.apply("v1", "a", json!({})).await.unwrap_err();
        let step = "failed to prune fields: failed add back owned items: failed to convert pruned object at version ";
        assert!(failed.starts_with(step) && failed.ends_with(": spec.container is missing"), "{failed}");
        websites.unregister(program).await;
        target
    })
    .await;
}

/// The caches of the real server have already converted the objects they follow.
#[tokio::test]
async fn a_watch_begins_with_objects_that_are_converted_together() {
    on_each_target(|target| async {
        let (program, counted, websites) = with_websites(&target, true).await;
        for name in ["a", "b", "c"] {
            websites.create("v2", name, json!({"container": name})).await.unwrap();
        }
        counted.take();
        let resource = websites.resource("v1");
        let watch = websites.client.dynamic(&resource).watch().within(&*websites.namespace).initial_events();
        let mut events = watch.await.unwrap();
        for name in ["a", "b", "c"] {
            let Some(Ok(WatchEvent::Added(found))) = events.next().await else { panic!("no object") };
            assert_eq!((found.name(), &found.data["spec"]["image"]), (name, &json!(name)));
        }
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Bookmark(_)))));
        if target.name == Target::EMBEDDED {
            assert_eq!(counted.take(), ["review", "v2>v1", "v2>v1", "v2>v1"]);
        }
        websites.patch("v2", "a", json!({"container": "d"})).await.unwrap();
        let Some(Ok(WatchEvent::Modified(found))) = events.next().await else { panic!("no change") };
        assert_eq!(found.data["spec"]["image"], "d");
        if target.name == Target::EMBEDDED {
            assert_eq!(counted.take(), ["review", "v2>v1"], "for the watch; the patch needs none");
        }
        websites.unregister(program).await;
        target
    })
    .await;
}
