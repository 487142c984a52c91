//! `windlass run`: runs a project's manager on a local control plane, and rebuilds and restarts it when files change.
//!
//! Guaranteed: only one run of a project at a time. After a failed build, the previous manager continues. A manager that
//! is replaced is stopped gracefully first. Webhooks are called at the manager on this machine. At the end, no processes
//! are left, and the kubeconfig at the default path is deleted.
//!
//! The cluster is kept between runs, in the folder `target/windlass/cluster` of the project.
//!
//! Not guaranteed: that the manager needs no more than the permissions of its roles. It has all permissions.

mod cargo;
mod flags;
mod lock;
mod manifests;
mod probe;
mod process;
mod session;
mod snapshot;
mod watcher;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use clap::Args;
use windlass_controllers::Controllers;
use windlass_runtime::shutdown;
use windlass_scaffold::ProjectLocation;
use windlass_server::{AdmissionConfiguration, KubernetesVersion, RuntimeConfig};

pub(super) use self::cargo::build_manifests;
use self::{lock::Lock, session::Session};
use super::announce;
use crate::{
    access::Access,
    control_plane::{Bound, Settings, warn_if_replaced},
    data_directory::{self, Data},
    feature_gates::FeatureGates,
    request_limits::RequestLimits,
    storage::Place,
    time_limits::TimeLimits,
    token_keys::TokenKeys,
};

/// The default path of the kubeconfig, relative to the project.
const KUBECONFIG: &str = "target/windlass/kubeconfig";

/// The directory of the cluster, relative to the project.
const CLUSTER: &str = "target/windlass/cluster";

/// The hint if the port is in use.
const HINT: &str = "set another port with --port N, or omit --port for a free one";

/// The number of simulated nodes.
const NODES: usize = 3;

/// The flags of `windlass run`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Port of the API server on loopback; defaults to a free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Path of the kubeconfig to write; defaults to target/windlass/kubeconfig, which is deleted at the end
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Begin with an empty cluster instead of that of the last run
    #[arg(long)]
    fresh: bool,
    /// Arguments for the manager, after --
    #[arg(last = true, value_name = "MANAGER ARGS")]
    arguments: Vec<String>,
}

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let here = env::current_dir()?;
    let location = ProjectLocation::above(&here)?;
    let _lock = Lock::take(&location.folder)?;
    let bind = (Ipv4Addr::LOCALHOST, options.port).into();
    let controllers: Controllers = "*".parse()?;
    let cluster = location.folder.join(CLUSTER);
    if options.fresh {
        data_directory::remove(&cluster)?;
    }
    let bound = Bound::bind(Settings {
        kubernetes: KubernetesVersion::default(),
        bind,
        advertised: None,
        nodes: NODES,
        controllers,
        answers: None,
        console: None,
        access: Access::default(),
        proxy: None,
        certificate: None,
        flags: BTreeMap::new(),
        admission: AdmissionConfiguration::default(),
        audit: None,
        tokens: TokenKeys::default(),
        limits: TimeLimits::default(),
        requests: RequestLimits::default(),
        gates: FeatureGates::default(),
        runtime: RuntimeConfig::default(),
        place: Place::Directory(Data::at(cluster)),
        encryption: None,
        hint: HINT,
    })
    .await?;
    let (path, is_ours) = match &options.kubeconfig {
        Some(path) => (here.join(path), false),
        None => (location.folder.join(KUBECONFIG), true),
    };
    if !is_ours {
        warn_if_replaced(&path, &bound.url()).await;
    }
    let kubeconfig = write_kubeconfig(&bound, &path, is_ours)?;
    announce(&format!("API server: {}\nexport KUBECONFIG={}\n", bound.url(), kubeconfig.display()));
    let mut plane = bound.start()?;
    let mut session = Session::new(location, plane.client(), kubeconfig.clone(), &options.arguments)?;
    let outcome = tokio::select! {
        () = shutdown::signal() => Ok(()),
        outcome = session.work() => outcome.map_err(Into::into),
        // `stop` returns the controllers' error.
        () = plane.ended() => Ok(()),
    };
    session.stop().await;
    let stopped = plane.stop().await;
    if is_ours {
        fs::remove_file(&kubeconfig).map_err(|error| format!("removing {}: {error}", kubeconfig.display()))?;
    }
    outcome.and(stopped)
}

fn write_kubeconfig(bound: &Bound, path: &Path, is_ours: bool) -> Result<PathBuf, Box<dyn Error>> {
    let failed = |error| format!("writing {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // A file left by a run that was killed is outdated.
    if is_ours && path.exists() {
        fs::remove_file(path).map_err(failed)?;
    }
    bound.write_kubeconfig(path)
}
