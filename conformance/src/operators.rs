//! Comparison of both servers with CRDs of widely used operators: creation, discovery, OpenAPI, and requests about
//! objects generated from the schemas.
//!
//! The CRDs are read from the folder in [`CRDS`], with a subfolder per operator. All CRDs of an operator are created on
//! both servers. The comparison covers the stored CRDs, discovery, OpenAPI, and responses about valid and invalid
//! objects, which are generated from a seed ([`generate`], [`violation`]). A difference counts if the real server repeats
//! its response.
//!
//! Causes of several fields are sorted by text, because the real server iterates over Go maps.
//!
//! Not guaranteed: an object that matches the structure of its schema is valid. CEL rules may reject it, on both
//! servers.

mod definition;
mod documents;
mod generate;
mod imported;
mod violation;
mod object_scenario;
mod text;

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
};

use futures::{StreamExt, stream};
use serde_json::Value;

pub use self::imported::{Imports, imported};
use self::{definition::Definition, documents::Documents};
use crate::{Target, case::Case, client_for, known, play::play, recording};

/// The environment variable with the folder of CRDs.
pub const CRDS: &str = "WINDLASS_CRDS";

/// The number of concurrent scenarios.
const AT_ONCE: usize = 6;

/// The options of a comparison.
#[derive(Clone, Debug)]
pub struct Operators {
    /// The folder of CRDs.
    pub folder: PathBuf,
    /// The seed of the objects.
    pub seed: u64,
    /// The number of valid objects per version, and of invalid variants of each.
    pub objects: usize,
    /// Selects the operators whose folder name contains this text.
    pub only: String,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Compared {
    /// The number of CRDs that both servers established.
    pub definitions: usize,
    /// The number of equal discovery and OpenAPI documents.
    pub documents: usize,
    /// The number of generated objects, valid and invalid.
    pub objects: usize,
    /// The number of objects that the real server accepted on creation.
    pub accepted: usize,
    /// The number of compared responses.
    pub answers: usize,
    /// The number of scenarios with an unstable response of the real server.
    pub unsteady: usize,
    /// The number of scenarios with a difference that `DIFFERENCES.md` lists for the CRD.
    pub known: usize,
    /// The differences: the requests and the differing lines. Similar differences are reported once.
    pub differences: Vec<String>,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { definitions, documents, objects, accepted, answers, unsteady, known, differences } = self;
        let told = differences.len();
        write!(
            f,
            "{definitions} definitions, {documents} documents the same; {objects} objects ({accepted} scenarios begin with one that \
             was accepted), {answers} answers compared; {told} differences, {known} scenarios with listed ones, {unsteady} to which the real server gave two answers"
        )
    }
}

/// Compares the embedded server with the real one, and reports differences immediately.
///
/// # Panics
///
/// If the environment names no real server, or the folder cannot be read.
pub async fn operators(what: &Operators, mut tell: impl FnMut(&str)) -> Compared {
    let upstream = Target::upstream().expect("the environment names the real server");
    let both = Both { embedded: Target::embedded().await, upstream };
    let mut compared = Compared::default();
    let mut known = BTreeSet::new();
    for (name, texts) in read(what) {
        let mut told = |difference: String| {
            if known.insert(signature(&difference)) {
                tell(&format!("=== {name}\n{difference}"));
                compared.differences.push(difference);
            }
        };
        let definitions = both.establish(&texts, &mut told).await;
        let documents = Documents::of(&definitions);
        let (same, differences) = documents.compare(&both).await;
        differences.into_iter().for_each(&mut told);
        compared.documents += same;
        compared.definitions += definitions.len();
        let versions = definitions
            .iter()
            .flat_map(|definition| definition.versions.iter().map(move |version| (definition, version)));
        let scenarios =
            versions.flat_map(|(definition, version)| object_scenario::scenarios(definition, version, what));
        let played = stream::iter(scenarios).map(async |scenario| {
            let outcome = both.play(&scenario.case).await;
            (scenario, outcome)
        });
        let mut played = std::pin::pin!(played.buffered(AT_ONCE));
        while let Some((scenario, outcome)) = played.next().await {
            compared.objects += scenario.objects;
            compared.answers += scenario.case.steps.len();
            compared.accepted += usize::from(outcome.accepted);
            compared.unsteady += usize::from(outcome.unsteady);
            if let Some(difference) = outcome.difference {
                if known::is_listed_for(&scenario.definition, &difference) {
                    compared.known += 1;
                    continue;
                }
                let told = scenario.told();
                if known.insert(signature(&difference)) {
                    let difference = format!("{told}\n{difference}");
                    tell(&format!("=== {name}\n{difference}"));
                    compared.differences.push(difference);
                }
            }
        }
        both.remove(&definitions).await;
    }
    both.embedded.stop().await;
    compared
}

/// The result of the embedded server for the CRDs.
#[derive(Debug, Default)]
pub struct Established {
    /// The number of established CRDs with published schemas.
    pub definitions: usize,
    /// The responses to rejected CRDs.
    pub refused: Vec<String>,
}

