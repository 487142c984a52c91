//! The plot: a bar for each client in each part, drawn as SVG.

use std::fmt::Write as _;

use super::{
    columns::{CPU, PER_OBJECT},
    contender::Contender,
};
use crate::table::{Column, Table, TableEntry as _};

/// The width of the names at the left of the bars.
const NAMES: f64 = 190.0;
const BARS: f64 = 520.0;
const LINE: f64 = 16.0;
const WIDTH: f64 = NAMES + BARS + 90.0;

/// The bars of one column for all parts, on one scale.
struct Panel<'a> {
    column: &'a Column,
    tables: Vec<&'a Table<Contender>>,
}

/// Draws memory and CPU time of the parts that have them.
pub(super) fn draw(tables: &[Table<Contender>]) -> String {
    let panels = [&PER_OBJECT, &CPU].map(|column| {
        let shows = |table: &&Table<Contender>| {
            table.contenders.len() > 2 && table.columns.iter().any(|shown| shown.figure == column.figure)
        };
        Panel { column, tables: tables.iter().filter(shows).collect() }
    });
    let height: f64 = panels.iter().map(Panel::height).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut top = 0.0;
    for panel in &panels {
        panel.draw(&mut svg, top);
        top += panel.height();
    }
    svg.push_str("</svg>\n");
    svg
}

impl Panel<'_> {
    fn height(&self) -> f64 {
        let lines: usize = self.tables.iter().map(|table| table.contenders.len() + 2).sum();
        #[expect(clippy::cast_precision_loss, reason = "tens")]
        let lines = (lines + 2) as f64;
        lines * LINE
    }

    fn draw(&self, svg: &mut String, top: f64) {
        let lines = self.tables.iter().flat_map(|table| (0..table.contenders.len()).map(move |line| (table, line)));
        let most = lines.filter_map(|(table, line)| table.median(line, self.column)).fold(f64::MIN_POSITIVE, f64::max);
        let mut y = top + 1.5 * LINE;
        text(svg, 8.0, y, "font-size=\"14\" font-weight=\"bold\"", self.column.heading);
        for table in &self.tables {
            y += 1.5 * LINE;
            text(svg, 8.0, y, "font-weight=\"bold\"", table.heading);
            for (line, contender) in table.contenders.iter().enumerate() {
                y += LINE;
                text(svg, 16.0, y, "", contender.name());
                let Some(figure) = table.median(line, self.column) else { continue };
                let width = (figure / most * BARS).max(1.0);
                // Writing to a `String` cannot fail.
                let _ = writeln!(
                    svg,
                    "<rect x=\"{NAMES}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\"/>",
                    y - LINE * 0.7,
                    LINE * 0.8,
                    color(*contender)
                );
                let label = format!("{figure:.*}", self.column.digits);
                text(svg, NAMES + width + 5.0, y, "", &label);
            }
            y += 0.5 * LINE;
        }
    }
}

fn color(contender: Contender) -> &'static str {
    match contender {
        Contender::Windlass => "#1b6ca8",
        Contender::Protobuf => "#4a90c2",
        Contender::Compressed => "#7fb3d5",
        Contender::CompressedProtobuf => "#a9cce3",
        Contender::ClientGo => "#c0792a",
        Contender::ClientGoProtobuf => "#e0b884",
        Contender::KubeRs => "#7d7d7d",
    }
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, text: &str) {
    // The headings and names need no escapes.
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" {style}>{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::{super::part::PARTS, *};

    #[test]
    fn bars_are_scaled_to_the_longest() {
        let part = &PARTS[0];
        let mut table = Table::new(part.heading, part.columns, part.contenders);
        let round = |cpu: f64| [("updates.cpu_us_per_event".to_owned(), cpu)].into();
        table.note(0, round(5.0));
        table.note(2, round(100.0));
        let svg = draw(&[table]);
        assert!(svg.contains("width=\"520.0\"") && svg.contains("width=\"26.0\""), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3, "the background and two bars: {svg}");
    }
}
