//! Writes with webhooks: mutated, rejected, with warnings, and converted.

use conformance::{Capability, Target, eventually, on_each_target, on_each_target_with, unique};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use windlass_api::{
    ApiResource, BoxError, DynamicObject, GroupKind, GroupVersion, GroupVersionKind, ObjectExt as _, ObjectRef, Patch,
};
use windlass_client::{Client, WatchEvent};
use windlass_webhook::{
    Webhooks,
    admission::{Denial, Request, Validator, Warnings},
    conversion::Converter,
};

use super::{
    Program, ca_bundle_targets, config_map, in_force, kubectl::Kubectl, namespace, register_mutating,
    register_validating, register_websites, unregister,
};

const MUTATE: &str = "/mutate--v1-configmap";
const VALIDATE: &str = "/validate--v1-configmap";

/// Rejects red, warns about green, and forbids deletion of objects with the label `keep`.
struct Colors;

impl Colors {
    fn check(config: &ConfigMap) -> Result<Warnings, Denial> {
        match config.data.as_ref().and_then(|data| data.get("color")).map(String::as_str) {
            Some("red") => Err(Denial::from("red is dangerous")),
            Some("green") => Ok(["green is out of fashion"].into()),
            _ => Ok(Warnings::none()),
        }
    }
}

impl Validator<ConfigMap> for Colors {
    async fn create(&self, config: &ConfigMap, _: &Request) -> Result<Warnings, Denial> {
        Self::check(config)
    }

    async fn update(&self, old: &ConfigMap, new: &ConfigMap, request: &Request) -> Result<Warnings, Denial> {
        assert_eq!((old.name(), &*request.name), (new.name(), new.name()));
        Self::check(new)
    }

    async fn delete(&self, config: &ConfigMap, _: &Request) -> Result<Warnings, Denial> {
        if config.labels().contains_key("keep") { Err("it is kept".into()) } else { Ok(Warnings::none()) }
    }
}

/// The field of the spec has a different name in each version.
struct Websites;

impl Converter for Websites {
    async fn convert(&self, mut object: Value, to: &GroupVersion) -> Result<Value, BoxError> {
        let (from, to) = if to.version == "v1" { ("container", "image") } else { ("image", "container") };
        let spec = object["spec"].as_object_mut().ok_or("a website has a spec")?;
        if let Some(value) = spec.remove(from) {
            if value == "none" {
                return Err("there is nothing to run".into());
            }
            spec.insert(to.to_owned(), value);
        }
        // Only labels and annotations of the metadata are used.
        object["metadata"]["labels"] = json!({"converted-to": to});
        object["metadata"]["generation"] = json!(99);
        Ok(object)
    }
}

fn website(group: &str, version: &str) -> ApiResource {
    ApiResource::namespaced(GroupVersionKind::new(group.to_owned(), version.to_owned(), "Website"), "websites")
}

/// Starts a program with all webhooks registered and active.
async fn shop(target: &Target) -> (Program, String, String) {
    let (client, ns, name) = (&target.client, namespace(target).await, unique("shop"));
    let group = format!("{name}.example.com");
    let webhooks = Webhooks::builder()
        .mutator(|config: &mut ConfigMap, _: &Request| {
            config.data.get_or_insert_default().entry("color".to_owned()).or_insert_with(|| "blue".to_owned());
            Ok(())
        })
        .validator(Colors)
        .converter(GroupKind::new(group.clone(), "Website"), Websites)
        .build()
        .unwrap();
    let program =
        Program::start(target, &ns, webhooks, |certificates| certificates.inject_into(ca_bundle_targets(&name))).await;
    register_mutating(client, &name, json!([program.webhook(MUTATE, &["CREATE", "UPDATE"])])).await;
    register_validating(client, &name, program.webhook(VALIDATE, &["CREATE", "UPDATE", "DELETE"])).await;
    let webhook = json!({"clientConfig": program.client_config("/convert"), "conversionReviewVersions": ["v1"]});
    register_websites(client, &group, json!({"strategy": "Webhook", "webhook": webhook})).await;
    in_force(target, &name, async || {
        let mutated = client.create(&config_map(&ns, "probe", &[])).dry_run().await.ok()?.data?.contains_key("color");
        let refused = client.create(&config_map(&ns, "probe", &[("color", "red")])).dry_run().await.is_err();
        (mutated && refused).then_some(())
    })
    .await;
    (program, ns, name)
}

fn refusal<T: std::fmt::Debug>(answer: windlass_client::Result<T>) -> (u16, String) {
    let error = answer.unwrap_err();
    let status = error.status().unwrap();
    (status.code, status.message.clone())
}

#[tokio::test]
async fn an_api_server_asks_before_it_writes() {
    on_each_target(|target| async {
        let (program, ns, name) = shop(&target).await;
        let client = &target.client;
        let color = |config: &ConfigMap| config.data.as_ref().unwrap().get("color").cloned();

        let made = client.create(&config_map(&ns, "a", &[])).await.unwrap();
        assert_eq!(color(&made).as_deref(), Some("blue"));
        let refused = refusal(client.create(&config_map(&ns, "b", &[("color", "red")])).await);
        let denied = r#"admission webhook "config.shop.example.com" denied the request"#;
        assert_eq!(refused, (403, format!("{denied}: red is dangerous")));
        let mut changed = made.clone();
        changed.data = Some([("color".to_owned(), "red".to_owned())].into());
        assert_eq!(refusal(client.update(&changed).await).0, 403);
        changed.data = None;
        changed.labels_mut().insert("keep".to_owned(), String::new());
        assert_eq!(color(&client.update(&changed).await.unwrap()).as_deref(), Some("blue"));
        let key: ObjectRef<ConfigMap> = changed.object_ref();
        assert_eq!(refusal(client.delete::<ConfigMap>(&key).await), (403, format!("{denied}: it is kept")));
        unregister(client, &name).await;
        program.stop().await;
        target
    })
    .await;
}

