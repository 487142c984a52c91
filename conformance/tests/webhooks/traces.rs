//! The trace context that admission webhooks receive.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use conformance::{eventually, on_each_target, unique};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::TlsAcceptor;
use windlass_api::BoxError;
use windlass_client::Client;

use super::{config_map, namespace, register_validating, unregister};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const HEADERS: [&str; 3] = ["baggage", "traceparent", "tracestate"];

/// The trace headers of each call.
type Calls = Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>;

/// A webhook that allows every write and records the trace headers of its calls.
struct Recorder {
    client_config: Value,
    calls: Calls,
    serving: JoinHandle<()>,
}

impl Recorder {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/validate", listener.local_addr().unwrap());
        let client_config = json!({"url": url, "caBundle": BASE64_STANDARD.encode(made.cert.pem())});
        let calls = Calls::default();
        let record = Arc::clone(&calls);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, record) = (acceptor.clone(), Arc::clone(&record));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| allow(request, Arc::clone(&record)));
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Self { client_config, calls, serving }
    }

    /// Returns the headers of the calls since the last one of this method.
    fn take(&self) -> Vec<BTreeMap<&'static str, String>> {
        std::mem::take(&mut *self.calls.lock())
    }
}

async fn allow(request: Request<Incoming>, calls: Calls) -> Result<Response<Full<Bytes>>, BoxError> {
    let found = |name| Some((name, request.headers().get(name)?.to_str().ok()?.to_owned()));
    calls.lock().push(HEADERS.into_iter().filter_map(found).collect());
    let mut review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    review["response"] = json!({"uid": review["request"]["uid"], "allowed": true});
    Ok(Response::builder().header("content-type", "application/json").body(review.to_string().into())?)
}

/// Returns a client that sends these headers.
fn with_headers(client: &Client, headers: &[(&'static str, &'static str)]) -> Client {
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
    client.clone().with_trace_headers(move |_, request| request.extend(headers.clone()))
}

#[tokio::test]
async fn admission_webhook_gets_the_trace_context_of_a_write() {
    on_each_target(|target| async {
        let (client, ns, name) = (&target.client, namespace(&target).await, unique("traces"));
        let recorder = Recorder::start().await;
        let webhook = json!({
            "name": "config.shop.example.com", "clientConfig": recorder.client_config,
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
        });
        register_validating(client, &name, webhook).await;
        let config = config_map(&ns, "a", &[]);
        eventually("the webhook is called", async || {
            client.create(&config).dry_run().await.unwrap();
            (!recorder.take().is_empty()).then_some(())
        })
        .await;

        let none = BTreeMap::new();
        client.create(&config).await.unwrap();
        assert_eq!(recorder.take(), std::slice::from_ref(&none), "a request without a context");
        let all = [("traceparent", PARENT), ("tracestate", "vendor=1"), ("baggage", "user=ada")];
        let expected: BTreeMap<_, _> = all.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let traced = with_headers(client, &all);
        traced.update(&config_map(&ns, "a", &[("k", "v")])).await.unwrap();
        traced.delete::<ConfigMap>("a").within(&ns).await.unwrap();
        assert_eq!(recorder.take(), [expected.clone(), expected]);
        let invalid = with_headers(client, &[("traceparent", "00-1-2-01"), ("tracestate", "vendor=1")]);
        invalid.create(&config).dry_run().await.unwrap();
        assert_eq!(recorder.take(), [none]);
        unregister(client, &name).await;
        recorder.serving.abort();
        target
    })
    .await;
}
