//! The HTTP endpoints of a running manager: probes and metrics, over sockets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::timeout,
};
use windlass_api::{BoxError, Clock, k8s_openapi::api::core::v1::ConfigMap};
use windlass_client::{
    Body, Client, Config,
    certificates::{KeyedCertificate, Validity, self_signed},
    config::{LiveIdentity, TlsOptions},
};
use windlass_runtime::{
    Action, Context, Controller, Error, LeaderElection, Manager, RunnableContext, Task,
    health::Probes,
    metrics::{MetricsServer, Registry},
};

use crate::{
    fake::{Fake, config},
    leases::Leases,
};

/// A deadline for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Returns the status and the body of a plain HTTP response.
pub(crate) async fn get(address: &str, path: &str) -> (u16, String) {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = timeout(DEADLINE, asked).await.expect("the server responds");
    let (head, body) = answer.split_once("\r\n\r\n").expect("the response has a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Runs a manager during a trial.
pub(crate) async fn during(manager: Manager, trial: impl Future<Output = ()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(async { drop(stopped.await) }));
    trial.await;
    drop(stop);
    timeout(DEADLINE, running).await.expect("it stops").unwrap().unwrap();
}

#[tokio::test]
async fn probes_are_served_before_caches_have_synced() {
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    fake.hold("configmaps");
    let mut manager = fake.manager().build();
    manager.add(
        Controller::<ConfigMap>::new()
            .reconcile(async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(Action::await_change())),
    );
    manager.add(Probes::on(listener).readyz("caches", async || Err::<(), _>("they fill")));
    during(manager, async {
        assert_eq!(get(&address, "/healthz").await, (200, "ok".to_owned()));
        assert_eq!(get(&address, "/readyz/caches").await.1, "internal server error: they fill\n");
        assert_eq!(get(&address, "/readyz?exclude=caches").await, (200, "ok".to_owned()));
    })
    .await;
    assert!(TcpStream::connect(&address).await.is_err(), "the port is closed afterwards");
}

#[tokio::test]
async fn probes_are_served_until_all_else_has_stopped() {
    let (fake, (listener, address)) = (Fake::new(), listener().await);
    let mut manager = fake.manager().build();
    manager.add(Probes::on(listener));
    let (asked, answer) = (address.clone(), Arc::new(Mutex::new(None)));
    let kept = answer.clone();
    manager.add(Task::new("last", async move |running: RunnableContext| {
        running.stop().requested().await;
        *kept.lock() = Some(get(&asked, "/healthz").await);
        Ok(())
    }));
    during(manager, async {}).await;
    assert_eq!(answer.lock().take(), Some((200, "ok".to_owned())));
}

#[tokio::test]
async fn leader_health_check_is_named_leaderelection() {
    let (server, (listener, address)) = (Leases::default(), listener().await);
    let election = LeaderElection::new("lock").identity("a");
    let mut manager = Manager::builder(server.client("a")).leader_election(election).build();
    manager.add(Probes::on(listener).leader_election(Duration::from_secs(20)));
    during(manager, async {
        let verbose = get(&address, "/healthz?verbose").await;
        assert_eq!(verbose, (200, "[+]leaderElection ok\nhealthz check passed\n".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn probes_and_metrics_can_be_disabled_and_report_bind_errors() {
    let registry = Registry::new();
    let mut manager = Fake::new().manager().build();
    manager.add(Probes::bind("0"));
    manager.add(MetricsServer::bind("", &registry));
    during(manager, async {}).await;

    let (_taken, address) = listener().await;
    let mut manager = Fake::new().manager().build();
    manager.add(Probes::bind(address));
    let error = timeout(DEADLINE, manager.run(std::future::pending())).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "health probes failed");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "cannot listen");
}

#[tokio::test]
async fn metrics_have_the_names_of_controller_runtime() {
    let (fake, registry, (listener, address)) = (Fake::new(), Registry::new(), listener().await);
    fake.put(&config("a"));
    let election = LeaderElection::new("lock").identity("a");
    let leases = Leases::default();
    let mut manager = fake.manager_of(leases.client("a")).leader_election(election).registry(&registry).build();
    let (done, reconciled) = oneshot::channel::<()>();
    let (done, calls) = (Mutex::new(Some(done)), AtomicUsize::new(0));
    manager.add(Controller::<ConfigMap>::new().reconcile(move |_: Arc<ConfigMap>, _: Context| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        drop(done.lock().take());
        async move {
            match call {
                0 => Err(Error::other("once")),
                1 => panic!("expected panic of the test"),
                _ => Ok(Action::await_change()),
            }
        }
    }));
    manager.add(MetricsServer::on(listener, &registry));
    during(manager, async {
        drop(reconciled.await);
        let is_there = |text: &str, line: &str| text.lines().any(|found| found == line);
        let text = timeout(DEADLINE, async {
            loop {
                let (status, text) = get(&address, "/metrics").await;
                assert_eq!(status, 200);
                if is_there(&text, r#"controller_runtime_reconcile_total{controller="configmap",result="success"} 1"#) {
                    return text;
                }
            }
        });
        let text = text.await.expect("it succeeds at last");
        for line in [
            r#"controller_runtime_reconcile_total{controller="configmap",result="error"} 2"#,
            r#"controller_runtime_reconcile_total{controller="configmap",result="requeue_after"} 0"#,
            r#"controller_runtime_reconcile_errors_total{controller="configmap"} 2"#,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="configmap"} 0"#,
            r#"controller_runtime_reconcile_panics_total{controller="configmap"} 1"#,
            r#"controller_runtime_reconcile_timeouts_total{controller="configmap"} 0"#,
            r#"controller_runtime_max_concurrent_reconciles{controller="configmap"} 1"#,
            r#"controller_runtime_active_workers{controller="configmap"} 0"#,
            r#"controller_runtime_reconcile_time_seconds_count{controller="configmap"} 3"#,
            r#"workqueue_adds_total{controller="configmap",name="configmap"} 3"#,
            r#"workqueue_depth{controller="configmap",name="configmap",priority=""} 0"#,
            r#"workqueue_retries_total{controller="configmap",name="configmap"} 2"#,
            r#"workqueue_queue_duration_seconds_count{controller="configmap",name="configmap"} 3"#,
            r#"workqueue_unfinished_work_seconds{controller="configmap",name="configmap"} 0"#,
            r#"workqueue_longest_running_processor_seconds{controller="configmap",name="configmap"} 0"#,
            r#"leader_election_master_status{name="lock"} 1"#,
            r#"leader_election_slowpath_total{name="lock"} 0"#,
            r#"rest_client_requests_total{code="404",host="",method="GET"} 1"#,
            r#"rest_client_requests_total{code="200",host="",method="POST"} 1"#,
            "# TYPE controller_runtime_reconcile_time_seconds histogram",
            r#"windlass_cache_objects{namespace="",resource="configmaps",selector="",type="ConfigMap"} 1"#,
            r#"windlass_cache_synced{namespace="",resource="configmaps",selector="",type="ConfigMap"} 1"#,
            r#"windlass_cache_lists_total{namespace="",resource="configmaps",selector="",type="ConfigMap"} 1"#,
            r#"windlass_cache_watches_total{namespace="",resource="configmaps",selector="",type="ConfigMap"} 1"#,
            r#"windlass_cache_decode_errors_total{namespace="",resource="configmaps",selector="",type="ConfigMap"} 0"#,
            r#"windlass_cache_bytes{form="compressed",namespace="",resource="configmaps",selector="",type="ConfigMap"} 0"#,
            r#"windlass_cache_resource_version{namespace="",resource="configmaps",selector="",type="ConfigMap"} 1"#,
            r#"windlass_cache_queued_events{namespace="",resource="configmaps",selector="",type="ConfigMap"} 0"#,
            "# TYPE windlass_cache_bytes gauge",
            "# TYPE windlass_cache_events_total counter",
        ] {
            assert!(is_there(&text, line), "not there: {line}\n{text}");
        }
        assert_eq!(get(&address, "/").await.0, 404);
    })
    .await;
}

/// A cluster that accepts two tokens, and lets the user of one of them read metrics. Records the reviews.
#[derive(Clone, Default)]
struct Reviews(Arc<Mutex<Vec<Value>>>);

impl Reviews {
    fn client(&self) -> Client {
        let reviews = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let reviews = reviews.clone();
            async move {
                let body = BodyExt::collect(request.into_body()).await?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body)?;
                reviews.0.lock().push(review["spec"].clone());
                review["status"] = match review["spec"]["token"].as_str() {
                    None => json!({"allowed": review["spec"]["user"] == "prometheus"}),
                    Some("unknown") => json!({"authenticated": false}),
                    Some(token) => json!({"authenticated": true, "user": {"username": token, "groups": ["g"]}}),
                };
                let answer = Response::builder().status(201).header("content-type", "application/json");
                Ok::<_, BoxError>(answer.body(Full::new(Bytes::from(review.to_string())))?)
            }
        });
        Client::from_service(service, "default")
    }
}

