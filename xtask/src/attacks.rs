//! Attacks on API servers: `cargo xtask long attacks`.

use std::path::Path;

use crate::{
    Result,
    cargo::cargo,
    embedded::Embedded,
    upstream::{Profile, Upstream},
};

/// Runs the attacks on `windlass up`, and optionally on the real control plane. Returns an error if `windlass up` fails
/// an attack; the results of the real server are for comparison only.
pub(crate) fn run(windlass: &Path, only: &str, upstream: bool) -> Result {
    println!("## windlass up\n");
    let held = {
        let server = Embedded::start(windlass, &["--nodes", "0"])?;
        attack(&server.kubeconfig(), server.process(), only, windlass)?
    };
    if upstream {
        println!("\n## kube-apiserver\n");
        let server = Upstream::start(Profile::Identity)?;
        let processes = server.named_processes();
        let process = processes.iter().find(|(name, _)| *name == "kube-apiserver");
        let (_, process) = process.ok_or("no process is named kube-apiserver")?;
        attack(&server.kubeconfig(), *process, only, &server.kubectl())?;
    }
    if held { Ok(()) } else { Err("an attack succeeded, delayed other clients, or leaked memory".into()) }
}

fn attack(kubeconfig: &Path, process: u32, only: &str, proxy: &Path) -> Result<bool> {
    let mut attack = cargo();
    attack.args(["run", "--quiet", "--package", "conformance", "--bin", "attacks", "--"]);
    attack.arg(kubeconfig).arg(process.to_string()).arg(only).arg(proxy);
    Ok(attack.status()?.success())
}
