//! Signals affect the whole process, so the test starts itself again as a child process to stop.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy.toml exempts test functions, but not their helpers"
)]

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};
use windlass_runtime::shutdown;

/// Set in the child process.
const IN_CHILD: &str = "WINDLASS_TEST_SIGNALS_IN_CHILD";

/// A deadline for a busy machine. It is not reached if the test passes.
const DEADLINE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn in_the_child() {
    if std::env::var_os(IN_CHILD).is_none() {
        return;
    }
    let mut signal = std::pin::pin!(shutdown::signal());
    // The first poll installs the handlers.
    assert!(futures::poll!(&mut signal).is_pending());
    println!("child: ready");
    signal.await;
    println!("child: stopping");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn second_signal_ends_the_process_at_once() {
    for signals in [["-TERM", "-TERM"], ["-INT", "-TERM"]] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "in_the_child", "--nocapture"])
            .env(IN_CHILD, "yes")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        until(&mut lines, "child: ready").await;
        send(&child, signals[0]).await;
        until(&mut lines, "child: stopping").await;
        assert!(child.try_wait().unwrap().is_none());
        send(&child, signals[1]).await;
        let status = timeout(DEADLINE, child.wait()).await.expect("the second signal ends it").unwrap();
        assert_eq!(status.code(), Some(1));
    }
}

async fn until(lines: &mut Lines<BufReader<ChildStdout>>, text: &str) {
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(text) {
                return;
            }
        }
        panic!("the child ended before it said {text:?}");
    };
    timeout(DEADLINE, found).await.unwrap_or_else(|_| panic!("the child never said {text:?}"));
}

async fn send(child: &Child, signal: &str) {
    let pid = child.id().expect("it is running").to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
}
