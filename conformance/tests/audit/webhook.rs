//! An admission webhook: changes objects, and adds annotations to the audit log.

use std::{net::SocketAddr, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};
use tokio_rustls::TlsAcceptor;

/// A running webhook.
pub(super) struct Webhook {
    address: SocketAddr,
    ca: String,
    serving: AbortHandle,
}

impl Webhook {
    pub(super) async fn start() -> Self {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that gives up is not an error of the test.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                });
            }
        });
        Self { address, ca: BASE64_STANDARD.encode(cert.pem()), serving: serving.abort_handle() }
    }

    /// Returns the configurations of a kind, `Mutating` or `Validating`: one webhook that answers, and one that does not and
    /// is ignored.
    pub(super) fn configuration(&self, kind: &str) -> Value {
        let prefix = kind.to_lowercase();
        let hook = |name: &str, address: String| {
            json!({
                "name": format!("{name}.{prefix}.example.com"),
                "clientConfig": {"url": format!("https://{address}/{prefix}"), "caBundle": self.ca},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 5,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
                "objectSelector": {"matchLabels": {"audit-hook": "yes"}},
            })
        };
        // Port 1 has no listener.
        let hooks = [hook("present", self.address.to_string()), hook("absent", "127.0.0.1:1".to_owned())];
        json!({"metadata": {"name": "audit-hooks"}, "webhooks": hooks})
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let changes = request.uri().path() == "/mutating";
    let review = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&review).unwrap_or_default();
    let annotations = json!({"checked": "<yes>", "bad key": "x"});
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true, "auditAnnotations": annotations});
    if changes {
        let patch = r#"[{"path": "/data", "op": "add", "value": {"hook": "<1>"}}]"#;
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64_STANDARD.encode(patch).into();
    }
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    let body = Full::from(review.to_string());
    Ok(Response::builder().header("content-type", "application/json").body(body).expect("the header is valid"))
}
