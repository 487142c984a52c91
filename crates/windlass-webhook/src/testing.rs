//! Test helpers: calls without a network, kinds, and certificates.

use std::{fmt::Write as _, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_api::Entropy;

use crate::{WebhookMetrics, WebhookPath, Webhooks};

/// Posts a document like an API server.
pub(crate) async fn post(webhooks: &Webhooks, path: &str, document: &Value) -> (u16, Value) {
    send(webhooks, http::Request::post(path).header("content-type", "application/json"), document.to_string()).await
}

/// Sends any request. Returns null as the body of an empty response.
pub(crate) async fn send(webhooks: &Webhooks, request: http::request::Builder, body: impl Into<Bytes>) -> (u16, Value) {
    let answer = webhooks.answer(request.body(Full::new(body.into())).unwrap()).await;
    let (code, body) = (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes());
    (code, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() })
}

/// Creates an admission review.
pub(crate) fn review(operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": operation, "object": object, "oldObject": old, "namespace": "shop",
            "name": "web", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "userInfo": {"username": "jane"},
            "dryRun": false, "options": null},
    })
}

/// Returns the response of an [`admission`](crate::admission) review.
pub(crate) async fn ask(webhooks: &Webhooks, path: &str, document: &Value) -> Value {
    let (code, mut answer) = post(webhooks, path, document).await;
    assert_eq!(code, 200);
    answer["response"].take()
}

/// The recorded metrics as lines, as a metrics endpoint would print them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded(Arc<Mutex<Vec<String>>>);

impl Recorded {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    fn push(&self, line: impl Into<String>) {
        self.0.lock().push(line.into());
    }
}

impl WebhookMetrics for Recorded {
    fn registered(&self, path: &WebhookPath) {
        self.push(format!("registered {path}"));
    }

    fn started(&self, path: &WebhookPath) {
        self.push(format!("started {path}"));
    }

    fn finished(&self, path: &WebhookPath, code: Option<u16>, _: Duration) {
        let mut line = format!("finished {path}");
        match code {
            Some(code) => write!(line, " {code}").unwrap(),
            None => line.push_str(" hung up"),
        }
        self.push(line);
    }

    fn panicked(&self) {
        self.push("panicked");
    }

    fn conversion_panicked(&self) {
        self.push("conversion panicked");
    }

    fn certificate_read(&self, usable: bool) {
        self.push(if usable { "certificate read" } else { "certificate unusable" });
    }
}

/// Defines versions of one kind.
macro_rules! websites {
    ($($name:ident $version:literal { $field:ident })*) => {$(
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        pub(crate) struct $name {
            #[serde(default)]
            pub(crate) metadata: ObjectMeta,
            #[serde(default)]
            pub(crate) $field: String,
        }

        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!("shop.example.com/", $version);
            const GROUP: &'static str = "shop.example.com";
            const KIND: &'static str = "Website";
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = "websites";
            type Scope = k8s_openapi::NamespaceResourceScope;
        }

        impl k8s_openapi::Metadata for $name {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

websites! {
    V1 "v1" { image }
    V2 "v2" { container }
    V3 "v3" { picture }
}

/// A directory that is removed on drop.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("windlass-webhook-{}", Entropy::os().uuid()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes `tls.crt` and `tls.key` with a self-signed certificate for localhost. Returns its DER encoding.
    pub(crate) fn certify(&self) -> Vec<u8> {
        let (certificate, key, der) = pair();
        std::fs::write(self.0.join("tls.crt"), certificate).unwrap();
        std::fs::write(self.0.join("tls.key"), key).unwrap();
        der
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a certificate and its key in PEM, and the certificate's DER encoding.
pub(crate) fn pair() -> (String, String, Vec<u8>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem(), certificate.der().to_vec())
}
