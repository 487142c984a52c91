//! Unmodified kubectl, if available.

use std::{ffi::OsString, process::Stdio};

use tokio::{io::AsyncWriteExt as _, process::Command};

use conformance::{KUBECTL, Target, UPSTREAM};

/// A kubectl for the real server.
pub(super) struct Kubectl {
    program: OsString,
    kubeconfig: OsString,
}

impl Kubectl {
    /// Returns `None` without a kubectl or a kubeconfig for it.
    pub(super) fn of(target: &Target) -> Option<Self> {
        let kubeconfig = std::env::var_os(UPSTREAM).filter(|_| target.name == Target::UPSTREAM)?;
        Some(Self { program: std::env::var_os(KUBECTL)?, kubeconfig })
    }

    /// Returns the success, the output and the errors.
    pub(super) async fn run(&self, arguments: impl IntoIterator<Item = String>) -> (bool, String, String) {
        self.pipe(arguments, String::new()).await
    }

    /// Like `run`, with standard input.
    pub(super) async fn pipe(
        &self,
        arguments: impl IntoIterator<Item = String>,
        input: String,
    ) -> (bool, String, String) {
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }
}
