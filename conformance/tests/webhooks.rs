//! Webhooks that an API server calls: the same program with both servers.

mod admission;
mod certificates;
mod conversion;
mod kubectl;
mod rules;
mod subresources;
mod traces;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::{ConfigMap, Namespace, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use tokio_rustls::TlsConnector;
use windlass_api::{ObjectExt as _, ObjectRef};
use windlass_client::Client;
use windlass_runtime::{
    Manager,
    webhook::{CaBundleTarget, WebhookCertificates},
};
use windlass_webhook::{Server, Webhooks};

use conformance::{Target, eventually, unique};

/// The Secret with the certificates.
const SECRET: &str = "webhook-certificates";

/// A program with webhooks, as users write it: a manager with a webhook server and certificates. Its objects in the
/// cluster are deleted when it is stopped.
struct Program {
    address: SocketAddr,
    namespace: String,
    stop: oneshot::Sender<()>,
    running: JoinHandle<windlass_runtime::Result<()>>,
}

impl Program {
    /// Starts the program; `adjust` can change its certificate options.
    async fn start(
        target: &Target,
        namespace: &str,
        webhooks: Webhooks,
        adjust: impl FnOnce(WebhookCertificates) -> WebhookCertificates,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let certificates = WebhookCertificates::in_secret(namespace, SECRET)
            .for_names(["127.0.0.1", "localhost"])
            .interval(Duration::from_millis(50));
        let certificates = adjust(certificates);
        let mut manager = Manager::new(target.client.clone());
        let server = Server::new(webhooks).listener(listener).certificate(certificates.serving());
        let readiness = server.readiness();
        manager.add(server).add(certificates);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(manager.run(async { drop(stopped.await) }));
        eventually("webhooks are served", async || readiness.check().await.ok()).await;
        Self { address, namespace: namespace.to_owned(), stop, running }
    }

    /// Returns the client configuration of a webhook. The program injects the CA bundle.
    fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address)})
    }

    /// Returns a webhook for ConfigMaps in the program's namespace.
    fn webhook(&self, path: &str, operations: &[&str]) -> Value {
        json!({
            "name": "config.shop.example.com",
            "clientConfig": self.client_config(path),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": operations}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
        })
    }

    /// Returns the serving certificate, verified with the CA from the program's Secret.
    async fn served_with(&self, client: &Client) -> Option<Vec<u8>> {
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(kept(client, &self.namespace, "ca.crt").await?.as_bytes()) {
            trusted.add(certificate.ok()?).ok()?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
        let config = Arc::new(config.with_root_certificates(trusted).with_no_client_auth());
        let stream = TcpStream::connect(self.address).await.ok()?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(config).connect(name, stream).await.ok()?;
        Some(stream.get_ref().1.peer_certificates()?.first()?.to_vec())
    }

    async fn stop(self) {
        drop(self.stop);
        self.running.await.expect("the manager does not panic").expect("no runnable fails");
    }
}

/// Returns an entry of the Secret with a program's certificates.
async fn kept(client: &Client, namespace: &str, entry: &str) -> Option<String> {
    let key = ObjectRef::<Secret>::new(SECRET).within(namespace);
    let secret = client.get_opt(&key).await.unwrap()?;
    Some(String::from_utf8(secret.data?.get(entry)?.0.clone()).unwrap())
}

async fn namespace(target: &Target) -> String {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(unique("webhooks"));
    target.client.create(&namespace).await.unwrap().name().to_owned()
}

fn config_map(namespace: &str, name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config.metadata.namespace = Some(namespace.to_owned());
    config.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    config
}

async fn register_mutating(client: &Client, name: &str, webhooks: Value) {
    let body = json!({"metadata": {"name": name}, "webhooks": webhooks});
    client.create::<MutatingWebhookConfiguration>(&serde_json::from_value(body).unwrap()).await.unwrap();
}

async fn register_validating(client: &Client, name: &str, webhook: Value) {
    let body = json!({"metadata": {"name": name}, "webhooks": [webhook]});
    client.create::<ValidatingWebhookConfiguration>(&serde_json::from_value(body).unwrap()).await.unwrap();
}

/// Creates a CRD for Websites with two versions; the second is stored. `conversion` is the conversion in the CRD.
async fn register_websites(client: &Client, group: &str, conversion: Value) {
    let version = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let definition = json!({
        "metadata": {"name": format!("websites.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
            "versions": [version("v1", "image", false), version("v2", "container", true)],
            "conversion": conversion,
        },
    });
    client.create::<CustomResourceDefinition>(&serde_json::from_value(definition).unwrap()).await.unwrap();
}

/// Waits until webhooks are active: the program has injected the CA bundle, and the API server has read it. The
/// embedded server applies it at once.
async fn in_force<F: Future<Output = Option<()>>>(target: &Target, name: &str, probe: impl Fn() -> F) {
    eventually("the program has said whom to trust", async || {
        let mutating = target.client.get::<MutatingWebhookConfiguration>(name).await.unwrap();
        mutating.webhooks?.pop()?.client_config.ca_bundle?;
        let validating = target.client.get_opt::<ValidatingWebhookConfiguration>(name).await.unwrap();
        validating.is_none_or(|it| it.webhooks.is_some_and(|it| it[0].client_config.ca_bundle.is_some())).then_some(())
    })
    .await;
    if target.name == Target::EMBEDDED {
        probe().await.expect("the webhook is called");
    } else {
        eventually("the webhook is called", probe).await;
    }
}

/// Returns the objects with the program's CA bundle, all of one name.
fn ca_bundle_targets(name: &str) -> [CaBundleTarget; 3] {
    [
        CaBundleTarget::mutating(name),
        CaBundleTarget::validating(name),
        CaBundleTarget::conversion(format!("websites.{name}.example.com")),
    ]
}

/// Deletes objects that would affect other tests.
async fn unregister(client: &Client, name: &str) {
    client.delete::<MutatingWebhookConfiguration>(name).await.ok();
    client.delete::<ValidatingWebhookConfiguration>(name).await.ok();
    client.delete::<CustomResourceDefinition>(format!("websites.{name}.example.com")).await.ok();
}
