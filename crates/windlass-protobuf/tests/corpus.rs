//! Objects of all kinds, encoded and decoded by Go: `cargo xtask protobuf` writes them. `cargo xtask long protobuf` runs
//! these tests with more objects and with all versions of Kubernetes.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{collections::BTreeSet, fs::File, io::Read};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::GzDecoder;
use serde_json::Value;
use windlass_protobuf::{kinds, to_json_for, to_protobuf_for, type_of};

/// The path of another corpus.
const PATH: &str = "WINDLASS_PROTOBUF_CORPUS";

/// The first minor version whose JSON is compared byte by byte. Older versions write more null members, and removed fields
/// in other places.
const FULL_MINOR: u32 = 36;

/// An object and its conversions.
struct Case {
    json: String,
    protobuf: Vec<u8>,
    /// The JSON of the decoded protobuf.
    decoded: String,
}

/// Returns the minor version of Kubernetes that wrote the corpus, and the objects.
fn corpus() -> (u32, Vec<Case>) {
    let path = std::env::var(PATH).unwrap_or_else(|_| "testdata/corpus.txt.gz".to_owned());
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let case = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        Case {
            json: columns[0].to_owned(),
            protobuf: BASE64_STANDARD.decode(columns[1]).unwrap(),
            decoded: columns.get(2).unwrap_or(&columns[0]).to_string(),
        }
    };
    let (minor, lines) = text.split_once('\n').unwrap();
    (minor.parse().unwrap(), lines.lines().map(case).collect())
}

/// Returns the texts around the first difference.
fn difference(one: &[u8], other: &[u8]) -> String {
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let around = |bytes: &[u8]| {
        let part = &bytes[at.saturating_sub(60)..(at + 40).min(bytes.len())];
        part.escape_ascii().to_string()
    };
    format!("at byte {at}\n    {}\n    {}", around(one), around(other))
}

fn report(failures: &[String], cases: usize) {
    let first = failures.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {cases} cases:\n{first}", failures.len());
}

#[test]
fn json_is_encoded_as_by_go() {
    let (minor, cases) = corpus();
    let mut failures = Vec::new();
    for case in &cases {
        let (_, kind) = type_of(&case.protobuf).unwrap();
        match to_protobuf_for(case.json.as_bytes(), minor) {
            Ok(protobuf) if protobuf == case.protobuf => {}
            Ok(protobuf) => failures.push(format!("{kind} {}", difference(&protobuf, &case.protobuf))),
            Err(error) => failures.push(format!("{kind}: {error}")),
        }
    }
    report(&failures, cases.len());
}

#[test]
fn protobuf_is_decoded_as_by_go() {
    let (minor, cases) = corpus();
    let mut failures = Vec::new();
    for case in &cases {
        let (_, kind) = type_of(&case.protobuf).unwrap();
        match to_json_for(&case.protobuf, minor) {
            Ok(json) if json == case.decoded.as_bytes() => {}
            Ok(json) if minor < FULL_MINOR && without_null(&json) == without_null(case.decoded.as_bytes()) => {}
            Ok(json) => failures.push(format!("{kind} {}", difference(&json, case.decoded.as_bytes()))),
            Err(error) => failures.push(format!("{kind}: {error}")),
        }
    }
    report(&failures, cases.len());
}

/// Parses JSON and removes members that are null.
fn without_null(json: &[u8]) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(clean),
            Value::Object(members) => {
                members.retain(|_, member| !member.is_null());
                members.values_mut().for_each(clean);
            }
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(json).unwrap();
    clean(&mut value);
    value
}

#[test]
fn corpus_has_every_kind() {
    let (_, cases) = corpus();
    let found: BTreeSet<_> = cases
        .iter()
        .map(|case| type_of(&case.protobuf).unwrap())
        .map(|(version, kind)| (version.into_owned(), kind.into_owned()))
        .collect();
    // Some kinds only exist in other versions of Kubernetes.
    let missing = kinds().filter(|(version, kind)| !found.contains(&((*version).to_owned(), (*kind).to_owned())));
    let missing: Vec<_> = missing.collect();
    assert!(found.len() > 300, "{} kinds", found.len());
    assert!(missing.len() < 60, "{missing:?}");
}
