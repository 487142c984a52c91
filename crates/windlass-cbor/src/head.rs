//! Heads: the first bytes of each data item, with its type and its length or value.

/// The longest head.
pub(crate) const LONGEST: usize = 9;

/// The types of data items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Major {
    Unsigned,
    Negative,
    Bytes,
    Text,
    List,
    Map,
    Tag,
    /// Simple values, floats and the break.
    Simple,
}

/// The argument of a head: a value, a length or the bits of a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Within the first byte.
    Short(u8),
    /// In this number of bytes after the first.
    Long(usize, u64),
    Indefinite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) major: Major,
    pub(crate) argument: Argument,
}

impl Head {
    /// Returns the length of the head that starts with a byte; `None` if no head does.
    pub(crate) const fn length(first: u8) -> Option<usize> {
        match first & 0x1f {
            0..24 | 31 => Some(1),
            24 => Some(2),
            25 => Some(3),
            26 => Some(5),
            27 => Some(9),
            _ => None,
        }
    }

    /// Reads a complete head.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let first = bytes.first().copied().unwrap_or_default();
        let major = match first >> 5 {
            0 => Major::Unsigned,
            1 => Major::Negative,
            2 => Major::Bytes,
            3 => Major::Text,
            4 => Major::List,
            5 => Major::Map,
            6 => Major::Tag,
            _ => Major::Simple,
        };
        let rest = bytes.get(1..).unwrap_or_default();
        let argument = match (first & 0x1f, rest) {
            (31, _) => Argument::Indefinite,
            (short, []) => Argument::Short(short),
            (_, rest) => Argument::Long(rest.len(), rest.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))),
        };
        Self { major, argument }
    }

    /// Returns the value of the argument; `None` if the length is indefinite.
    pub(crate) const fn value(self) -> Option<u64> {
        match self.argument {
            Argument::Short(value) => Some(value as u64),
            Argument::Long(_, value) => Some(value),
            Argument::Indefinite => None,
        }
    }
}

/// Appends the shortest head of a type with an argument.
pub(crate) fn push(major: Major, value: u64, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let (first, length) = match value {
        0..24 => return out.push((major as u8) << 5 | bytes[7]),
        24..0x100 => (0x18, 1),
        0x100..0x1_0000 => (0x19, 2),
        0x1_0000..0x1_0000_0000 => (0x1a, 4),
        _ => (0x1b, 8),
    };
    out.push((major as u8) << 5 | first);
    out.extend_from_slice(&bytes[bytes.len() - length..]);
}
