//! Differential fuzzing: sends the same random requests to both servers and compares the responses.
//!
//! A [`Sequence`] depends only on a seed and a number, so every finding is reproducible. It is converted to a case in
//! the format of `cases/`, played, normalized and compared. A difference counts if the real server repeats its
//! response. It is minimized and printed as a case.
//!
//! Not guaranteed: two runs with the same seed find the same differences. The number of sequences depends on the run
//! time.

mod decisions;
mod minimize;
mod mutate;
mod schema;
mod sequence;

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use tokio::time::Instant;

pub use self::decisions::{Decisions, decisions};
use self::sequence::{Maker, Sequence};
use crate::{Target, case, case::Case, client_for, known, play::play, recording};

/// The number of concurrent sequences.
const AT_ONCE: usize = 6;
/// The number of sequences per embedded server, which limits its memory usage.
const GENERATION: u64 = 2000;

/// The number of requests to confirm a response of the real server, whose map iterations in Go have a random order.
const REPEATS: usize = 5;

/// Words in causes that depend in the real server on whether the client sent an empty value. The embedded server does
/// not distinguish these.
const ALIKE: [(&str, &str); 4] = [
    ("Invalid value: {}:", "Invalid value: null:"),
    ("Invalid value: []:", "Invalid value: null:"),
    ("Unsupported value: {}:", "Unsupported value: null:"),
    ("\"rows\": []", "\"rows\": null"),
];

/// The result of a run.
#[derive(Debug, Default)]
pub struct Findings {
    /// The number of played sequences.
    pub sequences: u64,
    /// The number of their requests.
    pub requests: u64,
    /// The number of sequences with an unstable response of the real server.
    pub unsteady: u64,
    /// The number of sequences with a known difference.
    pub known: u64,
    /// The differences: each with its case and the differing lines.
    pub differences: Vec<String>,
}

/// Plays the sequences of a seed with the embedded and the real server for this time, and reports differences
/// immediately.
///
/// # Panics
///
/// If the environment names no real server.
pub async fn differential(seed: u64, length: Duration, mut tell: impl FnMut(&str)) -> Findings {
    let upstream = Target::upstream().expect("the environment names the real server");
    let mut run = Run { maker: Maker::new(seed), known: BTreeSet::new(), findings: Findings::default() };
    let end = Instant::now() + length;
    while Instant::now() < end {
        let both = Both { embedded: Target::embedded().await, upstream: &upstream };
        run.generation(&both, end, &mut tell).await;
        both.embedded.stop().await;
    }
    run.findings
}

/// The sequences of one seed.
struct Run {
    maker: Maker,
    /// The signatures of the reported differences.
    known: BTreeSet<String>,
    findings: Findings,
}

impl Run {
    /// Plays the sequences of one generation.
    async fn generation(&mut self, both: &Both<'_>, end: Instant, tell: &mut impl FnMut(&str)) {
        let first = self.findings.sequences;
        let numbers = stream::iter(first..first + GENERATION);
        let maker = &self.maker;
        let played = numbers.take_while(|_| std::future::ready(Instant::now() < end)).map(async |number| {
            let sequence = maker.sequence(number);
            let difference = both.difference(&sequence.case()).await;
            (number, sequence, difference)
        });
        let mut played = std::pin::pin!(played.buffered(AT_ONCE));
        while let Some((number, sequence, difference)) = played.next().await {
            self.findings.sequences += 1;
            self.findings.requests += sequence.steps.len() as u64;
            let Some(difference) = difference else { continue };
            if is_known(&sequence, &difference) || !both.differs_without_empties(&sequence).await {
                self.findings.known += 1;
                continue;
            }
            if !self.known.insert(signature(&sequence, &difference)) {
                continue;
            }
            match both.smallest(sequence).await {
                None => self.findings.unsteady += 1,
                Some((sequence, difference)) => {
                    // Another sequence may be minimized to the same one.
                    self.known.insert(signature(&sequence, &difference));
                    let told = format!("=== seed-{}-{number}\n{}{difference}", maker.seed(), sequence.text());
                    tell(&told);
                    self.findings.differences.push(told);
                }
            }
        }
    }
}

