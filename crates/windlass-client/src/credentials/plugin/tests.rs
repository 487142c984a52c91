//! Tests with shell programs: `sh -c SCRIPT`.

use std::sync::Arc;

use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::json;
use tower::ServiceExt as _;
use windlass_api::{Clock, ErrorChain};

use super::*;
use crate::{
    auth::{Auth, ExecVersion, PluginPolicy},
    body::Body,
    credentials::{Authenticated, Credentials},
    testing::{Fake, Folder},
    transport,
};

fn script(script: &str) -> ExecConfig {
    ExecConfig::new("sh", ExecVersion::V1).with_args(["-c", script])
}

/// Returns a plugin that counts its runs in a file and returns `token-N`, with additional fields in the status.
fn counting(folder: &Folder, status: &str) -> ExecConfig {
    let count = folder.path().join("count");
    script(&format!(
        r#"printf x >> '{0}'; n=$(wc -c < '{0}' | tr -d ' ')
        echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"token-'$n'"{status}}}}}'"#,
        count.display()
    ))
}

/// Sends one request with a plugin's credentials. Returns the `Authorization` header or the error.
async fn signed(config: ExecConfig) -> Result<String, String> {
    let fake = Fake::json("{}");
    let credentials =
        Credentials::new(&Auth::Exec(Box::new(config)), &Clock::system(), &MetricsRecorder::default()).unwrap();
    send(&fake, &credentials).await?;
    Ok(fake.last().headers()["authorization"].to_str().unwrap().to_owned())
}

async fn send(fake: &Fake, credentials: &Credentials) -> Result<Response<Body>, String> {
    let service = Authenticated::new(transport::erase(fake.clone()), credentials.clone(), None).unwrap();
    let shown = |error: windlass_api::BoxError| ErrorChain(&*error).to_string();
    service.oneshot(Request::new(Body::empty())).await.map_err(shown)
}

#[tokio::test]
async fn a_token_is_used_until_it_expires() {
    let folder = Folder::new("exec-expiry");
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let now = Arc::new(Mutex::new(start));
    let clock = Clock::from_fn({
        let now = Arc::clone(&now);
        move || *now.lock()
    });
    let config = counting(&folder, r#","expirationTimestamp":"2030-01-01T01:00:00Z""#);
    let credentials = Credentials::new(&Auth::Exec(Box::new(config)), &clock, &MetricsRecorder::default()).unwrap();
    let fake = Fake::json("{}");
    let mut seen = Vec::new();
    for minute in [0, 59, 60] {
        *now.lock() = start + SignedDuration::from_mins(minute);
        send(&fake, &credentials).await.unwrap();
        seen.push(fake.last().headers()["authorization"].to_str().unwrap().to_owned());
    }
    assert_eq!(seen, ["Bearer token-1", "Bearer token-1", "Bearer token-2"]);
}

#[tokio::test]
async fn concurrent_requests_run_the_plugin_once() {
    let folder = Folder::new("exec-once");
    let credentials =
        Credentials::new(&Auth::Exec(Box::new(counting(&folder, ""))), &Clock::system(), &MetricsRecorder::default())
            .unwrap();
    let fake = Fake::json("{}");
    let sent = futures::future::join_all((0..20).map(|_| send(&fake, &credentials))).await;
    assert!(sent.iter().all(Result::is_ok));
    assert_eq!(std::fs::read_to_string(folder.path().join("count")).unwrap(), "x");
}

#[tokio::test]
async fn rejected_token_is_renewed_and_request_retried_once() {
    let folder = Folder::new("exec-refused");
    let credentials =
        Credentials::new(&Auth::Exec(Box::new(counting(&folder, ""))), &Clock::system(), &MetricsRecorder::default())
            .unwrap();
    let fake = Fake::new(|request| {
        let ok = request.headers()["authorization"] == "Bearer token-2";
        Response::builder().status(if ok { 200 } else { 401 }).body(Body::empty()).unwrap()
    });
    assert_eq!(send(&fake, &credentials).await.unwrap().status(), 200);
    assert_eq!(fake.seen().len(), 2);
    // An accepted token remains in use.
    assert_eq!(send(&fake, &credentials).await.unwrap().status(), 200);
    assert_eq!(fake.seen().len(), 3);
}

#[tokio::test]
async fn plugin_gets_the_exec_info() {
    let folder = Folder::new("exec-info");
    let file = folder.path().join("info");
    let mut config = script(&format!(
        r#"echo "$KUBERNETES_EXEC_INFO $GREETING" > '{}'
        echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{{"token":"t"}}}}'"#,
        file.display()
    ));
    config.version = ExecVersion::V1Beta1;
    config.env = vec![("GREETING".to_owned(), "hello".into())];
    config.cluster = Some(json!({"server": "https://h", "config": {"audience": "x"}}));
    assert_eq!(signed(config).await.unwrap(), "Bearer t");
    let told = std::fs::read_to_string(file).unwrap();
    let (info, variable) = told.trim_end().rsplit_once(' ').unwrap();
    assert_eq!(variable, "hello");
    assert_eq!(
        serde_json::from_str::<Value>(info).unwrap(),
        json!({
            "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1",
            "spec": {"interactive": false, "cluster": {"server": "https://h", "config": {"audience": "x"}}},
        })
    );
}

