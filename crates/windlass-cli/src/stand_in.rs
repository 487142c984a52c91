//! This program under other names: what Go's envtest starts in place of etcd, kube-apiserver and kubectl.
//!
//! envtest finds three programs in `KUBEBUILDER_ASSETS`, asks each of the first two for its flags by `--help`, starts them
//! with its own, asks for their health until they answer, and stops them by SIGTERM. `windlass envtest-assets` writes them:
//! all are this program, which acts by the name that it is called by.
//!
//! # What is not as it would be with the real ones
//!
//! - Objects live in the memory of the API server, not in etcd: an API server that is started again has none.
//! - Flags of kube-apiserver without an effect here (tuning, logs, etcd) are ignored. Flags that protect something which is
//!   not protected here are refused, unless `--allow-unsupported-flags` or `WINDLASS_ALLOW_UNSUPPORTED_FLAGS=true` is given.
//! - kube-apiserver listens on loopback by default, and roles count unless `--authorization-mode` says otherwise.
//! - kubectl has the commands that `windlass` has of it, and no others.

mod apiserver;
mod etcd;
mod flags;
mod kubectl;

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
};

/// A program that this one can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    Etcd,
    KubeApiserver,
    Kubectl,
}

impl StandIn {
    pub(crate) const ALL: [Self; 3] = [Self::KubeApiserver, Self::Etcd, Self::Kubectl];

    /// Whom this program was called as, if not as itself.
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

    /// As a file of this system.
    pub(crate) fn file_name(self) -> String {
        format!("{}{}", self.name(), env::consts::EXE_SUFFIX)
    }

    /// Acts as it, with the arguments of this process.
    pub(crate) async fn run(self) -> Result<(), Box<dyn Error>> {
        let arguments = env::args().skip(1);
        match self {
            Self::Etcd => etcd::run(arguments).await,
            Self::KubeApiserver => apiserver::run(arguments).await,
            Self::Kubectl => kubectl::run(arguments).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_acts_by_the_name_that_it_is_called_by() {
        let of = |path: &str| StandIn::of(Path::new(path));
        assert_eq!(of("/assets/etcd"), Some(StandIn::Etcd));
        assert_eq!(of("kube-apiserver"), Some(StandIn::KubeApiserver));
        assert_eq!(of("./kubectl"), Some(StandIn::Kubectl));
        assert_eq!((of("/usr/bin/windlass"), of("kubectl-windlass")), (None, None));
    }
}
