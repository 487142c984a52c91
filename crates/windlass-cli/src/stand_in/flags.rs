//! A lenient parser for the command lines of other programs.

use std::{error::Error, fmt, str::FromStr};

/// A supported flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    /// The type of its value; empty for switches.
    pub(super) takes: &'static str,
    pub(super) about: &'static str,
}

/// A parsed command line. Flags may be repeated, have any value, and be unknown.
#[derive(Debug, Default)]
pub(super) struct Flags(Vec<(String, String)>);

/// The user's request.
#[derive(Debug)]
pub(super) enum Invocation {
    Help,
    Run(Flags),
}

impl Flags {
    /// Parses `--flag=value`, `--flag value` and `--switch`, each with one dash or two. Other arguments are ignored.
    pub(super) fn read(known: &[Flag], arguments: impl Iterator<Item = String>) -> Invocation {
        let mut flags = Vec::new();
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let flag = argument.trim_start_matches('-');
            if flag.len() == argument.len() || flag.is_empty() {
                tracing::info!(argument, "ignoring an argument that is not a flag");
                continue;
            }
            if matches!(flag, "help" | "h") {
                return Invocation::Help;
            }
            let (name, value) = if let Some((name, value)) = flag.split_once('=') {
                (name, value.to_owned())
            } else {
                let of = known.iter().find(|known| known.name == flag);
                let takes = of.is_none_or(|known| !known.takes.is_empty());
                let value = arguments.next_if(|next| takes && !next.starts_with('-'));
                (flag, value.unwrap_or_else(|| "true".to_owned()))
            };
            flags.push((name.to_owned(), value));
        }
        Invocation::Run(Self(flags))
    }

    /// Iterates over all flags and their values, in the order of the command line.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a flag; the last one is used.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(flag, _)| flag == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns the parsed value of a flag.
    pub(super) fn parse<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>, Box<dyn Error>> {
        let parsed = self.get(name).map(|value| {
            value.parse().map_err(|error| format!("invalid argument {value:?} for --{name}: {error}").into())
        });
        parsed.transpose()
    }

    /// Returns the values of a flag that can be repeated or contain commas.
    pub(super) fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.0.iter().filter(move |(flag, _)| flag == name);
        values.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|item| !item.is_empty())
    }
}

/// Returns the output of `--help`, with one flag per line, as envtest expects it.
pub(super) fn help(program: &str, known: &[Flag]) -> String {
    let mut text = format!(
        "{program}, as windlass has it, for tests. Other flags of {program} are ignored, or refused if ignoring them would \
         weaken what they protect.\n\nFlags:\n"
    );
    for Flag { name, takes, about } in known {
        let flag = format!("--{name} {takes}");
        text.push_str(&format!("      {:<44} {about}\n", flag.trim_end()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Flag] = &[
        Flag { name: "port", takes: "int", about: "where to listen" },
        Flag { name: "fast", takes: "", about: "in a hurry" },
    ];

    fn read(line: &str) -> Flags {
        match Flags::read(KNOWN, line.split(' ').map(str::to_owned)) {
            Invocation::Run(flags) => flags,
            Invocation::Help => panic!("--help was not requested"),
        }
    }

    #[test]
    fn flags_are_parsed_in_all_forms_and_unknown_are_ignored() {
        let flags = read("--port 1 --fast word --mode=a,b --mode c -port=2 --unknown value --bare");
        assert_eq!((flags.get("port"), flags.get("fast"), flags.get("bare")), (Some("2"), Some("true"), Some("true")));
        assert_eq!(flags.list("mode").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((flags.get("unknown"), flags.get("word")), (Some("value"), None));
        assert_eq!(flags.parse::<u16>("port").unwrap(), Some(2));
        let error = read("--port=many").parse::<u16>("port").unwrap_err().to_string();
        assert!(error.starts_with("invalid argument \"many\" for --port: "), "{error}");
    }

    #[test]
    fn help_names_each_known_flag_at_the_beginning_of_a_line() {
        assert!(matches!(Flags::read(KNOWN, std::iter::once("--help".to_owned())), Invocation::Help));
        let text = help("server", KNOWN);
        assert!(text.lines().any(|line| line.trim_start().starts_with("--port int ")), "{text}");
        assert!(text.lines().any(|line| line.trim_start().starts_with("--fast ")), "{text}");
    }
}
