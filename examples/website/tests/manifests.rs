//! The manifests in `config/` match the types.

use std::{fs, path::Path};

use website_operator::manifests;
use windlass::manifests::Part;

#[test]
fn manifests_are_accepted_by_the_server() {
    manifests().check().unwrap();
}

#[test]
fn files_match_the_types() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let files = manifests().files(Part::All).unwrap();
    assert_eq!(files.len(), 3);
    for file in files {
        let written = fs::read_to_string(config.join(&file.path)).unwrap();
        assert_eq!(written, file.text, "{}: cargo run --bin manifests -- all", file.path);
    }
}
