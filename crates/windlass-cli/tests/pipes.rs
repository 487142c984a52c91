//! Tests of the command in a pipe whose reader closes it early.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The exit code of a program that SIGPIPE ended.
const UNREAD: i32 = 141;

fn windlass(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("WINDLASS_LOG").env_remove("KUBECONFIG");
    command
}

/// A process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the process has ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Closes the output after some lines. Returns the exit code and the messages on standard error.
async fn head(mut command: Command, lines: usize) -> (Option<i32>, String) {
    let mut running = Running(command.spawn().unwrap());
    let ended = tokio::task::spawn_blocking(move || {
        let mut output = BufReader::new(running.0.stdout.take().unwrap());
        for _ in 0..lines {
            assert_ne!(output.read_line(&mut String::new()).unwrap(), 0, "the output has {lines} lines");
        }
        drop(output);
        let mut said = String::new();
        running.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (running.0.wait().unwrap().code(), said)
    });
    tokio::time::timeout(Duration::from_mins(2), ended).await.expect("it ends").unwrap()
}

#[tokio::test]
async fn demo_ends_quietly_on_a_closed_pipe() {
    // At normal speed, so that it prints more than the pipe holds at once.
    assert_eq!(head(windlass(&["demo", "--no-color"]), 3).await, (Some(UNREAD), String::new()));
}

#[tokio::test]
async fn lists_end_quietly_on_a_closed_pipe() {
    let folder = std::env::temp_dir().join(format!("windlass-pipes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (kubeconfig, cache) = (folder.join("config"), folder.join("cache"));
    let (file, cache) = (kubeconfig.to_str().unwrap(), cache.to_str().unwrap());
    let mut up = Running(windlass(&["up", "--bind", "127.0.0.1:0", "--kubeconfig", file]).spawn().unwrap());
    let mut ready = String::new();
    BufReader::new(up.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    for arguments in [
        &["api-resources"][..],
        &["api-versions"],
        &["get", "namespaces"],
        &["get", "namespaces", "-o", "json"],
        &["get", "namespaces", "-o", "name"],
        &["get", "namespaces", "--watch"],
        &["get", "--raw", "/openapi/v2"],
    ] {
        let mut command = windlass(arguments);
        command.args(["--kubeconfig", file, "--cache-dir", cache]);
        assert_eq!(head(command, 0).await, (Some(UNREAD), String::new()), "{arguments:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
