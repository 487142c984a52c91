//! The view of the demo: scrolling lines, and on a terminal a panel of pods below them.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write},
    time::Duration,
};

/// The maximum width of a pod's name.
const NAME_WIDTH: usize = 24;
/// Disables line wrapping: a line that is longer than the terminal is wide would otherwise take several lines, and
/// removing the panel relies on the number of lines.
const NO_WRAP: &str = "\x1b[?7l";
/// Enables line wrapping.
const WRAP: &str = "\x1b[?7h";
/// The number of pods per line of the panel.
const COLUMNS: usize = 3;

/// Specifies whether to use colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Yes,
    No,
}

/// The output mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Lines only: the output is a file or a pipe.
    Plain,
    /// Lines, and the panel: the output is a terminal.
    Live,
}

/// A line of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A heading: the next action of the demo.
    Act(String),
    /// The equivalent command for a user.
    Command(String),
    /// A watch event that became a key: the changed object, and the key.
    Event { change: &'static str, object: String, key: String },
    /// A worker has processed a key.
    Reconciled { key: String, took: Duration, outcome: String },
    /// A write request, with an explanation of its status code.
    Write { request: String, status: u16, meaning: &'static str },
    /// One step of a walk-through.
    Step(Step, String),
    /// An expected result was observed.
    Seen(String),
    /// An expected result was not observed.
    Missed(String),
    /// Any other text.
    Note(String),
}

/// The stage of a change that a step shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Watch,
    Delta,
    Store,
    Key,
    Write,
    Expectation,
}

/// The state of a pod in the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    Pending,
    Starting,
    Ready,
    Ending,
}

/// Writes lines and, on a terminal, the panel below them.
#[derive(Debug)]
pub(crate) struct View<W> {
    out: W,
    mode: Mode,
    color: Color,
    pods: BTreeMap<String, PodState>,
    /// The number of terminal lines that the panel currently takes.
    painted: usize,
}

impl<W: Write> View<W> {
    pub(crate) const fn new(out: W, mode: Mode, color: Color) -> Self {
        Self { out, mode, color, pods: BTreeMap::new(), painted: 0 }
    }

    /// Writes a line; `at` is the time since the start.
    pub(crate) fn line(&mut self, at: Duration, line: &Line) -> io::Result<()> {
        let text = self.text(at, line);
        self.erase()?;
        writeln!(self.out, "{text}")?;
        self.paint()
    }

    /// Sets the state of a pod; `None` removes it.
    pub(crate) fn pod(&mut self, name: &str, state: Option<PodState>) -> io::Result<()> {
        let before = match state {
            Some(state) => self.pods.insert(name.to_owned(), state),
            None => self.pods.remove(name),
        };
        if before == state || self.mode == Mode::Plain {
            return Ok(());
        }
        self.erase()?;
        self.paint()
    }

    /// Removes the panel.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.erase()?;
        self.out.flush()
    }

    fn text(&self, at: Duration, line: &Line) -> String {
        let time = self.paint_in(Ink::Faint, &format!("{:>7.3}", at.as_secs_f64()));
        match line {
            Line::Act(text) => format!("\n{time}  {}", self.paint_in(Ink::Bold, text)),
            Line::Command(text) => format!("{time}  {}", self.paint_in(Ink::Faint, &format!("$ {text}"))),
            Line::Event { change, object, key } => {
                format!("{time}  {} {object} {change} → {key}", self.paint_in(Ink::Blue, "event    "))
            }
            Line::Reconciled { key, took, outcome } => {
                let label = self.paint_in(Ink::Magenta, "reconcile");
                format!("{time}  {label} {key}: {outcome} in {:.1} ms", took.as_secs_f64() * 1_000.0)
            }
            Line::Write { request, status, meaning } => {
                format!("{time}  {} {request} → {status}{meaning}", self.paint_in(Ink::Yellow, "write    "))
            }
            Line::Step(step, text) => {
                format!("{time}  {} {text}", self.paint_in(step.ink(), &format!("{:<11}", step.to_string())))
            }
            Line::Seen(text) => format!("{time}  {} {text}", self.paint_in(Ink::Green, "seen     ")),
            Line::Missed(text) => format!("{time}  {} {text}", self.paint_in(Ink::Red, "MISSED   ")),
            Line::Note(text) => format!("{time}  {text}"),
        }
    }

    fn erase(&mut self) -> io::Result<()> {
        if self.painted > 0 {
            // Moves to the panel's first line, and clears the rest of the screen.
            write!(self.out, "\x1b[{}A\r\x1b[J", self.painted)?;
            self.painted = 0;
        }
        Ok(())
    }

    fn paint(&mut self) -> io::Result<()> {
        if self.mode == Mode::Plain || self.pods.is_empty() {
            return self.out.flush();
        }
        let ready = self.pods.values().filter(|state| **state == PodState::Ready).count();
        writeln!(self.out, "{NO_WRAP}\n  pods: {ready} ready of {}", self.pods.len())?;
        let names: Vec<_> = self.pods.iter().collect();
        let rows = names.chunks(COLUMNS);
        // As narrow as possible: three pods of a deployment fit into 80 columns.
        let width = names.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().min(NAME_WIDTH);
        self.painted = 2 + rows.len();
        for row in rows {
            for (name, state) in row {
                let (dot, ink) = state.dot();
                let short: String = name.chars().take(width).collect();
                write!(self.out, "  {} {short:<width$}", self.paint_in(ink, dot))?;
            }
            writeln!(self.out)?;
        }
        write!(self.out, "{WRAP}")?;
        self.out.flush()
    }

    fn paint_in(&self, ink: Ink, text: &str) -> String {
        match self.color {
            Color::No => text.to_owned(),
            Color::Yes => format!("\x1b[{}m{text}\x1b[0m", ink.code()),
        }
    }
}

