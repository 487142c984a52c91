//! The same random requests to both servers, until their answers differ.
//!
//! A [`Sequence`] is made from a seed and its number alone, so that what was found can be found again. It becomes a case as
//! they stand in `cases/`, and is played, normalised and compared as those are. A difference counts when the real server
//! gives its answer twice; it is made small, and told as a case to paste into a file.
//!
//! Not guaranteed: that a run finds what another finds with the same seed in another time; how many sequences are played is a
//! matter of the clock.

mod minimise;
mod mutate;
mod schema;
mod sequence;

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use tokio::time::Instant;

use self::sequence::{Maker, Sequence};
use crate::{Target, case, case::Case, client_for, known, play::play, recording};

/// Sequences that are played at once.
const AT_ONCE: usize = 6;
/// After so many sequences the embedded server is a new one, so that what it remembers stays small.
const GENERATION: u64 = 2000;

/// How often the real server is asked again before its answer is taken for one: what it finds in the maps of Go comes in any
/// order.
const REPEATS: usize = 5;

/// What the real server tells apart in complaints, and the embedded one does not: whether what is empty was sent.
const ALIKE: [(&str, &str); 4] = [
    ("Invalid value: {}:", "Invalid value: null:"),
    ("Invalid value: []:", "Invalid value: null:"),
    ("Unsupported value: {}:", "Unsupported value: null:"),
    ("\"rows\": []", "\"rows\": null"),
];

/// What a run found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Sequences that were played.
    pub sequences: u64,
    /// Requests in them.
    pub requests: u64,
    /// Sequences to which the real server gave two answers.
    pub unsteady: u64,
    /// Sequences with a difference that is known.
    pub known: u64,
    /// The differences: each a case, and in which lines the answers differ.
    pub differences: Vec<String>,
}

/// Plays the sequences of a seed for so long against the embedded server and the real one; differences are told as they are
/// found.
///
/// # Panics
/// When the environment names no real server.
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
    /// The signatures of what has been told.
    known: BTreeSet<String>,
    findings: Findings,
}

impl Run {
    /// Plays the next sequences.
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
                    // It may be what another has been made small to.
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
    /// In which lines the answers to a case differ.
    async fn difference(&self, case: &Case) -> Option<String> {
        let (embedded, upstream) = futures::join!(answers(&self.embedded, case), answers(self.upstream, case));
        (embedded != upstream && ordered(&embedded) != ordered(&upstream))
            .then(|| recording::difference(&upstream, &embedded))
    }

    /// Whether a sequence still shows a difference when what is empty in its bodies is not sent. The real server sometimes
    /// tells an empty list from none while it has one in hand, and stores both alike; the embedded one never does.
    async fn differs_without_empties(&self, sequence: &Sequence) -> bool {
        match sequence.without_empties() {
            Some(plain) => self.difference(&plain.case()).await.is_some(),
            None => true,
        }
    }

    /// The smallest sequence with a difference, and that; none when the real server does not stand by its answer.
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
        let small = minimise::minimise(sequence, shows).await;
        let difference = self.difference(&small.case()).await?;
        Some((small, difference))
    }
}

async fn answers(target: &Target, case: &Case) -> String {
    let client = client_for(target.config.clone()).with_retries(0).without_compression();
    let text = recording::write(case, &play(&client, case).await);
    ALIKE.iter().fold(text, |text, (one, other)| text.replace(one, other))
}

/// The complaints of answers in an order of their own: each kind of the real server looks at metadata when it likes.
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

/// Whether it is known that the servers differ so.
fn is_known(sequence: &Sequence, difference: &str) -> bool {
    known::is_passed_over(&sequence.kind, difference) || shows_go(difference)
}

/// Whether the real server shows a value by the names of Go's internal struct, which nobody else knows.
fn shows_go(difference: &str) -> bool {
    let marks = ["Invalid value: {\\\"", "Invalid value: [{\\\""];
    let mut shown = marks.into_iter().flat_map(|mark| difference.split(mark).skip(1));
    shown.any(|value| value.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

/// What differences have in common that are told once: the kind, the request, and the lines without their values.
fn signature(sequence: &Sequence, difference: &str) -> String {
    let lines = difference.lines().map(|line| line.trim_start().split(": Invalid value").next().unwrap_or(line));
    let words = |line: &str| line.chars().filter(|letter| !letter.is_ascii_digit()).take(120).collect::<String>();
    let lines = lines.filter(|line| !line.starts_with("---")).take(3).map(words).collect::<Vec<_>>();
    format!("{} {}", sequence.kind, lines.join(" / "))
}

impl Sequence {
    /// As a case.
    fn case(&self) -> Case {
        let text = format!("=== found\n{}", self.text());
        let mut cases = case::parse(&text).unwrap_or_else(|problem| panic!("{problem}: {text}"));
        cases.remove(0)
    }
}
