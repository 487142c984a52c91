//! Issuers of tokens, tokens in secrets, and front proxies: the responses of both servers to the same requests.
//!
//! `authentication/recorded.txt` has the normalized responses of the real server. The embedded server must give the same
//! ones. The issuers run here; both servers trust them by `authentication/configuration.json`.

use std::{env, fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use conformance::{RECORD, UPSTREAM, like_upstream, trusting_any_certificate, unique};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_rustls::TlsConnector;
use windlass_server::{AuthenticationConfiguration, FrontProxy, Server, TlsIdentity, TokenIssuer, User};

use self::issuer::{Issuers, Signer};

mod issuer;

const TEMPLATE: &str = include_str!("../authentication/configuration.json");
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/authentication/recorded.txt");
/// The token of the administrator. xtask gives it to the real server.
const ADMIN: &str = "upstream-auditor";
const DEADLINE: Duration = Duration::from_mins(1);
/// The end of the lifetime of valid tokens, in the year 2100.
const END: i64 = 4_102_444_800;

/// A certificate authority in PEM, with its key.
struct Authority {
    name: String,
    certificate: String,
    key: String,
}

/// A server whose clients are authenticated.
struct Target {
    address: SocketAddr,
    clients: Authority,
    proxies: Authority,
    /// The key that signs the tokens of service accounts.
    accounts: String,
    issuers: Issuers,
}

/// The credentials of a request.
#[derive(Clone, Copy, Default)]
struct Credentials<'c> {
    token: Option<&'c str>,
    /// A certificate chain and its key.
    certificate: Option<&'c (CertificateDer<'static>, Vec<u8>)>,
    headers: &'c [(&'c str, &'c str)],
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = Self::params(name).self_signed(&key).unwrap().pem();
        Self { name: name.to_owned(), certificate, key: key.serialize_pem() }
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    /// Reads the authority that xtask has generated.
    fn read(directory: &Path, name: &str) -> Self {
        let read = |end: &str| fs::read_to_string(directory.join(format!("{name}.{end}"))).unwrap();
        Self { name: name.to_owned(), certificate: read("crt"), key: read("key") }
    }

    /// Issues a client certificate.
    fn issue(&self, name: &str, groups: &[&str]) -> (CertificateDer<'static>, Vec<u8>) {
        let issuer = Issuer::new(Self::params(&self.name), KeyPair::from_pem(&self.key).unwrap());
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (certificate.der().clone(), key.serialize_der())
    }
}

impl Target {
    /// Sends a request and returns the code and the body.
    async fn send(&self, method: &str, path: &str, body: &Value, credentials: Credentials<'_>) -> (StatusCode, Value) {
        let config = match credentials.certificate {
            None => trusting_any_certificate().unwrap(),
            Some((certificate, key)) => {
                let verifier = conformance::any_certificate_verifier();
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.clone()));
                ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .unwrap()
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
                    .with_client_auth_cert(vec![certificate.clone()], key)
                    .unwrap()
            }
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1");
        if let Some(token) = credentials.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in credentials.headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = request.header("content-type", "application/json").body(Full::new(body)).unwrap();
        let response = tokio::time::timeout(DEADLINE, sender.send_request(request)).await.unwrap().unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn admin(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(method, path, &body, Credentials { token: Some(ADMIN), ..Credentials::default() }).await
    }