impl Step {
    const fn ink(self) -> Ink {
        match self {
            Self::Watch | Self::Delta => Ink::Blue,
            Self::Store | Self::Expectation => Ink::Magenta,
            Self::Key => Ink::Bold,
            Self::Write => Ink::Yellow,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Watch => "watch",
            Self::Delta => "delta",
            Self::Store => "store",
            Self::Key => "key",
            Self::Write => "write",
            Self::Expectation => "expectation",
        })
    }
}

impl PodState {
    const fn dot(self) -> (&'static str, Ink) {
        match self {
            Self::Pending => ("○", Ink::Faint),
            Self::Starting => ("◐", Ink::Yellow),
            Self::Ready => ("●", Ink::Green),
            Self::Ending => ("◌", Ink::Red),
        }
    }
}

#[derive(Clone, Copy)]
enum Ink {
    Bold,
    Faint,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Faint => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
            Self::Magenta => "35",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(mode: Mode, color: Color, act: impl FnOnce(&mut View<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        act(&mut View::new(&mut out, mode, color));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_plain_lines() {
        let text = shown(Mode::Plain, Color::No, |view| {
            let line = Line::Write { request: "POST pods/web-1".to_owned(), status: 409, meaning: " (why)" };
            view.pod("web-1", Some(PodState::Ready)).unwrap();
            view.line(Duration::from_millis(1_500), &line).unwrap();
        });
        assert_eq!(text, "  1.500  write     POST pods/web-1 → 409 (why)\n");
    }

    #[test]
    fn a_terminal_keeps_the_panel_below_the_lines() {
        let text = shown(Mode::Live, Color::No, |view| {
            view.pod("web-1", Some(PodState::Ready)).unwrap();
            view.pod("web-2", Some(PodState::Pending)).unwrap();
            view.line(Duration::ZERO, &Line::Note("x".to_owned())).unwrap();
            view.close().unwrap();
        });
        assert!(text.contains("pods: 1 ready of 2"), "{text}");
        assert_eq!(
            text.matches("\x1b[3A").count(),
            3,
            "each change takes the panel of three lines away first: {text:?}"
        );
        assert!(text.ends_with("\x1b[3A\r\x1b[J"));
    }

    #[test]
    fn panel_fits_80_columns_and_is_never_wrapped() {
        let text = shown(Mode::Live, Color::No, |view| {
            for pod in ["web-5d9c7f6b8d-2x7kq", "web-5d9c7f6b8d-9fjzl", "web-5d9c7f6b8d-wq4mt"] {
                view.pod(pod, Some(PodState::Ready)).unwrap();
            }
        });
        let panel = text.rsplit(NO_WRAP).next().unwrap();
        let (panel, rest) = panel.split_once(WRAP).unwrap();
        assert_eq!(rest, "", "the terminal is restored");
        assert!(panel.contains("-2x7kq") && panel.contains("-wq4mt"), "{panel}");
        assert!(panel.lines().all(|line| line.chars().count() <= 80), "{panel}");
    }

    #[test]
    fn colors_can_be_enabled() {
        let line = Line::Seen("x".to_owned());
        assert!(shown(Mode::Plain, Color::Yes, |view| view.line(Duration::ZERO, &line).unwrap()).contains("\x1b[32m"));
    }
}
