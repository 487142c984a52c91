use kube::config::{KubeConfigOptions, Kubeconfig as KubeRs};

use super::*;

/// Reads a kubeconfig with kube-rs, and converts the configuration.
async fn converted(text: &str) -> Result<Config, ConversionError> {
    let parsed = KubeRs::from_yaml(text).unwrap();
    config(&kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.unwrap())
}

fn direct(text: &str) -> Config {
    Config::from_kubeconfig(&Kubeconfig::parse(text).unwrap(), &Selection::default()).unwrap()
}

fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'https://example.com:6443/base', {cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u, namespace: shop}}}}]\n"
    )
}

#[tokio::test]
async fn a_kubeconfig_read_by_kube_rs_gives_the_same_configuration() {
    for (cluster, user) in [
        ("", "token: secret"),
        ("insecure-skip-tls-verify: true, tls-server-name: inner, disable-compression: true", "token: secret"),
        ("proxy-url: 'http://proxy:3128'", "username: me, password: secret"),
        ("", "as: someone, as-groups: [a, b], as-user-extra: {k: [v]}, token: secret"),
        ("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: [a], interactiveMode: Never}"),
    ] {
        let text = kubeconfig(cluster, user);
        let (ours, direct) = (converted(&text).await.unwrap(), direct(&text));
        assert_eq!(ours.server, direct.server, "{text}");
        assert_eq!(ours.default_namespace, "shop", "{text}");
        assert_eq!(ours.auth, direct.auth, "{text}");
        assert_eq!(ours.impersonation, direct.impersonation, "{text}");
        assert_eq!(ours.tls, direct.tls, "{text}");
        assert_eq!(format!("{:?}", ours.proxy), format!("{:?}", direct.proxy), "{text}");
        assert_eq!(ours.compression, direct.compression, "{text}");
    }
}

#[test]
fn a_service_account_keeps_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let [token, authority] = ["token", "ca.crt"].map(|name| folder.path().join(name));
    for file in [&token, &authority] {
        std::fs::write(file, "content").unwrap();
    }
    let mut from = kube::Config::new("https://10.0.0.1".parse().unwrap());
    from.root_cert = Some(vec![vec![1]]);
    from.root_cert_file = Some(authority.clone());
    from.auth_info.token_file = Some(token.to_str().unwrap().to_owned());
    let converted = config(&from).unwrap();
    assert_eq!(converted.auth, windlass_client::Auth::TokenFile(token));
    assert_eq!(converted.tls.certificate_authority, Some(windlass_client::config::Pem::File(authority)));
    assert_eq!(converted.connect_timeout, from.connect_timeout.unwrap());
}

#[test]
fn a_root_certificate_becomes_pem() {
    let mut from = kube::Config::new("https://10.0.0.1".parse().unwrap());
    from.root_cert = Some(vec![vec![7; 60], vec![8]]);
    let Some(windlass_client::config::Pem::Data(pem)) = config(&from).unwrap().tls.certificate_authority else {
        panic!("the authority is in memory");
    };
    let text = String::from_utf8(pem).unwrap();
    assert_eq!(text.matches("-----BEGIN CERTIFICATE-----\n").count(), 2, "{text}");
    assert!(text.lines().all(|line| line.len() <= 64), "{text}");
}

#[test]
fn additional_headers_are_rejected_with_their_names() {
    let mut from = kube::Config::new("https://10.0.0.1".parse().unwrap());
    from.headers.push(("x-tenant".parse().unwrap(), "secret".parse().unwrap()));
    let error = config(&from).unwrap_err().to_string();
    assert!(error.contains("x-tenant") && !error.contains("secret"), "{error}");
}
