//! Edits of kustomizations that keep hand-written content.

use std::path::Path;

use serde::Deserialize;

use crate::Error;

/// A list in a kustomization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Resources,
    Components,
}

impl List {
    const fn key(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Components => "components",
        }
    }
}

/// The parsed fields of a kustomization.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Kustomization {
    resources: Option<Vec<String>>,
    components: Option<Vec<String>>,
}

/// Adds a file to the `resources`, if it is missing. The remaining text is kept.
pub(crate) fn with_resource(text: &str, file: &str) -> String {
    with_entry(text, List::Resources, file)
}

/// Adds an entry to a list, if it is missing, or uncomments it. Parses the result to check that it has the entry.
pub(crate) fn with(path: &Path, text: &str, list: List, entry: &str) -> Result<String, Error> {
    if contains(path, text, list, entry)? {
        return Ok(text.to_owned());
    }
    let commented = text.lines().position(|line| uncommented(line).is_some_and(|line| is_entry(line, entry)));
    let edited = match commented.filter(|_| list == List::Resources) {
        Some(place) => changed_line(text, place, |line| uncommented(line).unwrap_or_default().to_owned()),
        None => with_entry(text, list, entry),
    };
    // The commented line may belong to another list.
    let edited = if contains(path, &edited, list, entry)? { edited } else { with_entry(text, list, entry) };
    settled(path, edited, list, entry, true)
}

/// Comments out an entry of a list, if it exists.
pub(crate) fn without(path: &Path, text: &str, list: List, entry: &str) -> Result<String, Error> {
    if !contains(path, text, list, entry)? {
        return Ok(text.to_owned());
    }
    let Some(place) = text.lines().position(|line| is_entry(line, entry)) else {
        return Err(no_place(path, list, entry));
    };
    let mut edited = changed_line(text, place, |line| format!("# {line}"));
    let is_empty = |text: &str| entries(path, text, list).map(|found| found.is_some_and(|found| found.is_empty()));
    if list != List::Resources || is_empty(&edited)? {
        // An empty list must not remain: its key is removed with the last entry.
        edited = without_lines(text, place, list);
    }
    settled(path, edited, list, entry, false)
}

fn settled(path: &Path, edited: String, list: List, entry: &str, expected: bool) -> Result<String, Error> {
    if contains(path, &edited, list, entry)? == expected { Ok(edited) } else { Err(no_place(path, list, entry)) }
}

fn no_place(path: &Path, list: List, entry: &str) -> Error {
    let missing = format!("list `{}` with one entry per line", list.key());
    Error::NoPlace { path: path.to_owned(), missing, addition: format!("- {entry}") }
}

/// Reports whether a list has an entry, according to the parsed YAML.
fn contains(path: &Path, text: &str, list: List, entry: &str) -> Result<bool, Error> {
    Ok(entries(path, text, list)?.is_some_and(|entries| entries.iter().any(|found| found == entry)))
}

/// Returns the entries of a list, according to the parsed YAML; `None` if the list does not exist.
fn entries(path: &Path, text: &str, list: List) -> Result<Option<Vec<String>>, Error> {
    let parsed: Kustomization =
        serde_saphyr::from_str(text).map_err(|error| Error::Yaml { path: path.to_owned(), source: error.into() })?;
    Ok(match list {
        List::Resources => parsed.resources,
        List::Components => parsed.components,
    })
}

fn is_entry(line: &str, entry: &str) -> bool {
    let Some(value) = line.trim().strip_prefix("- ") else { return false };
    let value = value.split(" #").next().unwrap_or_default().trim();
    value.trim_matches(['"', '\'']) == entry
}

/// Returns the text after the comment sign.
fn uncommented(line: &str) -> Option<&str> {
    line.strip_prefix("# ").or_else(|| line.strip_prefix('#'))
}

fn changed_line(text: &str, place: usize, change: impl Fn(&str) -> String) -> String {
    let lines = text.lines().enumerate();
    lines.map(|(index, line)| if index == place { change(line) } else { line.to_owned() } + "\n").collect()
}

