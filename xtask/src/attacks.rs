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

/// Attacks `windlass up` and, with `upstream`, the real control plane. Fails if `windlass up` does not hold: the real
/// server is there for comparison.
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
    if held { Ok(()) } else { Err("an attack succeeded, kept others waiting, or left memory behind".into()) }
}

/// Attacks the real control plane. A new one is started after an attack that ends the API server.
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

/// The lines of a table above its rows.
const HEADER: usize = 2;

/// The complaint of the program when the process of the server has ended.
const GONE: &str = "the server is gone";

/// The program that attacks.
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

/// Returns the output of the program. Its exit code says whether the server held, which does not matter here.
fn text(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8(command.stderr(Stdio::inherit()).output()?.stdout)?)
}
