//! `windlass up`: a control plane as a server.

use std::{
    error::Error,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use clap::Args;
use tokio::{net::TcpListener, sync::watch};
use windlass_api::Entropy;
use windlass_client::{
    Client,
    config::{
        KubeconfigFiles,
        kubeconfig::{Cluster, Context, User},
    },
    warnings::IgnoreWarnings,
};
use windlass_controllers::{BuiltIn, Controllers};
use windlass_runtime::{Manager, shutdown};
use windlass_server::{PodAccounts, Server, TlsIdentity};

use super::announce;

/// The name of cluster, user and context in the kubeconfig.
const NAME: &str = "windlass";

/// The flags of `windlass up`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443", value_parser = address)]
    bind: SocketAddr,
    /// The kubeconfig to write; other entries of an existing file are kept
    #[arg(long, value_name = "PATH", default_value = "windlass.kubeconfig")]
    kubeconfig: PathBuf,
    /// How many nodes to simulate
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = nodes)]
    nodes: usize,
    #[arg(long, value_name = "a,b|none", default_value = "*", help = controllers())]
    controllers: Controllers,
    /// Where to show what the controllers do, to a browser; a port alone is one of this machine's loopback
    #[arg(long, value_name = "ADDR:PORT", value_parser = console)]
    console: Option<SocketAddr>,
}

/// More than the largest cluster that Kubernetes is made for.
const MOST_NODES: usize = 10_000;

fn address(text: &str) -> Result<SocketAddr, String> {
    let example = "an address and a port, such as 127.0.0.1:6443, 0.0.0.0:6443 or [::1]:6443";
    text.parse().map_err(|_| match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && host.parse::<IpAddr>().is_err() => {
            format!("{host:?} is the name of a host: expected {example}")
        }
        _ => format!("expected {example}"),
    })
}

fn console(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    port.parse().map_or_else(|_| address(text), |port: u16| Ok((Ipv4Addr::LOCALHOST, port).into()))
}

fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes) if nodes <= MOST_NODES => Ok(nodes),
        _ => Err(format!("expected a number from 0 to {MOST_NODES}")),
    }
}

fn controllers() -> String {
    let names: Vec<_> = BuiltIn::ALL.iter().map(|controller| controller.name()).collect();
    format!("Which controllers to run, separated by commas; * for all, or none: {}", names.join(", "))
}

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let listener =
        TcpListener::bind(options.bind).await.map_err(|error| format!("listening on {}: {error}", options.bind))?;
    let address = listener.local_addr()?;
    let console = match options.console {
        Some(wanted) => {
            Some(TcpListener::bind(wanted).await.map_err(|error| format!("listening on {wanted}: {error}"))?)
        }
        None => None,
    };
    let shown = console.as_ref().map(TcpListener::local_addr).transpose()?;
    let tls = TlsIdentity::generate(names(address.ip()))?;
    let token = token();
    // A pod's account must be there, so somebody must be there who makes it.
    let furnished = options.controllers.contains(BuiltIn::ServiceAccount);
    let accounts = if furnished { PodAccounts::Required } else { PodAccounts::Optional };
    let server = Server::builder().token(token.clone()).address(address).pod_accounts(accounts).build();

    // The listener takes connections already. What cannot be written ends this before anything has begun.
    let kubeconfig = write_kubeconfig(&options.kubeconfig, address, tls.ca_pem(), &token)?;

    let (stop, stopped) = watch::channel(false);
    let serving = {
        let (server, tls, stopped) = (server.clone(), tls.clone(), wait(stopped.clone()));
        tokio::spawn(async move { server.serve(listener, tls, stopped).await })
    };
    let managing = tokio::spawn(manage(&server, &options, console, tls.ca_pem().to_owned(), wait(stopped)));

    let shown = shown.map(|address| format!("CONSOLE=http://{}/\n", reachable(address))).unwrap_or_default();
    announce(&format!("ready\nKUBECONFIG={}\n{shown}", kubeconfig.display()));

    // Server and manager stop together: what the controllers still write is in process, and needs no socket.
    let mut managing = managing;
    let ended = tokio::select! {
        () = shutdown::signal() => None,
        ended = &mut managing => Some(ended),
    };
    stop.send_replace(true);
    let managed = match ended {
        Some(ended) => ended,
        None => managing.await,
    };
    server.stop();
    serving.await??;
    Ok(managed??)
}

