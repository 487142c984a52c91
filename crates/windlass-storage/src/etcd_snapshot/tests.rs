use std::{collections::BTreeMap, fs, io::Read as _};

use flate2::read::GzDecoder;
use tempfile::NamedTempFile;

use super::*;

/// Returns a snapshot of a real etcd; tools/snapshot says which keys it has.
pub(crate) fn real() -> Vec<u8> {
    let mut bytes = Vec::new();
    let compressed = include_bytes!("../../testdata/etcd.snapshot.gz");
    GzDecoder::new(&compressed[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

fn file(bytes: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, bytes).unwrap();
    file
}

#[derive(Debug, PartialEq)]
struct Found {
    value: Vec<u8>,
    created: u64,
    modified: u64,
    lifetime: Option<Duration>,
}

fn values(snapshot: &EtcdSnapshot) -> Result<BTreeMap<String, Found>, InvalidEtcdSnapshot> {
    let mut values = BTreeMap::new();
    snapshot.each(|found| {
        let EtcdValue { key, value, created, modified, lifetime } = found;
        let found = Found { value: value.to_vec(), created: created.0, modified: modified.0, lifetime };
        assert!(values.insert(key.escape_ascii().to_string(), found).is_none(), "each key is visited once");
        Ok::<_, InvalidEtcdSnapshot>(())
    })?;
    Ok(values)
}

fn error(bytes: &[u8]) -> String {
    let error = EtcdSnapshot::open(file(bytes).path()).unwrap_err();
    assert!(error.to_string().ends_with(" is no intact snapshot of etcd"), "{error}");
    error.source.to_string()
}

#[test]
fn current_values_of_a_real_etcd_are_found() {
    let file = file(&real());
    let snapshot = EtcdSnapshot::open(file.path()).unwrap();
    assert_eq!(snapshot.revision(), Revision(132));
    let values = values(&snapshot).unwrap();
    let value = |key: &str| &values[key];
    let found = |value: &str, created, modified, lifetime| Found {
        value: value.as_bytes().to_vec(),
        created,
        modified,
        lifetime,
    };
    assert_eq!(*value("/registry/configmaps/default/changed"), found("second", 3, 5, None));
    assert_eq!(*value("/registry/pods/default/again"), found("2", 11, 11, None));
    let lifetime = Some(Duration::from_hours(1));
    assert_eq!(*value("/registry/events/default/event"), found("short-lived", 7, 7, lifetime));
    assert_eq!(*value("/registry/configmaps/many/119"), found("value 119", 131, 131, None));
    let large: Vec<u8> = (0..20_000).map(|at| u8::try_from(at % 251).unwrap()).collect();
    assert_eq!(value("/registry/secrets/default/large").value, large);
    assert!(!values.contains_key("/registry/configmaps/default/deleted"));
    assert!(!values.contains_key("/registry/configmaps/many/000"));
    assert_eq!(values.len(), 5 + 119);
}

#[test]
fn changed_file_is_an_error() {
    let intact = real();
    for at in [0, 5000, intact.len() - 40, intact.len() - 1] {
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        assert_eq!(error(&bytes), "its checksum differs", "byte {at}");
    }
    let unchecked = "it has no checksum; save it with \"etcdctl snapshot save\"";
    assert_eq!(error(&intact[..intact.len() - 32]), unchecked);
    assert_eq!(error(&intact[..intact.len() - 1]), unchecked);
    assert_eq!(error(b""), unchecked);
    let mut cut = intact[..4096].to_vec();
    cut.extend(&intact[intact.len() - 32..]);
    assert_eq!(error(&cut), "its checksum differs");
    let mut other = vec![b'x'; 4096];
    other.extend(Sha256::digest(&other));
    assert_eq!(error(&other), "it is no bbolt database");
}

/// A file whose checksum matches may still be hostile.
#[test]
fn damaged_database_is_read_as_another_one_or_an_error() {
    let intact = real();
    let length = (intact.len() - CHECKSUM) as u64;
    let mut errors = BTreeMap::new();
    for at in (0..intact.len() - 32).filter(|at| intact[*at] != 0 && (at % 4096 < 32 || at % 211 == 0)) {
        for changed in [0xff, intact[at] ^ 1] {
            let mut bytes = intact.clone();
            bytes[at] = changed;
            let file = file(&bytes);
            let read = EtcdSnapshot::of_database(file.path(), File::open(&file).unwrap(), length);
            let error = match read.as_ref().map(values) {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => error.source.to_string(),
                Err(error) => error.to_string(),
            };
            let shape: String = error.chars().filter(|char| !char.is_ascii_digit()).take(60).collect();
            *errors.entry(shape).or_insert(0) += 1;
        }
    }
    let seen = |part: &str| errors.keys().any(|error| error.contains(part));
    for part in ["the number of another page", "outside of it", "neither a branch nor a leaf", "no revision"] {
        assert!(seen(part), "{part}: {errors:#?}");
    }
}

#[test]
fn tree_with_a_cycle_is_an_error() {
    let mut bytes = real();
    // The root of the tree of keys is the only branch page.
    let page = (0..bytes.len() / 4096).find(|page| bytes[page * 4096 + 8] == 1 && bytes[page * 4096 + 9] == 0).unwrap();
    let at = page * 4096;
    let own = u64::try_from(page).unwrap().to_le_bytes();
    let (first, second) = (at + 16 + 8, at + 16 + 16 + 8);
    bytes[first..first + 8].copy_from_slice(&own);
    let open = |bytes: &[u8]| {
        let file = file(bytes);
        EtcdSnapshot::of_database(file.path(), File::open(&file).unwrap(), (bytes.len() - CHECKSUM) as u64)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(open(&bytes), format!("page {page} is damaged: it is in the tree more than once"));
    // Two references to the same page.
    let mut bytes = real();
    let child: Vec<u8> = bytes[first..first + 8].to_vec();
    bytes[second..second + 8].copy_from_slice(&child);
    assert!(open(&bytes).ends_with("its keys are not in order"));
}
