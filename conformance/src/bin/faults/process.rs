//! A process in a namespace, which can be killed, paused, and started again.

use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::{Result, network::Host};

/// The time until a program is ready.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Process {
    host: Host,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Child,
    /// The length of the log at the last start.
    logged: u64,
}

impl Process {
    /// Starts a program in the namespace of a host, with its output in a file.
    pub(crate) fn start(host: Host, program: PathBuf, arguments: Vec<String>, log: PathBuf) -> Result<Self> {
        File::create(&log)?;
        let child = spawn(host, &program, &arguments, &log)?;
        Ok(Self { host, program, arguments, log, child, logged: 0 })
    }

    /// Ends the process without a chance to write anything more.
    pub(crate) fn kill(&mut self) -> Result {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Lets the process end by itself.
    pub(crate) async fn stop(&mut self) -> Result {
        self.signal(Signal::TERM)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{} has ended after SIGTERM with {status}", self.host).into()),
                None if Instant::now() > until => {
                    return Err(format!("{} has not ended {} s after SIGTERM", self.host, PATIENCE.as_secs()).into());
                }
                None => sleep(Duration::from_millis(10)).await,
            }
        }
    }

    pub(crate) fn has_argument(&self, argument: &str) -> bool {
        self.arguments.iter().any(|existing| existing == argument)
    }

    /// Replaces an argument of the next start.
    pub(crate) fn replace_argument(&mut self, old: &str, new: &str) {
        for argument in self.arguments.iter_mut().filter(|argument| *argument == old) {
            new.clone_into(argument);
        }
    }

    /// Starts a process again that has ended.
    pub(crate) fn restart(&mut self) -> Result {
        self.logged = fs::metadata(&self.log)?.len();
        self.child = spawn(self.host, &self.program, &self.arguments, &self.log)?;
        Ok(())
    }

    /// Stops the process from running. Its connections stay open.
    pub(crate) fn pause(&self) -> Result {
        self.signal(Signal::STOP)
    }

    /// Continues a paused process.
    pub(crate) fn resume(&self) -> Result {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result {
        let pid = Pid::from_raw(i32::try_from(self.id())?).ok_or("a process has the id 0")?;
        Ok(kill_process(pid, signal).map_err(|error| format!("cannot send {signal:?} to {}: {error}", self.host))?)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns an error if the process has ended.
    pub(crate) fn expect_running(&mut self) -> Result {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                Err(format!("{} has ended ({status}); its log is {}", self.host, self.log.display()).into())
            }
        }
    }

    /// Waits until the process has written this line since its last start.
    pub(crate) async fn until_line(&mut self, line: &str) -> Result {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut log = File::open(&self.log)?;
            log.seek(SeekFrom::Start(self.logged))?;
            let mut text = Vec::new();
            log.read_to_end(&mut text)?;
            if String::from_utf8_lossy(&text).lines().any(|written| written == line) {
                return Ok(());
            }
            self.expect_running()?;
            if Instant::now() > until {
                return Err(format!("{} is not ready after {} s", self.host, PATIENCE.as_secs()).into());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already. A paused one is killed, too.
        let _ = self.kill();
    }
}

fn spawn(host: Host, program: &PathBuf, arguments: &[String], log: &PathBuf) -> Result<Child> {
    let namespace = host.namespace().ok_or("the clients have no process")?;
    let log = File::options().append(true).open(log)?;
    // `ip` becomes the program, so the process has its id.
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace]).arg(program).args(arguments);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command.spawn().map_err(|error| format!("cannot start {} on {host}: {error}", program.display()))?)
}
