//! Kubeconfigs of common, unusual and invalid forms: each file of `tests/kubeconfig` with its expected result.
//!
//! `EXPECT=write cargo test -p windlass-client --test kubeconfig` writes the expected results. Review the difference.

use std::{
    fs,
    path::{Path, PathBuf},
};

use windlass_api::Entropy;
use windlass_client::{
    Auth, Config, Kubeconfig,
    config::{Compression, Pem, Proxy, Verification},
    kubeconfig::Selection,
};

/// The directory of the files, relative to this crate, in which tests run.
const FOLDER: &str = "tests/kubeconfig";

#[test]
fn kubeconfig_files_give_the_expected_configs() {
    let mut wrong = Vec::new();
    let files = files();
    assert!(files.len() >= 60, "{} files", files.len());
    for file in files {
        let expected = file.with_extension("expected");
        let found = outcome(&file);
        if std::env::var_os("EXPECT").is_some_and(|value| value == "write") {
            fs::write(&expected, &found).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if found != expected {
            wrong.push(format!("{}\n--- expected\n{expected}--- found\n{found}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// In these files, every secret contains `s3cret`.
#[test]
fn secrets_are_not_shown() {
    for file in files() {
        let shown = match Kubeconfig::read(&file) {
            Err(error) => format!("{error} {error:?}"),
            Ok(kubeconfig) => {
                let redacted = kubeconfig.clone().redacted().to_yaml();
                let resolved = Config::from_kubeconfig(&kubeconfig, &Selection::default());
                let resolved =
                    resolved.map_or_else(|error| format!("{error} {error:?}"), |config| format!("{config:?}"));
                format!("{kubeconfig:?} {resolved} {redacted}")
            }
        };
        assert!(!shown.contains("s3cret"), "{}: {shown}", file.display());
    }
}

#[test]
fn damaged_kubeconfig_errors_show_no_secrets() {
    const DAMAGES: usize = 20;
    let entropy = Entropy::seeded(4);
    let (mut read, mut refused) = (0, 0);
    for file in files() {
        let whole = fs::read(&file).unwrap();
        for _ in 0..DAMAGES.min(whole.len()) {
            let text = damaged(&whole, &entropy);
            match Kubeconfig::parse(&String::from_utf8_lossy(&text)) {
                Ok(kubeconfig) => {
                    read += 1;
                    // An error is acceptable, a panic is not.
                    let _ = Config::from_kubeconfig(&kubeconfig, &Selection::default());
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().contains("s3cret"), "{}: {error}", file.display());
                }
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

/// Returns the bytes truncated, with a misplaced piece, or with a wrong byte.
fn damaged(whole: &[u8], entropy: &Entropy) -> Vec<u8> {
    let below = |end: usize| usize::try_from(entropy.below(end as u64)).unwrap_or_default();
    let at = below(whole.len());
    match below(3) {
        0 => whole[..at].to_vec(),
        1 => {
            let from = below(whole.len());
            let piece = &whole[from..(from + below(20)).min(whole.len())];
            [&whole[..at], piece, &whole[at..]].concat()
        }
        _ => {
            let mut bytes = whole.to_vec();
            bytes[at] = b" \n:-{}[]\"'#&*!|>%@\t\0x"[below(21)];
            bytes
        }
    }
}

#[test]
fn kubeconfig_round_trips() {
    let mut written = 0;
    for file in files() {
        let Ok(kubeconfig) = Kubeconfig::read(&file) else { continue };
        // Parsed from a document without a file, so that both have none.
        let read = Kubeconfig::parse(&kubeconfig.to_yaml()).unwrap();
        assert_eq!(Kubeconfig::parse(&read.to_yaml()).unwrap(), read, "{}", file.display());
        written += 1;
    }
    assert!(written >= 60, "{written} files");
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(FOLDER).expect("the folder is there");
    let entries = entries.map(|entry| entry.expect("its entries can be read").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

/// Formats the result of a file, with a line for each part that differs from the default.
fn outcome(file: &Path) -> String {
    let config = match Kubeconfig::read(file).and_then(|read| Config::from_kubeconfig(&read, &Selection::default())) {
        Ok(config) => config,
        Err(error) => return format!("error: {error}\n").replace(FOLDER, "."),
    };
    let mut lines = vec![format!("server: {}", config.server)];
    let mut line = |name: &str, value: Option<String>| lines.extend(value.map(|value| format!("{name}: {value}")));
    line("namespace", Some(config.default_namespace).filter(|namespace| namespace != "default"));
    line("trusts", config.tls.certificate_authority.as_ref().map(pem));
    line("trusts", (config.tls.verification == Verification::Skip).then(|| "anybody".to_owned()));
    line("server name", config.tls.server_name);
    let identity = config.tls.identity.as_ref();
    line("identity", identity.map(|it| format!("{}, {}", pem(&it.certificate), pem(&it.key))));
    line("auth", auth(&config.auth));
    line("acts as", config.impersonation.map(|somebody| format!("{somebody:?}")));
    line(
        "proxy",
        match &config.proxy {
            Proxy::Environment => None,
            Proxy::Direct => Some("none".to_owned()),
            Proxy::Server(proxy) => Some(proxy.to_string()),
        },
    );
    line("compression", (config.compression == Compression::Off).then(|| "off".to_owned()));
    lines.join("\n").replace(FOLDER, ".") + "\n"
}

fn pem(pem: &Pem) -> String {
    match pem {
        Pem::Data(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Pem::File(path) => path.display().to_string(),
    }
}

fn auth(auth: &Auth) -> Option<String> {
    Some(match auth {
        Auth::None => return None,
        Auth::Bearer(token) => format!("token {}", token.expose()),
        Auth::TokenFile(path) => format!("token in {}", path.display()),
        Auth::Basic { username, password } => format!("{username}, password of {}", password.expose().chars().count()),
        Auth::Exec(plugin) => {
            let told = plugin.cluster.as_ref().map(|cluster| format!(", told {cluster}")).unwrap_or_default();
            let arguments: Vec<_> = plugin.args.iter().map(|argument| format!(" {argument}")).collect();
            let variables: Vec<_> = plugin.env.iter().map(|(name, _)| format!(", ${name}")).collect();
            let (version, mode) = (plugin.version.as_str(), plugin.interaction.as_str());
            let (arguments, variables) = (arguments.concat(), variables.concat());
            format!("plugin {}{arguments}{variables} ({version}, {mode}){told}", plugin.command)
        }
        Auth::Oidc(provider) => format!("provider {} for {}", provider.issuer, provider.client_id),
        other => format!("{other:?}"),
    })
}
