//! Verifies that the tutorial contains the code of this crate.

use std::{fs, path::Path};

const FILES: [&str; 6] =
    ["src/lib.rs", "src/api.rs", "src/controller.rs", "src/main.rs", "src/bin/manifests.rs", "tests/guestbook.rs"];

#[test]
fn every_block_of_the_tutorial_is_here() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tutorial = fs::read_to_string(here.join("../../docs/tutorial.md")).unwrap();
    let sources = FILES.map(|file| fs::read_to_string(here.join(file)).unwrap());
    let blocks: Vec<_> =
        tutorial.split("```rust\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(blocks.len() >= FILES.len(), "{} blocks", blocks.len());
    for block in blocks {
        assert!(sources.iter().any(|source| source.contains(block)), "nowhere in this project:\n{block}");
    }
}

#[test]
fn files_match_the_types() {
    let problems = guestbook::manifests().check();
    assert!(problems.is_ok(), "{problems:?}");
    let files = guestbook::manifests().files(windlass::manifests::Part::All).unwrap();
    assert_eq!(files.len(), 2, "a definition and a role");
    for file in files {
        let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(&file.path);
        assert_eq!(fs::read_to_string(written).unwrap(), file.text, "{}: windlass generate all", file.path);
    }
}
