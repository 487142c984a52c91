//! Plots as SVG. Colors are classes of the page's style sheet, so that they follow light and dark.

use std::fmt::Write as _;

use super::text::time;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 34.0;

/// The number of colors in the style sheet.
pub(super) const COLORS: usize = 6;

/// A line with its name.
pub(super) struct Line {
    pub(super) name: String,
    /// Times after the start, with values.
    pub(super) points: Vec<(f64, f64)>,
}

/// The scale of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From zero, with a unit.
    Linear(&'static str),
    /// Durations, by powers of ten.
    Durations,
}

/// Draws lines over time.
pub(super) fn lines(lines: &[Line], scale: Scale) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let end = points().map(|(at, _)| *at).fold(1.0, f64::max);
    let top = points().map(|(_, value)| *value).fold(0.0, f64::max);
    let bottom = points().map(|(_, value)| *value).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let axis = Axis::new(scale, bottom, top);
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let x = |at: f64| LEFT + at / end * width;
    let y = |value: f64| TOP + (1.0 - axis.place(value)) * height;
    let mut svg = open(HEIGHT);
    for tick in &axis.ticks {
        let at = y(*tick);
        rule(&mut svg, [LEFT, at, WIDTH - RIGHT, at], "grid");
        text(&mut svg, LEFT - 6.0, at + 4.0, "end", &axis.label(*tick));
    }
    for tick in linear_ticks(end) {
        text(&mut svg, x(tick), HEIGHT - BOTTOM + 18.0, "middle", &format!("{tick} s"));
    }
    rule(&mut svg, [LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM], "axis");
    for (number, line) in lines.iter().enumerate() {
        let color = number % COLORS;
        let mut path = String::new();
        for (at, value) in &line.points {
            let command = if path.is_empty() { 'M' } else { 'L' };
            // Writing to a `String` cannot fail.
            let _ = write!(path, "{command}{:.1} {:.1}", x(*at), y(*value));
        }
        let _ = writeln!(svg, "<path d=\"{path}\" class=\"line c{color}\"/>");
        let row = TOP + 8.0 + crate::number::float(number) * 16.0;
        rule(&mut svg, [WIDTH - RIGHT + 10.0, row, WIDTH - RIGHT + 26.0, row], &format!("line c{color}"));
        text(&mut svg, WIDTH - RIGHT + 31.0, row + 4.0, "start", &line.name);
    }
    svg.push_str("</svg>\n");
    svg
}

/// A row of bars from the median to the 99th percentile, with a mark for the limit.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) limit: f64,
    pub(super) met: bool,
}

/// Draws the percentiles of several rows on one scale of durations.
pub(super) fn bars(bars: &[Bar]) -> String {
    const ROW: f64 = 20.0;
    const NAMES: f64 = 290.0;
    let all = || bars.iter().flat_map(|bar| [bar.p50, bar.p99, bar.limit]);
    let bottom = all().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let axis = Axis::new(Scale::Durations, bottom, all().fold(0.0, f64::max));
    let height = TOP + BOTTOM + crate::number::float(bars.len()) * ROW;
    let x = |value: f64| NAMES + axis.place(value) * (WIDTH - NAMES - 20.0);
    let mut svg = open(height);
    for tick in &axis.ticks {
        rule(&mut svg, [x(*tick), TOP, x(*tick), height - BOTTOM], "grid");
        text(&mut svg, x(*tick), height - BOTTOM + 18.0, "middle", &axis.label(*tick));
    }
    for (number, bar) in bars.iter().enumerate() {
        let y = TOP + crate::number::float(number) * ROW;
        text(&mut svg, NAMES - 8.0, y + 14.0, "end", &bar.name);
        let (start, end) = (x(bar.p50), x(bar.p99));
        let class = if bar.met { "met" } else { "missed" };
        let (width, title) = ((end - start).max(3.0), format!("p50 {}, p99 {}", time(bar.p50), time(bar.p99)));
        let _ = writeln!(
            svg,
            "<rect x=\"{start:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"12\" class=\"{class}\"><title>{title}</title></rect>",
            y + 4.0
        );
        rule(&mut svg, [x(bar.limit), y + 2.0, x(bar.limit), y + ROW - 2.0], "limit");
    }
    svg.push_str("</svg>\n");
    svg
}

/// A scale with its ticks.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn new(scale: Scale, bottom: f64, top: f64) -> Self {
        match scale {
            Scale::Linear(_) => {
                let ticks = linear_ticks(top);
                Self { scale, low: 0.0, high: top.max(ticks.last().copied().unwrap_or(1.0)).max(1e-9), ticks }
            }
            Scale::Durations => {
                // From a microsecond to the powers of ten around the values.
                let low = if bottom.is_finite() { bottom.max(1e-6).log10().floor() } else { -3.0 };
                let high = if top > 0.0 { top.log10().ceil().max(low + 1.0) } else { low + 1.0 };
                let count = crate::number::whole(high - low);
                let ticks = (0..=count).map(|step| 10_f64.powf(low + crate::number::float(step))).collect();
                Self { scale, low, high, ticks }
            }
        }
    }

    /// Returns the place of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear(_) => value,
            Scale::Durations => value.max(1e-6).log10(),
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn label(&self, value: f64) -> String {
        match self.scale {
            Scale::Linear(unit) => format!("{value}{unit}"),
            // Powers of ten are not exact.
            Scale::Durations => time((value * 1e9).round() / 1e9),
        }
    }
}

/// Returns about five round numbers from 0.
fn linear_ticks(top: f64) -> Vec<f64> {
    if top <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = top / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    // Steps such as 0.2 are not exact.
    let count = crate::number::whole(top / step + 1e-9);
    (0..=count).map(|number| (crate::number::float(number) * step * 1e9).round() / 1e9).collect()
}

fn open(height: f64) -> String {
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n")
}

fn rule(svg: &mut String, [x1, y1, x2, y2]: [f64; 4], class: &str) {
    let _ = writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = super::html::escaped(text);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_on_a_logarithmic_scale() {
        let axis = Axis::new(Scale::Durations, 0.002, 0.5);
        assert_eq!(
            axis.ticks.iter().map(|tick| axis.label(*tick)).collect::<Vec<_>>(),
            ["1 ms", "10 ms", "100 ms", "1 s"]
        );
        assert!((axis.place(0.01) - 1.0 / 3.0).abs() < 1e-9);
        assert!((axis.place(0.0) - 0.0).abs() < 1e-9);
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(linear_ticks(95.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(linear_ticks(0.6), [0.0, 0.2, 0.4, 0.6]);
        assert_eq!(linear_ticks(0.0), [0.0, 1.0]);
    }

    #[test]
    fn plots_without_points_are_empty() {
        let empty = lines(&[Line { name: "a<b".into(), points: Vec::new() }], Scale::Durations);
        assert!(empty.contains("a&lt;b") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        assert!(!bars(&[]).contains("NaN"));
    }
}