/// The two servers.
struct Both<'a> {
    embedded: Target,
    upstream: &'a Target,
}

impl Both<'_> {
    /// Returns the differing lines of the responses to a case.
    async fn difference(&self, case: &Case) -> Option<String> {
        let (embedded, upstream) = futures::join!(answers(&self.embedded, case), answers(self.upstream, case));
        (embedded != upstream && ordered(&embedded) != ordered(&upstream))
            .then(|| recording::difference(&upstream, &embedded))
    }

    /// Reports whether the servers still differ without empty values in the bodies. The real server sometimes
    /// distinguishes empty from absent lists during a request, and stores both in the same form. The embedded server
    /// never distinguishes them.
    async fn differs_without_empties(&self, sequence: &Sequence) -> bool {
        match sequence.without_empties() {
            Some(plain) => self.difference(&plain.case()).await.is_some(),
            None => true,
        }
    }

    /// Returns the smallest sequence with a difference, and the difference. Returns `None` if the real server's
    /// response is unstable.
    async fn smallest(&self, sequence: Sequence) -> Option<(Sequence, String)> {
        let case = sequence.case();
        let answer = answers(self.upstream, &case).await;
        for _ in 0..REPEATS {
            if answers(self.upstream, &case).await != answer {
                return None;
            }
        }
        let shows = async |sequence: &Sequence| {
            let difference = self.difference(&sequence.case()).await;
            difference.is_some_and(|difference| !is_known(sequence, &difference))
                && self.differs_without_empties(sequence).await
        };
        let small = minimize::minimize(sequence, shows).await;
        let difference = self.difference(&small.case()).await?;
        Some((small, difference))
    }
}

async fn answers(target: &Target, case: &Case) -> String {
    let client = client_for(target.config.clone()).with_retries(0).without_compression();
    let text = recording::write(case, &play(&client, case).await);
    ALIKE.iter().fold(text, |text, (one, other)| text.replace(one, other))
}

/// Sorts the causes in responses, because each kind of the real server validates metadata at a different time.
fn ordered(answers: &str) -> Vec<&str> {
    const COMPLAINTS: &str = "is invalid: [";
    if !answers.contains(COMPLAINTS) {
        return vec![answers];
    }
    let parts = answers.lines().flat_map(|line| match line.split_once(COMPLAINTS) {
        Some((_, complaints)) => complaints.split(", ").collect(),
        None => vec![line],
    });
    let mut parts: Vec<&str> = parts.map(|part| part.trim().trim_end_matches([',', ']', '"'])).collect();
    parts.sort_unstable();
    parts
}

/// Reports whether the difference is known.
fn is_known(sequence: &Sequence, difference: &str) -> bool {
    known::is_passed_over(&sequence.kind, difference) || shows_go(difference)
}

/// Reports whether the real server prints a value with the names of Go's internal struct.
fn shows_go(difference: &str) -> bool {
    let marks = ["Invalid value: {\\\"", "Invalid value: [{\\\""];
    let mut shown = marks.into_iter().flat_map(|mark| difference.split(mark).skip(1));
    shown.any(|value| value.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

/// Returns the key to deduplicate differences: the kind, the request, and the lines without their values.
fn signature(sequence: &Sequence, difference: &str) -> String {
    let lines = difference.lines().map(|line| line.trim_start().split(": Invalid value").next().unwrap_or(line));
    let words = |line: &str| line.chars().filter(|letter| !letter.is_ascii_digit()).take(120).collect::<String>();
    let lines = lines.filter(|line| !line.starts_with("---")).take(3).map(words).collect::<Vec<_>>();
    format!("{} {}", sequence.kind, lines.join(" / "))
}

impl Sequence {
    /// Converts the sequence to a case.
    fn case(&self) -> Case {
        let text = format!("=== found\n{}", self.text());
        let mut cases = case::parse(&text).unwrap_or_else(|problem| panic!("{problem}: {text}"));
        cases.remove(0)
    }
}
