//! The text format of recorded responses, with one file per file of cases, for readable diffs.
//!
//! A step has its title after `--- `, the status, the compared headers with unusual values, and the body. JSON is
//! printed over several lines, with the server's order of keys.

pub(crate) mod file;

use std::fmt::Write as _;

use http::{HeaderMap, response};
use serde_json::Value;

use crate::{
    case::{Case, Step},
    normal::Normal,
    path::Path,
    play::{Seen, Transcript},
};

/// The compared headers, with their usual values; `-` means absent.
const HEADERS: [(&str, &str); 8] = [
    ("Content-Type", "application/json"),
    ("Content-Encoding", "-"),
    ("Cache-Control", "no-cache, private"),
    ("Vary", "-"),
    ("Location", "-"),
    ("Retry-After", "-"),
    ("ETag", "-"),
    ("Warning", "-"),
];

/// The maximum number of line pairs for a line diff.
const LARGEST: usize = 10_000_000;

/// Shorter values are printed on one line.
const WIDTH: usize = 120;

/// Writes the responses to a case.
pub(crate) fn write(case: &Case, transcript: &Transcript) -> String {
    let mut normal = Normal::of(transcript);
    let mut text = String::new();
    for (index, answer) in transcript.answers.iter().enumerate() {
        normal.at(answer.at);
        let title = case.steps.get(index).map_or("", |step| &step.title);
        let _ = writeln!(text, "--- {title}");
        if let Some(flow) = &answer.flow {
            let _ = writeln!(text, "flow: {}", normal.text(flow));
        }
        match &answer.seen {
            Seen::Response { head, body } => {
                write_head(&mut text, head, &mut normal);
                write_body(&mut text, body, case.steps.get(index), !head.status.is_success(), &mut normal);
            }
            Seen::Opened { head } => {
                write_head(&mut text, head, &mut normal);
                text.push_str("the watch is open\n");
            }
            Seen::Events { events, ended } => {
                let only = case.steps.get(index).map(|step| &*step.only).unwrap_or_default();
                for event in events {
                    write_event(&mut text, &normal.event(event), only);
                }
                if *ended {
                    text.push_str("the watch has ended\n");
                }
            }
            Seen::Failed(problem) => {
                let _ = writeln!(text, "no answer: {}", normal.text(problem));
            }
        }
    }
    case.words.generic(&text)
}

fn write_head(text: &mut String, head: &response::Parts, normal: &mut Normal) {
    let _ = writeln!(text, "{}", head.status.as_u16());
    for (name, usual) in HEADERS {
        for value in values(&head.headers, name) {
            let value = if name == "ETag" && value != "-" { "{etag}".to_owned() } else { normal.text(value) };
            if value != usual {
                let _ = writeln!(text, "{name}: {value}");
            }
        }
    }
}

/// Returns the values of a header, or a dash if it is absent. Warnings are sorted, because the server's order depends
/// on Go maps.
fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let mut values: Vec<_> = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("not ASCII")).collect();
    if name == "Warning" {
        values.sort_unstable();
    }
    if values.is_empty() { vec!["-"] } else { values }
}

fn write_body(text: &mut String, body: &[u8], step: Option<&Step>, failed: bool, normal: &mut Normal) {
    let raw = String::from_utf8_lossy(body);
    let readable = |letter: char| !letter.is_control() || letter.is_ascii_whitespace();
    if raw.contains(char::REPLACEMENT_CHARACTER) || !raw.chars().all(readable) {
        text.push_str("bytes that are no text\n");
        return;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
        for line in normal.text(&raw).lines() {
            let _ = writeln!(text, "| {line}");
        }
        return;
    };
    if let Some(step) = step {
        step.masks.iter().for_each(|path| path.replace(&mut value, &Value::from("{masked}")));
    }
    let only = step.map(|step| &*step.only).unwrap_or_default();
    // Versions of collections are identified by the kind, so the document is normalized before parts are selected.
    let value = normal.value(&value);
    // A failure without any of the parts is printed completely.
    let only = if failed && only.iter().all(|path| path.find(&value).is_empty()) { &[] } else { only };
    if only.is_empty() {
        let layout = layout(&raw);
        if !layout.is_empty() {
            let _ = writeln!(text, "layout: {}", layout.join(", "));
        }
        lay_out(text, &value, 0);
        text.push('\n');
    }
    write_parts(text, &value, only);
}

