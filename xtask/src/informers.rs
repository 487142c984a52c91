//! Informers side by side: `cargo xtask long bench-informer`.
//!
//! Each client follows the same replayed list and watch, in a process of its own, with a server of its own; the clients take
//! turns, round by round, so that a machine that is busy is busy for all of them.

mod columns;
mod contender;
mod part;
mod plot;
mod replay;

use std::{fs, path::Path};

use self::{contender::Programs, part::PARTS, replay::Replay};
use crate::{
    Result,
    table::{Contending as _, Table},
    upstream::root,
};

/// What is measured, and how often.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// Only this part of it, and no plot; may be given more than once
    #[arg(long, value_name = "PART", value_parser = clap::builder::PossibleValuesParser::new(PARTS.iter().map(|part| part.name)))]
    only: Vec<String>,
    /// How often each client has its turn; the figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Builds all, runs all, prints a table for each part and draws the plot. `bench` is the built `windlass-bench`.
///
/// A run that fails leaves a gap in its table, and is named in the error at the end.
pub(crate) fn run(bench: &Path, options: &Options) -> Result {
    let programs = Programs::build(bench)?;
    let chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let (mut tables, mut failures) = (Vec::new(), Vec::new());
    for part in PARTS.iter().filter(|part| chosen(part.name)) {
        let mut table = Table::new(part.heading, part.columns, part.contenders);
        for round in 1..=options.rounds.min(part.rounds) {
            for (line, contender) in part.contenders.iter().enumerate() {
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
    if options.only.is_empty() {
        fs::write(root().join("bench/informers.svg"), plot::draw(&tables))?;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}
