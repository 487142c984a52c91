use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    flags: AccessFlags,
}

fn load(flags: &[&str]) -> Result<Access, String> {
    let arguments = std::iter::once("up").chain(flags.iter().copied());
    let command = Command::try_parse_from(arguments).map_err(|error| error.to_string())?;
    command.flags.load(None, &["https://kubernetes.default.svc".to_owned()]).map_err(|error| error.to_string())
}

fn file(directory: &tempfile::TempDir, name: &str, content: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

const CONFIGURATION: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

#[test]
fn wrong_flags_are_rejected_in_the_words_of_the_real_server() {
    let directory = tempfile::tempdir().unwrap();
    let plain = file(&directory, "plain.yaml", CONFIGURATION);
    let anonymous = file(&directory, "anonymous.yaml", &format!("{CONFIGURATION}anonymous:\n  enabled: false\n"));
    let invalid = file(&directory, "invalid.yaml", &format!("{CONFIGURATION}jwt:\n- issuer: {{url: 'http://a'}}\n"));
    let tokens = file(&directory, "tokens.csv", "token,user\n");
    let flag = |name: &str, path: &str| format!("--{name}={path}");
    let together = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
    for (flags, message) in [
        (vec!["--oidc-client-id=us".to_owned()], together.to_owned()),
        (vec!["--oidc-issuer-url=https://a".to_owned(), "--oidc-groups-claim=g".to_owned()], together.to_owned()),
        (
            vec!["--oidc-client-id=us".to_owned(), flag("authentication-config", &plain)],
            "authentication-config file and oidc-* flags are mutually exclusive".to_owned(),
        ),
        (
            vec!["--anonymous-auth=true".to_owned(), flag("authentication-config", &anonymous)],
            "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in \
             authentication configuration file"
                .to_owned(),
        ),
        (vec![flag("authentication-config", &invalid)], format!("from file {invalid:?}: invalid authentication")),
        (vec![flag("authentication-config", "/none")], "from file \"/none\": cannot read /none: ".to_owned()),
        (vec!["--authentication-token-webhook-version=v2".to_owned()], "unsupported authentication webhook".to_owned()),
        (vec![flag("authentication-token-webhook-config-file", "/none")], "cannot use /none: ".to_owned()),
        (vec![flag("token-auth-file", &tokens)], format!("token file '{tokens}' must have at least 3 columns")),
        (vec![flag("client-ca-file", "/none")], "cannot read /none: ".to_owned()),
        (
            vec!["--requestheader-group-headers= ".to_owned()],
            "empty value in \"requestheader-group-headers\"".to_owned(),
        ),
        (vec!["--authorization-mode=ABAC".to_owned()], "authorization-mode \"ABAC\" is not supported".to_owned()),
        (
            vec!["--authorization-webhook-config-file=/none".to_owned()],
            "cannot specify --authorization-webhook-config-file without mode Webhook".to_owned(),
        ),
        (vec!["--authentication-token-webhook-cache-ttl=soon".to_owned()], "invalid duration".to_owned()),
        (vec!["--oidc-required-claim=x".to_owned()], "expected CLAIM=VALUE".to_owned()),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let error = load(&flags).map_or_else(|error| error, |_| String::new());
        assert!(error.contains(&message), "{flags:?}: {error}");
    }
    let mut command = Command::try_parse_from(["up", "--authorization-mode=RBAC"]).unwrap();
    let error = command.flags.clone().load(Some(Path::new("/chain")), &[]).unwrap_err().to_string();
    assert!(error.starts_with("--authorization-config can not be specified when --authorization-mode"), "{error}");
    command.flags.authorization_mode.clear();
    let error = command.flags.load(Some(Path::new("/none")), &[]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read /none: "), "{error}");
}

#[test]
fn flags_configure_issuers_tokens_and_proxies() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = file(&directory, "tokens.csv", "T,alice,7,\"a,b\"\n");
    let access = load(&[
        "--oidc-issuer-url=https://a",
        "--oidc-client-id=us",
        "--oidc-username-prefix=-",
        "--enable-bootstrap-token-auth",
        "--service-account-lookup=false",
        "--anonymous-auth=false",
        &format!("--token-auth-file={tokens}"),
        "--authorization-mode=Node,RBAC",
    ])
    .unwrap();
    assert!(access.configuration.is_some() && access.authorizers.is_some());
    assert!(access.bootstrap_tokens && access.skips_lookup);
    assert_eq!((access.anonymous, access.tokens.len()), (Some(Anonymous::Refused), 1));
    let access = load(&["--authorization-mode=AlwaysAllow"]).unwrap();
    assert_eq!(access.anonymous, Some(Anonymous::Refused));
    let access = load(&[]).unwrap();
    assert!(access.authorizers.is_none() && access.anonymous.is_none() && !access.bootstrap_tokens);
}

#[test]
fn certificates_of_two_files_are_compared_by_content() {
    let block = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    assert!(overlap(&(block("AA") + &block("BB")), &block("B\nB")));
    assert!(!overlap(&block("AA"), &block("BB")));
}

#[tokio::test(start_paused = true)]
async fn changed_file_is_applied_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "config", "one");
    let watched = Watched { path: path.clone().into(), content: "one".to_owned() };
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let following = tokio::spawn(watched.follow(move |_, text| {
        sender.send(text.to_owned()).unwrap();
        futures::future::ready(())
    }));
    fs::write(&path, "two").unwrap();
    assert_eq!(received.recv().await.unwrap(), "two");
    fs::remove_file(&path).unwrap();
    time::sleep(RELOAD_INTERVAL * 3).await;
    fs::write(&path, "three").unwrap();
    assert_eq!(received.recv().await.unwrap(), "three");
    assert!(received.try_recv().is_err());
    following.abort();
}