    /// Returns the user of a request, or the code of its rejection.
    async fn who(&self, credentials: Credentials<'_>) -> Value {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (code, body) = self.send("POST", path, &json!({}), credentials).await;
        if code == StatusCode::CREATED { body["status"]["userInfo"].clone() } else { code.as_u16().into() }
    }

    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let spec = json!({"token": token, "audiences": audiences});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        self.admin("POST", path, json!({"spec": spec})).await.1["status"].clone()
    }

    /// Waits until the server knows the keys of both issuers.
    async fn wait(&self) {
        let started = Instant::now();
        for issuer in ["claims", "expressions"] {
            let token = self.issuers.token(issuer, Signer::Rsa, json!({}));
            loop {
                let review = self.review(&token, &[]).await;
                if !review["error"].as_str().unwrap_or_default().contains("not initialized") {
                    break;
                }
                assert!(started.elapsed() < DEADLINE, "{review}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Sends all requests, and returns a line for each.
    async fn play(&self) -> Vec<String> {
        self.wait().await;
        let mut lines = Vec::new();
        self.issued(&mut lines).await;
        self.in_secrets(&mut lines).await;
        self.proxied(&mut lines).await;
        lines
    }

    async fn issued(&self, lines: &mut Vec<String>) {
        let merged = |base: Value, changes: Value| {
            let mut claims = base;
            for (key, value) in changes.as_object().unwrap() {
                claims[key] = value.clone();
                if value == "REMOVED" {
                    claims.as_object_mut().unwrap().remove(key);
                }
            }
            claims
        };
        let claims = json!({
            "aud": "cluster", "exp": END, "email": "jane@example.com", "groups": ["a", "b"], "sub": "7",
            "hd": "example.com",
        });
        let expressions = json!({
            "aud": ["other"], "exp": END, "nbf": 1_000_000_000_i64, "username": "jane", "sub": "7", "roles": ["x", ""],
            "tenant": "acme", "a.b": ["n"], "jti": "id-1",
        });
        let tests: [(&str, &str, Value); 40] = [
            ("claims", "valid", json!({})),
            ("claims", "audiences", json!({"aud": ["x", "cluster"]})),
            ("claims", "other audience", json!({"aud": "other"})),
            ("claims", "no audience", json!({"aud": "REMOVED"})),
            ("claims", "expired", json!({"exp": 1_000_000_000_i64})),
            ("claims", "no expiration", json!({"exp": "REMOVED"})),
            ("claims", "one group", json!({"groups": "admins"})),
            ("claims", "no group", json!({"groups": "REMOVED"})),
            ("claims", "wrong groups", json!({"groups": 7})),
            ("claims", "mixed groups", json!({"groups": ["a", 7]})),
            ("claims", "no name", json!({"email": "REMOVED"})),
            ("claims", "number as name", json!({"email": 7})),
            ("claims", "list as name", json!({"email": []})),
            ("claims", "verified email", json!({"email_verified": true})),
            ("claims", "unverified email", json!({"email_verified": false})),
            ("claims", "text as verified", json!({"email_verified": "true"})),
            ("claims", "no uid", json!({"sub": "REMOVED"})),
            ("claims", "number as uid", json!({"sub": 7})),
            ("claims", "no required claim", json!({"hd": "REMOVED"})),
            ("claims", "other required claim", json!({"hd": "example.org"})),
            ("claims", "number as required claim", json!({"hd": true})),
            ("claims", "identifier", json!({"jti": "id-2"})),
            ("claims", "number as identifier", json!({"jti": 7})),
            ("claims", "not yet valid, within the leeway of nothing", json!({"nbf": 1_000_000_000_i64})),
            ("expressions", "valid", json!({})),
            ("expressions", "no groups", json!({"roles": "REMOVED"})),
            ("expressions", "group as text", json!({"roles": "x"})),
            ("expressions", "empty group", json!({"roles": ""})),
            ("expressions", "groups of numbers", json!({"roles": [1]})),
            ("expressions", "groups as object", json!({"roles": {"a": 1}})),
            ("expressions", "null as groups", json!({"roles": null})),
            ("expressions", "no name", json!({"username": "REMOVED"})),
            ("expressions", "number as name", json!({"username": 7})),
            ("expressions", "reserved name", json!({"username": "system:jane"})),
            ("expressions", "reserved group", json!({"roles": ["system:masters"]})),
            ("expressions", "number as uid", json!({"sub": 7})),
            ("expressions", "no uid", json!({"sub": "REMOVED"})),
            ("expressions", "no tenant", json!({"tenant": "REMOVED", "a.b": "REMOVED"})),
            ("expressions", "number as tenant", json!({"tenant": 7})),
            ("expressions", "other audiences", json!({"aud": ["a", "b"]})),
        ];
        for (issuer, name, changes) in tests {
            let base = if issuer == "claims" { claims.clone() } else { expressions.clone() };
            let token = self.issuers.token(issuer, Signer::Rsa, merged(base, changes));
            let who = self.who(Credentials { token: Some(&token), ..Credentials::default() }).await;
            lines.push(format!("{issuer}, {name}: {who}"));
            lines.push(format!("  {}", self.review(&token, &[]).await));
        }
        for (name, signer) in [
            ("ES256", Signer::Ecdsa),
            ("without a key id", Signer::Anonymous),
            ("unknown key id", Signer::Unknown),
            ("wrong signature", Signer::Forged),
            ("HS256", Signer::Hmac),
        ] {
            let token = self.issuers.token("claims", signer, claims.clone());
            let review = self.review(&token, &[]).await;
            lines.push(format!("claims, {name}: {review}"));
        }
        let token = self.issuers.token("unknown", Signer::Rsa, claims.clone());
        lines.push(format!("unknown issuer: {}", self.review(&token, &[]).await));
        let token = self.issuers.token("claims", Signer::Rsa, claims);
        for audiences in
            [&["https://kubernetes.default.svc"][..], &["other"], &["other", "https://kubernetes.default.svc"]]
        {
            lines.push(format!("audiences {audiences:?}: {}", self.review(&token, audiences).await));
        }
    }

    async fn in_secrets(&self, lines: &mut Vec<String>) {
        let namespace = unique("legacy");
        let space = format!("/api/v1/namespaces/{namespace}");
        self.admin("POST", "/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        let (_, account) =
            self.admin("POST", &format!("{space}/serviceaccounts"), json!({"metadata": {"name": "robot"}})).await;
        let uid = account["metadata"]["uid"].as_str().unwrap().to_owned();
        let claim = |name: &str| format!("kubernetes.io/serviceaccount/{name}");
        let claims = |secret: &str| {
            json!({
                "iss": "kubernetes/serviceaccount",
                claim("namespace"): namespace,
                claim("secret.name"): secret,
                claim("service-account.name"): "robot",
                claim("service-account.uid"): uid,
                "sub": format!("system:serviceaccount:{namespace}:robot"),
            })
        };
        let sign = |claims: &Value| issuer::account_token(&self.accounts, claims);
        let normal = |value: Value| {
            let text = value.to_string().replace(&namespace, "NAMESPACE").replace(&uid, "UID");
            // The credential of a token has no name, so nothing else differs.
            text
        };
        let token = sign(&claims("s"));
        let stored = json!({
            "metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "robot"}},
            "type": "kubernetes.io/service-account-token", "data": {"token": BASE64_STANDARD.encode(&token)},
        });
        lines.push(format!("secret token, before its secret: {}", normal(self.review(&token, &[]).await)));
        self.admin("POST", &format!("{space}/secrets"), stored).await;
        let used = self.until(&token, |review| review["authenticated"] == true).await;
        lines.push(format!("secret token: {}", normal(used)));
        let who = self.who(Credentials { token: Some(&token), ..Credentials::default() }).await;
        lines.push(format!("secret token, user: {}", normal(who)));
        let started = Instant::now();
        let labels = loop {
            let labels =
                self.admin("GET", &format!("{space}/secrets/s"), Value::Null).await.1["metadata"]["labels"].clone();
            if !labels.is_null() || started.elapsed() > DEADLINE {
                break labels;
            }
            sleep(Duration::from_millis(20)).await;
        };
        let day = labels["kubernetes.io/legacy-token-last-used"].as_str().map(str::len);
        lines.push(format!(
            "secret token, last used: {day:?} of {} labels",
            labels.as_object().map_or(0, serde_json::Map::len)
        ));
        for (name, key, value) in [
            ("no subject", "sub".to_owned(), ""),
            ("other subject", "sub".to_owned(), "system:serviceaccount:default:robot"),
            ("no namespace", claim("namespace"), ""),
            ("no secret", claim("secret.name"), ""),
            ("no account", claim("service-account.name"), ""),
            ("no uid", claim("service-account.uid"), ""),
            ("other secret", claim("secret.name"), "none"),
            ("changed", "extra".to_owned(), "x"),
        ] {
            let mut changed = claims("s");
            changed[&key] = value.into();
            lines.push(format!("secret token, {name}: {}", normal(self.review(&sign(&changed), &[]).await)));
        }
        lines.push(format!("secret token, other audience: {}", normal(self.review(&token, &["other"]).await)));
        let mut other = claims("u");
        other[&claim("service-account.uid")] = "other".into();
        let other = sign(&other);
        let stored = json!({
            "metadata": {"name": "u", "annotations": {"kubernetes.io/service-account.name": "robot"}},
            "type": "kubernetes.io/service-account-token", "data": {"token": BASE64_STANDARD.encode(&other)},
        });
        self.admin("POST", &format!("{space}/secrets"), stored).await;
        let rejected = self.until(&other, |review| !shown(review).contains("has been invalidated")).await;
        lines.push(format!("secret token, uid of another account: {}", normal(rejected)));
        let invalid = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2020-01-01"}}});
        let path = format!("{space}/secrets/s");
        self.patch(&path, &invalid).await;
        // The real server caches results for ten seconds.
        let rejected = self.until(&token, |review| review["authenticated"] != true).await;
        lines.push(format!("secret token, marked invalid: {}", normal(rejected)));
        self.patch(&path, &json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": null}}})).await;
        let used = self.until(&token, |review| review["authenticated"] == true).await;
        lines.push(format!("secret token, valid again: {}", normal(used)));
        self.admin("DELETE", &path, Value::Null).await;
        let rejected = self.until(&token, |review| review["authenticated"] != true).await;
        lines.push(format!("secret token, without its secret: {}", normal(rejected)));
        self.admin("DELETE", &format!("/api/v1/namespaces/{namespace}"), Value::Null).await;
    }

    async fn patch(&self, path: &str, patch: &Value) {
        let headers = [("accept", "application/json")];
        let credentials = Credentials { token: Some(ADMIN), headers: &headers, ..Credentials::default() };
        let (_, current) = self.send("GET", path, &Value::Null, credentials).await;
        let mut changed = current;
        let labels = patch["metadata"]["labels"].as_object().unwrap();
        for (key, value) in labels {
            match value {
                Value::Null => drop(changed["metadata"]["labels"].as_object_mut().unwrap().remove(key)),
                value => changed["metadata"]["labels"][key] = value.clone(),
            }
        }
        let (code, body) = self.send("PUT", path, &changed, credentials).await;
        assert_eq!(code, StatusCode::OK, "{body}");
    }

    /// Repeats a review until its status is as expected.
    async fn until(&self, token: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let review = self.review(token, &[]).await;
            if is_expected(&review) {
                return review;
            }
            assert!(started.elapsed() < DEADLINE, "{review}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn proxied(&self, lines: &mut Vec<String>) {
        let proxy = self.proxies.issue("front-proxy-client", &[]);
        let other = self.proxies.issue("other", &[]);
        let jane = self.clients.issue("jane", &["developers"]);
        let foreign = Authority::new("foreign").issue("front-proxy-client", &[]);
        let user = ("X-Remote-User", "alice");
        let full = [
            user,
            ("X-Remote-Group", "a"),
            ("x-remote-group", "b"),
            ("X-Remote-Extra-Scope", "read"),
            ("X-Remote-Extra-Example.com%2fkey", "v"),
            ("X-Remote-Uid", "7"),
        ];
        let certificates = [
            ("proxy", Some(&proxy)),
            ("other name", Some(&other)),
            ("user", Some(&jane)),
            ("foreign", Some(&foreign)),
            ("none", None),
        ];
        let headers: [(&str, &[(&str, &str)]); 6] = [
            ("no header", &[]),
            ("user", &[user]),
            ("empty user", &[("X-Remote-User", "")]),
            ("groups only", &[("X-Remote-Group", "system:masters")]),
            ("all headers", &full),
            ("anonymous", &[("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated")]),
        ];
        for (name, certificate) in certificates {
            for (sent, headers) in headers {
                let credentials = Credentials { certificate, headers, token: None };
                let mut who = self.who(credentials).await;
                if let Some(id) = who.pointer_mut("/extra/authentication.kubernetes.io~1credential-id/0") {
                    *id = "ID".into();
                }
                lines.push(format!("certificate {name}, {sent}: {who}"));
            }
            let credentials = Credentials { certificate, headers: &[user], token: Some(ADMIN) };
            lines.push(format!("certificate {name}, user, token: {}", self.who(credentials).await["username"]));
        }
        let (_, map) = self
            .admin("GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", Value::Null)
            .await;
        for (key, value) in map["data"].as_object().unwrap() {
            let text = value.as_str().unwrap();
            let known = [("CLIENTS", &self.clients.certificate), ("PROXIES", &self.proxies.certificate)];
            let plain = |pem: &str| pem.replace(['\r', '\n'], "");
            let shown = known.iter().find(|(_, pem)| plain(pem) == plain(text)).map_or(text, |(name, _)| name);
            lines.push(format!("published {key}: {shown}"));
        }
    }
}

fn shown(value: &Value) -> String {
    value.to_string()
}

fn assert_equal(found: &[String], server: &str) {
    let recorded = fs::read_to_string(RECORDING).unwrap_or_default();
    let recorded: Vec<&str> = recorded.lines().collect();
    let mut differences = Vec::new();
    for index in 0..found.len().max(recorded.len()) {
        let (found, recorded) = (found.get(index).map(String::as_str), recorded.get(index).copied());
        if found != recorded {
            let shown = |line: Option<&str>| line.unwrap_or("nothing").to_owned();
            differences.push(format!("{server}: {}\nrecorded: {}\n", shown(found), shown(recorded)));
        }
    }
    assert!(differences.is_empty(), "{} lines differ\n{}", differences.len(), differences.join("\n"));
}

/// Returns the real server, if the environment names one. xtask has generated its certificates.
async fn upstream() -> Option<Target> {
    let kubeconfig = env::var_os(UPSTREAM)?;
    let directory = Path::new(&kubeconfig).parent().unwrap().to_owned();
    let configuration = fs::read_to_string(directory.join("authentication.json")).unwrap();
    let configuration: Value = serde_json::from_str(&configuration).unwrap();
    let url = configuration["jwt"][0]["issuer"]["url"].as_str().unwrap();
    let port = url.split(['/', ':']).nth(4).unwrap().parse().unwrap();
    let Authority { certificate, key, .. } = Authority::read(&directory, "issuer");
    let text = fs::read_to_string(&kubeconfig).unwrap();
    let address = text.split("https://").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    Some(Target {
        address,
        clients: Authority::read(&directory, "client-ca"),
        proxies: Authority::read(&directory, "front-proxy-ca"),
        accounts: fs::read_to_string(directory.join("sa.key")).unwrap(),
        issuers: Issuers::start(port, &certificate, &key).await,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_tokens_and_proxies_equal_those_of_the_real_server() {
    if let Some(target) = upstream().await {
        let found = target.play().await;
        if env::var_os(RECORD).is_some() {
            fs::write(RECORDING, found.join("\n") + "\n").unwrap();
        } else {
            assert_equal(&found, "kube-apiserver");
        }
    }
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
    let issuers = Issuers::start(0, &certificate, &key.serialize_pem()).await;
    let text = TEMPLATE
        .replace("{issuer}", &issuers.url())
        .replace("{ca}", &certificate.replace("\r\n", "\\n").replace('\n', "\\n"));
    let configuration = AuthenticationConfiguration::parse(serde_json::from_str(&text).unwrap()).unwrap();
    let (clients, proxies) = (Authority::new("client-ca"), Authority::new("front-proxy-ca"));
    let accounts = KeyPair::generate().unwrap().serialize_pem();
    let list = |items: &[&str]| items.iter().copied().map(str::to_owned).collect();
    let proxy = FrontProxy {
        allowed_names: list(&["front-proxy-client"]),
        username_headers: list(&["X-Remote-User"]),
        uid_headers: Vec::new(),
        group_headers: list(&["X-Remote-Group"]),
        extra_header_prefixes: list(&["X-Remote-Extra-"]),
    };
    let admin = User::new("auditor").with_uid("auditor").in_groups(["system:masters"]);
    let server = like_upstream(Server::builder())
        .user_token(ADMIN, admin)
        .token_issuer(TokenIssuer::default().signing_with(&accounts).unwrap())
        .front_proxy(proxy)
        .build();
    server.configure_authentication(&configuration).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsIdentity::generate(["127.0.0.1"]).unwrap();
    let tls = tls.with_client_ca(&clients.certificate).unwrap().with_front_proxy_ca(&proxies.certificate).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        server.serve(listener, tls, async { drop(stopped.await) }).await.unwrap();
    });
    let found = Target { address, clients, proxies, accounts, issuers }.play().await;
    drop(stop);
    serving.await.unwrap();
    assert!(found.len() >= 120, "{} lines", found.len());
    assert_equal(&found, "windlass-server");
}
