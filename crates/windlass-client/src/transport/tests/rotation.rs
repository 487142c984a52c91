//! Files of certificates, keys, authorities and tokens that are replaced while a client runs.

use std::path::PathBuf;

use windlass_api::Clock;

use super::*;
use crate::{
    auth::{ExecConfig, ExecVersion},
    connection_options::{LiveIdentity, Pem},
};

/// The files of a client, which another program keeps up to date.
struct Files {
    folder: Folder,
}

impl Files {
    fn new(test: &str) -> Self {
        Self { folder: Folder::new(test) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        // Replaced atomically, as careful tools do.
        let new = self.folder.write(&format!("{name}.new"), text);
        std::fs::rename(new, self.path(name)).unwrap();
    }

    /// Writes an identity and returns how a server describes it.
    fn identify(&self, pki: &Pki) -> Value {
        let (certificate, key) = pki.issue("somebody", ExtendedKeyUsagePurpose::ClientAuth);
        self.write("client.crt", &certificate.pem());
        self.write("client.key", &key.serialize_pem());
        shown(certificate.der()).into()
    }

    fn config(&self, server: &Server) -> Config {
        let identity = Identity::new(self.path("client.crt"), self.path("client.key"));
        let tls = TlsOptions::trusting(self.path("ca.crt")).with_identity(identity);
        Config::new(server.url("https")).with_tls(tls).with_auth(Auth::TokenFile(self.path("token")))
    }
}

/// Advances the clock of timers, without affecting sockets.
pub(super) async fn elapse(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

async fn seen(client: &Client) -> Value {
    client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap_or_else(|error| panic!("{}", error.chain()))
}

/// The same after the server has closed its connections. A request that is sent before the client has noticed this is
/// lost; the next one succeeds.
async fn seen_after_break(client: &Client, server: &mut Server) -> Value {
    until_open(server, 0).await;
    match client.request_json(Request::get("/x").body(()).unwrap()).await {
        Ok(seen) => seen,
        Err(error) => {
            assert!(error.chain().contains("connection"), "{}", error.chain());
            seen(client).await
        }
    }
}

pub(super) async fn until_open(server: &mut Server, count: usize) {
    let reached = server.open.wait_for(|open| *open == count);
    tokio::time::timeout(Duration::from_secs(10), reached).await.expect("old connections end").unwrap();
}

#[tokio::test]
async fn a_client_keeps_working_while_all_its_files_are_replaced() {
    let (old, new) = (Pki::new(), Pki::new());
    let files = Files::new("rotate-all");
    files.write("ca.crt", &old.pem());
    files.write("token", "one");
    let first = files.identify(&old);
    let mut server = Server::start(Some(old.server("127.0.0.1", &["h2"], Clients::Certified))).await;
    server.accept_token("Bearer one");
    let client = Client::new(files.config(&server)).unwrap();
    assert_eq!(seen(&client).await["certificate"], first);

    // The server accepts none of the old files any more and closes all connections. Within one call, the client loads
    // the new authorities, identity and token.
    files.write("ca.crt", &new.pem());
    files.write("token", "two");
    let second = files.identify(&new);
    server.replace(new.server("127.0.0.1", &["h2"], Clients::Certified));
    server.accept_token("Bearer two");
    let told = seen_after_break(&client, &mut server).await;
    assert_eq!((&told["certificate"], &told["authorization"]), (&second, &"Bearer two".into()));

    // Again, each file separately.
    files.write("token", "three");
    server.accept_token("Bearer three");
    assert_eq!(seen(&client).await["authorization"], "Bearer three");
    server.replace(old.server("127.0.0.1", &["h2"], Clients::Certified));
    files.write("ca.crt", &old.pem());
    let third = files.identify(&old);
    assert_eq!(seen_after_break(&client, &mut server).await["certificate"], third);
}

#[tokio::test]
async fn replaced_files_apply_within_a_minute() {
    let pki = Pki::new();
    let files = Files::new("rotate-minute");
    files.write("ca.crt", &pki.pem());
    files.write("token", "t");
    let first = files.identify(&pki);
    for alpn in ["h2", "http/1.1"] {
        let mut server = Server::start(Some(pki.server("127.0.0.1", &[alpn], Clients::Certified))).await;
        let client = Client::new(files.config(&server)).unwrap();
        let mut watch = client.watch::<Pod>().await.unwrap();
        assert!(watch.next().await.unwrap().is_ok());
        let before = seen(&client).await["certificate"].clone();
        let next = files.identify(&pki);
        elapse(Duration::from_secs(55)).await;
        assert_eq!(seen(&client).await["certificate"], before, "the file is not read again yet");
        elapse(Duration::from_secs(10)).await;
        assert_eq!(seen(&client).await["certificate"], next);
        assert_ne!(next, first);
        // An open connection is not cut; it ends with its last request.
        until_open(&mut server, 2).await;
        drop(watch);
        until_open(&mut server, 1).await;
        assert_eq!(seen(&client).await["certificate"], next);
    }
}

#[tokio::test]
async fn mismatched_files_keep_the_previous_ones() {
    let pki = Pki::new();
    let files = Files::new("rotate-half");
    files.write("ca.crt", &pki.pem());
    files.write("token", "t");
    let first = files.identify(&pki);
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Certified))).await;
    let client = Client::new(files.config(&server)).unwrap();
    assert_eq!(seen(&client).await["certificate"], first);
    // A certificate whose key is not replaced yet.
    let (certificate, key) = pki.issue("somebody", ExtendedKeyUsagePurpose::ClientAuth);
    files.write("client.crt", &certificate.pem());
    elapse(Duration::from_secs(61)).await;
    assert_eq!(seen(&client).await["certificate"], first);
    // A file without authorities.
    files.write("ca.crt", "");
    files.write("client.key", &key.serialize_pem());
    elapse(Duration::from_secs(61)).await;
    assert_eq!(seen(&client).await["certificate"], first);
    files.write("ca.crt", &pki.pem());
    elapse(Duration::from_secs(61)).await;
    assert_eq!(seen(&client).await["certificate"], shown(certificate.der()));
}

