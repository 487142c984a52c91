//! Three members of etcd and three servers, each in a namespace of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use windlass_client::{
    Client, Config,
    config::{Kubeconfig, Selection},
};

use crate::{
    HISTORY, MEMBERS, Result, SERVERS, gateway,
    network::{Host, Network},
    operation::{Outcome, Request},
    process::Process,
};

/// The time until all processes serve requests again.
const PATIENCE: Duration = Duration::from_mins(1);

/// The versions of the servers. All start with the first one.
const VERSIONS: [&str; 2] = ["1.35", "1.36"];

/// The object that is written to find out whether a server works.
pub(crate) const PROBE: &str = "probe";

/// Dropped in this order: the processes before their network.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) members: Vec<Process>,
    pub(crate) servers: Vec<Process>,
    pub(crate) network: Network,
    endpoints: Vec<Endpoint>,
}

/// The access to one server.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint(Kubeconfig);

impl Endpoint {
    /// Returns a client with connections of its own, which sends each request once.
    pub(crate) fn client(&self) -> Result<Client> {
        let config = Config::from_kubeconfig(&self.0, &Selection::default())?;
        Ok(Client::new(config)?.without_rate_limit().with_retries(0))
    }
}

impl Cluster {
    /// Starts all processes. Their data and logs are in a folder.
    pub(crate) async fn start(etcd: &Path, windlass: &Path, folder: &Path) -> Result<Self> {
        let hosts = (0..MEMBERS).map(Host::Member).chain((0..SERVERS).map(Host::Server));
        let network = Network::create(hosts.collect())?;
        let (members, servers, endpoints) = (Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Self { members, servers, network, endpoints };
        for index in 0..MEMBERS {
            cluster.members.push(member(index, etcd, folder)?);
        }
        cluster.leader().await?;
        for index in 0..SERVERS {
            let data = folder.join(format!("{}", Host::Server(index)));
            if index > 0 {
                share_secrets(&folder.join(Host::Server(0).to_string()), &data)?;
            }
            let kubeconfig = folder.join(format!("{}.kubeconfig", Host::Server(index)));
            let mut server = server(index, windlass, &data, &kubeconfig, folder)?;
            server.until_line("ready").await?;
            cluster.servers.push(server);
            cluster.endpoints.push(Endpoint(Kubeconfig::read(kubeconfig)?));
        }
        Ok(cluster)
    }

    /// Returns the access to all servers.
    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Stops a server, and starts it as the other version. Returns that version.
    pub(crate) async fn change_version(&mut self, server: usize) -> Result<&'static str> {
        let server = &mut self.servers[server];
        let [old, new] = VERSIONS;
        let version = if server.has_argument(old) { new } else { old };
        server.stop().await?;
        server.replace_argument(if version == new { old } else { new }, version);
        server.restart()?;
        server.until_line("ready").await?;
        Ok(version)
    }

    /// Waits until there is a leader, and returns its index.
    pub(crate) async fn leader(&self) -> Result<usize> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            for index in 0..MEMBERS {
                if gateway::is_leader(index).await {
                    return Ok(index);
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(format!("etcd has no leader after {} s", PATIENCE.as_secs()).into())
    }

    /// Waits until all servers execute reads and writes, and returns the time that it has taken.
    pub(crate) async fn until_available(&mut self) -> Result<Duration> {
        let began = Instant::now();
        for index in 0..SERVERS {
            let server = Host::Server(index);
            loop {
                let client = self.endpoints[index].client()?;
                let read = Request::Read.send(&client, PROBE).await;
                let written = Request::Overwrite(format!("probe-{server}")).send(&client, PROBE).await;
                match (read, written) {
                    (Outcome::Found(_), Outcome::Found(_)) => break,
                    (read, written) if began.elapsed() > PATIENCE => {
                        return Err(format!("{server} does not work after {PATIENCE:?}: {read:?}, {written:?}").into());
                    }
                    _ => sleep(Duration::from_millis(20)).await,
                }
            }
        }
        self.members.iter_mut().chain(&mut self.servers).try_for_each(Process::expect_running)?;
        Ok(began.elapsed())
    }
}

fn url(member: usize, port: u16) -> String {
    format!("http://{}:{port}", Host::Member(member).address())
}

/// Starts a member. It syncs its files, so a slow disk makes it slow.
fn member(index: usize, etcd: &Path, folder: &Path) -> Result<Process> {
    const PEER: u16 = 2380;
    let host = Host::Member(index);
    let all: Vec<_> = (0..MEMBERS).map(|each| format!("{}={}", Host::Member(each), url(each, PEER))).collect();
    let (client, peer) = (url(index, gateway::PORT), url(index, PEER));
    let arguments = vec![
        format!("--name={host}"),
        format!("--data-dir={}", folder.join(format!("{host}.etcd")).display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster={}", all.join(",")),
        "--log-level=warn".into(),
    ];
    Process::start(host, etcd.to_owned(), arguments, folder.join(format!("{host}.log")))
}

/// Starts a server, whose first member is the one with its number.
fn server(index: usize, windlass: &Path, data: &Path, kubeconfig: &Path, folder: &Path) -> Result<Process> {
    let host = Host::Server(index);
    let members: Vec<_> = (0..MEMBERS).map(|each| url((index + each) % MEMBERS, gateway::PORT)).collect();
    let arguments = ["up", "--nodes", "0", "--controllers", "none", "--history", HISTORY].map(str::to_owned);
    let mut arguments = Vec::from(arguments);
    arguments.extend(["--bind".into(), format!("{}:6443", host.address()), "--etcd".into(), members.join(",")]);
    arguments.extend(["--kubernetes-version".into(), VERSIONS[0].into()]);
    arguments.extend(["--data-dir".into(), data.display().to_string()]);
    arguments.extend(["--kubeconfig".into(), kubeconfig.display().to_string()]);
    Process::start(host, windlass.to_owned(), arguments, folder.join(format!("{host}.log")))
}

/// Copies the CA, the signing key and the token of a server, so that another one accepts the same clients.
fn share_secrets(from: &Path, to: &Path) -> Result {
    let (from, to): (PathBuf, PathBuf) = (from.join("pki"), to.join("pki"));
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(&from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
