use super::*;
use crate::{
    auth::Auth,
    config::{Config, Identity, Pem, Verification},
    testing::Folder,
};

const WHOLE: &str = r"
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters:
- name: prod
  cluster:
    server: https://prod.example:6443/base
    certificate-authority-data: Q0E=
    tls-server-name: kubernetes
    extensions:
    - name: minikube
      extension: {version: v1.2.3}
contexts:
- name: work
  context: {cluster: prod, user: me, namespace: shop}
- name: bare
  context: {cluster: prod}
users:
- name: me
  user:
    token: s3cret
    note: kept
- name: certified
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
";

fn resolved(text: &str) -> Result<Config, ConfigError> {
    Config::from_kubeconfig(&Kubeconfig::parse(text)?, &Selection::default())
}

/// One cluster and one user, current.
fn minimal(cluster: &str, user: &str) -> String {
    format!(
        "current-context: c\nclusters: [{{name: k, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n"
    )
}

#[test]
fn the_current_context_is_resolved() {
    let config = resolved(WHOLE).unwrap();
    assert_eq!(config.server, "https://prod.example:6443/base");
    assert_eq!(config.default_namespace, "shop");
    assert_eq!(config.tls.certificate_authority, Some(Pem::from("CA")));
    assert_eq!(config.tls.server_name.as_deref(), Some("kubernetes"));
    assert_eq!(config.tls.verification, Verification::Full);
    assert!(matches!(&config.auth, Auth::Bearer(token) if token.expose() == "s3cret"));
}

#[test]
fn a_selection_wins_over_the_current_context() {
    let kubeconfig = Kubeconfig::parse(WHOLE).unwrap();
    let selection =
        Selection { context: Some("bare".to_owned()), user: Some("certified".to_owned()), ..Selection::default() };
    let config = Config::from_kubeconfig(&kubeconfig, &selection).unwrap();
    assert_eq!(config.default_namespace, "default");
    assert_eq!(config.tls.identity, Some(Identity::new("CERT", "KEY")));
    let cluster = Selection { cluster: Some("prod".to_owned()), ..Selection::default() };
    let without_contexts = Kubeconfig { current_context: None, contexts: Vec::new(), ..kubeconfig };
    assert!(Config::from_kubeconfig(&without_contexts, &cluster).is_ok());
}

