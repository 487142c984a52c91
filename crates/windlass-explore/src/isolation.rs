//! The isolation of the program's processes by Linux namespaces.
//!
//! Each process of the program gets network, mount, PID, UTS and IPC namespaces of its own. A helper enters them before
//! it executes the program, because only a process with one thread can do so:
//!
//! ```text
//! this process       accepts connections from the network namespace, and sends signals
//!   supervisor       creates the namespaces, and ends init when this process closes the channel or ends
//!     init           PID 1 of the namespace: prepares mounts and network, and collects orphans
//!       program
//! ```
//!
//! When init ends, the kernel kills all other processes of the namespace. The supervisor reports the end after that.
//!
//! ```text
//! sandbox       the settings of the namespaces, and the running helper
//! connector     connects to ports in the network namespace
//! supervisor    the first process of the helper
//! init          its child
//! namespaces    creates the namespaces
//! mounts        files and directories of the mount namespace
//! loopback      the loopback interface of the network namespace
//! channel       messages between these processes
//! ```

#[cfg(target_os = "linux")]
use std::{io, time::Duration};
use std::{path::PathBuf, process::ExitCode};

use crate::error::{Error, Result};

#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod connector;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod loopback;
#[cfg(target_os = "linux")]
mod channel;

#[cfg(target_os = "linux")]
pub(crate) use self::{
    connector::Connector,
    sandbox::{Binding, Helper, Sandbox, TEMPORARY},
};

/// The time limit for the helper to create namespaces once.
#[cfg(target_os = "linux")]
const PATIENCE: Duration = Duration::from_secs(30);

/// The isolation of the program from other runs and from this machine, by Linux namespaces.
///
/// Each process of the program has its own network, with only a loopback interface; its own processes, all of which end
/// with it; and its own `/tmp`. The rest of the file system is that of this machine.
///
/// Isolation needs Linux 5.4 or newer, and the permission to create namespaces: root in the initial user namespace has
/// it, other users if unprivileged user namespaces are enabled.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// The executable of the helper.
    helper: PathBuf,
}

impl Isolation {
    /// Isolates with a helper: a program whose `main` begins with a call of [`helper()`], such as `windlass`. Tries it
    /// once.
    ///
    /// # Errors
    ///
    /// If this system does not permit it. The error has the reason.
    pub async fn with_helper(helper: impl Into<PathBuf>) -> Result<Self> {
        let helper = helper.into();
        // The processes may have another working directory.
        let helper = std::path::absolute(&helper).map_err(|source| Error::Read { path: helper, source })?;
        let isolation = Self { helper };
        isolation.check().await?;
        Ok(isolation)
    }

    /// Isolates with this program as the helper. Its `main` must begin with a call of [`helper()`].
    ///
    /// # Errors
    ///
    /// If this system does not permit it. The error has the reason.
    pub async fn with_this_program() -> Result<Self> {
        // This link is also valid if the file was replaced.
        Self::with_helper("/proc/self/exe").await
    }

    #[cfg(target_os = "linux")]
    async fn check(&self) -> Result<()> {
        let nothing = tokio::process::Command::new("");
        let sandbox = Sandbox::default();
        let started = tokio::time::timeout(PATIENCE, Helper::start(self, &sandbox, &nothing)).await;
        let started = started.unwrap_or_else(|_| Err(io::Error::other("the helper does not respond")));
        started.map(drop).map_err(|error| Error::Isolation(error.to_string()))
    }

    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unused_async, reason = "the same signature as on Linux")]
    async fn check(&self) -> Result<()> {
        let Self { helper } = self;
        Err(Error::Isolation(format!("only Linux has the namespaces that {} would create", helper.display())))
    }
}

/// Acts as the helper of [`Isolation`] if this process was started as one, and returns its exit code.
///
/// A program that is its own helper calls this first in its `main`, before it starts threads or reads its arguments:
///
/// ```no_run
/// # use std::process::ExitCode;
/// fn main() -> ExitCode {
///     if let Some(code) = windlass_explore::isolation::helper() {
///         return code;
///     }
///     // The program itself.
///     # ExitCode::SUCCESS
/// }
/// ```
#[must_use]
pub fn helper() -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    return sandbox::helper(std::env::args_os());
    #[cfg(not(target_os = "linux"))]
    return None;
}
