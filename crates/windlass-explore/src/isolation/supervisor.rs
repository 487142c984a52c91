//! The first process of the helper. It creates the namespaces and init, and ends init with the exploration.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::{Child, Command, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::retry_on_intr,
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{
    channel::{Message, pair, receive_bytes, send, send_bytes},
    namespaces,
    sandbox::{INIT, named},
};

/// Creates init with its arguments, and supervises it until the exploration closes the channel.
pub(super) fn run(channel: BorrowedFd<'_>, arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    namespaces::enter()?;
    let (connections, theirs) = pair()?;
    let mut init = named("starting init", start(channel, arguments))?;
    let process = Pid::from_child(&init);
    let supervised = Supervisor { channel, connections, init: pidfd_open(process, PidfdFlags::empty())? };
    send(channel, &Message::Created { init: process.as_raw_pid() }, Some(theirs.as_fd()))?;
    drop(theirs);
    let outcome = supervised.run();
    end(&mut init);
    outcome
}

fn start(channel: BorrowedFd<'_>, arguments: impl Iterator<Item = OsString>) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    // Signals to the program are sent to this group, and not to the supervisor.
    command.process_group(0).stdin(Stdio::from(channel.try_clone_to_owned()?));
    command.arg(INIT).args(arguments).spawn()
}

/// Kills init with all other processes of its namespace, and waits for their end.
fn end(init: &mut Child) {
    // Fails if it has ended.
    let _ = init.kill();
    let _ = init.wait();
}

struct Supervisor<'s> {
    channel: BorrowedFd<'s>,
    /// Requests for sockets in the network namespace.
    connections: OwnedFd,
    /// Refers to init. Readable when it has ended.
    init: OwnedFd,
}

impl Supervisor<'_> {
    /// Serves requests for sockets until the channel is closed.
    ///
    /// Init is not collected before that, so its ID remains that of its process group.
    fn run(&self) -> io::Result<()> {
        let (mut is_running, mut is_connecting) = (true, true);
        loop {
            let mut watched = vec![PollFd::from_borrowed_fd(self.channel, PollFlags::IN)];
            if is_running {
                watched.push(PollFd::new(&self.init, PollFlags::IN));
            }
            if is_connecting {
                watched.push(PollFd::new(&self.connections, PollFlags::IN));
            }
            retry_on_intr(|| poll(&mut watched, None))?;
            let mut ready = watched.iter().map(|watched| !watched.revents().is_empty());
            // The exploration sends no messages here, so this is the end of the channel.
            if ready.next() == Some(true) {
                return Ok(());
            }
            if is_running && ready.next() == Some(true) {
                is_running = false;
                send(self.channel, &Message::Ended, None)?;
            }
            if is_connecting && ready.next() == Some(true) {
                is_connecting = self.connect()?;
            }
        }
    }

    /// Answers a request with a new socket. Returns `false` if there are no more requests.
    fn connect(&self) -> io::Result<bool> {
        let (length, _) = receive_bytes(self.connections.as_fd(), &mut [0; 16])?;
        if length == 0 {
            return Ok(false);
        }
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        send_bytes(self.connections.as_fd(), b"{}", Some(socket.as_fd()))?;
        Ok(true)
    }
}
