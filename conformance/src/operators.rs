//! What widely used operators define, on both servers: their CustomResourceDefinitions are created, published and explained
//! alike, and objects made from their schemas get the same answers.
//!
//! The definitions are read from the folder that [`CRDS`] names, one folder in it for each operator. All of an operator are
//! created on both servers; then what was stored, discovery and OpenAPI are compared, and the answers to requests about
//! objects, valid and broken ones, which are made from a seed ([`generate`], [`spoil`]). A difference between
//! answers counts when the real server gives its answer twice.
//!
//! Complaints about several places come in no order, since the real server walks through Go's maps: here they come in that of
//! their texts.
//!
//! Not guaranteed: that an object which the structure of its schema admits is valid; rules may refuse it, on both servers alike.

mod definition;
mod documents;
mod generate;
mod imported;
mod spoil;
mod story;
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

/// The environment variable that names the folder of definitions.
pub const CRDS: &str = "WINDLASS_CRDS";

/// Stories that are played at once.
const AT_ONCE: usize = 6;

/// How the objects are made.
#[derive(Clone, Debug)]
pub struct Operators {
    /// The folder of definitions.
    pub folder: PathBuf,
    /// What the objects are made from.
    pub seed: u64,
    /// How many valid objects, and how many broken ones of each, are made for each version.
    pub objects: usize,
    /// Only the operators whose folder's name contains this.
    pub only: String,
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Compared {
    /// Definitions that both servers established.
    pub definitions: usize,
    /// Documents of discovery and OpenAPI that were the same.
    pub documents: usize,
    /// Objects that were made, valid ones and broken ones.
    pub objects: usize,
    /// Those of them that the real server took when they were first sent.
    pub accepted: usize,
    /// Answers that were compared.
    pub answers: usize,
    /// Stories to which the real server gave two answers.
    pub unsteady: usize,
    /// Stories with a difference that `DIFFERENCES.md` lists for the definition.
    pub known: usize,
    /// The differences: what was asked, and in which lines the answers differ. Those that look alike are told once.
    pub differences: Vec<String>,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { definitions, documents, objects, accepted, answers, unsteady, known, differences } = self;
        let told = differences.len();
        write!(
            f,
            "{definitions} definitions, {documents} documents the same; {objects} objects ({accepted} stories begin with one that \
             was accepted), {answers} answers compared; {told} differences, {known} stories with listed ones, {unsteady} to which the real server gave two answers"
        )
    }
}

/// Compares the embedded server with the real one, and tells differences as they are found.
///
/// # Panics
/// When the environment names no real server, or the folder cannot be read.
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
        let stories = versions.flat_map(|(definition, version)| story::stories(definition, version, what));
        let played = stream::iter(stories).map(async |story| {
            let outcome = both.play(&story.case).await;
            (story, outcome)
        });
        let mut played = std::pin::pin!(played.buffered(AT_ONCE));
        while let Some((story, outcome)) = played.next().await {
            compared.objects += story.objects;
            compared.answers += story.case.steps.len();
            compared.accepted += usize::from(outcome.accepted);
            compared.unsteady += usize::from(outcome.unsteady);
            if let Some(difference) = outcome.difference {
                if known::is_listed_for(&story.definition, &difference) {
                    compared.known += 1;
                    continue;
                }
                let told = story.told();
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

/// What the embedded server alone makes of the definitions.
#[derive(Debug, Default)]
pub struct Established {
    /// Those that are established, and whose schemas are published.
    pub definitions: usize,
    /// What was answered to the others.
    pub refused: Vec<String>,
}

/// Creates the definitions on the embedded server.
///
/// # Panics
/// When the folder cannot be read.
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

/// The operators by name, each with the texts of its definitions.
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

/// What is in a folder, by name.
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

/// What came of a case.
struct Outcome {
    /// Whether the real server took the first object.
    accepted: bool,
    unsteady: bool,
    difference: Option<String>,
}

impl Both {
    /// Creates definitions, and gives those that are established as the real server shows them.
    async fn establish(&self, texts: &[String], tell: &mut impl FnMut(String)) -> Vec<Definition> {
        let mut definitions = Vec::new();
        let found = texts.iter().filter_map(|text| Some((text, definition::name(text)?)));
        let found: Vec<_> = found.collect();
        // What an interrupted run may have left.
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

/// How a server answered a case.
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

/// What differences have in common that are told once: the lines without places, values and numbers.
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
