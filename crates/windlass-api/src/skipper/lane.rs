//! Sixteen bytes that are compared at once.
//!
//! x86-64 uses `safe_arch`, and other architectures use `wide`, which is built on it. `wide` defines vectors of every
//! size, which takes as long to compile as this crate.

pub(super) use self::architecture::Lane;

/// The number of bytes in a lane.
pub(super) const LANE: usize = 16;

#[cfg(target_arch = "x86_64")]
mod architecture {
    use safe_arch::{bitor_m128i, cmp_eq_mask_i8_m128i, m128i, move_mask_i8_m128i, set_splat_i8_m128i};

    use super::LANE;

    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Lane(m128i);

    impl Lane {
        pub(in super::super) fn new(bytes: [u8; LANE]) -> Self {
            Self(m128i::from(bytes))
        }

        /// Sets these bits in each byte.
        pub(in super::super) fn with(self, bits: u8) -> Self {
            Self(bitor_m128i(self.0, set_splat_i8_m128i(bits.cast_signed())))
        }

        /// Returns a mask of the bytes that equal `byte`, the first byte in the lowest bit.
        pub(in super::super) fn equal(self, byte: u8) -> u64 {
            let mask = move_mask_i8_m128i(cmp_eq_mask_i8_m128i(self.0, set_splat_i8_m128i(byte.cast_signed())));
            u64::from(mask.cast_unsigned())
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod architecture {
    use wide::u8x16;

    use super::LANE;

    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Lane(u8x16);

    impl Lane {
        pub(in super::super) fn new(bytes: [u8; LANE]) -> Self {
            Self(u8x16::new(bytes))
        }

        /// Sets these bits in each byte.
        pub(in super::super) fn with(self, bits: u8) -> Self {
            Self(self.0 | u8x16::splat(bits))
        }

        /// Returns a mask of the bytes that equal `byte`, the first byte in the lowest bit.
        pub(in super::super) fn equal(self, byte: u8) -> u64 {
            u64::from(self.0.simd_eq(u8x16::splat(byte)).to_bitmask())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_search_finds_exact_positions() {
        for byte in 0..=u8::MAX {
            let bytes = [b'"', byte, 0x80, 0x23, 0x21, 0xa2, 0x22, 0xff, 0, 0, 0, 0, 0, 0, 0, b'"'];
            let expected = 0b1000_0000_0100_0001 | if byte == b'"' { 0b10 } else { 0 };
            assert_eq!(Lane::new(bytes).equal(b'"'), expected, "{byte}");
        }
    }

    #[test]
    fn bits_are_set_in_each_byte() {
        let mut bytes = [b'['; LANE];
        bytes[3] = b']';
        assert_eq!(Lane::new(bytes).with(0x20).equal(b'{'), 0b1111_1111_1111_0111);
        assert_eq!(Lane::new([0xdb; LANE]).with(0x20).equal(b'{'), 0);
    }
}