/// Runs the chosen controllers on the server, in this process.
fn manage(
    server: &Server,
    options: &Options,
    console: Option<TcpListener>,
    ca: String,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = windlass_runtime::Result<()>> + Send + 'static {
    // What the server warns of, Endpoints, the controllers do on purpose.
    let client = Client::from_service(server.service(), "default").with_warnings(IgnoreWarnings);
    let controllers = options.controllers.clone().nodes(options.nodes).root_ca(ca);
    async move {
        let mut manager = match console {
            Some(listener) => Manager::builder(client).console(listener).build(),
            None => Manager::new(client),
        };
        controllers.add_to(&mut manager);
        manager.run(stopped).await
    }
}

async fn wait(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone means the same as one that says so.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// What the certificate is for: whatever a client on this machine or in the cluster may call the server.
fn names(bound: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()];
    names.extend(["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned));
    if !bound.is_unspecified() && !bound.is_loopback() {
        names.push(bound.to_string());
    }
    names
}

fn token() -> String {
    let entropy = Entropy::os();
    format!("{:016x}{:016x}", entropy.next_u64(), entropy.next_u64())
}

/// An address of this machine by which what listens here can be reached from it.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Puts the cluster into a kubeconfig, which may be there already and hold others, and makes it the current one.
fn write_kubeconfig(path: &Path, address: SocketAddr, ca: &str, token: &str) -> Result<PathBuf, Box<dyn Error>> {
    let server = format!("https://{}", reachable(address));
    KubeconfigFiles::new([path]).edit(|kubeconfig| {
        *kubeconfig.cluster_mut(NAME) = Cluster::new(server).trusting(ca);
        *kubeconfig.user_mut(NAME) = User::with_token(token);
        let named = || Some(NAME.to_owned());
        *kubeconfig.context_mut(NAME) = Context { cluster: named(), user: named(), ..Context::default() };
        kubeconfig.use_context(NAME)
    })?;
    Ok(fs::canonicalize(path)?)
}

#[cfg(test)]
mod tests {
    use windlass_client::Kubeconfig;

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
    fn flags_that_make_no_sense_are_refused_with_what_would() {
        for (flags, message) in [
            (["--bind", "localhost:6443"], "\"localhost\" is the name of a host: expected an address and a port"),
            (["--bind", "127.0.0.1"], "expected an address and a port, such as 127.0.0.1:6443"),
            (["--console", "localhost:9090"], "\"localhost\" is the name of a host: expected an address and a port"),
            (["--console", "99999"], "expected an address and a port"),
            (["--nodes", "100000000"], "expected a number from 0 to 10000"),
            (["--nodes", "-1"], "unexpected argument"),
            (["--controllers", "none,deployment"], "none stands alone"),
            (["--controllers", "deployment,,nodes"], "a name is empty"),
            (["--controllers", "deploy"], "there is no controller \"deploy\"; there are: deployment, replicaset"),
        ] {
            let error = refused(&flags);
            assert!(error.contains(message), "{flags:?}: {error}");
        }
        let help = refused(&["--help", "--nodes=3"]);
        assert!(help.contains("replicaset, endpointslice") && help.contains("nodelifecycle"), "{help}");
    }

    #[test]
    fn a_console_at_a_port_alone_is_for_this_machine() {
        let at = |text: &str| console(text).unwrap().to_string();
        assert_eq!([at("9090"), at(":9090"), at("0.0.0.0:80")], ["127.0.0.1:9090", "127.0.0.1:9090", "0.0.0.0:80"]);
    }

    #[test]
    fn other_clusters_in_the_kubeconfig_survive() {
        let directory = std::env::temp_dir().join(format!("windlass-up-{}", Entropy::os().uuid()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config");
        Kubeconfig::single("prod", Cluster::new("https://prod"), User::with_token("x")).write(&path).unwrap();
        write_kubeconfig(&path, "0.0.0.0:7000".parse().unwrap(), "CA", "new").unwrap();
        write_kubeconfig(&path, "0.0.0.0:7001".parse().unwrap(), "CA", "newer").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("https://prod") && text.contains("current-context: windlass"), "{text}");
        assert!(text.contains("https://127.0.0.1:7001") && !text.contains("7000"), "{text}");
        fs::write(&path, "not: [a kubeconfig").unwrap();
        let error = write_kubeconfig(&path, "127.0.0.1:1".parse().unwrap(), "CA", "x").unwrap_err().to_string();
        assert!(error.contains("config"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "not: [a kubeconfig", "what cannot be read is not overwritten");
        fs::remove_dir_all(directory).unwrap();
    }
}
