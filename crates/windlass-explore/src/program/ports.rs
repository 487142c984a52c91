//! Free ports for the programs of simultaneous runs.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    process,
};

use parking_lot::Mutex;

/// The ports to choose from. Systems do not use them for outgoing connections.
const RANGE: Range<u16> = 20_000..32_000;

/// The ports of all runs of this process.
static RESERVED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that no other run of this process uses, and that was free when it was chosen.
#[derive(Debug)]
pub(super) struct Port(u16);

impl Port {
    pub(super) fn choose() -> io::Result<Self> {
        let mut reserved = RESERVED.lock();
        // Other processes start elsewhere, so that two explorations do not choose the same port at the same time.
        let count = u32::from(RANGE.end - RANGE.start);
        let first = process::id().wrapping_mul(97) % count;
        let candidates = (0..count).filter_map(|step| u16::try_from((first + step) % count).ok());
        for port in candidates.map(|offset| RANGE.start + offset) {
            if !reserved.contains(&port) && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
                reserved.insert(port);
                return Ok(Self(port));
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no port is free"))
    }

    pub(super) const fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        RESERVED.lock().remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_not_chosen() {
        let first = Port::choose().unwrap();
        let second = Port::choose().unwrap();
        assert_ne!(first.number(), second.number());
        let number = first.number();
        drop(first);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        let third = Port::choose().unwrap();
        assert_ne!(third.number(), number, "another process listens there");
        drop(listener);
    }
}
