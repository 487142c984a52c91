//! `windlass up`: runs a control plane as a server.

use std::{
    collections::BTreeMap,
    error::Error,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use windlass_controllers::Controllers;
use windlass_etcd::{Endpoint, Options as EtcdOptions, Tls};
use windlass_runtime::shutdown;
use windlass_server::KubernetesVersion;

use super::{announce, controller_names};
use crate::{
    access::AccessFlags,
    admission::AdmissionFlags,
    aggregation::AggregationFlags,
    audit::AuditFlags,
    certificates::CertificateFlags,
    control_plane::{Bound, Settings, warn_if_replaced},
    data_directory::Data,
    encryption::Encryption,
    feature_gates::FeatureGates,
    request_limits::RequestLimits,
    runtime_config::RuntimeConfigFlags,
    simulation::SimulationFlags,
    storage::{Etcd, Place},
    time_limits::{TimeLimits, positive},
    token_keys::TokenKeys,
};

/// The flags of `windlass up`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443", value_parser = address)]
    bind: SocketAddr,
    /// Address at which other machines reach the server. Servers over one etcd list it in the endpoints of the service
    /// kubernetes, so each needs its own. Defaults to that of --bind, or to that of the default interface
    #[arg(long, value_name = "ADDR", value_parser = advertised)]
    advertise_address: Option<IpAddr>,
    /// Path of the kubeconfig to write; other entries of an existing file are kept
    #[arg(long, value_name = "PATH", default_value = "windlass.kubeconfig")]
    kubeconfig: PathBuf,
    #[command(flatten)]
    simulation: Box<SimulationFlags>,
    #[arg(long, value_name = "a,b|none", default_value = "*", help = controllers())]
    controllers: Controllers,
    /// Address of the console, a web page that shows the controllers; a port alone means loopback
    #[arg(long, value_name = "ADDR:PORT", value_parser = console)]
    console: Option<SocketAddr>,
    /// File that configures the authorizers, including webhooks, with kind AuthorizationConfiguration as for
    /// kube-apiserver; defaults to the node authorizer and RBAC
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,
    #[command(flatten)]
    admission: AdmissionFlags,
    #[command(flatten)]
    access: Box<AccessFlags>,
    #[command(flatten)]
    aggregation: AggregationFlags,
    #[command(flatten)]
    certificate: CertificateFlags,
    #[command(flatten)]
    audit: Box<AuditFlags>,
    #[command(flatten)]
    storage: StorageOptions,
    #[command(flatten)]
    tokens: TokenKeys,
    #[command(flatten)]
    limits: TimeLimits,
    #[command(flatten)]
    requests: RequestLimits,
    #[command(flatten)]
    gates: FeatureGates,
    #[command(flatten)]
    runtime: RuntimeConfigFlags,
    /// Kubernetes version to serve; the controllers use the types of 1.36 with every version
    #[arg(long, value_name = "VERSION", default_value_t)]
    kubernetes_version: KubernetesVersion,
}

/// The flags for the storage.
#[derive(Args, Debug)]
struct StorageOptions {
    /// Directory that keeps the cluster between runs; created if it does not exist. By default the cluster is in memory.
    /// With --etcd, it keeps only certificates and tokens
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Endpoints of an etcd that keeps the cluster, separated by commas. kube-apiserver and other servers can use it at the
    /// same time
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    etcd: Vec<Endpoint>,
    /// Prefix of all keys in etcd
    #[arg(long, value_name = "PREFIX", default_value = "/registry", requires = "etcd")]
    etcd_prefix: String,
    /// File with the CA certificates of etcd
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_cafile: Option<PathBuf>,
    /// File with the client certificate for etcd
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "etcd_keyfile"])]
    etcd_certfile: Option<PathBuf>,
    /// File with the key of the client certificate
    #[arg(long, value_name = "FILE", requires_all = ["etcd", "etcd_certfile"])]
    etcd_keyfile: Option<PathBuf>,
    /// Time for which watches and lists can continue from an older resource version
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = positive)]
    history: Duration,
    /// Begin with the objects of a cluster that "etcdctl snapshot save" has saved; the data directory must be new
    #[arg(long, value_name = "FILE", requires = "data_dir", conflicts_with = "etcd")]
    from_etcd_snapshot: Option<PathBuf>,
    /// File that configures encryption at rest, with kind EncryptionConfiguration as for kube-apiserver
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Apply changes of the file of --encryption-provider-config within a minute
    #[arg(long, requires = "encryption_provider_config")]
    encryption_provider_config_automatic_reload: bool,
}

impl StorageOptions {
    fn place(self) -> Place {
        let Self { data_dir, history, .. } = self;
        if self.etcd.is_empty() {
            let directory = |path| Place::Directory(Data { path, history, import: self.from_etcd_snapshot });
            return data_dir.map_or(Place::Memory { history }, directory);
        }
        let mut options = EtcdOptions::new(self.etcd);
        options.prefix = self.etcd_prefix;
        options.tls = Tls { ca: self.etcd_cafile, certificate: self.etcd_certfile, key: self.etcd_keyfile };
        Place::Etcd(Box::new(Etcd { options, history, secrets: data_dir }))
    }

    fn encryption(&self) -> Option<Encryption> {
        let reload = self.encryption_provider_config_automatic_reload;
        self.encryption_provider_config.clone().map(|file| Encryption { file, reload })
    }
}

