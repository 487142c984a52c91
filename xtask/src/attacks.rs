//! Attacks on API servers: `cargo xtask long attacks`.

use std::{
    path::Path,
    process::{Command, Stdio},
};

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
        program(&server.kubeconfig(), server.process(), only, windlass).status()?.success()
    };
    if upstream {
        println!("\n## kube-apiserver\n");
        attack_upstream(only)?;
    }
    if held { Ok(()) } else { Err("an attack succeeded, delayed other clients, or leaked memory".into()) }
}

/// Attacks the real control plane. Starts a new one after an attack that ends the API server.
fn attack_upstream(only: &str) -> Result {
    let names = text(attacks().arg("--list"))?;
    let mut running = None;
    for (number, name) in names.lines().filter(|name| name.contains(only)).enumerate() {
        let server = match running.take() {
            Some(server) => server,
            None => Upstream::start(Profile::Identity)?,
        };
        let processes = server.named_processes();
        let process = processes.iter().find(|(name, _)| *name == "kube-apiserver");
        let (_, process) = process.ok_or("no process is named kube-apiserver")?;
        let table = text(&mut program(&server.kubeconfig(), *process, name, &server.kubectl()))?;
        table.lines().skip(if number == 0 { 0 } else { HEADER }).for_each(|line| println!("{line}"));
        running = Some(server).filter(|_| !table.contains(GONE));
    }
    Ok(())
}

/// The number of header lines of a table.
const HEADER: usize = 2;

/// The program's message if the server's process has ended.
const GONE: &str = "the server is gone";

/// Returns the command that runs the attacks.
fn attacks() -> Command {
    let mut attacks = cargo();
    attacks.args(["run", "--quiet", "--package", "conformance", "--bin", "attacks", "--"]);
    attacks
}

fn program(kubeconfig: &Path, process: u32, only: &str, proxy: &Path) -> Command {
    let mut attacks = attacks();
    attacks.arg(kubeconfig).arg(process.to_string()).arg(only).arg(proxy);
    attacks
}

/// Returns the output of the program. Ignores its exit code, which only reports whether the server held.
fn text(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8(command.stderr(Stdio::inherit()).output()?.stdout)?)
}
