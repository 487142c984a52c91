//! Comparison of responses with the recordings, for windlass-server, and for the real server if available.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    path::PathBuf,
};

use futures::{StreamExt, stream};

use crate::{
    Target,
    case::{self, Case},
    client_for, matrix,
    play::play,
    recording::{self, file},
    tests_embedded,
};

/// The environment variable that makes the suite record the real server's responses instead of comparing.
pub const RECORD: &str = "WINDLASS_RECORD";

/// The environment variable that is set if the second server is Windlass, too, whose listed differences are then expected.
const IS_WINDLASS: &str = "WINDLASS_UPSTREAM_IS_WINDLASS";

/// A parser of case files.
type Reader = fn(&str) -> Result<Vec<Case>, String>;

/// The folders of cases: literal ones, and templates for every kind.
const SOURCES: [(&str, Reader); 2] = [("cases", case::parse), ("matrix", matrix::cases)];

/// The number of concurrent cases.
const AT_ONCE: usize = 4;

/// The number of attempts with the real server, because iteration over Go maps makes some responses random.
pub(crate) const CHANCES: usize = 5;

/// Compares the servers with the recorded responses to one file of `cases/`.
///
/// # Panics
///
/// If windlass-server differs and `DIFFERENCES.md` does not list the case, or lists it although it does not differ. If
/// the real server differs in every attempt.
pub async fn assert_recorded(file: &str) {
    let cases = cases(file);
    let upstream = Target::upstream();
    if env::var_os(RECORD).is_some() {
        let upstream = upstream.expect("only the real server can be recorded");
        record(file, &cases, &answers(&upstream, &cases).await);
        return;
    }
    let path = recorded(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; record it first", path.display()));
    let expected = file::read(&text);
    let mut report = String::new();
    let known: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    for name in expected.keys().filter(|name| !known.contains(name)) {
        let _ = writeln!(report, "{file}/{name}: recorded, but no case any more");
    }

    let listed = differences();
    if tests_embedded() {
        report.push_str(&embedded_report(file, &cases, &expected, &listed).await);
    }
    if let Some(upstream) = upstream {
        let mut drifted = differing(&expected, answers(&upstream, &cases).await);
        for _ in 1..CHANCES {
            let again = cases.iter().filter(|case| drifted.contains_key(&case.name));
            drifted = differing(&expected, answers(&upstream, again).await);
        }
        if env::var_os(IS_WINDLASS).is_some() {
            drifted.retain(|name, _| !listed.contains_key(&format!("{file}/{name}")));
        }
        for (name, difference) in drifted {
            let _ = writeln!(report, "{file}/{name}: the real server (+) drifted from its recording (-)\n{difference}");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// Compares windlass-server with the recorded responses. Reports the unexpected differences, and the listed ones that do
/// not exist.
async fn embedded_report(
    file: &str,
    cases: &[Case],
    expected: &BTreeMap<String, String>,
    listed: &BTreeMap<String, String>,
) -> String {
    let mut report = String::new();
    let embedded = Target::embedded().await;
    for (name, seen) in answers(&embedded, cases).await {
        let name_in_all = format!("{file}/{name}");
        let reason = listed.get(&*name_in_all);
        let difference = compare(expected, &name, &seen);
        match (difference, reason) {
            (Some(difference), None) => {
                let _ =
                    writeln!(report, "{name_in_all}: windlass-server (+) differs from the recording (-)\n{difference}");
            }
            (None, Some(_)) => {
                let _ = writeln!(report, "{name_in_all}: no difference any more: take it off DIFFERENCES.md");
            }
            (Some(difference), Some(reason)) => println!("{name_in_all}: differs, as listed: {reason}\n{difference}"),
            (None, None) => {}
        }
    }
    embedded.stop().await;
    report
}

/// Returns the names of all cases in these files, as in `DIFFERENCES.md`.
#[must_use]
pub fn names(files: &[&str]) -> Vec<String> {
    let named = |file: &&str| cases(file).into_iter().map(|case| format!("{file}/{}", case.name)).collect::<Vec<_>>();
    files.iter().flat_map(named).collect()
}

/// Returns the names of the files of cases and templates, without extension.
#[must_use]
pub fn files() -> Vec<String> {
    let entries =
        SOURCES.iter().flat_map(|(folder, _)| fs::read_dir(root().join(folder)).expect("it is beside the suite"));
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".txt").map(str::to_owned)).collect();
    names.sort();
    names
}

/// Returns the cases and reasons of `DIFFERENCES.md`.
///
/// # Panics
///
/// If a line of the list cannot be parsed, or names a case twice.
#[must_use]
pub fn differences() -> BTreeMap<String, String> {
    let path = root().join("DIFFERENCES.md");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut listed = BTreeMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("- `") else { continue };
        let (name, reason) = rest.split_once("`: ").unwrap_or_else(|| panic!("no reason in DIFFERENCES.md: {line}"));
        let before = listed.insert(name.to_owned(), reason.to_owned());
        assert!(before.is_none(), "DIFFERENCES.md lists {name} twice");
    }
    listed
}

/// Returns the responses by case, in the order of the cases.
pub(crate) async fn answers(target: &Target, cases: impl IntoIterator<Item = &Case>) -> Vec<(String, String)> {
    let answers = stream::iter(cases).map(async |case| {
        // One connection per case: the real server closes a connection after it rejected a large body. Retries and
        // compression would hide the raw responses.
        let client = client_for(target.config.clone()).with_retries(0).without_compression();
        let transcript = play(&client, case).await;
        (case.name.clone(), recording::write(case, &transcript))
    });
    answers.buffered(AT_ONCE).collect().await
}

/// Returns the names of the responses that differ from the recording, and the differences.
fn differing(expected: &BTreeMap<String, String>, answers: Vec<(String, String)>) -> BTreeMap<String, String> {
    let compared = answers.into_iter().map(|(name, seen)| (compare(expected, &name, &seen), name));
    compared.filter_map(|(difference, name)| Some((name, difference?))).collect()
}

fn compare(expected: &BTreeMap<String, String>, name: &str, seen: &str) -> Option<String> {
    match expected.get(name) {
        Some(recorded) if recorded == seen => None,
        Some(recorded) => Some(recording::difference(recorded, seen)),
        None => Some("    it is not recorded yet: cargo xtask conformance --record\n".to_owned()),
    }
}

fn record(file: &str, cases: &[Case], answers: &[(String, String)]) {
    let mut text =
        "# Written by `cargo xtask conformance --record` from a real kube-apiserver; do not edit.\n".to_owned();
    let unanswered = answers.iter().filter(|(_, seen)| seen.contains("\nno answer: "));
    let unanswered: Vec<_> = unanswered.map(|(name, seen)| format!("{file}/{name}:\n{seen}")).collect();
    assert!(unanswered.is_empty(), "these cannot be recorded:\n{}", unanswered.join("\n"));
    text.push_str(&file::write(answers));
    assert_eq!(cases.len(), answers.len(), "each case is answered");
    fs::write(recorded(file), text).expect("the recordings can be written");
}

pub(crate) fn cases(file: &str) -> Vec<Case> {
    let path_in = |folder: &str| root().join(folder).join(file).with_extension("txt");
    let source = SOURCES.iter().map(|(folder, read)| (path_in(folder), read)).find(|(path, _)| path.exists());
    let (path, read) = source.unwrap_or_else(|| panic!("no folder has cases called {file}"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    read(&text).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

fn recorded(file: &str) -> PathBuf {
    root().join("recorded").join(file).with_extension("txt")
}

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
