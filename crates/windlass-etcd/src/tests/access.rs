//! TLS, client certificates, users, and errors of the connection.

use std::{fs, path::Path};

use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType};
use windlass_grpc::frame;

use super::*;
use crate::{Credentials, Tls, messages::Empty};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate and its key.
fn issue(authority: &Authority, directory: &Path, name: &str) {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::IpAddress("127.0.0.1".parse().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    fs::write(directory.join(format!("{name}.crt")), certificate.pem()).unwrap();
    fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn tls_authenticates_both_sides() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (ca, other) = (authority(), authority());
    fs::write(file("ca.crt"), ca.pem()).unwrap();
    fs::write(file("other.crt"), other.pem()).unwrap();
    issue(&ca, directory.path(), "server");
    issue(&ca, directory.path(), "client");
    let flag = |flag: &str, name: &str| format!("--{flag}={}", file(name).display());
    let etcd = Etcd::start_with(&[
        flag("cert-file", "server.crt"),
        flag("key-file", "server.key"),
        flag("trusted-ca-file", "ca.crt"),
        "--client-cert-auth".into(),
    ]);
    let client = (Some(file("client.crt")), Some(file("client.key")));
    let options = |ca: &str, (certificate, key)| {
        let tls = Tls { ca: Some(file(ca)), certificate, key };
        Options { tls, ..Options::new([etcd.endpoint()]) }
    };
    let storage = etcd::connect(options("ca.crt", client.clone())).await;
    assert_eq!(create(&storage, "/registry/a", "1").await, Revision(2));
    let error = EtcdStorage::connect(options("other.crt", client)).await.unwrap_err().to_string();
    assert!(error.contains("the TLS handshake failed: invalid peer certificate: "), "{error}");
    // The member closes the connection after the handshake, which could have another reason.
    let refused = Options { connect_timeout: Duration::from_millis(500), ..options("ca.crt", (None, None)) };
    let error = EtcdStorage::connect(refused).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot connect to etcd: {}: ", etcd.endpoint())), "{error}");
    let error = EtcdStorage::connect(Options::new([etcd.endpoint()])).await.unwrap_err().to_string();
    assert!(error.ends_with("an https endpoint needs a CA file"), "{error}");
}

/// The requests that create users: a name, and a password or a role.
#[derive(Clone, PartialEq, Message)]
struct Names {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    other: String,
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn users_authenticate_and_renew_their_token() {
    // A token lasts a second, instead of five minutes without use.
    let etcd = Etcd::start_with(&["--auth-token-ttl=1".into()]);
    let storage = etcd::connect_to(&[&etcd]).await;
    let connection = storage.shared.reader.cluster.connection().await.unwrap();
    let names = |name: &str, other: &str| frame(&Names { name: name.into(), other: other.into() });
    for (method, request) in [
        ("/etcdserverpb.Auth/RoleAdd", names("root", "")),
        ("/etcdserverpb.Auth/UserAdd", names("root", "secret")),
        ("/etcdserverpb.Auth/UserGrantRole", names("root", "root")),
        ("/etcdserverpb.Auth/AuthEnable", frame(&Empty {})),
    ] {
        connection.unary(method, request).await.unwrap();
    }
    let error = storage.commit("/registry/a", Expect::Absent, put("1")).await.unwrap_err();
    assert_eq!(error.to_string(), "etcdserver: user name is empty");
    let with = |password: &str| {
        let credentials = Some(Credentials { user: "root".into(), password: password.into() });
        Options { credentials, ..Options::new([etcd.endpoint()]) }
    };
    let error = EtcdStorage::connect(with("wrong")).await.unwrap_err().to_string();
    assert!(error.ends_with("etcdserver: authentication failed, invalid user ID or password"), "{error}");
    let storage = EtcdStorage::connect(with("secret")).await.unwrap();
    let mut modified = create(&storage, "/registry/a", "1").await;
    let mut events = storage.watch("", modified).await.unwrap();
    // Unused tokens are removed within a second after they have expired.
    time::sleep(Duration::from_secs(3)).await;
    modified = update(&storage, "/registry/a", modified, "2").await.unwrap().revision;
    assert_eq!(event(&mut events).await.revision, modified);
    time::sleep(Duration::from_secs(3)).await;
    let mut events = storage.watch("", modified).await.unwrap();
    let modified = update(&storage, "/registry/a", modified, "3").await.unwrap().revision;
    assert_eq!(event(&mut events).await.revision, modified);
}

#[tokio::test]
async fn unreachable_endpoints_are_named_with_their_reasons() {
    let error = EtcdStorage::connect(Options::new([])).await.unwrap_err().to_string();
    assert_eq!(error, "no etcd endpoint is set");
    let endpoints = ["http://127.0.0.1:1", "http://127.0.0.1:2"].map(|endpoint| endpoint.parse().unwrap());
    let options = Options { connect_timeout: Duration::from_millis(500), ..Options::new(endpoints) };
    let error = EtcdStorage::connect(options).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot connect to etcd: http://127.0.0.1:1: the connection failed: "), "{error}");
    assert!(error.contains("; http://127.0.0.1:2: the connection failed: "), "{error}");
}
