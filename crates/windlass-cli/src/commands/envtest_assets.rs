//! `windlass envtest-assets`: writes the programs that Go's envtest starts.

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use windlass_server::KubernetesVersion;

use super::announce;
use crate::stand_in::{StandIn, VERSION_FILE};

/// The flags of `windlass envtest-assets`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Target folder, created if it does not exist; existing stand-ins are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Kubernetes version that the stand-in of kube-apiserver serves
    #[arg(long, value_name = "VERSION", default_value_t)]
    kubernetes_version: KubernetesVersion,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let windlass = env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    write(&windlass, &options.directory, options.kubernetes_version)
        .map_err(|error| format!("writing {}: {error}", options.directory.display()))?;
    // Absolute, because tests run in other folders.
    let directory = fs::canonicalize(&options.directory)?;
    announce(&format!("KUBEBUILDER_ASSETS={}\n", directory.display()));
    Ok(())
}

/// Copies the program once: the folder stays usable if the program is moved or rebuilt.
fn write(windlass: &Path, directory: &Path, kubernetes: KubernetesVersion) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join(VERSION_FILE), format!("{kubernetes}\n"))?;
    let first = StandIn::KubeApiserver.file_name();
    let unfinished = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(directory)?;
    for stand_in in StandIn::ALL {
        let path = directory.join(stand_in.file_name());
        // Written to a temporary file and then moved, so that a running stand-in is not affected.
        let unfinished = unfinished.path().join(stand_in.file_name());
        if stand_in == StandIn::KubeApiserver {
            copy(windlass, &unfinished)
        } else {
            link(&first, &unfinished, windlass)
        }?;
        fs::rename(&unfinished, &path)?;
    }
    Ok(())
}

fn copy(windlass: &Path, path: &Path) -> io::Result<()> {
    fs::copy(windlass, path).map(drop)
}

#[cfg(unix)]
fn link(first: &str, path: &Path, _: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(first, path)
}

#[cfg(not(unix))]
fn link(_: &str, path: &Path, windlass: &Path) -> io::Result<()> {
    copy(windlass, path)
}

#[cfg(test)]
mod tests {
    use windlass_api::Entropy;

    use super::*;
    use crate::stand_in;

    #[test]
    fn the_folder_holds_all_programs_and_can_be_written_again() {
        let directory = env::temp_dir().join(format!("windlass-assets-{}", Entropy::os().uuid()));
        let program = directory.join("program");
        fs::create_dir_all(&directory).unwrap();
        let assets = directory.join("k8s").join("bin");
        for content in ["first", "second"] {
            fs::write(&program, content).unwrap();
            write(&program, &assets, KubernetesVersion::V1_35).unwrap();
            for name in ["etcd", "kube-apiserver", "kubectl"] {
                let name = format!("{name}{}", env::consts::EXE_SUFFIX);
                assert_eq!(fs::read_to_string(assets.join(name)).unwrap(), content);
            }
        }
        assert_eq!(stand_in::version(&assets), Ok(KubernetesVersion::V1_35));
        assert_eq!(fs::read_dir(&assets).unwrap().count(), 4);
        fs::remove_dir_all(directory).unwrap();
    }
}
