//! Reads files of answers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use regex::RegexBuilder;
use serde::Deserialize;
use serde_saphyr::Spanned;
use windlass_api::parse_duration;

use super::{
    super::{stages::template::Template, yaml},
    COMMAND, CommandMatcher, CommandRule, FUNCTIONS, LogRule, Place, PodAnswers, PodAnswersError, PodMatcher, Text,
};

/// The maximum size of a compiled pattern, in bytes.
const PATTERN_LIMIT: usize = 1 << 20;
/// The maximum delay of a command, and the maximum interval of lines.
const LONGEST: Duration = Duration::from_hours(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    exec: Vec<Spanned<CommandSpec>>,
    #[serde(default)]
    logs: Vec<Spanned<LogSpec>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CommandSpec {
    namespace: Option<String>,
    pod: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    container: Option<String>,
    command: Option<Spanned<Vec<String>>>,
    command_prefix: Option<Spanned<Vec<String>>>,
    command_pattern: Option<Spanned<String>>,
    stdout: Option<Spanned<String>>,
    stderr: Option<Spanned<String>>,
    exit_code: Option<Spanned<i64>>,
    delay: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogSpec {
    namespace: Option<String>,
    pod: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    container: Option<String>,
    text: Spanned<String>,
    previous: Option<Spanned<String>>,
    interval: Option<Spanned<String>>,
}

/// Parses the answers in a file.
pub(super) fn parse(file: &str, text: &str) -> Result<PodAnswers, PodAnswersError> {
    let document: Document = serde_saphyr::from_str_with_options(text, yaml::options()).map_err(|error| {
        let (line, message) = yaml::problem(&error);
        let place = line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
        PodAnswersError::Invalid { place, message }
    })?;
    let file: Arc<str> = file.into();
    let reader = |list: &str, index: usize, line: u64| {
        let place = Place { file: Arc::clone(&file), line, rule: format!("{list}[{index}]") };
        Reader { place, text }
    };
    let commands = document.exec.into_iter().enumerate().map(|(index, spec)| {
        let rule = reader("exec", index, spec.referenced.line()).command(spec.value)?;
        Ok(Arc::new(rule))
    });
    let logs = document.logs.into_iter().enumerate().map(|(index, spec)| {
        let rule = reader("logs", index, spec.referenced.line()).log(spec.value)?;
        Ok(Arc::new(rule))
    });
    Ok(PodAnswers { commands: commands.collect::<Result<_, _>>()?, logs: logs.collect::<Result<_, _>>()? })
}

/// Reads one rule.
struct Reader<'a> {
    place: Place,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, line: u64, field: &str, message: impl AsRef<str>) -> PodAnswersError {
        let place = Place { line, ..self.place.clone() };
        PodAnswersError::Invalid { place: place.to_string(), message: format!("{field}: {}", message.as_ref()) }
    }

    fn command(self, spec: CommandSpec) -> Result<CommandRule, PodAnswersError> {
        let command = match (spec.command, spec.command_prefix, spec.command_pattern) {
            (None, None, None) => CommandMatcher::Any,
            (Some(arguments), None, None) => CommandMatcher::Exact(self.arguments("command", arguments)?),
            (None, Some(arguments), None) => CommandMatcher::Prefix(self.arguments("commandPrefix", arguments)?),
            (None, None, Some(pattern)) => {
                let compiled = RegexBuilder::new(&pattern.value).size_limit(PATTERN_LIMIT).build();
                let invalid =
                    |error: regex::Error| self.error(pattern.referenced.line(), "commandPattern", error.to_string());
                CommandMatcher::Pattern(compiled.map_err(invalid)?)
            }
            _ => {
                let message = "expected at most one of command, commandPrefix and commandPattern";
                return Err(self.error(self.place.line, "command", message));
            }
        };
        let exit_code = match spec.exit_code {
            None => 0,
            Some(code) => u8::try_from(code.value).map_err(|_| {
                let message = format!("{} is not an exit code; expected 0 to 255", code.value);
                self.error(code.referenced.line(), "exitCode", message)
            })?,
        };
        Ok(CommandRule {
            pods: PodMatcher {
                namespace: spec.namespace,
                pod: spec.pod,
                labels: spec.labels,
                container: spec.container,
            },
            command,
            stdout: self.output("stdout", spec.stdout.as_ref(), &FUNCTIONS)?,
            stderr: self.output("stderr", spec.stderr.as_ref(), &FUNCTIONS)?,
            exit_code,
            delay: self.duration("delay", spec.delay.as_ref())?,
            place: self.place,
        })
    }

    fn log(self, spec: LogSpec) -> Result<LogRule, PodAnswersError> {
        let functions: Vec<_> = FUNCTIONS.into_iter().filter(|name| *name != COMMAND).collect();
        let previous = spec.previous.as_ref();
        Ok(LogRule {
            pods: PodMatcher {
                namespace: spec.namespace,
                pod: spec.pod,
                labels: spec.labels,
                container: spec.container,
            },
            text: self.output("text", Some(&spec.text), &functions)?,
            previous: previous.map(|text| self.output("previous", Some(text), &functions)).transpose()?,
            interval: self.duration("interval", spec.interval.as_ref())?,
            place: self.place,
        })
    }

    fn arguments(&self, field: &str, arguments: Spanned<Vec<String>>) -> Result<Vec<String>, PodAnswersError> {
        if arguments.value.is_empty() {
            return Err(self.error(
                arguments.referenced.line(),
                field,
                "the command is empty; omit it for all commands",
            ));
        }
        Ok(arguments.value)
    }

    fn duration(&self, field: &str, text: Option<&Spanned<String>>) -> Result<Duration, PodAnswersError> {
        let Some(text) = text else { return Ok(Duration::ZERO) };
        let line = text.referenced.line();
        let parsed = parse_duration(&text.value).map_err(|error| self.error(line, field, error.to_string()))?;
        let duration = Duration::try_from(parsed).ok().filter(|duration| *duration <= LONGEST);
        duration.ok_or_else(|| self.error(line, field, format!("{} is not between 0s and 1h", text.value)))
    }

    fn output(
        &self,
        field: &'static str,
        text: Option<&Spanned<String>>,
        functions: &[&'static str],
    ) -> Result<Text, PodAnswersError> {
        let Some(text) = text else { return Ok(Text::Fixed(Bytes::new())) };
        if !text.value.contains("{{") {
            return Ok(Text::Fixed(text.value.clone().into()));
        }
        let lines_before = yaml::lines_before(self.text, text);
        let template = Template::parse(&text.value, functions)
            .map_err(|error| self.error(lines_before + error.line as u64, field, error.message))?;
        Ok(Text::Template { template: Arc::new(template), field, lines_before })
    }
}
