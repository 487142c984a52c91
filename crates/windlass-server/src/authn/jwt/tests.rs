use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// An issuer on loopback. Its keys can be replaced.
struct Issuer {
    url: String,
    ca: String,
    keys: Arc<parking_lot::Mutex<Vec<(&'static str, EcdsaKeyPair)>>>,
    fetches: Arc<AtomicUsize>,
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap()
}

impl Issuer {
    /// Starts an issuer. `name` is the issuer in its discovery document; by default its URL.
    async fn start(name: Option<&str>) -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let tls = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], tls).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let keys = Arc::new(parking_lot::Mutex::new(vec![("a", key())]));
        let fetches = Arc::new(AtomicUsize::new(0));
        let issuer = Self { ca: cert.pem(), keys: Arc::clone(&keys), fetches: Arc::clone(&fetches), url: url.clone() };
        let name = name.map_or_else(|| url.clone(), str::to_owned);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let answer = |request: Request<Incoming>| {
                    fetches.fetch_add(1, Ordering::SeqCst);
                    let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
                    let web_key = |(id, key): &(&str, EcdsaKeyPair)| {
                        let point = key.public_key().as_ref();
                        json!({"kty": "EC", "crv": "P-256", "kid": id, "x": number(&point[1..33]), "y": number(&point[33..])})
                    };
                    let document = if request.uri().path() == "/keys" {
                        json!({"keys": keys.lock().iter().map(web_key).collect::<Vec<_>>()})
                    } else {
                        json!({"issuer": name, "jwks_uri": format!("{url}/keys")})
                    };
                    let response = Response::new(Full::new(Bytes::from(document.to_string())));
                    async move { Ok::<_, Infallible>(response) }
                };
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            }
        });
        issuer
    }

    fn issuers(&self) -> JwtIssuers {
        let issuers = JwtIssuers::default();
        issuers.configure(&self.configuration("us"), &[]).unwrap();
        issuers
    }

    fn configuration(&self, audience: &str) -> AuthenticationConfiguration {
        let configuration = AuthenticationConfiguration::parse(json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {"url": self.url, "audiences": [audience], "certificateAuthority": self.ca},
                "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}},
            }],
        }));
        configuration.unwrap()
    }

    fn token(&self, id: &str) -> String {
        let keys = self.keys.lock();
        let (_, key) = keys.iter().find(|(own, _)| *own == id).unwrap();
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({"iss": self.url, "aud": "us", "exp": 4_000_000_000_i64, "sub": "jane"});
        let text = format!("{}.{}", encode(&json!({"alg": "ES256", "kid": id})), encode(&claims));
        let signature = key.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

async fn name(issuers: &JwtIssuers, token: &str) -> Result<Option<String>, String> {
    Ok(issuers.identify(token.as_bytes(), now()).await?.map(|user| user.name))
}

#[tokio::test]
async fn keys_are_fetched_once_and_again_for_a_new_key_but_not_for_each_token() {
    let issuer = Issuer::start(None).await;
    let issuers = issuer.issuers();
    let token = issuer.token("a");
    let concurrent = futures::future::join_all((0..20).map(|_| name(&issuers, &token))).await;
    assert!(concurrent.iter().all(|name| name.as_ref().unwrap().as_deref() == Some("oidc:jane")));
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), 2, "discovery and keys");
    // A token of an unknown key fetches the keys again, but random tokens do so only once in a while.
    issuer.keys.lock().push(("b", key()));
    let rotated = issuer.token("b");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(6)).await;
    tokio::time::resume();
    assert_eq!(name(&issuers, &rotated).await, Ok(Some("oidc:jane".to_owned())));
    let fetches = issuer.fetches.load(Ordering::SeqCst);
    for number in 0..50 {
        let random = rotated.replace('.', &format!(".{number}x"));
        drop(name(&issuers, &random).await);
        let mut forged = rotated.clone();
        forged.truncate(forged.len() - 4);
        assert!(name(&issuers, &format!("{forged}AAAA")).await.is_err());
    }
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), fetches);
}

#[tokio::test]
async fn issuer_that_names_another_is_not_used() {
    let issuer = Issuer::start(Some("https://other")).await;
    let error = name(&issuer.issuers(), &issuer.token("a")).await.unwrap_err();
    assert_eq!(error, "oidc: authenticator not initialized");
}

