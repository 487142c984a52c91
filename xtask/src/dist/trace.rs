//! `cargo xtask record-order`: records the functions that a start of `windlass up` executes, with valgrind.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use super::{build, default_target, order, symbols};
use crate::{Result, cargo::succeed, scaffold::Folder, upstream::root};

/// The recorded time after the start. Valgrind runs one thread at a time, about fifty times more slowly, and most
/// periodic work of the control plane is due once in ten seconds.
const RECORDED: Duration = Duration::from_mins(4);

/// Records the functions of a program, or of one that it builds.
pub(crate) fn run(windlass: Option<PathBuf>) -> Result {
    let windlass = match windlass {
        Some(windlass) => windlass,
        None => build(root(), &root().join("target"), &default_target()?, "dist")?,
    };
    let executed = trace(&windlass)?;
    let recorded = order::record(root(), &executed, &symbols::functions(&windlass)?)?;
    println!("{}: {recorded} executed functions", order::LIST);
    Ok(())
}

/// Runs an idle control plane for a while. Returns the mangled names of the functions that it executed.
fn trace(windlass: &Path) -> Result<HashSet<String>> {
    let folder = Folder::new("record-order")?;
    let [profile, kubeconfig] = ["callgrind.out", "kubeconfig"].map(|file| folder.project().join(file));
    let mut process = Command::new("valgrind")
        .args(["--tool=callgrind", "--demangle=no", "--quiet"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(windlass)
        .args(["up", "--bind=127.0.0.1:0", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("starting valgrind: {error}"))?;
    let output = process.stdout.take().ok_or("windlass up has no output")?;
    // The pipe closes when the process exits, so the wait always ends.
    let is_ready = BufReader::new(output).lines().map_while(std::io::Result::ok).any(|line| line.starts_with("ready"));
    if is_ready {
        println!("recording the idle control plane for {} s", RECORDED.as_secs());
        thread::sleep(RECORDED);
        succeed(Command::new("kill").args(["-INT", &process.id().to_string()]))?;
    }
    let status = process.wait()?;
    if !is_ready || !status.success() {
        return Err(format!("windlass up under valgrind failed ({status})").into());
    }
    Ok(executed(&fs::read_to_string(profile)?))
}

/// Returns the names of the functions in a profile of callgrind. Each name is written once, with a number for further
/// uses: `fn=(1) main` or `cfn=(1) main`.
fn executed(profile: &str) -> HashSet<String> {
    let names = profile.lines().filter_map(|line| {
        let function = line.strip_prefix('c').unwrap_or(line).strip_prefix("fn=(")?;
        function.split_once(") ").map(|(_, name)| name.to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_and_called_functions_are_executed() {
        let profile = "version: 1\nevents: Ir\n\nob=(1) /windlass\nfl=(1) ???\nfn=(1) main\n0 5\ncfn=(2) _RNvCs1_1a5first\ncalls=1 0\n0 7\n\nfn=(2)\n0 7\ncfni=(9) x\n\nfn=(3) malloc\n0 1\n";
        let expected = ["main", "_RNvCs1_1a5first", "malloc"].map(str::to_owned);
        assert_eq!(executed(profile), HashSet::from(expected));
    }
}
