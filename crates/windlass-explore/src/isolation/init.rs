//! PID 1 of the namespace: prepares mounts and network, executes the program, and collects orphans.

use std::{
    env, io,
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsFd as _, BorrowedFd},
    process::{Child, Command, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, wait},
    system::sethostname,
    thread::clear_ambient_capability_set,
};

use super::{
    channel::{Message, send},
    loopback, mounts,
    sandbox::{Sandbox, named},
};

/// Prepares the namespaces and runs the program. All processes of the namespace end when this returns.
pub(super) fn run(channel: BorrowedFd<'_>, sandbox: &Sandbox, command: Command) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the supervisor was killed before this call, the exploration had closed the channel.
    if is_closed(channel)? {
        return Ok(());
    }
    prepare(channel, sandbox)?;
    if command.get_program().is_empty() {
        return Ok(());
    }
    match start(command) {
        Ok(program) => {
            let program = Pid::from_child(&program);
            send(channel, &Message::Started, None)?;
            collect(channel, program)
        }
        Err(error) => {
            let (reason, code) = (error.to_string(), error.raw_os_error());
            send(channel, &Message::NotStarted { reason, code }, None)
        }
    }
}

fn is_closed(channel: BorrowedFd<'_>) -> io::Result<bool> {
    let mut channel = [PollFd::from_borrowed_fd(channel, PollFlags::IN)];
    Ok(poll(&mut channel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

/// Prepares the namespaces, and sends the listener of the gateway.
fn prepare(channel: BorrowedFd<'_>, sandbox: &Sandbox) -> io::Result<()> {
    named("bringing up the loopback interface", loopback::up())?;
    let listener = named("listening", TcpListener::bind((Ipv4Addr::LOCALHOST, sandbox.port)))?;
    if let Some(name) = &sandbox.host {
        named("setting the host name", sethostname(name.as_bytes()))?;
    }
    mounts::prepare(sandbox)?;
    // The path may lead elsewhere now.
    if let Ok(directory) = env::current_dir() {
        named("entering the working directory", env::set_current_dir(directory))?;
    }
    send(channel, &Message::Prepared, Some(listener.as_fd()))
}

fn start(mut command: Command) -> io::Result<Child> {
    clear_ambient_capability_set()?;
    command.stdin(Stdio::null()).spawn()
}

/// Waits for the end of the program, and meanwhile for that of orphans.
fn collect(channel: BorrowedFd<'_>, program: Pid) -> io::Result<()> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if process == program => {
                return send(channel, &Message::Exited { status: status.as_raw() }, None);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
