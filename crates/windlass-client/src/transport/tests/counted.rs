//! The metrics of connections.

use super::*;
use crate::{
    auth::{ExecConfig, ExecVersion, PluginPolicy},
    metrics::{Opened, PluginCall, PolicyDecision, Source, TlsReload, TransportMetrics},
};

/// Records metrics, one per line, without the parts that vary between runs.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<parking_lot::Mutex<Vec<String>>>);

impl Counted {
    fn add(&self, line: String) {
        self.0.lock().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl TransportMetrics for Counted {
    fn resolved(&self, host: &str, _: Duration) {
        self.add(format!("resolved {host}"));
    }

    fn connected(&self, connection: &Opened<'_>) {
        let host = connection.server.split(':').next().unwrap_or_default();
        self.add(format!("connected {host} {:?}", connection.outcome));
    }

    fn transport_taken(&self, from: Source, open: usize) {
        self.add(format!("taken {from:?} {open}"));
    }

    fn tls_files_read(&self, found: TlsReload) {
        self.add(format!("read {found:?}"));
    }

    fn plugin_called(&self, outcome: PluginCall) {
        self.add(format!("called {outcome:?}"));
    }

    fn plugin_policy_checked(&self, verdict: PolicyDecision) {
        self.add(format!("judged {verdict:?}"));
    }

    fn credentials_expire(&self, at: Option<jiff::Timestamp>) {
        self.add(format!("until {}", at.map_or_else(|| "refused".to_owned(), |at| at.to_string())));
    }
}

#[tokio::test]
async fn lookups_connections_and_sharing_are_counted() {
    let (server, counted) = (Server::start(None).await, Counted::default());
    let url = format!("http://localhost:{}", server.address.port()).parse().unwrap();
    let config = Config::new(url).with_proxy(Proxy::Direct).with_metrics(counted.clone());
    let clients = [(); 2].map(|()| Client::new(config.clone()).unwrap());
    assert_eq!(counted.take(), ["taken New 1", "taken Shared 1"]);
    for client in &clients {
        let _: Value = client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap();
    }
    assert_eq!(counted.take(), ["resolved localhost", "connected localhost Succeeded"]);

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gone = Config::new(format!("http://{free}").parse().unwrap()).with_metrics(counted.clone());
    assert!(ask(gone).await.is_err());
    assert_eq!(counted.take(), ["taken New 1", "connected 127.0.0.1 Failed"]);
}

#[tokio::test]
async fn runs_of_plugins_are_counted_with_how_they_end() {
    let (server, counted) = (Server::start(None).await, Counted::default());
    let answer = |status: &str| {
        format!(
            r#"echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{status}}}'"#
        )
    };
    let expiring = answer(r#"{"token":"t","expirationTimestamp":"2099-01-01T00:00:00Z"}"#);
    let (open, no_answer) = (answer(r#"{"token":"t"}"#), "echo no".to_owned());
    for (command, script, policy, expected) in [
        (
            "sh",
            expiring,
            PluginPolicy::AllowAll,
            &["judged Allowed", "called Succeeded", "until 2099-01-01T00:00:00Z"][..],
        ),
        ("sh", open.clone(), PluginPolicy::AllowAll, &["judged Allowed", "called Succeeded", "until refused"]),
        ("sh", "exit 3".to_owned(), PluginPolicy::AllowAll, &["judged Allowed", "called Failed(Some(3))"]),
        ("sh", no_answer, PluginPolicy::AllowAll, &["judged Allowed", "called Unusable"]),
        ("no-such-program", open.clone(), PluginPolicy::AllowAll, &["judged Allowed", "called Missing"]),
        ("sh", open, PluginPolicy::DenyAll, &["judged Denied", "called Unusable"]),
    ] {
        let plugin = ExecConfig::new(command, ExecVersion::V1).with_args(["-c", &script]);
        let config = Config::new(server.url("http")).with_auth(Auth::Exec(Box::new(plugin)));
        let config = config.with_plugin_policy(policy).with_metrics(counted.clone());
        let outcome = ask(config).await;
        assert_eq!(outcome.is_ok(), expected.contains(&"called Succeeded"), "{command} {script}");
        let told = counted.take();
        let told: Vec<_> = told.iter().filter(|line| !line.starts_with("taken") && !line.starts_with("conn")).collect();
        assert_eq!(told, expected, "{command} {script}");
    }
}

#[tokio::test]
async fn file_checks_are_counted_by_result() {
    let (pki, counted, folder) = (Pki::new(), Counted::default(), Folder::new("counted-files"));
    let authority = folder.write("ca.crt", &pki.pem());
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let tls = TlsOptions::trusting(authority);
    let client = Client::new(Config::new(server.url("https")).with_tls(tls).with_metrics(counted.clone())).unwrap();
    let mut found = Vec::new();
    for text in [pki.pem(), pki.pem() + "\n", "nothing".to_owned()] {
        folder.write("ca.crt", &text);
        rotation::elapse(Duration::from_secs(61)).await;
        let _: Value = client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap();
        found.extend(counted.take().into_iter().filter(|line| line.starts_with("read")));
    }
    assert_eq!(found, ["read Unchanged", "read Changed", "read Unusable"]);
}
