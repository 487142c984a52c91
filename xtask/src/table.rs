//! Figures of windlass and the other programs, as a Markdown table.

use std::fmt;

use crate::bench_programs::{self, Figures};

/// An entry with a line in a table.
pub(crate) trait TableEntry {
    fn name(&self) -> &'static str;
}

/// A printed figure, or its ratio to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) figure: &'static str,
    /// The divisor of a ratio.
    pub(crate) over: Option<&'static str>,
    pub(crate) heading: &'static str,
    /// The factor from the figure's unit to that of the heading.
    pub(crate) factor: f64,
    pub(crate) digits: usize,
}

pub(crate) const fn figure(figure: &'static str, heading: &'static str, factor: f64, digits: usize) -> Column {
    Column { figure, over: None, heading, factor, digits }
}

pub(crate) const fn ratio(figure: &'static str, over: &'static str, heading: &'static str) -> Column {
    Column { figure, over: Some(over), heading, factor: 1.0, digits: 2 }
}

/// The results, with a line for each contender.
#[derive(Debug)]
pub(crate) struct Table<C> {
    pub(crate) heading: &'static str,
    pub(crate) columns: &'static [Column],
    pub(crate) contenders: Vec<C>,
    /// The figures of each round, by contender.
    rounds: Vec<Vec<Figures>>,
}

impl Column {
    fn of(&self, figures: &Figures) -> Option<f64> {
        let over = self.over.map_or(Some(1.0), |over| figures.get(over).copied())?;
        Some(figures.get(self.figure)? * self.factor / over)
    }
}

impl<C> Table<C> {
    pub(crate) fn new(heading: &'static str, columns: &'static [Column], contenders: impl Into<Vec<C>>) -> Self {
        let contenders = contenders.into();
        Self { heading, columns, rounds: vec![Vec::new(); contenders.len()], contenders }
    }

    /// Adds a round of the contender in this line.
    pub(crate) fn note(&mut self, line: usize, figures: Figures) {
        self.rounds[line].push(figures);
    }

    /// Returns the median of the rounds that have the figure.
    pub(crate) fn median(&self, line: usize, column: &Column) -> Option<f64> {
        bench_programs::median(self.rounds[line].iter().filter_map(|figures| column.of(figures)).collect())
    }
}

/// Prints each figure, with its ratio to the first line if that is meaningful.
impl<C: TableEntry> fmt::Display for Table<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns;
        let headings: Vec<_> = columns.iter().map(|column| column.heading).collect();
        writeln!(f, "### {}\n\n| | {} |", self.heading, headings.join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(headings.len()))?;
        for (line, contender) in self.contenders.iter().enumerate() {
            write!(f, "| {} |", contender.name())?;
            for column in columns {
                let digits = column.digits;
                match (self.median(line, column), self.median(0, column)) {
                    (Some(figure), Some(first)) if line > 0 && first > 0.0 && column.over.is_none() => {
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

/// Formats a ratio with two significant digits.
fn times(ratio: f64) -> String {
    let digits = if ratio < 1.0 { 2 } else { usize::from(ratio < 10.0) };
    format!("{ratio:.digits$}×")
}

#[cfg(test)]
mod tests {
    use super::*;

    impl TableEntry for &'static str {
        fn name(&self) -> &'static str {
            self
        }
    }

    fn round(cpu: f64) -> Figures {
        let figures = [
            ("updates.cpu_us_per_event", cpu),
            ("updates.failed", if cpu > 10.0 { 7.0 } else { 0.0 }),
            ("updates.rss_bytes", 110.0),
            ("informer.rss_bytes", 100.0),
        ];
        figures.map(|(name, figure)| (name.to_owned(), figure)).into()
    }

    #[test]
    fn a_table_has_medians_and_ratios_and_gaps() {
        const COLUMNS: &[Column] = &[
            figure("updates.cpu_us_per_event", "CPU", 1.0, 1),
            figure("updates.events_per_second", "updates/s", 1.0, 0),
            figure("updates.failed", "failed", 1.0, 0),
            ratio("updates.rss_bytes", "informer.rss_bytes", "after"),
        ];
        let mut table = Table::new("Updates", COLUMNS, ["windlass", "nobody", "client-go"]);
        for cpu in [3.0, 1.0, 2.0] {
            table.note(0, round(cpu));
        }
        table.note(2, round(50.0));
        let text = table.to_string();
        let lines: Vec<_> = text.lines().skip(4).collect();
        assert_eq!(lines[0], "| windlass | 2.0 | – | 0 | 1.10 |");
        assert_eq!(lines[1], "| nobody | – | – | – | – |");
        assert_eq!(lines[2], "| client-go | 50.0 (25×) | – | 7 | 1.10 |");
    }
}
