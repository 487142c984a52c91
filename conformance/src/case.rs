//! A case: a sequence of requests in the format of the files in `cases/`.
//!
//! ```text
//! === the-name-of-the-case
//! # A comment. A blank line ends a step.
//! POST /api/v1/namespaces/{ns}/configmaps
//! > Accept: application/yaml
//! {"metadata":{"name":"a"}}
//! < rv = metadata.resourceVersion
//!
//! WATCH w /api/v1/namespaces/{ns}/configmaps?watch=true&resourceVersion={rv}
//!
//! PATCH/merge /api/v1/namespaces/{ns}/configmaps/a
//! {"data":{"k":"v"}}
//!
//! READ w 1
//! ```
//!
//! - `> Name: value` sets a header; `> Name: -` removes a default header.
//! - `PATCH/json`, `PATCH/merge`, `PATCH/strategic`, `PATCH/apply` set the Content-Type. Other bodies are JSON unless a
//!   header overrides it.
//! - `< name = path` stores a value of the response (for `READ`: of the last event) for `{name}` in later steps.
//! - `< until path=value`, `< until path~part`, `< until 200` repeats the request until the condition is true, or
//!   all conditions. Only the last response is compared.
//! - `< flow` compares the FlowSchema and the priority level of the request, from the headers of the response.
//!   `< until flow name` repeats the request until it belongs to that FlowSchema.
//! - `< only path` compares only that part of the body; it can be repeated. `< mask path` hides a value.
//! - `WATCH w …` opens a watch. `READ w 2` waits for two events, `READ w bookmark` for all events up to a bookmark,
//!   `READ w end` for all events until the server ends the stream.
//! - `{id}` is a word that is unique to the case, `{id6}` the same as four groups of an IPv6 address. `{ns}` is a
//!   namespace that is created for the case. `{extension}` is the port of an API server for the group `{id}.example.com`,
//!   which is started for the case. `{repeat x 100}` is a hundred x. A body that starts with `hex:` is binary.

use http::Method;

use crate::{path::Path, words::Words};

/// A named sequence of requests.
#[derive(Debug)]
pub(crate) struct Case {
    /// The name, unique in the file.
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    /// The words that the recording replaces with placeholders.
    pub(crate) words: Words,
}

/// One request, or one read of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The first line of the step, before placeholders are filled in.
    pub(crate) title: String,
    pub(crate) act: Act,
    /// Names, and the paths of their values in the response.
    pub(crate) takes: Vec<(String, Path)>,
    /// The conditions on the response before the next step. All must be true.
    pub(crate) until: Vec<Until>,
    /// The FlowSchema and the priority level are compared.
    pub(crate) flow: bool,
    /// The compared parts of the body. Empty to compare the whole body.
    pub(crate) only: Vec<Path>,
    pub(crate) masks: Vec<Path>,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Request(Template),
    Watch { name: String, request: Template },
    Read { name: String, amount: Amount },
}

/// A request with placeholders.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// The events of a watch to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    Events(usize),
    Bookmark,
    End,
}

/// A condition on the response.
#[derive(Clone, Debug)]
pub(crate) enum Until {
    Status(u16),
    /// The name of the request's FlowSchema.
    Flow(String),
    Value(Path, String),
    Part(Path, String),
}

/// Parses a file of cases. Returns an error with the line number.
pub(crate) fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut block: Vec<(usize, &str)> = Vec::new();
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    for (number, line) in lines.chain([(usize::MAX, "")]) {
        if let Some(name) = line.strip_prefix("=== ") {
            finish(&mut block, &mut cases)?;
            if cases.iter().any(|case| case.name == name) {
                return Err(format!("line {number}: a second case {name}"));
            }
            cases.push(Case { name: name.to_owned(), steps: Vec::new(), words: Words::default() });
        } else if line.trim().is_empty() {
            finish(&mut block, &mut cases)?;
        } else if !line.starts_with('#') {
            block.push((number, line));
        }
    }
    Ok(cases)
}

/// Adds a step from the collected lines, if there are any.
fn finish(block: &mut Vec<(usize, &str)>, cases: &mut [Case]) -> Result<(), String> {
    let lines = std::mem::take(block);
    let Some((number, _)) = lines.first().copied() else { return Ok(()) };
    let case = cases.last_mut().ok_or_else(|| format!("line {number}: a step before the first case"))?;
    let step = step(&lines).map_err(|problem| format!("line {number}: {problem}"))?;
    case.steps.push(step);
    Ok(())
}

