//! The effect of each configuration field on a manager.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        pki_types::{CertificateDer, pem::PemObject as _},
    },
};
use windlass_api::{
    Clock, Resource,
    k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap},
};
use windlass_client::{
    Client, Kubeconfig,
    certificates::{Certificate, CertificateAuthority, Leaf, Validity},
    config::{Pem, TlsOptions},
    kubeconfig::{Cluster, User},
};
use windlass_runtime::{
    Action, Context, Controller, Error, Manager, ManagerBuilder, Runnable, RunnableContext, Task,
    config::ManagerConfiguration,
};
use windlass_webhook::Webhooks;

use crate::{
    admin::{DEADLINE, during, get, get_securely, listener},
    fake::{Fake, MS, Run, config, deployment, eventually},
    leases::Leases,
};

fn configuration(body: &str) -> ManagerConfiguration {
    let text = format!("apiVersion: windlass.dev/v1alpha1\nkind: ManagerConfiguration\n{body}");
    // Concurrent tests must not use the default port.
    let mut quiet = ManagerConfiguration::default();
    quiet.health.bind_address = "0".into();
    quiet.with_text(&text).unwrap()
}

fn configured(builder: ManagerBuilder, body: &str) -> Manager {
    builder.configured(&configuration(body)).unwrap().build()
}

/// Returns an address without a listener.
async fn free_address() -> String {
    listener().await.1
}

/// Waits until the address has a listener.
async fn somebody_listens_at(address: &str) {
    let connected = async { while TcpStream::connect(address).await.is_err() {} };
    timeout(DEADLINE, connected).await.expect("the port is open");
}

/// Returns the protocol that a server negotiates with a client that trusts its certificate.
async fn negotiated(address: &str, trusted: &Certificate) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.to_pem().as_bytes()).unwrap()).unwrap();
    let mut tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
    String::from_utf8(stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec()).unwrap()
}

/// A directory with a certificate for 127.0.0.1 and its issuer. The directory is removed on drop.
struct Certified {
    directory: PathBuf,
    authority: Certificate,
}

impl Certified {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("windlass-{name}-{}", std::process::id()));
        let today = Validity::starting(Clock::system().now(), Duration::from_hours(24));
        let authority = CertificateAuthority::self_signed("painters", today).unwrap();
        let keyed = authority.issue(&Leaf::server(["127.0.0.1"]), today).unwrap();
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("a.crt"), keyed.certificate().to_pem()).unwrap();
        std::fs::write(directory.join("a.key"), keyed.key().to_pem().expose()).unwrap();
        std::fs::write(directory.join("ca.crt"), authority.certificate().to_pem()).unwrap();
        Self { directory, authority: authority.certificate().clone() }
    }

    fn trusted(&self) -> TlsOptions {
        TlsOptions::trusting(Pem::Data(self.authority.to_pem().as_bytes().to_vec()))
    }
}

