//! Panics, unhandled exceptions and fatal errors in logs.
//!
//! | language | recognized |
//! |---|---|
//! | Go | `panic: ` and `fatal error: ` at the start of a line; `Observed a panic`, with which controller-runtime and apimachinery report a recovered panic |
//! | Rust | `thread '…' panicked at`, with the message on the next line |
//! | Python | a traceback of a thread or task that ended, or with an exception that is a mistake of the program, such as `KeyError`. Other exceptions, such as those of a failed request, are handled by retries |
//! | Java | `Exception in thread "…"` |

use std::time::Duration;

use crate::record::Panic;

/// The maximum length of a message in characters.
const LONGEST: usize = 300;

/// The exceptions of Python that are mistakes of the program.
const MISTAKES: [&str; 16] = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "IndexError",
    "KeyError",
    "LookupError",
    "NameError",
    "NotImplementedError",
    "OverflowError",
    "RecursionError",
    "RuntimeError",
    "TypeError",
    "UnboundLocalError",
    "UnicodeDecodeError",
    "ValueError",
    "ZeroDivisionError",
];

/// Recognizes panics in the lines of one stream.
#[derive(Debug, Default)]
pub(super) struct Detector {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// A thread of Rust panicked at a place. The next line is the message, unless the place has it.
    Panicked { at: Duration, place: String },
    /// The next traceback is of a thread or task of Python that has ended.
    Ended,
    /// Within a traceback. The first line that is not indented names the exception.
    Traceback { at: Duration, is_fatal: bool },
    /// After a traceback. It is handled if the next line says that another exception followed.
    Raised { panic: Option<Panic>, is_fatal: bool },
}

impl Detector {
    /// Returns the panic that a line completes.
    pub(super) fn line(&mut self, text: &str, at: Duration) -> Option<Panic> {
        if text.trim_start_matches([' ', '|', '+']).starts_with("Traceback (most recent call last)") {
            let (is_fatal, panic) = match std::mem::take(&mut self.state) {
                State::Ended => (true, None),
                State::Raised { panic: None, is_fatal } => (is_fatal, None),
                State::Raised { panic, .. } => (false, panic),
                _ => (false, None),
            };
            self.state = State::Traceback { at, is_fatal };
            return panic;
        }
        match std::mem::take(&mut self.state) {
            // asyncio describes the task before the traceback.
            State::Ended if text.starts_with("future: ") => {
                self.state = State::Ended;
                None
            }
            State::Idle | State::Ended => self.start(text, at),
            State::Panicked { at, place } => Some(panic(at, &format!("{place} {text}"))),
            State::Traceback { at, is_fatal } if text.is_empty() || text.starts_with([' ', '\t']) => {
                self.state = State::Traceback { at, is_fatal };
                None
            }
            State::Traceback { at, is_fatal } => {
                let name = text.split(':').next().unwrap_or_default();
                let is_panic = is_fatal || MISTAKES.contains(&name);
                let panic = is_panic.then(|| panic(at, text));
                self.state = State::Raised { panic, is_fatal };
                None
            }
            State::Raised { panic, is_fatal } if text.is_empty() => {
                self.state = State::Raised { panic, is_fatal };
                None
            }
            State::Raised { is_fatal, .. } if is_chain(text) => {
                self.state = State::Raised { panic: None, is_fatal };
                None
            }
            State::Raised { panic, .. } => {
                // A panic in this very line is less important than the completed one.
                let other = self.start(text, at);
                panic.or(other)
            }
        }
    }

    /// Returns the panic at the end of the stream.
    pub(super) fn end(&mut self) -> Option<Panic> {
        match std::mem::take(&mut self.state) {
            State::Panicked { at, place } => Some(panic(at, &place)),
            State::Raised { panic, .. } => panic,
            State::Idle | State::Ended | State::Traceback { .. } => None,
        }
    }

    fn start(&mut self, text: &str, at: Duration) -> Option<Panic> {
        if text.starts_with("panic: ") || text.starts_with("fatal error: ") {
            return Some(panic(at, text));
        }
        if let Some(start) = text.find("Observed a panic") {
            let message = field(text, "\"panic\":").map(|value| format!("Observed a panic: {value}"));
            return Some(panic(at, message.as_deref().unwrap_or(&text[start..])));
        }
        if text.starts_with("thread '")
            && let Some(start) = text.find("panicked at ")
        {
            let place = text[start..].to_owned();
            if place.ends_with(':') {
                self.state = State::Panicked { at, place };
                return None;
            }
            return Some(panic(at, &place));
        }
        if let Some(thread) = text.strip_prefix("Exception in thread ") {
            if let Some((_, exception)) = thread.strip_prefix('"').and_then(|thread| thread.split_once("\" ")) {
                return Some(panic(at, &format!("exception in a thread: {exception}")));
            }
            self.state = State::Ended;
        } else if text.ends_with("exception was never retrieved") {
            self.state = State::Ended;
        }
        None
    }
}

