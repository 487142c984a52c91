//! The figures of a part, as a table in Markdown.

use std::{collections::BTreeMap, fmt};

use super::part::Part;
use crate::peers;

/// What one run printed, each figure with the name of its line: `updates.rss_bytes`.
pub(super) type Figures = BTreeMap<String, f64>;

/// A figure, or its ratio to another, as it is printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) figure: &'static str,
    /// What it is divided by.
    pub(super) over: Option<&'static str>,
    pub(super) heading: &'static str,
    /// From the figure's unit to that of the heading.
    pub(super) factor: f64,
    pub(super) digits: usize,
}

pub(super) const PER_OBJECT: Column = figure("informer.rss_bytes_per_object", "KB per object", 1e-3, 2);
pub(super) const CPU: Column = figure("updates.cpu_us_per_event", "CPU per update, µs", 1.0, 1);
const SYNC: Column = figure("informer.sync_seconds", "sync, s", 1.0, 2);
const STEADY: Column = figure("informer.rss_bytes", "RSS, MB", 1e-6, 0);
const PEAK: Column = ratio("informer.peak_rss_bytes", "informer.rss_bytes", "peak ÷ RSS");
const RATE: Column = figure("updates.events_per_second", "updates/s", 1.0, 0);
const AFTER: Column = ratio("updates.rss_bytes", "informer.rss_bytes", "after the updates ÷ RSS");
const UNTRIMMED: Column = ratio("updates.untrimmed_rss_bytes", "informer.rss_bytes", "the same, untrimmed");
const COLD_LOOKUP: Column = figure("reads.cold_lookup_ns", "first look-up by index, ns", 1.0, 0);
const COLD_PER_KEY: Column = figure("reads.cold_lookup_ns_per_key", "and per object, ns", 1.0, 0);
const LOOKUP: Column = figure("reads.lookup_ns", "later ones, ns", 1.0, 0);
const PER_KEY: Column = figure("reads.lookup_ns_per_key", "and per object, ns", 1.0, 0);

pub(super) const ALL: &[Column] = &[SYNC, PER_OBJECT, STEADY, PEAK, CPU, RATE, AFTER, UNTRIMMED];
pub(super) const UPDATES: &[Column] = &[CPU, RATE, AFTER, UNTRIMMED];
pub(super) const READS: &[Column] = &[
    figure("reads.hot_get_ns", "hot get, ns", 1.0, 0),
    figure("reads.cold_get_us", "cold get, µs", 1.0, 1),
    figure("reads.decode_us", "decoding alone, µs", 1.0, 1),
    ratio("reads.cold_get_us", "reads.decode_us", "cold get ÷ decoding"),
    COLD_LOOKUP,
    COLD_PER_KEY,
    LOOKUP,
    PER_KEY,
    figure("reads.reader_p9999_us", "99.99 % of the look-ups by key beside the writer, µs", 1.0, 1),
    figure("reads.reader_longest_us", "the longest, µs", 1.0, 1),
];
pub(super) const MILLION: &[Column] =
    &[SYNC, PER_OBJECT, STEADY, PEAK, CPU, RATE, AFTER, UNTRIMMED, COLD_LOOKUP, COLD_PER_KEY, LOOKUP, PER_KEY];

const fn figure(figure: &'static str, heading: &'static str, factor: f64, digits: usize) -> Column {
    Column { figure, over: None, heading, factor, digits }
}

const fn ratio(figure: &'static str, over: &'static str, heading: &'static str) -> Column {
    Column { figure, over: Some(over), heading, factor: 1.0, digits: 2 }
}

/// A part, and what was measured.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) part: &'static Part,
    /// Per contender, the figures of each round.
    rounds: Vec<Vec<Figures>>,
}

impl Column {
    fn of(&self, figures: &Figures) -> Option<f64> {
        let over = self.over.map_or(Some(1.0), |over| figures.get(over).copied())?;
        Some(figures.get(self.figure)? * self.factor / over)
    }
}

impl Table {
    pub(super) fn new(part: &'static Part) -> Self {
        Self { part, rounds: vec![Vec::new(); part.contenders.len()] }
    }

    /// Adds a round of the contender in this line.
    pub(super) fn note(&mut self, line: usize, figures: Figures) {
        self.rounds[line].push(figures);
    }

    /// The median of the rounds that have the figure.
    pub(super) fn median(&self, line: usize, column: &Column) -> Option<f64> {
        peers::median(self.rounds[line].iter().filter_map(|figures| column.of(figures)).collect())
    }
}

/// Each figure with how many times that of the first line it is, where that says something.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.part.columns;
        let headings: Vec<_> = columns.iter().map(|column| column.heading).collect();
        writeln!(f, "### {}\n\n| | {} |", self.part.heading, headings.join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(headings.len()))?;
        for (line, contender) in self.part.contenders.iter().enumerate() {
            write!(f, "| {} |", contender.name())?;
            for column in columns {
                let digits = column.digits;
                match (self.median(line, column), self.median(0, column)) {
                    (Some(figure), Some(first)) if line > 0 && column.over.is_none() => {
                        write!(f, " {figure:.digits$} ({}) |", times(figure / first))?;
                    }
                    (Some(figure), _) => write!(f, " {figure:.digits$} |")?,
                    (None, _) => write!(f, " – |")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Two digits that count.
fn times(ratio: f64) -> String {
    let digits = if ratio < 1.0 { 2 } else { usize::from(ratio < 10.0) };
    format!("{ratio:.digits$}×")
}

#[cfg(test)]
mod tests {
    use super::{super::part::PARTS, *};

    fn round(cpu: f64) -> Figures {
        let figures = [("updates.cpu_us_per_event", cpu), ("updates.rss_bytes", 110.0), ("informer.rss_bytes", 100.0)];
        figures.map(|(name, figure)| (name.to_owned(), figure)).into()
    }

    #[test]
    fn a_table_has_medians_and_ratios_and_gaps() {
        let decode = PARTS.iter().find(|part| part.name == "decode").unwrap();
        let mut table = Table::new(decode);
        for cpu in [3.0, 1.0, 2.0] {
            table.note(0, round(cpu));
        }
        table.note(2, round(50.0));
        let text = table.to_string();
        let lines: Vec<_> = text.lines().skip(4).collect();
        assert_eq!(lines[0], "| windlass | 2.0 | – | 1.10 | – |");
        assert_eq!(lines[1], "| windlass, all compressed | – | – | – | – |");
        assert_eq!(lines[2], "| client-go, JSON | 50.0 (25×) | – | 1.10 | – |");
    }
}
