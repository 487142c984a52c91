//! kube-apiserver: the embedded server, configured with the real server's flags.

mod support;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Parser;
use tokio::{net::TcpListener, task::JoinSet};
use windlass_api::{Clock, Entropy};
use windlass_runtime::shutdown;
use windlass_server::{
    AdmissionPlugins, AuditConfiguration, CertificateRenewal, Limits, PodAccounts, RuntimeConfig, Server,
    ServerBuilder, ServiceCidr, TlsIdentity, TlsVersion, TokenIssuer,
};

use super::flags::{Flag, Flags, Invocation, help};
use crate::{
    access::{self, Access, AccessFlags},
    admission,
    audit::{self, AuditFlags},
    certificates::CertificateFiles,
    commands::announce,
    descriptions,
    feature_gates::FeatureGates,
    request_limits::RequestLimits,
    time_limits::{TimeLimits, positive},
};

const FLAGS: &[Flag] = &[
    Flag { name: "admission-control", takes: "names", about: "The only plugins; deprecated" },
    Flag { name: "admission-control-config-file", takes: "path", about: "A file that configures admission plugins" },
    Flag { name: "advertise-address", takes: "ip", about: "The address that clients are given" },
    Flag { name: "allow-privileged", takes: "", about: "Not used: privileged containers are always allowed" },
    Flag { name: "allow-unsupported-flags", takes: "", about: "Start although flags are not supported" },
    Flag { name: "anonymous-auth", takes: "bool", about: "false: reject requests without credentials" },
    Flag { name: "audit-log-batch-buffer-size", takes: "int", about: "Events in the buffer" },
    Flag { name: "audit-log-batch-max-size", takes: "int", about: "Events in a batch" },
    Flag { name: "audit-log-batch-max-wait", takes: "duration", about: "The time after which a batch is sent" },
    Flag { name: "audit-log-batch-throttle-burst", takes: "int", about: "Batches at once" },
    Flag { name: "audit-log-batch-throttle-enable", takes: "", about: "Limit the rate of batches" },
    Flag { name: "audit-log-batch-throttle-qps", takes: "float", about: "Batches per second" },
    Flag { name: "audit-log-compress", takes: "", about: "Compress rotated files" },
    Flag { name: "audit-log-format", takes: "format", about: "json or legacy" },
    Flag { name: "audit-log-maxage", takes: "int", about: "Days after which rotated files are removed" },
    Flag { name: "audit-log-maxbackup", takes: "int", about: "The number of rotated files to keep" },
    Flag { name: "audit-log-maxsize", takes: "int", about: "The size in megabytes at which the log is rotated" },
    Flag { name: "audit-log-mode", takes: "mode", about: "batch, blocking or blocking-strict" },
    Flag { name: "audit-log-path", takes: "path", about: "The audit log; - is standard output" },
    Flag { name: "audit-log-truncate-enabled", takes: "", about: "Omit the objects of large events" },
    Flag {
        name: "audit-log-truncate-max-batch-size",
        takes: "int",
        about: "Bytes of a batch; not enforced, as in kube-apiserver",
    },
    Flag { name: "audit-log-truncate-max-event-size", takes: "int", about: "Bytes of an event" },
    Flag { name: "audit-log-version", takes: "string", about: "audit.k8s.io/v1" },
    Flag { name: "audit-policy-file", takes: "path", about: "The audit policy; without it nothing is recorded" },
    Flag { name: "audit-webhook-batch-buffer-size", takes: "int", about: "Events in the buffer" },
    Flag {
        name: "audit-webhook-batch-initial-backoff",
        takes: "duration",
        about: "The deprecated name of --audit-webhook-initial-backoff",
    },
    Flag { name: "audit-webhook-batch-max-size", takes: "int", about: "Events in a batch" },
    Flag { name: "audit-webhook-batch-max-wait", takes: "duration", about: "The time after which a batch is sent" },
    Flag { name: "audit-webhook-batch-throttle-burst", takes: "int", about: "Batches at once" },
    Flag { name: "audit-webhook-batch-throttle-enable", takes: "", about: "Limit the rate of batches" },
    Flag { name: "audit-webhook-batch-throttle-qps", takes: "float", about: "Batches per second" },
    Flag {
        name: "audit-webhook-config-file",
        takes: "path",
        about: "The kubeconfig of the webhook that gets the events",
    },
    Flag {
        name: "audit-webhook-initial-backoff",
        takes: "duration",
        about: "The time before the first retry of a request to the webhook",
    },
    Flag { name: "audit-webhook-mode", takes: "mode", about: "batch, blocking or blocking-strict" },
    Flag { name: "audit-webhook-truncate-enabled", takes: "", about: "Omit the objects of large events" },
    Flag {
        name: "audit-webhook-truncate-max-batch-size",
        takes: "int",
        about: "Bytes of a batch; not enforced, as in kube-apiserver",
    },
    Flag { name: "audit-webhook-truncate-max-event-size", takes: "int", about: "Bytes of an event" },
    Flag { name: "audit-webhook-version", takes: "string", about: "audit.k8s.io/v1" },
    Flag { name: "authentication-config", takes: "path", about: "A file with issuers of tokens" },
    Flag { name: "authentication-token-webhook-cache-ttl", takes: "duration", about: "How long answers are cached" },
    Flag { name: "authentication-token-webhook-config-file", takes: "path", about: "The kubeconfig of a webhook" },
    Flag { name: "authentication-token-webhook-version", takes: "string", about: "v1 or v1beta1" },
    Flag { name: "authorization-config", takes: "path", about: "A file with the authorizers, including webhooks" },
    Flag { name: "authorization-mode", takes: "modes", about: "AlwaysAllow, AlwaysDeny, Node, RBAC or Webhook" },
    Flag { name: "authorization-webhook-cache-authorized-ttl", takes: "duration", about: "How long grants are cached" },
    Flag { name: "authorization-webhook-cache-unauthorized-ttl", takes: "duration", about: "How long others are" },
    Flag { name: "authorization-webhook-config-file", takes: "path", about: "The kubeconfig of a webhook" },
    Flag { name: "authorization-webhook-version", takes: "string", about: "v1 or v1beta1" },
    Flag { name: "bind-address", takes: "ip", about: "The address to listen on; 127.0.0.1 by default" },
    Flag { name: "cert-dir", takes: "path", about: "The folder of apiserver.crt and apiserver.key, or of a new CA" },
    Flag { name: "client-ca-file", takes: "path", about: "The CAs of client certificates" },
    Flag { name: "disable-admission-plugins", takes: "names", about: "Default plugins to disable" },
    Flag { name: "enable-admission-plugins", takes: "names", about: "Plugins to enable, too" },
    Flag { name: "enable-bootstrap-token-auth", takes: "", about: "Accept bootstrap tokens" },
    Flag { name: "enable-priority-and-fairness", takes: "", about: "Apply FlowSchemas and priority levels" },
    Flag { name: "etcd-servers", takes: "urls", about: "Not used: objects are stored in memory" },
    Flag { name: "event-ttl", takes: "duration", about: "The time after which Events are deleted; 1h by default" },
    Flag { name: "http2-max-streams-per-connection", takes: "int", about: "Streams of one HTTP/2 connection" },
    Flag { name: "max-mutating-requests-inflight", takes: "int", about: "Writes at once; 200 by default" },
    Flag { name: "max-requests-inflight", takes: "int", about: "Reads at once; 400 by default" },
    Flag { name: "oidc-ca-file", takes: "path", about: "The CAs of the issuer" },
    Flag { name: "oidc-client-id", takes: "string", about: "The audience of its tokens" },
    Flag { name: "oidc-groups-claim", takes: "string", about: "The claim with the groups" },
    Flag { name: "oidc-groups-prefix", takes: "string", about: "The prefix of groups" },
    Flag { name: "oidc-issuer-url", takes: "url", about: "An issuer of tokens" },
    Flag { name: "oidc-required-claim", takes: "key=value", about: "A claim that tokens must have" },
    Flag { name: "oidc-signing-algs", takes: "strings", about: "The accepted algorithms" },
    Flag { name: "oidc-username-claim", takes: "string", about: "The claim with the user name" },
    Flag { name: "oidc-username-prefix", takes: "string", about: "The prefix of user names" },
    Flag { name: "proxy-client-cert-file", takes: "path", about: "The client certificate at other API servers" },
    Flag { name: "proxy-client-key-file", takes: "path", about: "Its key" },
    Flag { name: "request-timeout", takes: "duration", about: "The maximum time for a request; 1m by default" },
    Flag { name: "requestheader-allowed-names", takes: "strings", about: "The names of front proxies" },
    Flag { name: "requestheader-client-ca-file", takes: "path", about: "The CAs of front proxies" },
    Flag { name: "requestheader-extra-headers-prefix", takes: "strings", about: "Prefixes of headers" },
    Flag { name: "requestheader-group-headers", takes: "strings", about: "Headers with groups" },
    Flag { name: "requestheader-uid-headers", takes: "strings", about: "Headers with the UID" },
    Flag { name: "requestheader-username-headers", takes: "strings", about: "Headers with the user name" },
    Flag { name: "runtime-config", takes: "version=bool,...", about: "Removed API versions to serve" },
    Flag { name: "secure-port", takes: "port", about: "The port to listen on" },
    Flag { name: "service-account-issuer", takes: "url", about: "The issuer of tokens" },
    Flag { name: "service-account-key-file", takes: "path", about: "Further keys that verify tokens" },
    Flag { name: "service-account-lookup", takes: "", about: "Tokens in secrets need their secret; true by default" },
    Flag { name: "service-account-signing-key-file", takes: "path", about: "The key that signs tokens: RSA or ECDSA" },
    Flag { name: "service-cluster-ip-range", takes: "cidr", about: "The addresses of services" },
    Flag { name: "tls-cert-file", takes: "path", about: "The serving certificate" },
    Flag { name: "tls-cipher-suites", takes: "names", about: "The cipher suites of TLS 1.2" },
    Flag { name: "tls-min-version", takes: "version", about: "VersionTLS12 or VersionTLS13" },
    Flag { name: "tls-private-key-file", takes: "path", about: "Its key" },
    Flag { name: "token-auth-file", takes: "path", about: "Bearer tokens: token,user,uid[,\"group,group\"] per line" },
];