#[tokio::test]
async fn failing_plugin_is_named_without_its_output() {
    let answering = |answer: &str| script(&format!("echo '{answer}'"));
    let version = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
    let status = |fields: &str| answering(&format!(r#"{{{version},"status":{{{fields}}}}}"#));
    for (config, expected) in [
        (script("exit 3"), "it failed with exit code 3"),
        (answering("s3cret"), "it is not such JSON, at line 1, column 1"),
        (answering(r#"{"kind":"Pod","s3cret":1}"#), r#"it is of the kind "Pod""#),
        (
            answering(r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"}"#),
            r#"it is of the version "client.authentication.k8s.io/v1beta1""#,
        ),
        (answering(&format!("{{{version}}}")), "it has no status"),
        (status(""), "it has neither a token nor a certificate"),
        (status(r#""clientKeyData":"s3cret""#), "it has a key without a certificate"),
        (status(r#""clientCertificateData":"c","token":"s3cret""#), "it has a certificate without a key"),
        (status(r#""token":"s3cret","expirationTimestamp":"soon""#), "status.expirationTimestamp is not a time"),
        (ExecConfig { policy: PluginPolicy::DenyAll, ..script("") }, "the policy forbids all plugins"),
        (ExecConfig { interaction: Interaction::Always, ..script("") }, "the standard input is not a terminal"),
    ] {
        if config.interaction == Interaction::Always && std::io::IsTerminal::is_terminal(&std::io::stdin()) {
            continue;
        }
        let error = signed(config.clone()).await.unwrap_err();
        assert!(error.starts_with(r#"the plugin "sh" returned no credentials: "#), "{error}");
        assert!(error.contains(expected), "{error}\nwant {expected}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn install_hint_is_printed_ten_times_an_hour() {
    let mut config = ExecConfig::new("no-such-program", ExecVersion::V1);
    config.install_hint = Some("run\n\u{1b}[31minstall".to_owned());
    let credentials =
        Credentials::new(&Auth::Exec(Box::new(config)), &Clock::system(), &MetricsRecorder::default()).unwrap();
    let fake = Fake::json("{}");
    let told = async || send(&fake, &credentials).await.unwrap_err().contains("run\nU+001B[31minstall");
    for time in 0..12 {
        assert_eq!(told().await, time < 10, "{time}");
    }
    tokio::time::advance(std::time::Duration::from_hours(1)).await;
    assert!(told().await);
    assert!(fake.seen().is_empty());
}

#[test]
fn the_values_of_variables_are_not_in_debug() {
    let config = ExecConfig { env: vec![("TOKEN".to_owned(), "s3cret".into())], ..script("") };
    assert!(!format!("{:?}", Auth::Exec(Box::new(config))).contains("s3cret"));
}
