//! Runs `conformance/kubectl.sh` against the real control plane: kube-controller-manager beside it, and our simulated
//! nodes, since it has no machines.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    Result,
    upstream::{Profile, Upstream, root},
};

/// The program that simulates nodes on any cluster.
const NODES: &str = "simulated_nodes";

/// A child that ends with us.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `kubectl` is the program to use; without it, that of the control plane's version.
pub(crate) fn run(kubectl: Option<&Path>) -> Result {
    let nodes = build_nodes()?;
    let upstream = Upstream::start(Profile::Identity)?;
    let kubeconfig = upstream.kubeconfig();
    let simulator = Command::new(&nodes)
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("starting {}: {error}", nodes.display()))?;
    let _simulator = Killed(simulator);
    let status = Command::new(root().join("conformance").join("kubectl.sh"))
        .env("KUBECONFIG", &kubeconfig)
        .env("KUBECTL", kubectl.map_or_else(|| upstream.kubectl(), Path::to_path_buf))
        .status()
        .map_err(|error| format!("running conformance/kubectl.sh: {error}"))?;
    if status.success() { Ok(()) } else { Err("kubectl.sh fails against the real control plane".into()) }
}

fn build_nodes() -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--package", "windlass-controllers", "--example", NODES])
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err(format!("building the example {NODES} failed ({status})").into());
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    Ok(target.join("debug").join("examples").join(NODES))
}