/// The real server's default.
const CERTIFICATES: &str = "/var/run/kubernetes";
const PORT: u16 = 6443;
/// Lists of the real server lag by up to 100 ms. Test suites that rely on this need a few milliseconds.
const LIST_LAG: Duration = Duration::from_millis(10);

pub(super) async fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let flags = match Flags::read(FLAGS, arguments) {
        Invocation::Run(flags) => flags,
        Invocation::Help => {
            announce(&help("kube-apiserver", FLAGS));
            return Ok(());
        }
    };
    support::check(&flags, FLAGS, allows_unsupported(&flags)?)?;
    let ip = flags.parse("bind-address")?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let bind = SocketAddr::new(ip, flags.parse("secure-port")?.unwrap_or(PORT));
    let mut tasks = JoinSet::new();
    let tls = identity(&flags, &mut tasks)?;
    let program = env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let kubernetes = super::version(program.parent().unwrap_or(Path::new(".")))?;
    let mut access = access(&flags)?;
    let tls = access.identity(tls)?;
    let server = access.apply(server(&flags, bind, &mut tasks)?).kubernetes(kubernetes).build();
    access.start(&server, &tls, &mut tasks)?;
    let listener = TcpListener::bind(bind).await.map_err(|error| format!("listening on {bind}: {error}"))?;
    tracing::info!(address = %bind, version = %kubernetes, "serving");
    Ok(server.serve(listener, tls, shutdown::signal()).await?)
}

