//! The differences between the tables of two versions, in the format that windlass-server reads
//! (`kubernetes/difference.rs`).

use std::fmt::Write as _;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// The characters that end a piece. windlass-server has the same list.
const SEPARATORS: [char; 7] = ['\n', '\t', ',', '}', ';', '|', ' '];

/// Appends the section of a table, unless both texts are equal.
pub(super) fn write(out: &mut String, name: &str, base: &str, table: &str) {
    if base == table {
        return;
    }
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "@{name} {} {}", base.len(), table.len());
    let old: Vec<_> = base.split_inclusive(SEPARATORS).collect();
    let new: Vec<_> = table.split_inclusive(SEPARATORS).collect();
    let operations = capture_diff_slices(Algorithm::Myers, &old, &new);
    for (index, operation) in operations.iter().enumerate() {
        let removed = operation.old_range().len();
        match operation {
            // The reader copies the rest.
            DiffOp::Equal { .. } if index + 1 == operations.len() => {}
            DiffOp::Equal { len, .. } => drop(writeln!(out, "={len}")),
            _ => {
                if removed > 0 {
                    let _ = writeln!(out, "-{removed}");
                }
                let inserted = new[operation.new_range()].concat();
                if !inserted.is_empty() {
                    let _ = writeln!(out, "+{}", inserted.replace('\\', "\\\\").replace('\n', "\\n"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_written_as_counts_of_pieces() {
        let mut out = String::new();
        write(&mut out, "same", "a,b", "a,b");
        write(&mut out, "t", "one,two,3,4,", "one,x\n\\,3,4,");
        assert_eq!(out, "@t 12 12\n=1\n-1\n+x\\n\\\\,\n");
    }
}
