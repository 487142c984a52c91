//! What a container on a simulated node does, as far as its command says it.
//!
//! No image is ever run. Commands that everybody writes into the examples of jobs are understood: `true`, `false`, `sleep N`
//! and `exit N`, alone or one after the other in `sh -c '…'`, with `;` or `&&` between them. Anything else takes as long as the
//! pace of the nodes says, and succeeds.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

/// How long a container runs, and what it exits with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// As said by its command; otherwise what the pace says.
    pub(crate) lasts: Lasts,
    pub(crate) code: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lasts {
    #[default]
    Usual,
    So(Duration),
    Forever,
}

impl Script {
    pub(crate) fn of(container: &Container) -> Self {
        let words = || container.command.iter().chain(&container.args).flatten().map(|word| &**word);
        let shell = words().next().is_some_and(|word| matches!(word.rsplit('/').next(), Some("sh" | "bash" | "ash")));
        if shell {
            let mut rest = words().skip(1).skip_while(|word| word.starts_with('-') && !word.contains('c'));
            return rest.nth(1).map_or_else(Self::default, run);
        }
        let words: Vec<_> = words().collect();
        command(&words).map_or_else(Self::default, |(lasts, code)| Self { lasts, code })
    }

    /// The pod's, if its containers do this: it lasts until the last of them ends, and fails when one does.
    pub(crate) fn of_all<'c>(containers: impl IntoIterator<Item = &'c Container>) -> Self {
        containers.into_iter().map(Self::of).reduce(Self::and).unwrap_or_default()
    }

    fn and(self, other: Self) -> Self {
        let lasts = match (self.lasts, other.lasts) {
            (Lasts::Forever, _) | (_, Lasts::Forever) => Lasts::Forever,
            (Lasts::So(one), Lasts::So(other)) => Lasts::So(one.max(other)),
            (Lasts::So(known), _) | (_, Lasts::So(known)) => Lasts::So(known),
            (Lasts::Usual, Lasts::Usual) => Lasts::Usual,
        };
        Self { lasts, code: if self.code == 0 { other.code } else { self.code } }
    }
}

/// A script of the shell, statement by statement. What is not understood takes no time, and succeeds.
fn run(script: &str) -> Script {
    let mut ran = Script::default();
    for statement in script.split([';', '\n']) {
        for part in statement.split("&&") {
            let words: Vec<_> = part.split_whitespace().collect();
            let Some((lasts, code)) = command(&words) else { continue };
            ran.lasts = match (ran.lasts, lasts) {
                (Lasts::So(before), Lasts::So(more)) => Lasts::So(before + more),
                (before, Lasts::Usual) => before,
                (_, lasts) => lasts,
            };
            ran.code = code;
            if words.first() == Some(&"exit") {
                return ran;
            }
            if code != 0 {
                break;
            }
        }
    }
    ran
}

fn command(words: &[&str]) -> Option<(Lasts, i32)> {
    match words {
        ["true" | "exit"] => Some((Lasts::Usual, 0)),
        ["false"] => Some((Lasts::Usual, 1)),
        ["exit", code] => Some((Lasts::Usual, code.parse::<u8>().ok()?.into())),
        ["sleep", "infinity" | "inf"] => Some((Lasts::Forever, 0)),
        ["sleep", time] => Some((Lasts::So(duration(time)?), 0)),
        _ => None,
    }
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let seconds = match unit {
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => 1.0,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(command: &[&str]) -> (Lasts, i32) {
        let command = Some(command.iter().map(|word| (*word).to_owned()).collect());
        let script = Script::of(&Container { command, ..Container::default() });
        (script.lasts, script.code)
    }

    fn seconds(seconds: u64) -> Lasts {
        Lasts::So(Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_understood_says_how_long_and_how_it_ends() {
        assert_eq!(script(&["true"]), (Lasts::Usual, 0));
        assert_eq!(script(&["false"]), (Lasts::Usual, 1));
        assert_eq!(script(&["sleep", "2m"]), (seconds(120), 0));
        assert_eq!(script(&["sleep", "infinity"]), (Lasts::Forever, 0));
        assert_eq!(script(&["sh", "-c", "echo hello; sleep 5 && sleep 1; exit 3"]), (seconds(6), 3));
        assert_eq!(script(&["/bin/bash", "-e", "-c", "false && sleep 9; sleep 2"]), (seconds(2), 0));
        assert_eq!(script(&["/bin/sh", "-ec", "exit 1; sleep 9"]), (Lasts::Usual, 1));
    }

    #[test]
    fn what_is_not_understood_takes_its_time_and_succeeds() {
        for command in [&["perl", "-e", "exit 1"][..], &[], &["sleep"], &["sleep", "-1"], &["sh"], &["exit", "300"]] {
            assert_eq!(script(command), (Lasts::Usual, 0), "{command:?}");
        }
    }
}