/// Removes a line, and the key of the list if this was its only entry.
fn without_lines(text: &str, place: usize, list: List) -> String {
    let key = format!("{}:", list.key());
    let lines = text.lines().collect::<Vec<_>>();
    let is_item = |line: Option<&&str>| line.is_some_and(|line| line.trim_start().starts_with("- "));
    let is_alone = place > 0 && lines[place - 1].trim_end() == key && !is_item(lines.get(place + 1));
    let is_gone = |index: usize| index == place || (is_alone && index + 1 == place);
    let kept = lines.iter().enumerate().filter(|(index, _)| !is_gone(*index));
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

fn with_entry(text: &str, list: List, file: &str) -> String {
    let name = format!("{}:", list.key());
    let entry = format!("- {file}");
    if text.lines().any(|line| line.trim() == entry) {
        return text.to_owned();
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let Some(key) = lines.iter().position(|line| line.starts_with(&name)) else {
        return format!("{}\n{name}\n{entry}\n", text.trim_end()).trim_start().to_owned();
    };
    if lines[key].contains("[]") {
        lines[key] = &name;
    }
    let is_item = |line: &&&str| line.trim_start().starts_with("- ");
    let count = lines[key + 1..].iter().take_while(is_item).count();
    let indent =
        lines.get(key + count).filter(|_| count > 0).map_or("", |last| &last[..last.len() - last.trim_start().len()]);
    let entry = format!("{indent}{entry}");
    lines.insert(key + 1 + count, &entry);
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_after_the_others_and_once() {
        let one = with_resource("# Mine.\nresources: []\nlabels: {}\n", "a.yaml");
        assert_eq!(one, "# Mine.\nresources:\n- a.yaml\nlabels: {}\n");
        assert_eq!(with_resource(&one, "a.yaml"), one);
        assert_eq!(with_resource("resources:\n  - a.yaml\n", "b.yaml"), "resources:\n  - a.yaml\n  - b.yaml\n");
        assert_eq!(with_resource("labels: {}\n", "b.yaml"), "labels: {}\nresources:\n- b.yaml\n");
    }

    const PATH: &str = "kustomization.yaml";

    fn turned(text: &str, list: List, entry: &str) -> (String, String) {
        let on = with(Path::new(PATH), text, list, entry).unwrap();
        assert_eq!(with(Path::new(PATH), &on, list, entry).unwrap(), on, "a second run changes nothing");
        let off = without(Path::new(PATH), &on, list, entry).unwrap();
        assert_eq!(without(Path::new(PATH), &off, list, entry).unwrap(), off, "a second run changes nothing");
        (on, off)
    }

    #[test]
    fn commented_entry_is_enabled_and_disabled() {
        let text = "resources:\n- ../a\n# For b:\n# - ../b\n# For c:\n# - ../c\n";
        let (on, off) = turned(text, List::Resources, "../b");
        assert_eq!(on, text.replace("# - ../b", "- ../b"));
        assert_eq!(off, text);
        let (on, off) = turned("resources:\n- ../a\n", List::Resources, "../b");
        assert_eq!((on.as_str(), off.as_str()), ("resources:\n- ../a\n- ../b\n", "resources:\n- ../a\n# - ../b\n"));
    }

    #[test]
    fn list_is_added_and_removed_with_its_only_entry() {
        let text = "resources:\n- ../a\n";
        let (on, off) = turned(text, List::Components, "../b");
        assert_eq!((on, off.as_str()), (format!("{text}components:\n- ../b\n"), text));
        let others = "components:\n- ../a\nresources: []\n";
        let (on, off) = turned(others, List::Components, "../b");
        assert_eq!((on.as_str(), off.as_str()), ("components:\n- ../a\n- ../b\nresources: []\n", others));
    }

    #[test]
    fn other_yaml_forms_are_parsed_or_reported() {
        let quoted = "resources:\n  - \"../a\" # mine\n";
        assert_eq!(with(Path::new(PATH), quoted, List::Resources, "../a").unwrap(), quoted);
        let flow = "resources: [../a, ../b]\n";
        assert_eq!(with(Path::new(PATH), flow, List::Resources, "../a").unwrap(), flow);
        let told = without(Path::new(PATH), flow, List::Resources, "../a").unwrap_err().to_string();
        assert!(told.starts_with("kustomization.yaml: there is no list `resources` with one entry"), "{told}");
        let told = with(Path::new(PATH), flow, List::Resources, "../c").unwrap_err().to_string();
        assert!(told.contains("kustomization.yaml"), "{told}");
        assert!(with(Path::new(PATH), "a: [", List::Resources, "../c").is_err());
    }
}