/// Builds the server from the flags.
fn server(flags: &Flags, bind: SocketAddr, tasks: &mut JoinSet<()>) -> Result<ServerBuilder, Box<dyn Error>> {
    let mut builder = Server::builder().address(bind).flags(shown(flags));
    if let Some(advertised) = flags.parse("advertise-address")? {
        builder = builder.advertise_address(advertised);
    }
    builder = builder.descriptions(descriptions::schemas).list_lag(LIST_LAG);
    if let (Some(certificate), Some(key)) = (flags.get("proxy-client-cert-file"), flags.get("proxy-client-key-file")) {
        let files = CertificateFiles::read(Path::new(certificate), Path::new(key))?;
        let identity = files.proxy()?;
        builder = builder.proxy_identity(identity.clone());
        tasks.spawn(files.follow(move |chain, key| Ok(identity.replace(chain, key)?)));
    }
    // Both address families may be specified; the first is the default for services.
    if let Some(range) = flags.list("service-cluster-ip-range").next() {
        let cidr: ServiceCidr = range.parse().map_err(|error| format!("--service-cluster-ip-range: {error}"))?;
        builder = builder.service_cidr(cidr);
    }
    builder = builder.pod_accounts(PodAccounts::Required);
    let file = flags.get("admission-control-config-file").map(Path::new);
    builder = builder.admission(admission::load(plugins(flags)?, file)?);
    if let Some(audit) = audit(flags)? {
        builder = builder.audit(audit);
    }
    if let Some(streams) = flags.parse::<u32>("http2-max-streams-per-connection")?.filter(|streams| *streams > 0) {
        builder = builder.limits(Limits { streams, ..Limits::default() });
    }
    builder = TimeLimits::new(duration(flags, "request-timeout")?, duration(flags, "event-ttl")?).apply(builder);
    let (reads, writes) = (flags.parse("max-requests-inflight")?, flags.parse("max-mutating-requests-inflight")?);
    builder = RequestLimits::new(reads, writes, flags.parse("enable-priority-and-fairness")?).checked()?.apply(builder);
    builder = FeatureGates::lenient(flags.list("feature-gates")).apply(builder);
    builder = builder.runtime_config(flags.list("runtime-config").map(RuntimeConfig::lenient).collect());
    let mut names = flags.list("service-account-issuer");
    let mut issuer = names.next().map_or_else(TokenIssuer::default, TokenIssuer::named);
    issuer = names.fold(issuer, TokenIssuer::accepting);
    if let Some(path) = flags.get("service-account-signing-key-file") {
        issuer = issuer.signing_with(&read(path)?).map_err(|error| format!("{path}: {error}"))?;
    }
    for path in flags.list("service-account-key-file") {
        issuer = issuer.verifying_with(&read(path)?).map_err(|error| format!("{path}: {error}"))?;
    }
    builder = builder.token_issuer(issuer);
    Ok(builder)
}