#[test]
fn secrets_are_not_in_debug() {
    let text = format!("{:?} {:?}", Kubeconfig::parse(WHOLE).unwrap(), resolved(WHOLE).unwrap());
    for secret in ["s3cret", "S0VZ", "KEY", "kept"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let kubeconfig =
        Kubeconfig::parse(&minimal("{server: https://h}", "{exec: {env: [{name: T, value: s3cret}]}}")).unwrap();
    assert!(!format!("{kubeconfig:?}").contains("s3cret"));
}

#[test]
fn what_is_unknown_survives_writing() {
    let read = Kubeconfig::parse(WHOLE).unwrap();
    let yaml = read.to_yaml();
    assert_eq!(Kubeconfig::parse(&yaml).unwrap(), read, "{yaml}");
    for kept in ["colors: true", "v1.2.3", "note: kept"] {
        assert!(yaml.contains(kept), "{kept} in {yaml}");
    }
}

#[test]
fn texts_that_look_like_something_else_survive_writing() {
    for odd in [
        "true",
        "123",
        "null",
        "~",
        "a: b",
        "#x",
        "- x",
        "0x1f",
        "1e3",
        "multi\nline",
        " padded ",
        "é\"'\\",
        &"x".repeat(5_000),
        "",
    ] {
        let kubeconfig =
            Kubeconfig::single(if odd.is_empty() { "n" } else { odd }, Cluster::new(odd), User::with_token(odd));
        let yaml = kubeconfig.to_yaml();
        assert_eq!(Kubeconfig::parse(&yaml).unwrap_or_else(|error| panic!("{error}: {yaml}")), kubeconfig, "{yaml}");
    }
}

#[test]
fn a_kubeconfig_of_our_own_is_written_for_its_owner_alone() {
    let folder = Folder::new("kubeconfig-write");
    let path = folder.path().join("deep/kubeconfig");
    let pem = b"-----BEGIN CERTIFICATE-----\n";
    let kubeconfig =
        Kubeconfig::single("windlass", Cluster::new("https://127.0.0.1:6443").trusting(pem), User::with_token("t"));
    kubeconfig.write(&path).unwrap();
    kubeconfig.write(&path).unwrap();
    let config = Config::from_file(&path).unwrap();
    assert_eq!(config.server, "https://127.0.0.1:6443/");
    assert_eq!(config.tls.certificate_authority, Some(Pem::from(&pem[..])));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn of_two_files_the_first_has_the_name() {
    let first = Kubeconfig::parse("users: [{name: a, user: {token: one}}]\ncurrent-context: ''").unwrap();
    let second = Kubeconfig::parse(
        "users: [{name: a, user: {token: two}}, {name: b, user: {token: three}}]\ncurrent-context: x",
    )
    .unwrap();
    let merged = first.merge(second);
    let tokens: Vec<_> = merged.users.iter().map(|user| user.entry.token.as_ref().unwrap().expose()).collect();
    assert_eq!(tokens, ["one", "three"]);
    assert_eq!(merged.current_context.as_deref(), Some("x"));
}

#[test]
fn paths_are_relative_to_the_file_of_their_entry() {
    let folder = Folder::new("kubeconfig-paths");
    folder.write("pki/ca.pem", "CA");
    folder.write("pki/cert.pem", "CERT");
    folder.write("pki/key.pem", "KEY");
    let cluster = "{server: https://h, certificate-authority: pki/ca.pem}";
    let user = "{client-certificate: ./pki/cert.pem, client-key: pki/../pki/key.pem, tokenFile: pki/token}";
    let path = folder.write("config", &minimal(cluster, user));
    // Merging keeps each entry with its own file.
    let merged = Kubeconfig::parse("{}").unwrap().merge(Kubeconfig::read(path).unwrap());
    let config = Config::from_kubeconfig(&merged, &Selection::default()).unwrap();
    let file = |path: &str| Pem::File(folder.path().join(path));
    assert_eq!(config.tls.certificate_authority, Some(file("pki/ca.pem")));
    let identity = config.tls.identity.unwrap();
    assert_eq!((identity.certificate, identity.key), (file("./pki/cert.pem"), file("pki/../pki/key.pem")));
    assert!(matches!(config.auth, Auth::TokenFile(path) if path == folder.path().join("pki/token")));
}

#[test]
fn a_file_that_is_not_there_is_named_with_its_place() {
    let folder = Folder::new("kubeconfig-missing");
    let path = folder.write("config", &minimal("{server: https://h, certificate-authority: no.pem}", "{}"));
    let error = Config::from_file(&path).unwrap_err();
    let folder = folder.path().display();
    assert_eq!(
        error.to_string(),
        format!(r#"reading {folder}/no.pem, named by {folder}/config: cluster "k": certificate-authority"#)
    );
    let error = Config::from_file("/no/such/config").unwrap_err();
    assert_eq!(error.to_string(), "reading /no/such/config");
}

#[test]
fn empty_fields_are_fields_that_are_not_set() {
    let config = resolved(&minimal(
        "{server: https://h, certificate-authority: '', certificate-authority-data: '', proxy-url: '', insecure-skip-tls-verify: false}",
        "{token: '', tokenFile: '', username: '', password: '', client-key: '', as: '', exec: null}",
    ))
    .unwrap();
    assert!(matches!(config.auth, Auth::None));
    assert!(config.tls.certificate_authority.is_none() && config.tls.identity.is_none());
}

#[test]
fn base64_may_be_wrapped() {
    let text = minimal("{server: https://h, certificate-authority-data: \"Q0\\nE=\\n\"}", "{}");
    assert_eq!(resolved(&text).unwrap().tls.certificate_authority, Some(Pem::from("CA")));
}

#[test]
fn a_server_without_a_scheme_gets_one() {
    assert_eq!(resolved(&minimal("{server: 'h:8080'}", "{}")).unwrap().server, "http://h:8080/");
    let tls = "{server: 'h:8443', insecure-skip-tls-verify: true}";
    assert_eq!(resolved(&minimal(tls, "{}")).unwrap().server, "https://h:8443/");
}

#[test]
fn a_server_without_tls_gets_no_secrets() {
    let config = resolved(&minimal("{server: 'http://h'}", "{token: s3cret}")).unwrap();
    assert!(matches!(config.auth, Auth::None));
}

#[test]
fn json_is_yaml() {
    let json = r#"{"kind":"Config","apiVersion":"v1","clusters":[{"name":"k","cluster":{"server":"https://h"}}],
        "contexts":[{"name":"c","context":{"cluster":"k","user":""}}],"current-context":"c","users":null}"#;
    assert_eq!(resolved(json).unwrap().server, "https://h/");
}