fn step(lines: &[(usize, &str)]) -> Result<Step, String> {
    let title = lines[0].1;
    let mut headers = Vec::new();
    let mut body = Vec::new();
    let (mut takes, mut until, mut only, mut masks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut flow = false;
    for (_, line) in &lines[1..] {
        if let Some(header) = line.strip_prefix("> ") {
            let (name, value) = header.split_once(": ").ok_or_else(|| format!("no header: {header}"))?;
            headers.push((name.to_owned(), value.to_owned()));
        } else if let Some(rule) = line.strip_prefix("< ") {
            if rule == "flow" {
                flow = true;
            } else if let Some(name) = rule.strip_prefix("until flow ") {
                until.push(Until::Flow(name.to_owned()));
                flow = true;
            } else if let Some(condition) = rule.strip_prefix("until ") {
                until.push(match (condition.split_once('~'), condition.rsplit_once('=')) {
                    (Some((path, part)), _) => Until::Part(Path::parse(path)?, part.to_owned()),
                    (None, Some((path, value))) => Until::Value(Path::parse(path)?, value.to_owned()),
                    (None, None) => Until::Status(condition.parse().map_err(|_| format!("no status: {condition}"))?),
                });
            } else if let Some(path) = rule.strip_prefix("only ") {
                only.push(Path::parse(path)?);
            } else if let Some(path) = rule.strip_prefix("mask ") {
                masks.push(Path::parse(path)?);
            } else {
                let (name, path) = rule.split_once(" = ").ok_or_else(|| format!("no rule: {rule}"))?;
                takes.push((name.to_owned(), Path::parse(path)?));
            }
        } else {
            body.push(*line);
        }
    }
    // At most three words: a placeholder in a path may contain spaces.
    let (verb, rest) = title.split_once(' ').unwrap_or((title, ""));
    let words = match verb {
        "READ" | "WATCH" => rest.split_once(' ').map_or_else(|| vec![verb], |(name, rest)| vec![verb, name, rest]),
        _ => vec![verb, rest],
    };
    let request = |method: &str, path: &str| template(method, path, headers.clone(), body.join("\n"));
    let act = match words[..] {
        ["READ", name, amount] => Act::Read {
            name: name.to_owned(),
            amount: match amount {
                "bookmark" => Amount::Bookmark,
                "end" => Amount::End,
                count => Amount::Events(count.parse().map_err(|_| format!("no number of events: {count}"))?),
            },
        },
        ["WATCH", name, path] => Act::Watch { name: name.to_owned(), request: request("GET", path)? },
        [method, path] => Act::Request(request(method, path)?),
        _ => return Err(format!("no step: {title}")),
    };
    Ok(Step { title: title.to_owned(), act, takes, until, flow, only, masks })
}

fn template(method: &str, path: &str, headers: Vec<(String, String)>, body: String) -> Result<Template, String> {
    let (method, kind) = method.split_once('/').unwrap_or((method, ""));
    let content = match kind {
        "" => "application/json",
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => return Err(format!("no kind of patch: {other}")),
    };
    let given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Content-Type"));
    let mut headers = headers;
    if !given && !body.is_empty() {
        headers.push(("Content-Type".to_owned(), content.to_owned()));
    }
    headers.retain(|(_, value)| value != "-");
    let method = method.parse().map_err(|_| format!("no method: {method}"))?;
    Ok(Template { method, path: path.to_owned(), headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cases_and_a_case_is_steps() {
        let text = "# a file\n\n=== one\n# why\nPATCH/merge /a?b=c\n> Accept: x\n{\"a\":\n1}\n< rv = metadata.resourceVersion\n\n\
                    WATCH w /a\n\nREAD w bookmark\n\n=== two\nGET /b\n< until 200\n< until a=b\n< only kind\n\n\
                    GET /c\n< until message~a=b\n\nGET /d\n< until flow a=b\n\nGET /e\n< flow\n";
        let cases = parse(text).unwrap();
        assert_eq!(cases.iter().map(|case| &*case.name).collect::<Vec<_>>(), ["one", "two"]);
        let Act::Request(request) = &cases[0].steps[0].act else { panic!("a request") };
        assert_eq!((request.method.as_str(), &*request.path, &*request.body), ("PATCH", "/a?b=c", "{\"a\":\n1}"));
        assert_eq!(request.headers[1].1, "application/merge-patch+json");
        assert!(matches!(&cases[0].steps[2].act, Act::Read { amount: Amount::Bookmark, .. }));
        assert!(matches!(cases[1].steps[0].until[..], [Until::Status(200), Until::Value(..)]));
        assert!(matches!(&cases[1].steps[1].until[..], [Until::Part(_, part)] if part == "a=b"));
        assert!(matches!(&cases[1].steps[2].until[..], [Until::Flow(name)] if name == "a=b"));
        assert_eq!(cases[1].steps.iter().map(|step| step.flow).collect::<Vec<_>>(), [false, false, true, true]);
    }

    #[test]
    fn case_errors_have_their_line() {
        assert_eq!(parse("GET /a\n").unwrap_err(), "line 1: a step before the first case");
        assert_eq!(parse("=== a\n=== a\n").unwrap_err(), "line 2: a second case a");
        assert_eq!(parse("=== a\n\nREAD w some\n").unwrap_err(), "line 3: no number of events: some");
        assert_eq!(parse("=== a\nGET /a\n< what\n").unwrap_err(), "line 2: no rule: what");
    }
}
