//! Environments that other programs reach over sockets.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use tokio::net::TcpStream;
use windlass_api::{
    ObjectBuilder as _,
    k8s_openapi::api::core::v1::{ConfigMap, Namespace},
};
use windlass_client::{Client, Config, kubeconfig::Selection};
use windlass_envtest::{Environment, User};

#[tokio::test]
async fn a_kubeconfig_leads_to_the_same_server_until_it_stops() {
    let env = Environment::builder().listen().start().await.unwrap();
    env.client().create(&ConfigMap::named("seen").in_namespace("default")).await.unwrap();
    let kubeconfig = env.kubeconfig_of(User::new("alice").in_groups(["system:masters"])).unwrap();
    let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).unwrap();
    let authority = config.server.authority().unwrap().to_string();
    let outside = Client::new(config).unwrap();
    assert_eq!(outside.get::<ConfigMap>("seen").await.unwrap().metadata.name.unwrap(), "seen");

    // The same test against an existing cluster.
    let existing = Environment::builder().existing(env.config().unwrap()).start().await.unwrap();
    assert!(existing.server().is_none());
    existing.client().create(&ConfigMap::named("too").in_namespace("default")).await.unwrap();
    env.eventually::<ConfigMap>("too", |_| true).await;
    let other = existing.client_as(User::new("bob").in_groups(["system:masters"])).unwrap();
    assert_eq!(other.get::<Namespace>("default").await.unwrap().metadata.name.unwrap(), "default");
    existing.stop().await.unwrap();

    env.stop().await.unwrap();
    assert!(TcpStream::connect(&authority).await.is_err(), "the port is closed");
}

#[cfg(feature = "webhook")]
#[tokio::test]
async fn webhooks_of_a_project_are_called_by_way_of_its_manifests() {
    use windlass_webhook::{Webhooks, admission::Request};

    const MANIFESTS: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: colors}
webhooks:
- name: colors.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: system, name: webhooks, path: /mutate--v1-configmap}}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: not-installed}
";
    let env = Environment::start().await;
    let webhooks = Webhooks::builder().mutator(|config: &mut ConfigMap, _: &Request| {
        if config.data.is_none() {
            return Err("it says nothing".into());
        }
        config.data.get_or_insert_default().entry("color".to_owned()).or_insert_with(|| "blue".to_owned());
        Ok(())
    });
    let address = env.serve_webhooks(webhooks.build().unwrap(), MANIFESTS).await.unwrap();
    let config = ConfigMap {
        data: Some([("a".to_owned(), "b".to_owned())].into()),
        ..ConfigMap::named("c").in_namespace("default")
    };
    assert_eq!(env.client().create(&config).await.unwrap().data.unwrap()["color"], "blue");
    let error = env.client().create(&ConfigMap::named("d").in_namespace("default")).await.unwrap_err();
    assert!(error.chain().contains("denied the request: it says nothing"), "{}", error.chain());
    assert!(env.client().get_opt::<Namespace>("not-installed").await.unwrap().is_none());
    env.stop().await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
}

#[cfg(feature = "webhook")]
#[tokio::test]
async fn project_kinds_are_converted_through_their_crds() {
    use serde_json::{Value, json};
    use windlass_api::{ApiResource, BoxError, DynamicObject, GroupKind, GroupVersion, GroupVersionKind};
    use windlass_webhook::{Webhooks, conversion::Converter};

    const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.example.com}
spec:
  group: example.com
  names: {kind: Site, plural: sites}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: system, name: webhooks, path: /convert}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {title: {type: string}}}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {name: {type: string}}}}
";

    /// Renames a field: `title` in v1 is `name` in v1beta1.
    struct Renamed;

    impl Converter for Renamed {
        async fn convert(&self, mut object: Value, to: &GroupVersion) -> Result<Value, BoxError> {
            let (from, to) = if to.version == "v1" { ("name", "title") } else { ("title", "name") };
            object[to] = object[from].take();
            Ok(object)
        }
    }

    let env = Environment::start().await;
    let webhooks = Webhooks::builder().converter(GroupKind::new("example.com", "Site"), Renamed).build().unwrap();
    env.serve_webhooks(webhooks, "").await.unwrap();
    env.install_manifests(DEFINITION).await.unwrap();
    let sites = |version: &'static str| {
        let resource = ApiResource::namespaced(GroupVersionKind::new("example.com", version, "Site"), "sites");
        env.client().dynamic(&resource)
    };
    let site = json!({"apiVersion": "example.com/v1beta1", "kind": "Site", "metadata": {"name": "s"}, "name": "Hello"});
    sites("v1beta1").create(&serde_json::from_value::<DynamicObject>(site).unwrap()).await.unwrap();
    assert_eq!(sites("v1").get("s").await.unwrap().data["title"], "Hello");
    assert_eq!(sites("v1beta1").get("s").await.unwrap().data["name"], "Hello");
    env.stop().await.unwrap();
}
