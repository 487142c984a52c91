//! The functions of a program.

use std::{path::Path, process::Command};

use crate::Result;

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) address: u64,
    pub(super) size: u64,
    /// The mangled name.
    pub(super) name: String,
}

/// Returns the functions of a program, as `nm` lists them.
pub(super) fn functions(program: &Path) -> Result<Vec<Symbol>> {
    let output = Command::new("nm")
        .args(["--defined-only", "--format=posix"])
        .arg(program)
        .output()
        .map_err(|error| format!("starting nm: {error}"))?;
    if !output.status.success() {
        return Err(format!("nm {}: {}", program.display(), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(parse(&String::from_utf8(output.stdout)?))
}

/// Returns the functions in the output of `nm`: lines of a name, a type, an address and a size.
fn parse(listing: &str) -> Vec<Symbol> {
    let symbol = |line: &str| {
        let mut words = line.split(' ');
        let (name, kind) = (words.next()?, words.next()?);
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (address, size) = (number()?, number()?);
        matches!(kind, "t" | "T" | "w" | "W").then(|| Symbol { address, size, name: name.to_owned() })
    };
    listing.lines().filter_map(symbol).collect()
}

/// Returns a name that does not depend on the versions of crates and of the compiler.
pub(super) fn name_without_hashes(mangled: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(mangled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_contains_only_functions_with_sizes() {
        let listing =
            "_RNvC1a4main t 1000 2f\nmalloc T 2000 10\nGCC_except_table1 r 3000 8\n__ehdr_start t 0\n_end B 4000 \n";
        let main = Symbol { address: 0x1000, size: 0x2f, name: "_RNvC1a4main".into() };
        assert_eq!(parse(listing), [main, Symbol { address: 0x2000, size: 0x10, name: "malloc".into() }]);
    }

    #[test]
    fn names_of_all_kinds_lose_their_hashes() {
        // A generic function with arguments of two crates, the second a reference back into the name.
        for hash in ["1", "kYzQ23xx6Ab"] {
            let name = format!("_RINvCs{hash}_1a4swapNtCs{hash}_1b1TECs{hash}_1c");
            assert_eq!(name_without_hashes(&name), "a::swap::<b::T>");
        }
        assert_eq!(name_without_hashes("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(name_without_hashes("_RNvCs1_1a4main.llvm.123456"), "a::main");
        assert_eq!(name_without_hashes("mi_malloc"), "mi_malloc");
    }
}
