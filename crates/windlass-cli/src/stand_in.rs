//! Stand-ins: this program in the role of etcd, kube-apiserver and kubectl for Go's envtest.
//!
//! envtest expects three programs in `KUBEBUILDER_ASSETS`. It queries the flags of the first two with `--help`, starts
//! them, polls their health endpoints, and stops them with SIGTERM. `windlass envtest-assets` writes these programs:
//! all are this program, which selects its role by the name of its file.
//!
//! The file `kubernetes-version` beside the programs selects the Kubernetes version that kube-apiserver serves.
//!
//! # Differences from the real programs
//!
//! - Objects are stored in the memory of the API server, not in etcd: after a restart, the API server has none.
//! - Flags of kube-apiserver without an effect here (tuning, logs, etcd) are ignored. Flags for an unsupported
//!   protection are rejected, unless `--allow-unsupported-flags` or `WINDLASS_ALLOW_UNSUPPORTED_FLAGS=true` is set.
//! - kube-apiserver listens on loopback by default and uses RBAC, unless `--authorization-mode` specifies another mode.
//! - kubectl has only the commands that `windlass` implements.

mod apiserver;
mod etcd;
mod flags;
mod kubectl;

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use windlass_server::KubernetesVersion;

/// The file beside the stand-ins that contains the Kubernetes version to serve.
pub(crate) const VERSION_FILE: &str = "kubernetes-version";

/// A program that this one can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    Etcd,
    KubeApiserver,
    Kubectl,
}

impl StandIn {
    pub(crate) const ALL: [Self; 3] = [Self::KubeApiserver, Self::Etcd, Self::Kubectl];

    /// Returns the stand-in for the name that this program was called by, if there is one.
    pub(crate) fn called() -> Option<Self> {
        Self::of(&PathBuf::from(env::args_os().next()?))
    }

    fn of(program: &Path) -> Option<Self> {
        let name = program.file_stem()?;
        Self::ALL.into_iter().find(|stand_in| name == stand_in.name())
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::Kubectl => "kubectl",
        }
    }

    /// Returns the file name on this system.
    pub(crate) fn file_name(self) -> String {
        format!("{}{}", self.name(), env::consts::EXE_SUFFIX)
    }

    /// Runs the stand-in with the arguments of this process.
    pub(crate) async fn run(self) -> Result<(), Box<dyn Error>> {
        let arguments = env::args().skip(1);
        match self {
            Self::Etcd => etcd::run(arguments).await,
            Self::KubeApiserver => apiserver::run(arguments).await,
            Self::Kubectl => kubectl::run(arguments).await,
        }
    }
}

/// Returns the Kubernetes version of the stand-ins in a folder. Without a file it is the default version.
pub(crate) fn version(directory: &Path) -> Result<KubernetesVersion, String> {
    let path = directory.join(VERSION_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|error| format!("reading {}: {error}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KubernetesVersion::default()),
        Err(error) => Err(format!("reading {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_selects_the_stand_in() {
        let of = |path: &str| StandIn::of(Path::new(path));
        assert_eq!(of("/assets/etcd"), Some(StandIn::Etcd));
        assert_eq!(of("kube-apiserver"), Some(StandIn::KubeApiserver));
        assert_eq!(of("./kubectl"), Some(StandIn::Kubectl));
        assert_eq!((of("/usr/bin/windlass"), of("kubectl-windlass")), (None, None));
    }
}