/// Returns the flags for `/flagz`. Unlike in the real server, flags that are not set have no value.
fn shown(flags: &Flags) -> BTreeMap<String, String> {
    let mut shown: BTreeMap<String, String> = FLAGS.iter().map(|flag| (flag.name.to_owned(), String::new())).collect();
    for (name, value) in flags.iter() {
        let known = shown.entry(name.to_owned()).or_default();
        *known = if known.is_empty() { value.to_owned() } else { format!("{known},{value}") };
    }
    shown
}

/// Returns the admission plugins of the flags. Those that are missing were allowed.
fn plugins(flags: &Flags) -> Result<AdmissionPlugins, Box<dyn Error>> {
    let list =
        |flag: &str| -> Vec<&str> { flags.list(flag).filter(|name| !AdmissionPlugins::is_missing(name)).collect() };
    let enabled = list("enable-admission-plugins");
    let disabled: Vec<&str> = flags.list("disable-admission-plugins").collect();
    let only = list("admission-control");
    if only.is_empty() {
        return Ok(AdmissionPlugins::new(&enabled, &disabled)?);
    }
    if !enabled.is_empty() || !disabled.is_empty() {
        let both =
            "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive";
        return Err(both.into());
    }
    Ok(AdmissionPlugins::only(&only)?)
}