/// The hint if the address is in use.
const HINT: &str = "set another address with --bind ADDR:PORT, or use --bind 127.0.0.1:0 for a free port";

fn address(text: &str) -> Result<SocketAddr, String> {
    let example = "an address and a port, such as 127.0.0.1:6443, 0.0.0.0:6443 or [::1]:6443";
    text.parse().map_err(|_| match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && host.parse::<IpAddr>().is_err() => {
            format!("{host:?} is a host name: expected {example}")
        }
        _ => format!("expected {example}"),
    })
}

fn advertised(text: &str) -> Result<IpAddr, String> {
    let example = "the IP address of an interface, such as 10.1.2.3";
    let address: IpAddr = text.parse().map_err(|_| format!("expected {example}"))?;
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        return Err(format!("other machines cannot reach {address}: expected {example}"));
    }
    Ok(address)
}

fn console(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    port.parse().map_or_else(|_| address(text), |port: u16| Ok((Ipv4Addr::LOCALHOST, port).into()))
}

fn controllers() -> String {
    format!(
        "Controllers to run, separated by commas; * runs all, a leading - excludes one, none runs no controller: {}",
        controller_names()
    )
}

pub(crate) async fn run(options: Options, flags: BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    let access = options.access.load(options.authorization_config.as_deref(), &options.tokens.issuers())?;
    let admission = options.admission.load()?;
    let (proxy, certificate) = (options.aggregation.load()?, options.certificate.load()?);
    let Options {
        bind,
        advertise_address,
        kubeconfig,
        simulation,
        controllers,
        console,
        audit,
        storage,
        tokens,
        limits,
        gates,
        runtime,
        requests,
        kubernetes_version,
        ..
    } = options;
    let settings = Settings {
        kubernetes: kubernetes_version,
        bind,
        advertised: advertise_address,
        nodes: simulation.nodes,
        controllers: simulation.load(controllers)?,
        answers: simulation.answers.load()?,
        console,
        access,
        proxy,
        certificate,
        flags,
        admission,
        audit: audit.build()?,
        tokens,
        limits,
        requests: requests.checked()?,
        gates,
        runtime: runtime.joined(),
        encryption: storage.encryption(),
        place: storage.place(),
        hint: HINT,
    };
    let bound = Bound::bind(settings).await?;
    warn_if_replaced(&kubeconfig, &bound.url()).await;
    // The listener already accepts connections. If the kubeconfig cannot be written, the command fails before anything
    // starts.
    let kubeconfig = bound.write_kubeconfig(&kubeconfig)?;
    let shown = bound.console().map(|url| format!("CONSOLE={url}\n")).unwrap_or_default();
    let mut plane = bound.start()?;
    announce(&format!("ready\nKUBECONFIG={}\n{shown}", kubeconfig.display()));
    tokio::select! {
        () = shutdown::signal() => {}
        () = plane.ended() => {}
    }
    plane.stop().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn refused(flags: &[&str]) -> String {
        let flags = std::iter::once("up").chain(flags.iter().copied());
        match <Command as clap::Parser>::try_parse_from(flags) {
            Ok(Command { options }) => panic!("taken: {options:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn invalid_flags_are_rejected_with_a_remedy() {
        for (flags, message) in [
            (["--bind", "localhost:6443"], "\"localhost\" is a host name: expected an address and a port"),
            (["--bind", "127.0.0.1"], "expected an address and a port, such as 127.0.0.1:6443"),
            (["--advertise-address", "host"], "expected the IP address of an interface, such as 10.1.2.3"),
            (["--advertise-address", "127.0.0.1"], "other machines cannot reach 127.0.0.1: expected the IP address"),
            (["--console", "localhost:9090"], "\"localhost\" is a host name: expected an address and a port"),
            (["--console", "99999"], "expected an address and a port"),
            (["--nodes", "100000000"], "expected a number from 0 to 10000"),
            (["--nodes", "-1"], "unexpected argument"),
            (["--oidc-required-claim", "a"], "expected CLAIM=VALUE"),
            (["--history", "0s"], "expected a positive duration, such as 5m or 1h30m"),
            (["--history", "-1m"], "unexpected argument"),
            (["--request-timeout", "0s"], "expected a positive duration, such as 5m or 1h30m"),
            (["--event-ttl", "soon"], "invalid duration"),
            (["--history=-1m", "--data-dir=d"], "expected a positive duration"),
            (["--history", "5"], "time: missing unit in duration"),
            (["--kubernetes-version", "1.2"], "unknown Kubernetes version \"1.2\"; the embedded server has 1."),
            (["--controllers", "none,deployment"], "none cannot be combined"),
            (["--controllers", "deployment,,nodes"], "a name is empty"),
            (["--controllers", "deploy"], "unknown controller \"deploy\": valid names are deployment, replicaset"),
        ] {
            let error = refused(&flags);
            assert!(error.contains(message), "{flags:?}: {error}");
        }
        let help = refused(&["--help", "--nodes=3"]);
        assert!(
            help.contains("replicaset, replicationcontroller, statefulset, daemonset, job, cronjob, ttlafterfinished")
                && help.contains("nodelifecycle"),
            "{help}"
        );
    }

    #[test]
    fn console_port_alone_listens_on_loopback() {
        let at = |text: &str| console(text).unwrap().to_string();
        assert_eq!([at("9090"), at(":9090"), at("0.0.0.0:80")], ["127.0.0.1:9090", "127.0.0.1:9090", "0.0.0.0:80"]);
    }
}
