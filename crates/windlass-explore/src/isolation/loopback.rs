//! The loopback interface of a new network namespace.

use std::{io, os::fd::OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

// The constants of <linux/netlink.h>, <linux/rtnetlink.h> and <linux/if.h>.
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const IFF_UP: u32 = 1;

/// The index of the loopback interface, the first interface of each network namespace.
const LOOPBACK: i32 = 1;
/// The size of the message header.
const HEADER: usize = 16;
/// The size of the request: the header and `struct ifinfomsg`.
const REQUEST: u32 = 32;

/// Brings up the loopback interface, which also gives it its addresses.
pub(super) fn up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::io::write(&socket, &request())?;
    acknowledged(&socket)
}

/// Returns the request to set the flag `IFF_UP`.
fn request() -> Vec<u8> {
    let mut bytes = Vec::new();
    // struct nlmsghdr
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(RTM_NEWLINK.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    let (sequence, port) = (1_u32, 0_u32);
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(port.to_ne_bytes());
    // struct ifinfomsg: any family and type
    bytes.extend([0; 4]);
    bytes.extend(LOOPBACK.to_ne_bytes());
    let (flags, changed) = (IFF_UP, IFF_UP);
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(changed.to_ne_bytes());
    bytes
}

/// Reads the response: an error message, whose code is 0 after success.
fn acknowledged(socket: &OwnedFd) -> io::Result<()> {
    let mut bytes = [0; 4096];
    let length = rustix::io::read(socket, &mut bytes)?;
    let response = &bytes[..length];
    let kind = response.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    let code = response.get(HEADER..HEADER + 4).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected response")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_its_length() {
        assert_eq!(u32::try_from(request().len()), Ok(REQUEST));
    }
}
