#![doc = include_str!("contracts.md")]

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    const TABLE: &str = include_str!("contracts.md");

    /// The numbers of the contracts, as chapter and rows.
    const CONTRACTS: [(u8, &[u8]); 3] =
        [(6, &[1, 2, 3, 4, 5, 6, 7, 10, 11, 20, 30, 40]), (7, &[1, 2, 3, 4, 5, 6]), (13, &[10, 11, 12, 13, 14])];

    fn tests_under(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                tests_under(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let attributed = text.split("test]\n").chain(text.split("test(")).skip(1);
                found.extend(attributed.filter_map(|after| {
                    let (_, name) = after.split_once("fn ")?;
                    Some(name.split_once('(')?.0.to_owned())
                }));
            }
        }
    }

    #[test]
    fn every_contract_has_a_row_and_every_test_that_a_row_names_is_there() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut tests = BTreeSet::new();
        for folder in ["windlass-queue/src", "windlass-runtime/src/metrics", "windlass-runtime/tests"] {
            tests_under(&crates.join(folder), &mut tests);
        }
        let rows: Vec<_> = TABLE.lines().filter(|line| line.starts_with("| C-")).collect();
        let numbers = rows.iter().map(|row| row.split('|').nth(1).unwrap().trim().to_owned());
        let expected =
            CONTRACTS.iter().flat_map(|(chapter, rows)| rows.iter().map(move |row| format!("C-{chapter}.{row}")));
        assert_eq!(numbers.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        for row in rows {
            let named: Vec<_> = row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty(), "no test: {row}");
            for name in named {
                assert!(tests.contains(name), "there is no test {name}: {row}");
            }
        }
    }
}