/// Creates the CRDs on the embedded server.
///
/// # Panics
///
/// If the folder cannot be read.
pub async fn established(what: &Operators) -> Established {
    let target = Target::embedded().await;
    let mut found = Established::default();
    for (_, texts) in read(what) {
        for (text, name) in texts.iter().filter_map(|text| Some((text, definition::name(text)?))) {
            let answers = answers(&target, &definition::creation(&name, text)).await;
            match answers.last.as_ref().and_then(Definition::read) {
                Some(definition) if documents::are_published(&target.client, &definition).await => {
                    found.definitions += 1;
                }
                _ => found.refused.push(answers.text),
            }
        }
    }
    target.stop().await;
    found
}

/// Returns the operators by name, each with the texts of its CRDs.
fn read(what: &Operators) -> Vec<(String, Vec<String>)> {
    let name = |folder: &PathBuf| folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folders = listed(&what.folder).into_iter().filter(|path| path.is_dir() && name(path).contains(&what.only));
    let texts = |folder: &PathBuf| {
        let files = listed(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "yaml"));
        let texts =
            files.map(|file| fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
        texts.flat_map(|text| definition::documents(&text)).collect()
    };
    folders.map(|folder| (name(&folder), texts(&folder))).collect()
}

/// Returns the entries of a folder, sorted by name.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The two servers.
struct Both {
    embedded: Target,
    upstream: Target,
}

/// `true` if the real server accepted the first object.
struct Outcome {
    /// Reports whether the real server accepted the first object.
    accepted: bool,
    unsteady: bool,
    difference: Option<String>,
}

impl Both {
    /// Creates CRDs, and returns the established ones as the real server stores them.
    async fn establish(&self, texts: &[String], tell: &mut impl FnMut(String)) -> Vec<Definition> {
        let mut definitions = Vec::new();
        let found = texts.iter().filter_map(|text| Some((text, definition::name(text)?)));
        let found: Vec<_> = found.collect();
        // An interrupted run may have left CRDs.
        for (_, name) in &found {
            play(&self.upstream.client, &definition::removal(name)).await;
        }
        let established = stream::iter(&found).map(async |(text, name)| {
            let case = definition::creation(name, text);
            let (embedded, upstream) = futures::join!(answers(&self.embedded, &case), answers(&self.upstream, &case));
            (name, embedded, upstream)
        });
        let mut established = std::pin::pin!(established.buffered(AT_ONCE));
        while let Some((name, embedded, upstream)) = established.next().await {
            if embedded.text != upstream.text {
                tell(format!("{name}\n{}", recording::difference(&upstream.text, &embedded.text)));
            }
            definitions.extend(upstream.last.as_ref().and_then(Definition::read));
        }
        definitions
    }

    async fn remove(&self, definitions: &[Definition]) {
        let removed = definitions.iter().map(async |definition| {
            let case = definition::removal(&definition.name);
            futures::join!(play(&self.embedded.client, &case), play(&self.upstream.client, &case));
        });
        futures::future::join_all(removed).await;
    }

    async fn play(&self, case: &Case) -> Outcome {
        let (embedded, upstream) = futures::join!(answers(&self.embedded, case), answers(&self.upstream, case));
        let same = embedded.text == upstream.text;
        let unsteady = !same && answers(&self.upstream, case).await.text != upstream.text;
        let told = || recording::difference(&upstream.text, &embedded.text);
        Outcome { accepted: upstream.accepted, unsteady, difference: (!same && !unsteady).then(told) }
    }
}

/// The responses of a server to a case.
struct Answers {
    text: String,
    accepted: bool,
    last: Option<Value>,
}

async fn answers(target: &Target, case: &Case) -> Answers {
    let client = client_for(target.config.clone()).with_retries(0).without_compression();
    let mut transcript = play(&client, case).await;
    transcript.answers.iter_mut().for_each(|answer| answer.seen.in_order_of_texts());
    let accepted = transcript.answers.first().is_some_and(|answer| answer.seen.is_success());
    let last = transcript.answers.last().and_then(|answer| answer.seen.value());
    Answers { text: recording::write(case, &transcript), accepted, last }
}

/// Returns the key to deduplicate differences: the lines without places, values and numbers.
fn signature(difference: &str) -> String {
    let lines =
        difference.lines().map(str::trim_start).filter(|line| line.starts_with(['-', '+']) && !line.starts_with("---"));
    let words = |line: &str| {
        let (start, rest) = line.split_once(": Invalid value").unwrap_or((line, ""));
        let kept = if rest.is_empty() { start } else { rest.rsplit("\\\": ").next().unwrap_or(rest) };
        kept.chars().filter(|letter| !letter.is_ascii_digit()).take(80).collect::<String>()
    };
    lines.take(3).map(words).collect::<Vec<_>>().join(" / ")
}
