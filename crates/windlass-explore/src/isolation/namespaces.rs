//! The creation of namespaces.

use std::{fs, io};

use rustix::{
    io::Errno,
    process::{getegid, geteuid},
    thread::{CapabilitySet, UnshareFlags, capabilities, configure_capability_in_ambient_set, set_capabilities},
};

use super::sandbox::named;

/// The namespaces of each process of the program.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWNET
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWIPC);

/// The capabilities of init: for mounts, the host name and the network.
const CAPABILITIES: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN];

/// Moves this process to new namespaces. Its children are in a new PID namespace.
pub(super) fn enter() -> io::Result<()> {
    match create(NAMESPACES) {
        Err(Errno::PERM) => {}
        created => return named("creating namespaces", created),
    }
    // In a user namespace, every user has all capabilities. The program keeps its user and its groups.
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    named("creating a user namespace", create(NAMESPACES | UnshareFlags::NEWUSER))?;
    named("setting the user", fs::write("/proc/self/setgroups", "deny"))?;
    named("setting the user", fs::write("/proc/self/uid_map", format!("{user} {user} 1")))?;
    named("setting the user", fs::write("/proc/self/gid_map", format!("{group} {group} 1")))?;
    named("keeping capabilities", keep_capabilities())
}

fn create(namespaces: UnshareFlags) -> Result<(), Errno> {
    #[expect(deprecated, reason = "only UnshareFlags::FILES, which is not used, makes this call unsafe")]
    rustix::thread::unshare(namespaces)
}

/// Keeps the capabilities for init. Users other than root would lose them when it is executed.
fn keep_capabilities() -> Result<(), Errno> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= sets.permitted;
    set_capabilities(None, sets)?;
    CAPABILITIES.into_iter().try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}
