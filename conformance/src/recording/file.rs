//! The format of recording files: each case after `=== `, its steps after `--- `.
//!
//! Cases of one template are grouped. Lines that begin with `: ` list their kinds. If kinds have different responses to
//! a step, a line that begins with `:: ` lists the kinds of each response. The most frequent response is last, after
//! `:: others`.

use std::{collections::BTreeMap, fmt::Write as _};

use indexmap::IndexMap;

use super::WIDTH;

const CASE: &str = "\n=== ";
const STEP: &str = "--- ";
const KINDS: &str = ": ";
const GROUP: &str = ":: ";
const OTHERS: &str = "others";

/// Writes the responses of cases by name.
pub(crate) fn write(answers: &[(String, String)]) -> String {
    let mut templates: IndexMap<&str, Vec<(&str, &str)>> = IndexMap::new();
    let mut file = String::new();
    for (name, text) in answers {
        match name.split_once('/') {
            Some((template, kind)) => templates.entry(template).or_default().push((kind, text)),
            None => {
                let _ = write!(file, "{CASE}{name}\n{text}");
            }
        }
    }
    for (template, kinds) in templates {
        let _ = writeln!(file, "{CASE}{template}");
        write_kinds(&mut file, KINDS, kinds.iter().map(|(kind, _)| *kind));
        let mut steps: Vec<_> = kinds.iter().map(|(kind, text)| (*kind, steps(text).into_iter())).collect();
        loop {
            let mut answers: IndexMap<(&str, &str), Vec<&str>> = IndexMap::new();
            for (kind, steps) in &mut steps {
                if let Some(step) = steps.next() {
                    answers.entry(step).or_default().push(*kind);
                }
            }
            let Some(most) = answers.values().map(Vec::len).max() else { break };
            // The first of the largest groups is last.
            let others =
                answers.values().position(|kinds| kinds.len() == most).and_then(|at| answers.shift_remove_index(at));
            let Some(((title, answer), _)) = others else { break };
            let _ = writeln!(file, "{STEP}{title}");
            for ((_, answer), kinds) in &answers {
                write_kinds(&mut file, GROUP, kinds.iter().copied());
                file.push_str(answer);
            }
            if !answers.is_empty() {
                let _ = writeln!(file, "{GROUP}{OTHERS}");
            }
            file.push_str(answer);
        }
    }
    file
}

/// Writes words in lines with a common prefix and a limited width.
fn write_kinds<'a>(text: &mut String, prefix: &str, kinds: impl Iterator<Item = &'a str>) {
    let mut line = String::new();
    for kind in kinds {
        if line.len() + kind.len() > WIDTH {
            let _ = writeln!(text, "{prefix}{}", std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(kind);
    }
    let _ = writeln!(text, "{prefix}{line}");
}

/// Splits a case into steps: the title, and the lines of the response.
fn steps(text: &str) -> Vec<(&str, &str)> {
    let mut starts: Vec<_> =
        text.match_indices(STEP).map(|(at, _)| at).filter(|at| *at == 0 || text[..*at].ends_with('\n')).collect();
    starts.push(text.len());
    let steps = starts.windows(2).map(|ends| &text[ends[0] + STEP.len()..ends[1]]);
    steps.map(|step| step.split_once('\n').unwrap_or((step, ""))).collect()
}

/// Parses a file. Returns the text of each case by name.
pub(crate) fn read(text: &str) -> BTreeMap<String, String> {
    let mut recordings = BTreeMap::new();
    for case in text.split(CASE).skip(1) {
        let Some((name, rest)) = case.split_once('\n') else { continue };
        // A case ends at the first line of the next case.
        let rest = format!("{}\n", rest.trim_end_matches('\n'));
        let (kinds, rest) = take_kinds(&rest, KINDS);
        if kinds.is_empty() {
            recordings.insert(name.to_owned(), rest.to_owned());
            continue;
        }
        for kind in kinds {
            let steps =
                steps(rest).into_iter().map(|(title, answers)| format!("{STEP}{title}\n{}", answer_of(kind, answers)));
            recordings.insert(format!("{name}/{kind}"), steps.collect());
        }
    }
    recordings
}

/// Parses the words of leading lines with a common prefix. Returns the remaining text, too.
fn take_kinds<'a>(text: &'a str, prefix: &str) -> (Vec<&'a str>, &'a str) {
    let mut kinds = Vec::new();
    let mut rest = text;
    while let Some((line, after)) = rest.strip_prefix(prefix).and_then(|rest| rest.split_once('\n')) {
        kinds.extend(line.split(' '));
        rest = after;
    }
    (kinds, rest)
}

/// Returns the response for a kind from the responses to a step.
fn answer_of<'a>(kind: &str, answers: &'a str) -> &'a str {
    let mut rest = answers;
    loop {
        let (kinds, after) = take_kinds(rest, GROUP);
        let end = after.find(&format!("\n{GROUP}")).map_or(after.len(), |at| at + 1);
        if kinds.is_empty() || kinds.contains(&kind) || kinds == [OTHERS] || end == after.len() {
            return &after[..end];
        }
        rest = &after[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_by_name() {
        let text = "# comment\n\n=== a\n--- GET /a\n200\n\n=== b\n--- GET /b\n404\n";
        let read = read(text);
        assert_eq!((&*read["a"], &*read["b"]), ("--- GET /a\n200\n", "--- GET /b\n404\n"));
    }

    #[test]
    fn equal_responses_of_kinds_are_written_once() {
        let answer = |kind: &str, second: &str| (format!("t/{kind}"), format!("--- GET\n200\n--- PUT x\n{second}\n"));
        let answers = [answer("a", "1"), answer("b", "2"), answer("c", "1"), answer("d", "3"), answer("e", "1")];
        let text = write(&answers);
        assert_eq!(text, "\n=== t\n: a b c d e\n--- GET\n200\n--- PUT x\n:: b\n2\n:: d\n3\n:: others\n1\n");
        assert_eq!(read(&text), BTreeMap::from(answers));
    }
}
