//! The contract tables in the crates' documentation: each contract has a row, and each row names existing tests.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{Result, rows, upstream::root};

/// The contracts of one crate.
struct Table {
    /// The path from the root of the workspace.
    file: &'static str,
    /// The numbers, by chapter and row, in the order of the table.
    contracts: &'static [(u8, &'static [u8])],
}

const TABLES: &[Table] = &[
    Table {
        file: "crates/windlass-cache/src/contracts.md",
        contracts: &[
            (1, &[1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 30, 31, 32, 33, 90]),
            (2, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            (3, &[1, 2, 3, 4, 5, 6, 7, 8]),
            (4, &[1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 30, 31]),
            (5, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        ],
    },
    Table {
        file: "crates/windlass-queue/src/contracts.md",
        contracts: &[
            (6, &[1, 2, 3, 4, 5, 6, 7, 10, 11, 20, 30, 40]),
            (7, &[1, 2, 3, 4, 5, 6]),
            (13, &[10, 11, 12, 13, 14]),
        ],
    },
    Table {
        file: "crates/windlass-runtime/src/contracts.md",
        contracts: &[
            (8, &[0]),
            (9, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            (12, &[1, 2, 3, 4, 5, 6, 7, 10, 11]),
            (13, &[1, 2, 3, 4, 5, 6, 20, 21, 22, 23, 24, 25, 26, 27, 30, 31, 32, 33, 34, 40, 41, 42, 43, 50, 51]),
        ],
    },
    Table { file: "crates/windlass-webhook/src/contracts.md", contracts: &[(14, &[1, 2, 3, 4, 5, 6, 7, 8])] },
    Table { file: "crates/windlass-envtest/src/contracts.md", contracts: &[(17, &[1, 2, 3, 4, 5, 6, 7, 8])] },
];

/// The folders with the tests that rows name.
const FOLDERS: [&str; 2] = ["crates", "conformance"];

/// Reads all tables and returns an error that lists the problems.
pub(crate) fn check() -> Result {
    let mut tests = BTreeSet::new();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut tests)?;
    }
    let (mut rows, mut wrong) = (0, Vec::new());
    for Table { file, contracts } in TABLES {
        let text = fs::read_to_string(root().join(file))?;
        let table: Vec<_> = text.lines().filter(|line| line.starts_with("| C-")).collect();
        rows += table.len();
        wrong.extend(faults(&table, contracts, &tests).into_iter().map(|fault| format!("{file}: {fault}")));
    }
    if wrong.is_empty() {
        println!("contracts: {rows} rows, every one is shown by a test");
        return Ok(());
    }
    Err(format!("the tables of contracts:\n  {}", wrong.join("\n  ")).into())
}

/// Adds the names of the tests in the sources of a folder.
fn collect(folder: &Path, tests: &mut BTreeSet<String>) -> Result {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, tests)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path)?;
            tests.extend(rows::tests_in(&source).map(str::to_owned));
        }
    }
    Ok(())
}

/// Returns the problems of a table.
fn faults(table: &[&str], contracts: &[(u8, &[u8])], tests: &BTreeSet<String>) -> Vec<String> {
    let expected =
        contracts.iter().flat_map(|(chapter, rows)| rows.iter().map(move |row| format!("C-{chapter}.{row}")));
    let number = |row: &&str| row.split('|').nth(1).unwrap_or_default().trim().to_owned();
    let mut faults = Vec::new();
    if !table.iter().map(number).eq(expected) {
        faults.push("rows are missing, too many, or out of order".to_owned());
    }
    for row in table {
        let named: Vec<_> = row.rsplit('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            faults.push(format!("{} names no test", number(row)));
        }
        let missing = named.iter().filter(|name| !tests.contains(**name));
        faults.extend(missing.map(|name| format!("{}: there is no test {name}", number(row))));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_have_rows_and_named_tests_exist() {
        check().unwrap();
    }

    #[test]
    fn a_row_that_is_missing_or_leads_to_no_test_is_named() {
        let tests = BTreeSet::from(["a".to_owned()]);
        let contracts: [(u8, &[u8]); 1] = [(1, &[1, 2])];
        let rows = |second: &'static str| ["| C-1.1 | one | `a` |", second];
        assert_eq!(faults(&rows("| C-1.2 | two | differs; `a` |"), &contracts, &tests), [""; 0]);
        assert_eq!(faults(&rows("| C-1.2 | two | `b` |"), &contracts, &tests), ["C-1.2: there is no test b"]);
        assert_eq!(faults(&rows("| C-1.2 | two | none |"), &contracts, &tests), ["C-1.2 names no test"]);
        let disorder = ["rows are missing, too many, or out of order"];
        assert_eq!(faults(&rows("| C-1.3 | three | `a` |"), &contracts, &tests), disorder);
    }
}
