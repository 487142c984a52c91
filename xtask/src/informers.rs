//! A benchmark of informers: `cargo xtask long bench-informer`.
//!
//! Each client follows the same replayed list and watch in its own process, with its own server. The clients take turns
//! in each round, so other load on the machine affects all of them.

mod columns;
mod contender;
mod part;
mod plot;
mod real;
mod replay;

use std::{
    fs,
    path::{Path, PathBuf},
};

use self::{
    contender::{Contender, Programs},
    part::PARTS,
    replay::Replay,
};
use crate::{
    Result,
    table::{Table, TableEntry as _},
    upstream::root,
};

/// The selected parts and the number of rounds.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// Only this part, without the plot; can be repeated
    #[arg(long, value_name = "PART", value_parser = clap::builder::PossibleValuesParser::new(names()))]
    only: Vec<String>,
    /// Only the informers with protobuf, without the plot
    #[arg(long)]
    only_protobuf: bool,
    #[command(flatten)]
    load: real::Load,
    /// How many rounds to run for each client; the figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The `windlass-bench` to use; by default it is built
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) bench: Option<PathBuf>,
}

impl Options {
    /// Returns those of these informers that are measured.
    fn chosen(&self, contenders: &[Contender]) -> Vec<Contender> {
        contenders.iter().copied().filter(|contender| !self.only_protobuf || contender.uses_protobuf()).collect()
    }
}

/// Returns the names of all parts.
fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|part| part.name).chain([real::FRAMING, real::INFORMERS])
}

/// Builds and runs all programs, prints a table for each part and draws the plot. `bench` is the built
/// `windlass-bench`.
///
/// A failed run leaves a gap in its table and is listed in the error at the end.
pub(crate) fn run(bench: &Path, options: &Options) -> Result {
    let chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let parts: Vec<_> = PARTS.iter().filter(|part| chosen(part.name)).collect();
    let contenders: Vec<_> = parts.iter().flat_map(|part| options.chosen(part.contenders)).collect();
    let programs = Programs::build(bench, &contenders)?;
    let (mut tables, mut failures) = (Vec::new(), Vec::new());
    for part in parts {
        let contenders = options.chosen(part.contenders);
        if contenders.is_empty() {
            continue;
        }
        let mut table = Table::new(part.heading, part.columns, contenders.clone());
        for round in 1..=options.rounds.min(part.rounds) {
            for (line, contender) in contenders.iter().enumerate() {
                eprintln!("{}, round {round}: {}", part.heading, contender.name());
                match contender.measure(part, &programs) {
                    Ok(figures) => table.note(line, figures),
                    Err(error) => failures.push(format!("{}: {}: {error}", part.name, contender.name())),
                }
            }
        }
        println!("\n{table}");
        tables.push(table);
    }
    for (name, run) in [
        (real::FRAMING, (|programs, _| real::compare_framing(programs)) as fn(&Programs, &Options) -> Result),
        (real::INFORMERS, real::run),
    ] {
        if chosen(name)
            && let Err(error) = run(&programs, options)
        {
            failures.push(format!("{name}: {error}"));
        }
    }
    if options.only.is_empty() && !options.only_protobuf {
        fs::write(root().join("bench/informers.svg"), plot::draw(&tables))?;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}