fn duration(flags: &Flags, name: &str) -> Result<Option<Duration>, Box<dyn Error>> {
    let invalid = |value, error| format!("invalid argument {value:?} for --{name}: {error}").into();
    flags.get(name).map(|value| positive(value).map_err(|error| invalid(value, error))).transpose()
}

/// The flags of the audit log, which are those of `windlass up`.
#[derive(Parser)]
struct AuditCommand {
    #[command(flatten)]
    flags: AuditFlags,
}

fn audit(flags: &Flags) -> Result<Option<AuditConfiguration>, Box<dyn Error>> {
    let of_audit = flags.iter().filter(|(name, _)| name.starts_with(audit::PREFIX));
    // As in kube-apiserver, the last one of repeated flags is used.
    let latest: BTreeMap<_, _> = of_audit.collect();
    let arguments = latest.into_iter().map(|(name, value)| format!("--{name}={value}"));
    let parsed = AuditCommand::try_parse_from(std::iter::once("kube-apiserver".to_owned()).chain(arguments))?;
    parsed.flags.build()
}

fn allows_unsupported(flags: &Flags) -> Result<bool, Box<dyn Error>> {
    let variable = env::var(support::ALLOW_VARIABLE).is_ok_and(|value| value == "true");
    Ok(flags.parse(support::ALLOW)?.unwrap_or(variable))
}

/// The flags of authentication and authorization, which are those of `windlass up`.
#[derive(Parser)]
struct AccessCommand {
    #[command(flatten)]
    flags: AccessFlags,
}

/// The flags that can be repeated.
const REPEATED: [&str; 8] = [
    "authorization-mode",
    "oidc-required-claim",
    "oidc-signing-algs",
    "requestheader-allowed-names",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
];

fn access(flags: &Flags) -> Result<Access, Box<dyn Error>> {
    let of_access = flags.iter().filter(|(name, value)| access::NAMES.contains(name) && !value.is_empty());
    let (repeated, single): (Vec<_>, Vec<_>) = of_access.partition(|(name, _)| REPEATED.contains(name));
    // As in kube-apiserver, the last one of other flags is used.
    let latest: BTreeMap<_, _> = single.into_iter().collect();
    let mut arguments = vec!["kube-apiserver".to_owned()];
    arguments.extend(latest.into_iter().chain(repeated).map(|(name, value)| format!("--{name}={value}")));
    if flags.list("authorization-mode").next().is_none() && flags.get("authorization-config").is_none() {
        // Test environments set a mode. Without one, kube-apiserver allows everything, and this server uses roles.
        arguments.push("--authorization-mode=RBAC".to_owned());
    }
    let parsed = AccessCommand::try_parse_from(arguments)?;
    let issuers: Vec<String> = flags.list("service-account-issuer").map(str::to_owned).collect();
    parsed.flags.load(flags.get("authorization-config").map(Path::new), &issuers)
}

