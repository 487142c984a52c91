use super::*;
use crate::{
    auth::{Auth, Impersonation},
    config::Config,
    connection_options::{Identity, Pem, Verification},
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

/// Returns a kubeconfig with one cluster and one user, both in the current context.
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
fn unknown_fields_survive_writing() {
    let read = Kubeconfig::parse(WHOLE).unwrap();
    let yaml = read.to_yaml();
    assert_eq!(Kubeconfig::parse(&yaml).unwrap(), read, "{yaml}");
    for kept in ["colors: true", "v1.2.3", "note: kept"] {
        assert!(yaml.contains(kept), "{kept} in {yaml}");
    }
}

#[test]
fn ambiguous_strings_survive_writing() {
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
fn written_kubeconfig_is_readable_only_by_its_owner() {
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
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn first_file_wins_for_duplicate_names() {
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
    folder.write("pki/token", "t");
    let cluster = "{server: https://h, certificate-authority: pki/ca.pem}";
    let user = "{client-certificate: ./pki/cert.pem, client-key: pki/../pki/key.pem, tokenFile: pki/token}";
    let path = folder.write("config", &minimal(cluster, user));
    // Merging retains the file of each entry.
    let merged = Kubeconfig::parse("{}").unwrap().merge(Kubeconfig::read(path).unwrap());
    let config = Config::from_kubeconfig(&merged, &Selection::default()).unwrap();
    let file = |path: &str| Pem::File(folder.path().join(path));
    assert_eq!(config.tls.certificate_authority, Some(file("pki/ca.pem")));
    let identity = config.tls.identity.unwrap();
    assert_eq!((identity.certificate, identity.key), (file("./pki/cert.pem"), file("pki/../pki/key.pem")));
    assert!(matches!(config.auth, Auth::TokenFile(path) if path == folder.path().join("pki/token")));
}

#[test]
fn missing_file_is_named_with_its_reference() {
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

#[test]
fn explicit_fields_override_the_kubeconfig() {
    let kubeconfig = Kubeconfig::parse(WHOLE).unwrap();
    let selection = Selection {
        namespace: Some("asked".to_owned()),
        cluster_fields: Cluster { server: Some("https://other".to_owned()), ..Cluster::default() },
        user_fields: User { impersonate: Some("jane".to_owned()), ..User::default() },
        ..Selection::default()
    };
    let config = Config::from_kubeconfig(&kubeconfig, &selection).unwrap();
    assert_eq!((config.server.to_string(), &*config.default_namespace), ("https://other/".to_owned(), "asked"));
    // The server name belongs to the replaced address; the authority is retained.
    assert_eq!(config.tls.server_name, None);
    assert_eq!(config.tls.certificate_authority, Some(Pem::from("CA")));
    assert_eq!(config.impersonation, Some(Impersonation::user("jane")));
    assert!(matches!(&config.auth, Auth::Bearer(token) if token.expose() == "s3cret"));

    let skip = Cluster { insecure_skip_tls_verify: Some(true), ..Cluster::default() };
    let config = Config::from_kubeconfig(&kubeconfig, &Selection { cluster_fields: skip, ..Selection::default() });
    let tls = config.unwrap().tls;
    assert_eq!((tls.verification, tls.certificate_authority), (Verification::Skip, None));

    let token = User::with_token("mine");
    let selection = Selection { user: Some("certified".to_owned()), user_fields: token, ..Selection::default() };
    let config = Config::from_kubeconfig(&kubeconfig, &selection).unwrap();
    assert!(matches!(&config.auth, Auth::Bearer(token) if token.expose() == "mine"));
    assert!(config.tls.identity.is_some());
}

#[test]
fn selecting_a_missing_entry_is_an_error() {
    let kubeconfig = Kubeconfig::parse(WHOLE).unwrap();
    let gone = || Some("gone".to_owned());
    for (selection, expected) in [
        (
            Selection { context: gone(), ..Selection::default() },
            r#"kubeconfig: contexts: there is no context named "gone""#,
        ),
        (
            Selection { cluster: gone(), ..Selection::default() },
            r#"kubeconfig: context "work": cluster: there is no cluster named "gone""#,
        ),
        (
            Selection { user: gone(), ..Selection::default() },
            r#"kubeconfig: context "work": user: there is no user named "gone""#,
        ),
    ] {
        let error = Config::from_kubeconfig(&kubeconfig, &selection).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn unused_entries_can_be_removed() {
    let kubeconfig = Kubeconfig::parse(WHOLE).unwrap();
    let names = |kubeconfig: &Kubeconfig| {
        let users: Vec<_> = kubeconfig.users.iter().map(|user| user.name.clone()).collect();
        let contexts: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
        (kubeconfig.current_context.clone().unwrap_or_default(), contexts.join(","), users.join(","))
    };
    let minified = kubeconfig.minify(&Selection::default()).unwrap();
    assert_eq!(names(&minified), ("work".to_owned(), "work".to_owned(), "me".to_owned()));
    let bare = Selection { context: Some("bare".to_owned()), ..Selection::default() };
    assert_eq!(names(&kubeconfig.minify(&bare).unwrap()), ("bare".to_owned(), "bare".to_owned(), String::new()));
}

#[test]
fn referenced_files_can_be_inlined() {
    let folder = Folder::new("kubeconfig-flatten");
    folder.write("ca.pem", "CA");
    folder.write("cert.pem", "CERT");
    folder.write("key.pem", "KEY");
    let cluster = "{server: https://h, certificate-authority: ca.pem}";
    let path = folder.write("config", &minimal(cluster, "{client-certificate: cert.pem, client-key: key.pem}"));
    let flat = Kubeconfig::read(&path).unwrap().flatten().unwrap();
    let elsewhere = Kubeconfig::parse(&flat.to_yaml()).unwrap();
    let config = Config::from_kubeconfig(&elsewhere, &Selection::default()).unwrap();
    assert_eq!(config.tls.certificate_authority, Some(Pem::from("CA")));
    assert_eq!(config.tls.identity, Some(Identity::new("CERT", "KEY")));
    std::fs::remove_file(folder.path().join("key.pem")).unwrap();
    let error = Kubeconfig::read(&path).unwrap().flatten().unwrap_err().to_string();
    assert!(error.contains("key.pem") && error.ends_with(r#"user "u": client-key"#), "{error}");
}

#[test]
fn secrets_can_be_left_out() {
    let text = minimal(
        "{server: https://h, certificate-authority-data: Q0E=, proxy-url: 'http://me:s3cret@p'}",
        "{token: s3cret, password: s3cret, client-key-data: s3cret, client-certificate-data: Q0VSVA==,
          auth-provider: {name: oidc, config: {refresh-token: s3cret}}, exec: {command: c, env: [{name: NAME, value: s3cret}]}}",
    );
    let shown = Kubeconfig::parse(&text).unwrap().redacted().to_yaml();
    assert!(!shown.contains("s3cret") && !shown.contains("Q0"), "{shown}");
    assert_eq!((shown.matches("REDACTED").count(), shown.matches("DATA+OMITTED").count()), (4, 3), "{shown}");
    assert!(shown.contains("proxy-url: http://p"), "{shown}");
}
