//! Draws `docs/pictures/rate-limiters.svg` from the delays of the real limiters. `WINDLASS_GOLDEN=write` updates the
//! file.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use windlass_queue::{Exponential, FastSlow, MaxOf, RateLimiter, TokenBucket};

const ATTEMPTS: u32 = 20;
const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 170.0;
/// The vertical axis: no delay, then powers of ten of a second.
const DECADES: [(i32, &str); 7] =
    [(-3, "1 ms"), (-2, "10 ms"), (-1, "100 ms"), (0, "1 s"), (1, "10 s"), (2, "100 s"), (3, "1000 s")];

const HEAD: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 560" role="img" aria-labelledby="t d">
<title id="t">The delays of the four rate limiters</title>
<desc id="d">Each panel shows the delay of attempts 1 to 20, all at the same moment. The token bucket lets the first 5 pass and then adds 100 ms each. The exponential limiter doubles from 5 ms to 1000 s. The fast and slow limiter says 5 ms three times and 10 s from then on. The maximum of an exponential limiter from 1 ms and the bucket follows whichever is longer.</desc>
<!-- Drawn by crates/windlass-queue/tests/pictures.rs from the limiters themselves. -->
<style>
text { font: 15px system-ui, sans-serif; fill: #1d2733; text-anchor: middle }
.sub { font-size: 12px; fill: #55636f } .tick { font-size: 11px; fill: #55636f; text-anchor: end }
rect { fill: #f5f8fa; stroke: #55636f; stroke-width: 1.5 }
.grid { stroke: #d3dbe1; stroke-width: 1 }
.line { stroke: #2f6f9f; stroke-width: 2; fill: none } circle { fill: #2f6f9f }
.part { stroke: #a86d00; stroke-width: 1.5; stroke-dasharray: 5 4; fill: none } .note { font-size: 12px; fill: #a86d00; text-anchor: start }
@media (prefers-color-scheme: dark) {
  text { fill: #e8eef3 } .sub, .tick { fill: #a9b6c1 }
  rect { fill: #1b242c; stroke: #8b99a5 } .grid { stroke: #35414c }
  .line { stroke: #7fb8e0 } circle { fill: #7fb8e0 } .part { stroke: #e0a94a } .note { fill: #e0a94a }
}
</style>
"#;

/// A quarter of the picture.
struct Panel {
    title: &'static str,
    limits: &'static str,
    delays: Vec<Duration>,
    /// The delays of each curve, with its name and the attempt at which the name is placed.
    parts: Vec<(&'static str, u32, Vec<Duration>)>,
}

#[tokio::test(start_paused = true)]
async fn limiters_picture_shows_the_real_delays() {
    let picture = draw(&panels());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/rate-limiters.svg");
    if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(path, picture).unwrap();
    } else {
        assert_eq!(fs::read_to_string(path).unwrap(), picture, "WINDLASS_GOLDEN=write updates it");
    }
}

fn panels() -> [Panel; 4] {
    let bucket = || TokenBucket::new(Duration::from_millis(100), 5);
    let exponential = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));
    let fast_slow = FastSlow::new(Duration::from_millis(5), Duration::from_secs(10), 3);
    let plain = |title, limits, delays| Panel { title, limits, delays, parts: Vec::new() };
    [
        plain("TokenBucket", "a token every 100 ms, 5 kept", delays_of(&bucket())),
        plain("Exponential", "from 5 ms to 1000 s", delays_of(&exponential)),
        plain("FastSlow", "5 ms three times, then 10 s", delays_of(&fast_slow)),
        Panel {
            title: "MaxOf",
            limits: "the longer of a bucket and an exponential from 1 ms",
            delays: delays_of(&MaxOf::new().and(Exponential::default()).and(bucket())),
            parts: vec![("exponential", 8, delays_of(&Exponential::default())), ("bucket", 14, delays_of(&bucket()))],
        },
    ]
}

/// Returns the delays of one key that fails repeatedly at the same time.
fn delays_of(limiter: &impl RateLimiter<&'static str>) -> Vec<Duration> {
    (0..ATTEMPTS).map(|_| limiter.when(&"key")).collect()
}

fn draw(panels: &[Panel]) -> String {
    let mut svg = HEAD.to_owned();
    for (number, panel) in panels.iter().enumerate() {
        let left = if number % 2 == 0 { 80.0 } else { 520.0 };
        let top = if number < 2 { 60.0 } else { 340.0 };
        panel.draw(left, top, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

impl Panel {
    fn draw(&self, left: f64, top: f64, svg: &mut String) {
        let (right, bottom, middle) = (left + WIDTH, top + HEIGHT, left + WIDTH / 2.0);
        writeln!(svg, r#"<text x="{middle}" y="{}">{}</text>"#, top - 28.0, self.title).unwrap();
        writeln!(svg, r#"<text class="sub" x="{middle}" y="{}">{}</text>"#, top - 11.0, self.limits).unwrap();
        writeln!(svg, r#"<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>"#).unwrap();
        for (decade, label) in DECADES {
            let y = top + height_of(Duration::from_secs_f64(10_f64.powi(decade)));
            writeln!(svg, r#"<path class="grid" d="M{left} {y:.1} H{right}"/>"#).unwrap();
            writeln!(svg, r#"<text class="tick" x="{}" y="{:.1}">{label}</text>"#, left - 8.0, y + 4.0).unwrap();
        }
        let none = top + height_of(Duration::ZERO) + 4.0;
        writeln!(svg, r#"<text class="tick" x="{}" y="{none:.1}">none</text>"#, left - 8.0).unwrap();
        for attempt in [1, 5, 10, 15, 20] {
            let x = left + place_of(attempt - 1);
            writeln!(svg, r#"<text class="sub" x="{x:.1}" y="{}">{attempt}</text>"#, bottom + 17.0).unwrap();
        }
        writeln!(svg, r#"<text class="sub" x="{middle}" y="{}">attempt</text>"#, bottom + 34.0).unwrap();
        for (name, at, delays) in &self.parts {
            writeln!(svg, r#"<path class="part" d="{}"/>"#, path_of(delays, left, top)).unwrap();
            let beside = delays[*at as usize - 1];
            let (x, y) = (left + place_of(at - 1) + 10.0, top + height_of(beside) + 15.0);
            writeln!(svg, r#"<text class="note" x="{x:.1}" y="{y:.1}">{name}</text>"#).unwrap();
        }
        writeln!(svg, r#"<path class="line" d="{}"/>"#, path_of(&self.delays, left, top)).unwrap();
        for (attempt, delay) in (0..).zip(&self.delays) {
            let (x, y) = (left + place_of(attempt), top + height_of(*delay));
            writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3"/>"#).unwrap();
        }
    }
}

fn path_of(delays: &[Duration], left: f64, top: f64) -> String {
    let mut path = String::new();
    for (attempt, delay) in (0..).zip(delays) {
        let letter = if attempt == 0 { 'M' } else { 'L' };
        write!(path, "{letter}{:.1} {:.1} ", left + place_of(attempt), top + height_of(*delay)).unwrap();
    }
    path.trim_end().to_owned()
}

/// Returns the horizontal position of an attempt.
fn place_of(attempt: u32) -> f64 {
    14.0 + f64::from(attempt) * (WIDTH - 28.0) / f64::from(ATTEMPTS - 1)
}

/// Returns the vertical position of a delay: logarithmic, with a separate row for no delay.
fn height_of(delay: Duration) -> f64 {
    let row = (HEIGHT - 24.0) / 7.0;
    let rows_up = if delay.is_zero() { 0.0 } else { delay.as_secs_f64().log10() + 4.0 };
    HEIGHT - 12.0 - row * rows_up
}
