//! The order of the functions in the program: those that a start of `windlass up` executes come first.
//!
//! The kernel maps a program in blocks of 16 pages. A start executes a ninth of the code, but in the default order its
//! functions are in more than half of the blocks, and all of them count as memory of the process.
//!
//! ```text
//! executed.txt.gz   the executed functions, as `cargo xtask record-order` records them     trace
//! link              links the program twice, the second time in the order of the list
//! symbols           the functions of a program, by name and address
//! order             selects the listed functions of a program, and checks their place
//! ```
//!
//! The list is part of the sources, so that the same commit still results in the same bytes. It contains names without
//! the hashes of crates and compilers, so that it also applies to later versions. A function that is missing in the list
//! stays in the default order. [`Placement::check`] fails if the list is too old. Without a list, all functions are in
//! the default order.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::symbols::{Symbol, name_without_hashes};
use crate::Result;

/// The list, below the root of a checkout.
pub(super) const LIST: &str = "xtask/src/dist/executed.txt.gz";

/// The smallest share of listed functions that a program must contain, in percent.
const LEAST_SHARE: usize = 60;

/// The names of the functions that come first, without hashes.
#[derive(Debug)]
pub(super) struct List(HashSet<String>);

/// The position of the listed functions in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// The number of listed names.
    listed: usize,
    /// The number of listed names that the program contains.
    found: usize,
    /// The bytes of the listed functions.
    size: u64,
    /// The bytes from the first to the last listed function.
    extent: u64,
}

impl List {
    /// Reads the names in a file, one per line.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(|error| format!("reading {}: {error}", file.display()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().map(str::to_owned).collect())
    }

    /// Returns the listed functions of a program. Functions of equal names are all included, because each crate may have
    /// its copy.
    fn select<'s>(&self, symbols: &'s [Symbol]) -> impl Iterator<Item = &'s Symbol> {
        symbols.iter().filter(|symbol| self.0.contains(&name_without_hashes(&symbol.name)))
    }

    /// Returns the file for LLD's `--symbol-ordering-file`: the listed functions in the order of their addresses.
    pub(super) fn ordering(&self, symbols: &[Symbol]) -> String {
        let mut listed: Vec<&Symbol> = self.select(symbols).collect();
        listed.sort_by_key(|symbol| symbol.address);
        listed.into_iter().map(|symbol| format!("{}\n", symbol.name)).collect()
    }

    /// Returns the position of the listed functions.
    pub(super) fn placement(&self, symbols: &[Symbol]) -> Placement {
        // Equal functions are merged and have several names at one address.
        let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
        let (mut size, mut first, mut end) = (0, u64::MAX, 0);
        for symbol in self.select(symbols) {
            names.insert(name_without_hashes(&symbol.name));
            if addresses.insert(symbol.address) {
                size += symbol.size;
            }
            first = first.min(symbol.address);
            end = end.max(symbol.address + symbol.size);
        }
        Placement { listed: self.0.len(), found: names.len(), size, extent: end.saturating_sub(first) }
    }
}

impl Placement {
    /// Returns a description, or an error if the listed functions are scattered or too many of them are missing.
    pub(super) fn check(self) -> Result<String> {
        let Self { listed, found, size, extent } = self;
        let description =
            format!("{found} of {listed} listed functions ({} of code) are in {}", megabytes(size), megabytes(extent));
        if found * 100 < listed * LEAST_SHARE {
            return Err(format!(
                "{description}: the list {LIST} is too old; record it again with `cargo xtask record-order`"
            )
            .into());
        }
        if extent > size * 2 {
            return Err(format!("{description}: the linker has not ordered them").into());
        }
        Ok(description)
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10)
}

/// Unpacks the list of a checkout into a directory and returns the file, or `None` if no list is recorded. The file's
/// name contains a checksum, so that the linker's arguments change with the list.
pub(super) fn unpack(source: &Path, directory: &Path) -> Result<Option<PathBuf>> {
    let packed = source.join(LIST);
    if !packed.exists() {
        return Ok(None);
    }
    let file = directory.join(format!("executed-{}.txt", &super::archive::checksum(&packed)?[..16]));
    let output = Command::new("gzip").arg("-dc").arg(&packed).output()?;
    if !output.status.success() {
        return Err(format!("{}: gzip failed", packed.display()).into());
    }
    fs::create_dir_all(directory)?;
    fs::write(&file, output.stdout)?;
    Ok(Some(file))
}