/// Creates a certificate for 127.0.0.1.
fn self_signed_today() -> KeyedCertificate {
    let today = Validity::starting(Clock::system().now(), Duration::from_hours(24));
    self_signed(["127.0.0.1"], today).unwrap()
}

/// Returns the status and the body of a TLS response, accepting any certificate.
pub(crate) async fn get_securely(
    address: &str,
    tls: TlsOptions,
    token: Option<&str>,
) -> Result<(u16, String), BoxError> {
    let client = Client::new(Config::new(format!("https://{address}").parse()?).with_tls(tls))?.with_retries(0);
    let mut request = Request::get("/metrics");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    match client.request(request.body(Bytes::new())?).await {
        Ok(answer) => {
            let status = answer.status().as_u16();
            let body = BodyExt::collect(answer.into_body()).await?.to_bytes();
            Ok((status, String::from_utf8(body.to_vec())?))
        }
        Err(error) => match error.status() {
            Some(status) => Ok((status.code, error.chain())),
            None => Err(error.into()),
        },
    }
}

#[tokio::test]
async fn metrics_require_authentication_and_authorization() {
    let (reviews, registry, (listener, address)) = (Reviews::default(), Registry::new(), listener().await);
    let mut manager = Manager::builder(reviews.client()).registry(&registry).build();
    manager.add(MetricsServer::on(listener, &registry).secure().for_authorized());
    let get = async |token| get_securely(&address, TlsOptions::unverified(), token).await.unwrap();
    during(manager, async {
        assert_eq!(get(None).await.0, 401);
        assert_eq!(get(Some("unknown")).await.0, 401);
        let denied = get(Some("stranger")).await;
        assert_eq!(denied.0, 403);
        assert!(denied.1.contains("Authorization denied for user stranger"), "{}", denied.1);
        for _ in 0..3 {
            let (status, text) = get(Some("prometheus")).await;
            assert_eq!(status, 200);
            assert!(text.contains("rest_client_requests_total"), "{text}");
        }
        // Authentication and authorization results are cached.
        let asked = reviews.0.lock().clone();
        assert_eq!(asked.len(), 5, "{asked:?}");
        let expected = json!({
            "user": "prometheus", "groups": ["g"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(asked[4], expected);
    })
    .await;
}

#[tokio::test]
async fn metrics_certificate_is_replaced_while_in_use() {
    let (registry, (listener, address), live) = (Registry::new(), listener().await, LiveIdentity::new());
    let [first, second] = [self_signed_today(), self_signed_today()];
    live.set(first.identity());
    let mut manager = Fake::new().manager().registry(&registry).build();
    manager.add(MetricsServer::on(listener, &registry).secure_with(live.clone()));
    during(manager, async {
        let get = async |trusted: &KeyedCertificate| {
            let pem = trusted.certificate().to_pem().as_bytes().to_vec();
            get_securely(&address, TlsOptions::trusting(windlass_client::config::Pem::Data(pem)), None).await
        };
        assert_eq!(get(&first).await.unwrap().0, 200);
        assert!(get(&second).await.is_err(), "it is not in use");
        live.set(second.identity());
        assert_eq!(get(&second).await.unwrap().0, 200);
    })
    .await;
}