/// Returns the server's certificate, which a task renews or reads again.
fn identity(flags: &Flags, tasks: &mut JoinSet<()>) -> Result<TlsIdentity, Box<dyn Error>> {
    let directory = Path::new(flags.get("cert-dir").unwrap_or(CERTIFICATES));
    let file = |flag, name| flags.get(flag).map_or_else(|| directory.join(name), PathBuf::from);
    let (chain, key) = (file("tls-cert-file", "apiserver.crt"), file("tls-private-key-file", "apiserver.key"));
    let identity = if chain.exists() || flags.get("tls-cert-file").is_some() {
        let files = CertificateFiles::read(&chain, &key)?;
        let identity = files.serving()?;
        let current = identity.clone();
        tasks.spawn(files.follow(move |chain, key| Ok(current.replace(chain, key)?)));
        identity
    } else {
        let mut renewal = CertificateRenewal::new(Clock::system(), Entropy::os());
        let names = flags.get("advertise-address").or(flags.get("bind-address"));
        let identity = renewal.serving(Some(directory), names)?;
        tasks.spawn(renewal.run());
        identity
    };
    restricted(identity, flags)
}

/// Restricts the identity to the TLS versions and cipher suites of the flags.
fn restricted(mut identity: TlsIdentity, flags: &Flags) -> Result<TlsIdentity, Box<dyn Error>> {
    if let Some(version) = flags.get("tls-min-version") {
        let oldest = match version {
            // Older versions are not supported.
            "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => TlsVersion::V1_2,
            "VersionTLS13" => TlsVersion::V1_3,
            _ => return Err(format!("--tls-min-version: unknown tls version {version:?}").into()),
        };
        identity = identity.with_min_version(oldest)?;
    }
    if flags.get("tls-cipher-suites").is_some() {
        let restricted = identity.with_cipher_suites(flags.list("tls-cipher-suites"));
        identity = restricted.map_err(|error| format!("--tls-cipher-suites: {error}"))?;
    }
    Ok(identity)
}

fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_flags_are_named() {
        let bind = SocketAddr::from(([127, 0, 0, 1], 6443));
        let server = |flag: &str| {
            let Invocation::Run(flags) = Flags::read(FLAGS, std::iter::once(flag.to_owned())) else { panic!("{flag}") };
            let built = server(&flags, bind, &mut JoinSet::new()).and_then(|_| access(&flags));
            built.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(server("--service-cluster-ip-range=10.0.0.0/24"), Ok(()));
        for flag in [
            "--service-cluster-ip-range=many",
            "--advertise-address=here",
            "--authorization-mode=RBAC,Webhook",
            "--authorization-mode=Everyone",
            "--anonymous-auth=maybe",
            "--http2-max-streams-per-connection=-1",
            "--enable-admission-plugins=Everything",
            "--disable-admission-plugins=Everything",
            "--admission-control=Everything",
        ] {
            let name = flag.split('=').next().unwrap().trim_start_matches('-');
            let error = server(flag).unwrap_err();
            assert!(error.contains(name), "{flag}: {error}");
        }
        let identity = |flag: &str| {
            let Invocation::Run(flags) = Flags::read(FLAGS, std::iter::once(flag.to_owned())) else { panic!("{flag}") };
            let generated = TlsIdentity::generate::<String>([]).unwrap();
            restricted(generated, &flags).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(identity("--tls-min-version=VersionTLS13"), Ok(()));
        for flag in ["--tls-min-version=VersionTLS14", "--tls-cipher-suites=TLS_NULL"] {
            let name = flag.split('=').next().unwrap();
            assert!(identity(flag).unwrap_err().contains(name), "{flag}");
        }
        let error = server("--authorization-config=/nowhere/chain").unwrap_err();
        assert!(error.starts_with("cannot read /nowhere/chain: "), "{error}");
        let error = server("--audit-policy-file=/nowhere/policy").unwrap_err();
        assert!(error.starts_with("loading audit policy file: failed to read file path"), "{error}");
        let error = server("--enable-admission-plugins=EventRateLimit").unwrap_err();
        assert!(error.contains("limits: Invalid value"), "{error}");
        let error = server("--token-auth-file=/nowhere/tokens").unwrap_err();
        assert!(error.starts_with("cannot read /nowhere/tokens: "), "{error}");
    }
}