#[tokio::test]
async fn files_that_cannot_be_read_are_refused_at_once() {
    let files = Files::new("rotate-none");
    let tls = TlsOptions::trusting(files.path("ca.crt"));
    let error = Client::new(Config::new("https://127.0.0.1:1".parse().unwrap()).with_tls(tls)).unwrap_err();
    assert_eq!(error.to_string(), format!("reading {}", files.path("ca.crt").display()));
}

#[tokio::test]
async fn a_certificate_that_is_replaced_in_memory_is_shown_at_once() {
    let pki = Pki::new();
    let mut server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Certified))).await;
    let live = LiveIdentity::new();
    let replace = || {
        let (certificate, key) = pki.issue("somebody", ExtendedKeyUsagePurpose::ClientAuth);
        live.set(Identity::new(certificate.pem(), key.serialize_pem()));
        Value::from(shown(certificate.der()))
    };
    let tls = TlsOptions::trusting(pki.pem()).with_identity(pki.identity()).with_live_identity(live.clone());
    let client = Client::new(Config::new(server.url("https")).with_tls(tls)).unwrap();
    let stand_in = seen(&client).await["certificate"].clone();
    for _ in 0..2 {
        let next = replace();
        assert_eq!(seen(&client).await["certificate"], next);
        assert_ne!(next, stand_in);
        until_open(&mut server, 1).await;
    }
}

#[tokio::test]
async fn certificates_that_a_plugin_hands_out_are_shown_and_replaced() {
    let pki = Pki::new();
    let files = Files::new("rotate-plugin");
    let hand_out = |end: &str| {
        let (certificate, key) = pki.issue("somebody", ExtendedKeyUsagePurpose::ClientAuth);
        let answer = serde_json::json!({
            "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
            "status": {
                "clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem(),
                "expirationTimestamp": end,
            },
        });
        files.write("answer", &answer.to_string());
        Value::from(shown(certificate.der()))
    };
    let now = Arc::new(parking_lot::Mutex::new("2030-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap()));
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Certified))).await;
    let plugin = ExecConfig::new("cat", ExecVersion::V1).with_args([files.path("answer").to_string_lossy()]);
    let mut config = Config::new(server.url("https"))
        .with_tls(TlsOptions::trusting(Pem::from(pki.pem())))
        .with_auth(Auth::Exec(Box::new(plugin)));
    config.clock = Clock::from_fn({
        let now = Arc::clone(&now);
        move || *now.lock()
    });
    let client = Client::new(config).unwrap();
    let first = hand_out("2030-01-01T01:00:00Z");
    assert_eq!(seen(&client).await["certificate"], first);
    let second = hand_out("2030-01-01T02:00:00Z");
    assert_eq!(seen(&client).await["certificate"], first, "it holds");
    *now.lock() = "2030-01-01T01:00:01Z".parse().unwrap();
    assert_eq!(seen(&client).await["certificate"], second);
}