/// Writes the names of a program's functions at the addresses of these symbols to the list of a checkout. Returns their
/// number.
pub(super) fn record(source: &Path, executed: &HashSet<String>, symbols: &[Symbol]) -> Result<usize> {
    let names = names_at(executed, symbols);
    if names.is_empty() {
        return Err("no executed function has a symbol; the program must not be stripped".into());
    }
    let packed = source.join(LIST);
    let file = packed.with_extension("");
    fs::write(&file, names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    crate::cargo::succeed(Command::new("gzip").args(["-n", "-9", "-f"]).arg(&file))?;
    Ok(names.len())
}

/// Returns the names, without hashes, of all functions at the addresses of some of them: merged functions have several
/// names.
fn names_at(executed: &HashSet<String>, symbols: &[Symbol]) -> BTreeSet<String> {
    let addresses: HashSet<u64> =
        symbols.iter().filter(|symbol| executed.contains(&symbol.name)).map(|symbol| symbol.address).collect();
    let executed = symbols.iter().filter(|symbol| addresses.contains(&symbol.address));
    executed.map(|symbol| name_without_hashes(&symbol.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(address: u64, size: u64, name: &str) -> Symbol {
        Symbol { address, size, name: name.to_owned() }
    }

    /// Two functions of a crate `a`, with the hash of each version of the crate.
    fn symbols(hash: &str) -> [Symbol; 4] {
        [
            symbol(300, 10, &format!("_RNvCs{hash}_1a5third")),
            symbol(100, 10, &format!("_RNvCs{hash}_1a5first")),
            symbol(200, 90, "second"),
            symbol(100, 10, &format!("_RNvCs{hash}_1a5alias")),
        ]
    }

    #[test]
    fn listed_functions_of_another_version_are_ordered_by_address() {
        let executed = HashSet::from(["_RNvCs1_1a5third".to_owned(), "_RNvCs1_1a5first".to_owned()]);
        let names = names_at(&executed, &symbols("1"));
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a::alias", "a::first", "a::third"]);
        let list = List(names.into_iter().collect());
        assert_eq!(list.ordering(&symbols("2")), "_RNvCs2_1a5first\n_RNvCs2_1a5alias\n_RNvCs2_1a5third\n");
    }

    #[test]
    fn placement_counts_merged_functions_once() {
        let list = List::parse("a::first\na::alias\na::third\nb::gone\n");
        let placement = list.placement(&symbols("3"));
        assert_eq!(placement, Placement { listed: 4, found: 3, size: 20, extent: 210 });
    }

    #[test]
    fn scattered_or_missing_functions_fail_the_check() {
        let placement = Placement { listed: 10, found: 6, size: 5_300_000, extent: 5_400_000 };
        let description = placement.check().unwrap();
        assert_eq!(description, "6 of 10 listed functions (5.3 MB of code) are in 5.4 MB");
        let scattered = Placement { extent: 24_000_000, ..placement }.check().unwrap_err().to_string();
        assert!(scattered.contains("has not ordered"), "{scattered}");
        let old = Placement { found: 5, ..placement }.check().unwrap_err().to_string();
        assert!(old.contains("too old"), "{old}");
    }

    #[test]
    fn recorded_list_is_unpacked() {
        let checkout = std::env::temp_dir().join(format!("windlass-order-{}", std::process::id()));
        fs::create_dir_all(checkout.join(LIST).parent().unwrap()).unwrap();
        assert_eq!(unpack(&checkout, &checkout).unwrap(), None);
        let executed = HashSet::from(["_RNvCs1_1a5third".to_owned(), "second".to_owned()]);
        assert_eq!(record(&checkout, &executed, &symbols("1")).unwrap(), 2);
        let list = fs::read_to_string(unpack(&checkout, &checkout).unwrap().unwrap()).unwrap();
        let stripped = record(&checkout, &executed, &[]).unwrap_err().to_string();
        fs::remove_dir_all(&checkout).unwrap();
        assert_eq!(list, "a::third\nsecond\n");
        assert!(stripped.contains("must not be stripped"), "{stripped}");
    }
}