impl Drop for Certified {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns a controller whose reconciles never end and are counted.
fn endless(name: &str, running: &Arc<AtomicUsize>) -> impl Runnable + use<> {
    endless_of::<ConfigMap>(name, running)
}

fn endless_of<K: Resource>(name: &str, running: &Arc<AtomicUsize>) -> impl Runnable + use<K> {
    let running = running.clone();
    Controller::<K>::new().named(name).reconcile(move |_: Arc<K>, _: Context| {
        running.fetch_add(1, SeqCst);
        std::future::pending::<Result<Action, Error>>()
    })
}

#[tokio::test]
async fn metrics_and_probes_use_configured_addresses() {
    let (metrics, health) = (free_address().await, free_address().await);
    let body = format!("metrics: {{bindAddress: '{metrics}', secure: false}}\nhealth: {{bindAddress: '{health}'}}\n");
    let mut manager = configured(Fake::new().manager(), &body);
    manager.healthz("alive", async || Ok::<_, Error>(()));
    manager.readyz("paint", async || Err::<(), _>("it is wet"));
    manager.add(endless("painter", &Arc::default()));
    during(manager, async {
        somebody_listens_at(&health).await;
        assert_eq!(get(&health, "/readyz/paint").await.1, "internal server error: it is wet\n");
        assert_eq!(get(&health, "/healthz?verbose").await.1, "[+]alive ok\nhealthz check passed\n");
        somebody_listens_at(&metrics).await;
        let (status, text) = get(&metrics, "/metrics").await;
        assert_eq!(status, 200);
        let line = r#"controller_runtime_max_concurrent_reconciles{controller="painter"} 1"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    })
    .await;
}

#[tokio::test]
async fn configured_metrics_are_authorized_unless_public() {
    for (access, expected) in [("", 401), ("access: everybody", 200)] {
        let address = free_address().await;
        let body = format!("metrics: {{bindAddress: '{address}', {access}}}\n");
        during(configured(Fake::new().manager(), &body), async {
            somebody_listens_at(&address).await;
            assert_eq!(get_securely(&address, TlsOptions::unverified(), None).await.unwrap().0, expected);
        })
        .await;
    }
}

#[tokio::test]
async fn metrics_have_the_certificate_of_the_file() {
    let (certified, address) = (Certified::new("metrics"), free_address().await);
    let body = |key: &str| {
        let certificate = format!("{{path: {}, name: a.crt, key: {key}}}", certified.directory.display());
        format!("metrics: {{bindAddress: '{address}', access: everybody, certificate: {certificate}}}\n")
    };
    during(configured(Fake::new().manager(), &body("a.key")), async {
        somebody_listens_at(&address).await;
        assert_eq!(get_securely(&address, certified.trusted(), None).await.unwrap().0, 200);
    })
    .await;

    let error = Run::start(configured(Fake::new().manager(), &body("b.key"))).result().await.unwrap_err();
    let expected = format!("metrics failed: reading {}: ", certified.directory.join("b.key").display());
    let error = windlass_api::ErrorChain(&error).to_string();
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn configured_lease_is_used_and_released() {
    for (release, expected) in [("", "held"), (", releaseOnCancel: true", "released")] {
        let server = Leases::default();
        let body = format!(
            "leaderElection: {{enabled: true, id: lock, namespace: painters, leaseDuration: 40s, renewDeadline: 30s, \
             retryPeriod: 7s{release}}}\n"
        );
        let run = Run::start(configured(Manager::builder(server.client("a")), &body));
        eventually("there is a leader", || !server.holder().is_empty()).await;
        assert_eq!(server.lease().unwrap()["spec"]["leaseDurationSeconds"], 40);
        let sent = || server.sent("a");
        assert!(sent()[0].request.contains("/namespaces/painters/leases/lock"), "{}", sent()[0].request);
        let before = sent().len();
        eventually("it renews", || sent().len() > before + 1).await;
        let renewals = &sent()[before..];
        assert_eq!((renewals[1].at - renewals[0].at).as_secs(), 7);
        run.stop().await.unwrap();
        assert_eq!(if server.holder().is_empty() { "released" } else { "held" }, expected);
    }

    let server = Leases::default();
    let run = Run::start(configured(Manager::builder(server.client("a")), ""));
    tokio::time::sleep(Duration::from_mins(1)).await;
    run.stop().await.unwrap();
    assert_eq!(server.lease(), None, "there is no election unless it is enabled");
}

#[tokio::test(start_paused = true)]
async fn keys_are_shared_with_the_group_and_by_the_times_of_the_file() {
    let (fake, server) = (Fake::new(), Leases::default());
    let body = "sharding: {enabled: true, group: painters, namespace: studio, leaseDuration: 40s, renewDeadline: 30s, \
                retryPeriod: 7s}\n";
    let replicas = ["a", "b"].map(|name| {
        let mut manager = configured(fake.manager_of(server.client(name)), body);
        let done = async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(Action::await_change());
        manager.add(Controller::new().sharded().reconcile(done));
        Run::start(manager)
    });
    eventually("both are members", || server.all().len() == 2).await;
    for lease in server.all() {
        assert_eq!(lease["metadata"]["labels"]["sharding.windlass.dev/group"], "painters");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    }
    assert!(server.sent("a").iter().all(|sent| sent.request.contains("/namespaces/studio/leases")));
    let renewals = || server.sent("a").iter().filter(|sent| sent.request.starts_with("PUT")).count();
    let before = renewals();
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert!((8..=12).contains(&(renewals() - before)), "{} in ten periods", renewals() - before);
    for run in replicas {
        run.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn configured_concurrency_by_name_kind_or_default() {
    let (fake, painter, glazier, roofer) = (Fake::new(), Arc::default(), Arc::default(), Arc::default());
    for number in 0..9 {
        fake.put(&config(&number.to_string()));
        fake.put(&deployment(&number.to_string(), None));
    }
    let body = "controllers: {concurrency: 2, groupKindConcurrency: {ConfigMap: 3}, overrides: {painter: {concurrency: 5}}}\n\
                gracefulShutdownTimeout: 2s\n";
    let mut manager = configured(fake.manager(), body);
    manager.add(endless("painter", &painter));
    manager.add(endless("glazier", &glazier));
    manager.add(endless_of::<Deployment>("roofer", &roofer));
    let run = Run::start(manager);
    let counts = || [&painter, &glazier, &roofer].map(|count: &Arc<AtomicUsize>| count.load(SeqCst));
    eventually("all reconciles have started", || counts() == [5, 3, 2]).await;
    let start = Instant::now();
    let error = run.stop().await.unwrap_err().to_string();
    assert_eq!(error, "aborted after the grace period of 2s: glazier, painter, roofer");
    assert_eq!((start.elapsed().as_secs(), counts()), (2, [5, 3, 2]));
}

#[tokio::test(start_paused = true)]
async fn configured_timeouts_apply_to_caches_and_reconciles() {
    for (body, waits) in [
        ("controllers: {cacheSyncTimeout: 7s}\n", 7),
        ("controllers: {cacheSyncTimeout: 7s, overrides: {painter: {cacheSyncTimeout: 3s}}}\n", 3),
    ] {
        let fake = Fake::new();
        fake.hold("configmaps");
        let mut manager = configured(fake.manager(), body);
        manager.add(endless("painter", &Arc::default()));
        let start = Instant::now();
        let error = Run::start(manager).result().await.unwrap_err();
        let Error::Runnable { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.to_string(), format!("the cache of configmaps (v1) did not sync within {waits}s"));
        assert_eq!(start.elapsed().as_secs(), waits);
    }

    let (fake, started) = (Fake::new(), Arc::<AtomicUsize>::default());
    fake.put(&config("a"));
    for said in ["reconcileTimeout: 1s", "reconcileTimeout: 1h, overrides: {painter: {reconcileTimeout: 1s}}"] {
        let mut manager = configured(fake.manager(), &format!("controllers: {{{said}}}\n"));
        let before = started.load(SeqCst);
        manager.add(endless("painter", &started));
        let run = Run::start(manager);
        eventually("the reconcile is dropped and retried", || started.load(SeqCst) > before + 1).await;
        // Work in progress at the stop is aborted, too.
        run.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn settings_of_an_unknown_controller_are_an_error() {
    let mut manager = configured(Fake::new().manager(), "controllers: {overrides: {paintre: {concurrency: 2}}}\n");
    manager.add(endless("painter", &Arc::default()));
    manager.add(Task::new("radio", async |_: RunnableContext| Ok(())));
    let error = Run::start(manager).result().await.unwrap_err().to_string();
    assert_eq!(error, "cannot override the settings of controller \"paintre\": the controllers are painter, radio");
}

#[tokio::test(start_paused = true)]
async fn configured_caches_limit_namespace_and_resync() {
    let (fake, seen) = (Fake::new(), Arc::new(Mutex::new(Vec::new())));
    fake.put(&config("a"));
    let mut elsewhere = config("b");
    elsewhere.metadata.namespace = Some("elsewhere".into());
    fake.put(&elsewhere);
    let mut manager = configured(fake.manager(), "cache: {namespaces: [ns], resync: 1h}\n");
    let kept = seen.clone();
    manager.add(Controller::<ConfigMap>::new().reconcile(move |object: Arc<ConfigMap>, _: Context| {
        kept.lock().push(object.metadata.name.clone().unwrap());
        async { Ok::<_, Error>(Action::await_change()) }
    }));
    let run = Run::start(manager);
    tokio::time::sleep(Duration::from_mins(150)).await;
    run.stop().await.unwrap();
    assert_eq!(*seen.lock(), ["a", "a", "a"]);
    assert!(fake.opened().iter().all(|(_, namespace, _)| namespace.as_deref() == Some("ns")));
}

#[tokio::test]
async fn configured_client_uses_kubeconfig_context_and_rate() {
    let (listener, address) = listener().await;
    let path = std::env::temp_dir().join(format!("windlass-client-{}.kubeconfig", std::process::id()));
    let cluster = |server: &str| Cluster::new(format!("http://{server}"));
    let other = Kubeconfig::single("other", cluster("127.0.0.1:1"), User::default());
    other.merge(Kubeconfig::single("chosen", cluster(&address), User::default())).write(&path).unwrap();
    let body = format!("client: {{kubeconfig: {}, context: chosen, qps: 0.001, burst: 2}}\n", path.display());
    let client = configuration(&body).client.connect().unwrap();
    std::fs::remove_file(&path).unwrap();

    let serving = tokio::spawn(answer(listener));
    let asked = async |client: &Client| client.get_opt::<ConfigMap>("a").within("ns").await.unwrap();
    asked(&client).await;
    asked(&client).await;
    let third = timeout(100 * MS, asked(&client)).await;
    assert!(third.is_err(), "a burst of two, then one in a thousand seconds");
    serving.abort();
}

/// Answers every request with 404.
async fn answer(listener: TcpListener) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
            let head =
                format!("HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
            while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
            }
        });
    }
}

#[tokio::test]
async fn webhooks_use_configured_address_and_certificate() {
    let (certified, address) = (Certified::new("webhook"), free_address().await);
    let port = address.rsplit_once(':').unwrap().1;
    let path = certified.directory.display().to_string();
    let clients = format!(", clientCA: {path}/ca.crt");
    for (more, expected) in [("", "http/1.1"), (", http2: true", "h2"), (&*clients, "nobody")] {
        let certificate = format!("{{path: {path}, name: a.crt, key: a.key}}");
        let body = format!("webhook: {{host: 127.0.0.1, port: {port}, certificate: {certificate}{more}}}\n");
        let config = configuration(&body);
        let mut manager = Fake::new().manager().configured(&config).unwrap().build();
        manager.add(config.webhook.server(Webhooks::builder().build().unwrap()));
        during(manager, async {
            somebody_listens_at(&address).await;
            let spoken = match get_securely(&address, certified.trusted(), None).await {
                Ok((404, _)) => negotiated(&address, &certified.authority).await,
                _ => "nobody".to_owned(),
            };
            assert_eq!(spoken, expected);
        })
        .await;
    }
}