#[tokio::test]
async fn tokens_of_other_issuers_are_ignored_without_a_fetch() {
    let issuer = Issuer::start(None).await;
    let issuers = issuer.issuers();
    for token in ["", "a", "a.b.c", "abcdef.0123456789abcdef", "e30.e30.e30"] {
        assert_eq!(name(&issuers, token).await, Ok(None));
    }
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), 0);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn invalid_configurations_are_rejected_with_field_and_value() {
    let minimal = || {
        json!({
            "issuer": {"url": "https://a", "audiences": ["us"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        })
    };
    let error = |change: &dyn Fn(&mut Value)| {
        let mut issuer = minimal();
        change(&mut issuer);
        let file = json!({
            "apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration", "jwt": [issuer],
        });
        AuthenticationConfiguration::parse(file).map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(error(&|_| {}), "");
    type Case<'c> = (&'c dyn Fn(&mut Value), &'c str);
    let cases: [Case<'_>; 22] = [
        (&|i| i["issuer"]["url"] = "".into(), "jwt[0].issuer.url: Required value"),
        (
            &|i| i["issuer"]["url"] = "http://a".into(),
            r#"jwt[0].issuer.url: Invalid value: "http://a": URL scheme must be https"#,
        ),
        (
            &|i| i["issuer"]["url"] = "https://u:p@a".into(),
            r#"jwt[0].issuer.url: Invalid value: "https://u:p@a": URL must not contain a username or password"#,
        ),
        (
            &|i| i["issuer"]["url"] = "https://a?b=c".into(),
            r#"jwt[0].issuer.url: Invalid value: "https://a?b=c": URL must not contain a query"#,
        ),
        (
            &|i| i["issuer"]["url"] = "https://a#b".into(),
            r#"jwt[0].issuer.url: Invalid value: "https://a#b": URL must not contain a fragment"#,
        ),
        (
            &|i| i["issuer"]["discoveryURL"] = "https://a/".into(),
            r#"jwt[0].issuer.discoveryURL: Invalid value: "https://a/": discoveryURL must be different from URL"#,
        ),
        (
            &|i| i["issuer"]["audiences"] = json!([]),
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (
            &|i| i["issuer"]["audiences"] = json!(["a", "b"]),
            r#"jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences"#,
        ),
        (
            &|i| {
                i["issuer"]["audiences"] = json!(["a", "a"]);
                i["issuer"]["audienceMatchPolicy"] = "MatchAny".into();
            },
            r#"jwt[0].issuer.audiences[1]: Duplicate value: "a""#,
        ),
        (
            &|i| i["issuer"]["audienceMatchPolicy"] = "All".into(),
            r#"jwt[0].issuer.audienceMatchPolicy: Invalid value: "All": audienceMatchPolicy must be empty or MatchAny for single audience"#,
        ),
        (
            &|i| i["issuer"]["certificateAuthority"] = "x".into(),
            r#"jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates"#,
        ),
        (
            &|i| i["issuer"]["egressSelectorType"] = "x".into(),
            r#"jwt[0].issuer.egressSelectorType: Invalid value: "x": egress selector must be either controlplane or cluster"#,
        ),
        (
            &|i| i["claimMappings"]["username"] = json!({}),
            "jwt[0].claimMappings.username: Required value: claim or expression is required",
        ),
        (
            &|i| i["claimMappings"]["username"] = json!({"claim": "sub"}),
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
        ),
        (
            &|i| i["claimMappings"]["username"]["expression"] = "claims.sub".into(),
            r#"jwt[0].claimMappings.username: Invalid value: "": claim and expression can't both be set"#,
        ),
        (
            &|i| i["claimMappings"]["username"] = json!({"expression": "claims.email"}),
            r#"jwt[0].claimMappings.username.expression: Invalid value: "claims.email": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"#,
        ),
        (
            &|i| i["claimMappings"]["extra"] = json!([{"key": "Foo", "valueExpression": "''"}]),
            r#"[jwt[0].claimMappings.extra[0].key: Invalid value: "Foo": must be a domain-prefixed path (such as "acme.io/foo"), jwt[0].claimMappings.extra[0].key: Invalid value: "Foo": must be lowercase]"#,
        ),
        (
            &|i| i["claimMappings"]["extra"] = json!([{"key": "a.k8s.io/b", "valueExpression": "''"}]),
            r#"jwt[0].claimMappings.extra[0].key: Invalid value: "a.k8s.io/b": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"#,
        ),
        (
            &|i| i["claimValidationRules"] = json!([{}]),
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
        ),
        (
            &|i| i["claimValidationRules"] = json!([{"expression": "1"}]),
            r#"jwt[0].claimValidationRules[0].expression: Invalid value: "1": must evaluate to bool"#,
        ),
        (&|i| i["userValidationRules"] = json!([{}]), "jwt[0].userValidationRules[0].expression: Required value"),
        (
            &|i| i["userValidationRules"] = json!([{"expression": "user.name == ''"}]),
            "jwt[0].userValidationRules[0].expression: Invalid value: \"user.name == ''\": compilation failed: ERROR: <input>:1:5: undefined field 'name'\n | user.name == ''\n | ....^",
        ),
    ];
    for (change, why) in cases {
        assert_eq!(error(change), format!("invalid authentication configuration: {why}"));
    }
}

#[test]
fn invalid_files_are_rejected() {
    let read = |file: Value| AuthenticationConfiguration::parse(file).unwrap_err();
    let kind = read(json!({"apiVersion": "v1", "kind": "AuthenticationConfiguration"})).to_string();
    assert!(kind.contains("apiVersion: Unsupported value: \"v1\""), "{kind}");
    let unknown =
        read(json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "x": 1}));
    let source = std::error::Error::source(&unknown).unwrap().to_string();
    assert!(source.starts_with("unknown field `x`"), "{source}");
    let anonymous = read(json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": false, "conditions": [{"path": "/livez"}]},
    }));
    assert_eq!(
        anonymous.to_string(),
        "invalid authentication configuration: anonymous.conditions: Invalid value: [{\"path\":\"/livez\"}]: enabled should be \
         set to true when conditions are defined"
    );
}