#[tokio::test]
async fn an_api_server_has_objects_converted() {
    on_each_target(|target| async {
        let (program, ns, name) = shop(&target).await;
        let group = format!("{name}.example.com");
        let (v1, v2) = (website(&group, "v1"), website(&group, "v2"));
        let client: &Client = &target.client;
        let mut object = DynamicObject::new(&v1, "blog").within(&ns);
        object.data.insert("spec".to_owned(), json!({"image": "blog:1"}));
        let made =
            eventually("websites are served, and converted", async || client.dynamic(&v1).create(&object).await.ok())
                .await;
        assert_eq!(made.data["spec"], json!({"image": "blog:1"}));
        let stored = client.dynamic(&v2).get(ObjectRef::new("blog").within(&*ns)).await.unwrap();
        assert_eq!(stored.data["spec"], json!({"container": "blog:1"}));
        assert_eq!(stored.uid(), made.uid());
        let listed = client.dynamic(&v1).list().within(&ns).await.unwrap();
        assert_eq!(listed.items[0].data["spec"], json!({"image": "blog:1"}));
        assert_eq!(listed.items[0].labels()["converted-to"], "image");
        assert_eq!(listed.items[0].metadata.generation, Some(1));

        let watch = client.dynamic(&v1).watch().within(&ns).initial_events();
        let mut events = watch.await.unwrap();
        let Some(Ok(WatchEvent::Added(found))) = events.next().await else { panic!("no object") };
        assert_eq!(found.data["spec"], json!({"image": "blog:1"}));
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Bookmark(_)))));
        let image = |image: &str| Patch::Merge(json!({"spec": {"image": image}}));
        let patched = client.dynamic(&v1).patch("blog", image("blog:2")).within(&ns).await.unwrap();
        assert_eq!(patched.data["spec"], json!({"image": "blog:2"}));
        let Some(Ok(WatchEvent::Modified(found))) = events.next().await else { panic!("no change") };
        assert_eq!(found.data["spec"], json!({"image": "blog:2"}));

        let mut wanted = DynamicObject::new(&v1, "blog").within(&ns);
        wanted.data.insert("spec".to_owned(), json!({"image": "blog:3"}));
        let other = client.clone().with_field_owner("other");
        let theft = other.dynamic(&v1).apply(&wanted).await.unwrap_err();
        assert!(theft.is_conflict(), "{}", theft.chain());
        let applied = other.dynamic(&v1).apply(&wanted).force().await.unwrap();
        assert_eq!(applied.data["spec"], json!({"image": "blog:3"}));
        let stored = client.dynamic(&v2).get(ObjectRef::new("blog").within(&*ns)).await.unwrap();
        assert_eq!(stored.data["spec"], json!({"container": "blog:3"}));

        let refused = refusal(client.dynamic(&v1).patch("blog", image("none")).within(&ns).await);
        let why = format!("conversion webhook for {group}/v1, Kind=Website failed: there is nothing to run");
        assert_eq!(refused, (500, why));
        unregister(client, &name).await;
        program.stop().await;
        target
    })
    .await;
}

#[tokio::test]
async fn kubectl_is_defaulted_denied_warned_and_converted() {
    on_each_target_with(&[Capability::Kubectl], |target| async {
        let kubectl = Kubectl::of(&target).expect("a kubectl comes with the real server");
        let (program, ns, name) = shop(&target).await;
        let make = |color: &str| ["create", "configmap", "k", "-n", &ns, color].map(str::to_owned);

        let (ok, _, said) = kubectl.run(make("--from-literal=color=red")).await;
        let expected = r#"error: failed to create configmap: admission webhook "config.shop.example.com" denied the request: red is dangerous"#;
        assert_eq!((ok, said.trim()), (false, expected));
        let (ok, _, said) = kubectl.run(make("--from-literal=color=green")).await;
        assert_eq!((ok, said.trim()), (true, "Warning: green is out of fashion"));
        let (ok, _, _) = kubectl.run(["delete", "configmap", "k", "-n", &ns].map(str::to_owned)).await;
        assert!(ok);
        assert!(kubectl.run(make("--from-literal=size=5")).await.0);
        let get = ["get", "configmap", "k", "-n", &ns, "-o", "jsonpath={.data}"].map(str::to_owned);
        assert_eq!(kubectl.run(get).await.1, r#"{"color":"blue","size":"5"}"#);

        let manifest = json!({"apiVersion": format!("{name}.example.com/v1"), "kind": "Website",
            "metadata": {"name": "blog", "namespace": ns}, "spec": {"image": "blog:1"}});
        let apply = || kubectl.pipe(["apply", "-f", "-"].map(str::to_owned), manifest.to_string());
        eventually("websites are served", async || apply().await.0.then_some(())).await;
        let resource = format!("websites.v2.{name}.example.com/blog");
        let get = ["get", &resource, "-n", &ns, "-o", "jsonpath={.spec}"].map(str::to_owned);
        assert_eq!(kubectl.run(get).await.1, r#"{"container":"blog:1"}"#);
        unregister(&target.client, &name).await;
        program.stop().await;
        target
    })
    .await;
}