/// Returns `true` for the lines of Python between chained exceptions.
fn is_chain(text: &str) -> bool {
    text.starts_with("During handling of the above exception") || text.starts_with("The above exception was the direct")
}

/// Returns the value of a text field in JSON.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, after) = text.split_once(name)?;
    let value = after.trim_start().strip_prefix('"')?;
    let mut escaped = false;
    let end = value.find(|character| {
        let is_end = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        is_end
    })?;
    Some(&value[..end])
}

/// Returns a panic without addresses in its message.
fn panic(at: Duration, message: &str) -> Panic {
    let mut parts = message.trim().split("0x");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str("0x…");
        plain.push_str(part.trim_start_matches(|character: char| character.is_ascii_hexdigit()));
    }
    Panic { at, message: plain.chars().take(LONGEST).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(log: &str) -> Vec<String> {
        let mut detector = Detector::default();
        let mut panics: Vec<_> = log.lines().filter_map(|line| detector.line(line, Duration::ZERO)).collect();
        panics.extend(detector.end());
        panics.into_iter().map(|panic| panic.message).collect()
    }

    #[test]
    fn panics_of_go_are_recognized() {
        let log = "starting\npanic: runtime error: invalid memory address [recovered]\n\tpanic: again\n\ngoroutine 1 [running]:";
        assert_eq!(panics(log), ["panic: runtime error: invalid memory address [recovered]"]);
        assert_eq!(panics("fatal error: concurrent map writes"), ["fatal error: concurrent map writes"]);
        assert_eq!(panics("panic: (main.T) {0xc00012, 0x2}"), ["panic: (main.T) {0x…, 0x…}"]);
        let zap = r#"{"level":"error","ts":1,"msg":"Observed a panic","panic":"a \"b\"","stacktrace":"goroutine 2"}"#;
        assert_eq!(panics(zap), [r#"Observed a panic: a \"b\""#]);
        let klog = "E1129 15:04:05.1 1 runtime.go:79] Observed a panic: boom";
        assert_eq!(panics(klog), ["Observed a panic: boom"]);
        assert_eq!(panics("no panic: all is well\nsaw fatal error: x"), [""; 0]);
    }

    #[test]
    fn panics_of_rust_have_their_message() {
        let log = "thread 'tokio-runtime-worker' (12) panicked at src/main.rs:3:5:\nboom\nnote: run with";
        assert_eq!(panics(log), ["panicked at src/main.rs:3:5: boom"]);
        assert_eq!(panics("thread 'main' panicked at src/main.rs:3:5:"), ["panicked at src/main.rs:3:5:"]);
        assert_eq!(panics("thread 'a' panicked at 'boom', src/main.rs:3:5"), ["panicked at 'boom', src/main.rs:3:5"]);
    }

    #[test]
    fn mistakes_of_python_are_panics_and_handled_exceptions_are_not() {
        let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    f()\n";
        let panic = ["KeyError: 'spec'"];
        assert_eq!(panics(&format!("failed\n{trace}KeyError: 'spec'\nnext")), panic);
        assert_eq!(panics(&format!("{trace}KeyError: 'spec'")), panic);
        assert_eq!(panics(&format!("{trace}TypeError: t\n{trace}KeyError: 'spec'")), ["TypeError: t", panic[0]]);
        assert_eq!(
            panics(&format!("{trace}kubernetes.client.exceptions.ApiException: (409)\nKeyError: 'no'")),
            [""; 0]
        );
        let during = "\nDuring handling of the above exception, another exception occurred:\n\n";
        assert_eq!(panics(&format!("{trace}KeyError: 'handled'\n{during}{trace}kopf.TemporaryError: t")), [""; 0]);
        assert_eq!(panics(&format!("{trace}a.HandledError: h\n{during}{trace}KeyError: 'spec'")), panic);
    }

    #[test]
    fn ended_threads_are_panics_with_any_exception() {
        let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\na.ApiException: (409)\n";
        assert_eq!(panics(&format!("Exception in thread Thread-1 (run):\n{trace}")), ["a.ApiException: (409)"]);
        assert_eq!(
            panics(&format!("Task exception was never retrieved\nfuture: <Task finished>\n{trace}")),
            ["a.ApiException: (409)"]
        );
        let java = "Exception in thread \"pool-1-thread-3\" java.lang.NullPointerException: x\n\tat a.B.c(B.java:1)";
        assert_eq!(panics(java), ["exception in a thread: java.lang.NullPointerException: x"]);
    }
}