#[test]
fn flags_prefix_names_with_the_issuer() {
    let prefix = |claim: &str, prefix: &str| {
        let options = OidcOptions {
            issuer_url: "https://a".to_owned(),
            client_id: "us".to_owned(),
            username_claim: claim.to_owned(),
            username_prefix: prefix.to_owned(),
            ..OidcOptions::default()
        };
        let configuration = AuthenticationConfiguration::oidc(options).unwrap();
        configuration.issuers[0].claim_mappings.username.prefix.clone().unwrap()
    };
    assert_eq!(
        [prefix("sub", ""), prefix("email", ""), prefix("sub", "-"), prefix("sub", "x:")],
        ["https://a#", "", "", "x:"]
    );
    let options = OidcOptions { signing_algorithms: vec!["HS256".to_owned()], ..OidcOptions::default() };
    let error = AuthenticationConfiguration::oidc(options).unwrap_err().to_string();
    assert_eq!(error, "oidc: unsupported signing alg: \"HS256\"");
}

#[test]
fn issuer_of_service_accounts_is_disallowed() {
    let options = OidcOptions {
        issuer_url: "https://a".to_owned(),
        client_id: "us".to_owned(),
        username_claim: "sub".to_owned(),
        ..OidcOptions::default()
    };
    let configuration = AuthenticationConfiguration::oidc(options).unwrap();
    let error = configuration.validate(&["https://b".to_owned(), "https://a".to_owned()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"https://a\": URL must not overlap with \
         disallowed issuers: [https://a https://b]"
    );
}

#[tokio::test]
async fn reload_keeps_the_keys_of_an_issuer_and_changes_the_rest() {
    let issuer = Issuer::start(None).await;
    let issuers = issuer.issuers();
    let token = issuer.token("a");
    assert_eq!(name(&issuers, &token).await, Ok(Some("oidc:jane".to_owned())));
    let fetches = issuer.fetches.load(Ordering::SeqCst);
    issuers.configure(&issuer.configuration("us"), &[]).unwrap();
    assert_eq!(name(&issuers, &token).await, Ok(Some("oidc:jane".to_owned())));
    issuers.configure(&issuer.configuration("them"), &[]).unwrap();
    assert!(name(&issuers, &token).await.unwrap_err().contains("expected audience \"them\""));
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), fetches);
    // Another issuer with the same URL but another CA has other keys.
    let other = Issuer { ca: Issuer::start(None).await.ca, ..issuer };
    issuers.configure(&other.configuration("us"), &[]).unwrap();
    assert!(name(&issuers, &token).await.is_err());
}
