//! The last lines that a process printed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{ChildStderr, ChildStdout},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::panics::Detector;
use crate::record::{LogLine, Panic};

/// The maximum number of lines.
const LINES: usize = 2000;
/// The maximum number of panics.
const PANICS: usize = 20;
/// The maximum length of a line in bytes. The rest of a longer line is dropped.
const LINE: usize = 16 * 1024;
/// The time to read what a process has printed before its end. It is only reached if a process has left the group and
/// holds the pipe.
const DRAIN: Duration = Duration::from_secs(1);

/// The log of a running process.
#[derive(Debug)]
pub(crate) struct Log {
    shared: Arc<Mutex<Lines>>,
    readers: JoinSet<()>,
}

/// The lines of standard output and standard error, in the order in which they were read.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// At most [`LINES`].
    pub(crate) lines: VecDeque<LogLine>,
    /// The number of lines before these.
    pub(crate) dropped: usize,
    /// At most [`PANICS`], the first ones.
    pub(crate) panics: Vec<Panic>,
}

impl Log {
    /// Reads the standard output and the standard error of a process. Times count from `zero`.
    pub(crate) fn read((output, errors): (Option<ChildStdout>, Option<ChildStderr>), zero: Instant) -> Self {
        let shared = Arc::new(Mutex::new(Lines::default()));
        let mut readers = JoinSet::new();
        if let Some(output) = output {
            readers.spawn(read(output, Arc::clone(&shared), zero));
        }
        if let Some(errors) = errors {
            readers.spawn(read(errors, Arc::clone(&shared), zero));
        }
        Self { shared, readers }
    }

    /// Returns `true` if the line was printed.
    #[cfg(test)]
    pub(super) fn contains(&self, line: &str) -> bool {
        self.shared.lock().lines.iter().any(|known| known.text == line)
    }

    /// Returns the lines of a process that has ended.
    pub(crate) async fn finish(mut self) -> Lines {
        // After the limit, the readers are aborted with the set.
        let _ = timeout(DRAIN, async { while self.readers.join_next().await.is_some() {} }).await;
        std::mem::take(&mut *self.shared.lock())
    }
}

impl Lines {
    fn push(&mut self, at: Duration, text: String) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(LogLine { at, text });
    }

    fn push_panic(&mut self, panic: Option<Panic>) {
        if self.panics.len() < PANICS {
            self.panics.extend(panic);
        }
    }
}

/// Reads lines until the end of the stream.
async fn read(mut stream: impl AsyncRead + Unpin, shared: Arc<Mutex<Lines>>, zero: Instant) {
    let mut detector = Detector::default();
    let mut push = |line: &mut Vec<u8>| {
        let at = zero.elapsed();
        let text = without_colors(String::from_utf8_lossy(line).trim_end_matches('\r'));
        let panic = detector.line(&text, at);
        let mut lines = shared.lock();
        lines.push(at, text);
        lines.push_panic(panic);
        line.clear();
    };
    let mut line = Vec::new();
    let mut buffer = vec![0; 8 * 1024];
    // An error means the same as the end: nothing can be read any more.
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        for (index, part) in buffer[..length].split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                push(&mut line);
            }
            line.extend_from_slice(&part[..part.len().min(LINE - line.len())]);
        }
    }
    if !line.is_empty() {
        push(&mut line);
    }
    let last = detector.end();
    shared.lock().push_panic(last);
}

/// Removes the escape sequences that color a terminal.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|character: char| character.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        plain.push_str(&part[end..]);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8]) -> Lines {
        let shared = Arc::default();
        read(input, Arc::clone(&shared), Instant::now()).await;
        std::mem::take(&mut *shared.lock())
    }

    fn texts(lines: &Lines) -> Vec<&str> {
        lines.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[tokio::test]
    async fn lines_are_plain_text() {
        let found = lines(b"a\r\n\n\x1b[1;31mred\x1b[0m and \xff\nlast").await;
        assert_eq!(texts(&found), ["a", "", "red and \u{fffd}", "last"]);
    }

    #[tokio::test]
    async fn log_keeps_last_lines_and_first_panics() {
        let mut text = "panic: first\n".repeat(PANICS + 1);
        text.push_str(&"x".repeat(2 * LINE));
        for number in 0..LINES {
            text.push_str(&format!("\n{number}"));
        }
        let found = lines(text.as_bytes()).await;
        assert_eq!((found.lines.len(), found.dropped), (LINES, PANICS + 2));
        assert_eq!(found.lines.back().map(|line| line.text.as_str()), Some("1999"));
        assert_eq!(found.panics.len(), PANICS);
        let long = lines(&vec![b'x'; 2 * LINE]).await;
        assert_eq!(long.lines[0].text.len(), LINE);
    }
}