fn write_parts(text: &mut String, value: &Value, parts: &[Path]) {
    for path in parts {
        let _ = write!(text, "{} = ", path.text());
        let found: Vec<_> = path.find(value).into_iter().cloned().collect();
        match found.first() {
            _ if path.is_many() => lay_out(text, &Value::Array(found), 0),
            Some(value) => lay_out(text, value, 0),
            None => text.push_str("absent"),
        }
        text.push('\n');
    }
}

/// Returns the unusual properties of a JSON body. Usually it is one line with a line feed.
fn layout(raw: &str) -> Vec<&'static str> {
    let mut layout = Vec::new();
    if raw.trim_end().contains('\n') {
        layout.push("indented");
    }
    if !raw.ends_with('\n') {
        layout.push("no newline at the end");
    }
    if raw.contains(['<', '>', '&']) {
        layout.push("HTML unescaped");
    }
    layout
}

fn write_event(text: &mut String, event: &Value, only: &[Path]) {
    let usual = event.as_object().is_some_and(|fields| fields.keys().eq(["type", "object"]));
    if let (true, Some(kind), false) = (usual, event["type"].as_str(), only.is_empty()) {
        let _ = writeln!(text, "{kind}");
        write_parts(text, event, only);
        return;
    }
    if let (true, Some(kind)) = (usual, event["type"].as_str()) {
        let _ = write!(text, "{kind} ");
        lay_out(text, &event["object"], 0);
    } else {
        lay_out(text, event, 0);
    }
    text.push('\n');
}

/// Prints the value over as few lines as possible.
fn lay_out(text: &mut String, value: &Value, indent: usize) {
    let compact = value.to_string();
    let (open, close, lines): (_, _, Vec<(String, &Value)>) = match value {
        Value::Object(fields) => {
            ('{', '}', fields.iter().map(|(key, value)| (format!("{}: ", Value::from(key.as_str())), value)).collect())
        }
        Value::Array(items) => ('[', ']', items.iter().map(|item| (String::new(), item)).collect()),
        _ => (' ', ' ', Vec::new()),
    };
    if lines.is_empty() || compact.len() + indent <= WIDTH {
        text.push_str(&compact);
        return;
    }
    text.push(open);
    for (index, (key, value)) in lines.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n{:1$}{key}", "", indent + 2);
        lay_out(text, value, indent + 2);
    }
    let _ = write!(text, "\n{:indent$}{close}", "");
}

/// Returns the differing lines of two recordings, with the step's title.
pub(crate) fn difference(recorded: &str, seen: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (recorded.lines().collect(), seen.trim_end_matches('\n').lines().collect());
    // Long documents differ in few lines, so equal lines at both ends are only used for the step's title.
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let mut title = old[..same].iter().rev().find(|line| line.starts_with("--- ")).copied();
    let (old, new) = (&old[same..], &new[same..]);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - same], &new[..new.len() - same]);
    if old.len() * new.len() > LARGEST {
        return format!("    {}\n    - {}\n    + {}\n    and more\n", title.unwrap_or_default(), old[0], new[0]);
    }
    // The lengths of the longest common subsequences of the remaining lines.
    let mut lengths = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i][j] =
                if old[i] == new[j] { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            if old[i].starts_with("--- ") {
                title = Some(old[i]);
            }
            (i, j) = (i + 1, j + 1);
            continue;
        }
        if let Some(title) = title.take() {
            let _ = writeln!(text, "    {title}");
        }
        if i < old.len() && (j == new.len() || lengths[i + 1][j] >= lengths[i][j + 1]) {
            let _ = writeln!(text, "    - {}", old[i]);
            i += 1;
        } else {
            let _ = writeln!(text, "    + {}", new[j]);
            j += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_values_are_laid_out_and_short_ones_stay_on_their_line() {
        let mut text = String::new();
        lay_out(&mut text, &json!({"b": {"c": [1, 2]}, "a": "x".repeat(WIDTH)}), 0);
        assert_eq!(text, format!("{{\n  \"b\": {{\"c\":[1,2]}},\n  \"a\": \"{}\"\n}}", "x".repeat(WIDTH)));
    }

    #[test]
    fn difference_is_reported_with_its_step() {
        let told = difference("--- GET /a\n200\n--- GET /b\n200\nx", "--- GET /a\n200\n--- GET /b\n404\nx\n");
        assert_eq!(told, "    --- GET /b\n    - 200\n    + 404\n");
    }
}
