//! The address ranges of services.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use crate::kinds::prelude::*;

/// The IPv4 address range of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    network: u32,
    /// The length of the prefix, from 8 to 30 bits.
    bits: u8,
}

/// The text is not a valid service address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IPv4 range for services, such as 10.0.0.0/24")]
pub struct InvalidServiceCidr(String);

/// The assignable IPv4 addresses of a range, without its first and its last address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    network: u32,
    /// The number of all addresses.
    total: u64,
}

impl ServiceCidr {
    /// Returns the first address of the range, which the service `kubernetes` has.
    #[must_use]
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }
}

impl Default for ServiceCidr {
    /// Returns `10.0.0.0/24`.
    fn default() -> Self {
        Self { network: u32::from(Ipv4Addr::new(10, 0, 0, 0)), bits: 24 }
    }
}

impl FromStr for ServiceCidr {
    type Err = InvalidServiceCidr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidServiceCidr(text.to_owned());
        let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
        let address: Ipv4Addr = address.parse().map_err(|_| invalid())?;
        let bits: u8 = bits.parse().ok().filter(|bits| (8..=30).contains(bits)).ok_or_else(invalid)?;
        Ok(Self { network: u32::from(address) & (u32::MAX << (32 - u32::from(bits))), bits })
    }
}

impl fmt::Display for ServiceCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.network), self.bits)
    }
}

// === impl AddressRange ===

impl AddressRange {
    /// Parses a range, unless it is of another family.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (_, bits) = text.split_once('/')?;
        let std::net::IpAddr::V4(network) = Range::parse(text)?.network() else { return None };
        let bits: u32 = bits.parse().ok().filter(|bits| *bits <= 32)?;
        Some(Self { network: network.into(), total: 1 << (32 - bits) })
    }

    /// Returns the number of assignable addresses.
    pub(super) fn size(self) -> u32 {
        u32::try_from(self.total.saturating_sub(2)).unwrap_or(u32::MAX)
    }

    /// Returns the number of addresses at the start of the range that are for services which request one. Other services
    /// get them only if all others are in use.
    pub(super) fn reserved(self) -> u32 {
        if self.total <= 16 {
            return 0;
        }
        u32::try_from((self.total / 16).clamp(16, 256)).unwrap_or_default().min(self.size())
    }

    /// Returns the first address, which is not assignable.
    pub(super) fn network(self) -> Ipv4Addr {
        self.network.into()
    }

    /// Returns the assignable address with this index.
    pub(super) fn at(self, index: u32) -> Ipv4Addr {
        self.network.saturating_add(1).saturating_add(index).into()
    }

    /// Reports whether the address is in the range and assignable.
    pub(super) fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address).checked_sub(self.network).is_some_and(|index| (1..=self.size()).contains(&index))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), 32 - self.total.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignable_addresses_exclude_both_ends() {
        let range = AddressRange::parse("10.0.0.0/28").unwrap();
        assert_eq!((range.size(), range.reserved(), range.to_string().as_str()), (14, 0, "10.0.0.0/28"));
        assert_eq!([range.at(0), range.at(13)], [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 14)]);
        for (address, is_in) in [("10.0.0.0", false), ("10.0.0.1", true), ("10.0.0.14", true), ("10.0.0.15", false)] {
            assert_eq!(range.contains(address.parse().unwrap()), is_in, "{address}");
        }
    }

    #[test]
    fn larger_ranges_reserve_up_to_256_addresses() {
        let reserved = |text: &str| AddressRange::parse(text).unwrap().reserved();
        assert_eq!([reserved("10.0.0.0/24"), reserved("10.0.0.0/20"), reserved("10.0.0.0/8")], [16, 256, 256]);
    }

    #[test]
    fn tiny_and_foreign_ranges_have_no_addresses() {
        assert_eq!(["10.0.0.0/31", "10.0.0.0/32"].map(|text| AddressRange::parse(text).unwrap().size()), [0, 0]);
        assert_eq!(AddressRange::parse("fd00::/112"), None);
    }
}
