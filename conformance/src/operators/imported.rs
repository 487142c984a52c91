//! Comparison of imported CRDs: the CRD of the generated types, and the responses to objects.
//!
//! Each CRD is imported, and the CRD of the generated types is compared with it. Then each CRD is created on its own
//! embedded server, and generated valid and invalid objects are sent to both. `IMPORT.md` lists the known differences
//! between CRDs with their reasons.

use std::{collections::BTreeSet, fmt, fs};

use futures::{StreamExt, stream};
use windlass_import::Imported;

use super::{AT_ONCE, Operators, answers, definition, definition::Definition, listed, object_scenario, signature};
use crate::{Target, recording, suite::root};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Imports {
    /// The number of files with CRDs.
    pub files: usize,
    /// The number of CRDs.
    pub definitions: usize,
    /// The number of versions. Each has its own module of types.
    pub versions: usize,
    /// The number of CRDs whose types define exactly the same CRD.
    pub equal: usize,
    /// The number of differences listed in `IMPORT.md`.
    pub listed: usize,
    /// The number of generated objects.
    pub objects: usize,
    /// The number of scenarios whose first object was accepted.
    pub accepted: usize,
    /// The number of compared responses.
    pub answers: usize,
    /// The errors: unlisted differences, listed differences that do not exist, and different responses.
    pub wrong: Vec<String>,
}

impl fmt::Display for Imports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, definitions, versions, equal, listed, objects, accepted, answers, wrong } = self;
        let wrong = wrong.len();
        write!(
            f,
            "{files} files, {definitions} definitions, {versions} versions; {equal} definitions equal, {listed} listed differences; \
             {objects} objects ({accepted} scenarios begin with one that was accepted), {answers} answers compared; {wrong} wrong"
        )
    }
}

/// A line of the list.
struct Listed {
    /// The name of the CRD.
    name: String,
    /// The prefix of the place.
    place: String,
}

impl Listed {
    /// Parses the items of the list: a CRD and a place, each in backticks, and a reason.
    fn all(text: &str) -> Vec<Self> {
        let line = |line: &str| {
            let parts: Vec<&str> = line.strip_prefix("* ")?.splitn(5, '`').collect();
            match parts[..] {
                ["", name, " ", place, reason] if reason.len() > 4 => {
                    Some(Self { name: name.to_owned(), place: place.to_owned() })
                }
                _ => panic!("IMPORT.md: no definition, place and reason in: {line}"),
            }
        };
        text.lines().filter_map(line).collect()
    }
}

/// Imports all CRDs of a folder, and reports errors immediately.
///
/// # Panics
///
/// If the folder or the list of differences cannot be read.
pub async fn imported(what: &Operators, mut tell: impl FnMut(&str)) -> Imports {
    let path = root().join("IMPORT.md");
    let list = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let list = Listed::all(&list);
    let mut met = BTreeSet::new();
    let mut imports = Imports::default();
    let (as_read, as_typed) = (Target::embedded().await, Target::embedded().await);
    for folder in listed(&what.folder).into_iter().filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.contains(&what.only) {
            continue;
        }
        for file in listed(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "yaml")) {
            let mut wrong = |text: String| {
                tell(&text);
                imports.wrong.push(text);
            };
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let documents = match windlass_import::read(&file.display().to_string(), &text) {
                Ok(documents) => documents,
                Err(error) => {
                    wrong(error.to_string());
                    continue;
                }
            };
            imports.files += usize::from(!documents.is_empty());
            for document in documents {
                imports.definitions += 1;
                let Imported { modules, definition, differences } = match document.import(None) {
                    Ok(imported) => imported,
                    Err(error) => {
                        wrong(error.to_string());
                        continue;
                    }
                };
                imports.versions += modules.len();
                imports.equal += usize::from(differences.is_empty());
                for difference in differences {
                    let known = list.iter().position(|listed| {
                        listed.name == document.name() && difference.place.starts_with(&listed.place)
                    });
                    if let Some(known) = known {
                        imports.listed += 1;
                        met.insert(known);
                    } else {
                        wrong(format!("{}: {difference}", document.name()));
                    }
                }
                if what.objects == 0 {
                    continue;
                }
                let pair = [(&as_read, document.value().to_string()), (&as_typed, definition.to_string())];
                let verdicts = verdicts(document.name(), pair, what).await;
                imports.objects += verdicts.objects;
                imports.accepted += verdicts.accepted;
                imports.answers += verdicts.answers;
                verdicts.wrong.into_iter().for_each(&mut wrong);
            }
        }
    }
    for (index, listed) in list.iter().enumerate().filter(|_| what.only.is_empty()) {
        if !met.contains(&index) {
            let text = format!("IMPORT.md lists a difference that is none any more: {} {}", listed.name, listed.place);
            tell(&text);
            imports.wrong.push(text);
        }
    }
    as_read.stop().await;
    as_typed.stop().await;
    imports
}

/// Creates a CRD on each server, and sends the same objects to both.
async fn verdicts(name: &str, pair: [(&Target, String); 2], what: &Operators) -> Imports {
    let mut found = Imports::default();
    let mut defined = Vec::new();
    for (target, text) in &pair {
        let created = answers(target, &definition::creation(name, text)).await;
        match created.last.as_ref().and_then(Definition::read) {
            Some(definition) => defined.push(definition),
            None => found.wrong.push(format!("{name} is not established:\n{}", created.text)),
        }
    }
    let [(as_read, _), (as_typed, _)] = &pair;
    if let [definition, _] = &defined[..] {
        let scenarios = definition
            .versions
            .iter()
            .flat_map(|version| object_scenario::scenarios(definition, version, what))
            .collect::<Vec<_>>();
        let played = stream::iter(scenarios).map(async |scenario| {
            let both = futures::join!(answers(as_read, &scenario.case), answers(as_typed, &scenario.case));
            (scenario, both)
        });
        let mut played = std::pin::pin!(played.buffered(AT_ONCE));
        let mut told = BTreeSet::new();
        while let Some((scenario, (one, other))) = played.next().await {
            found.objects += scenario.objects;
            found.answers += scenario.case.steps.len();
            found.accepted += usize::from(one.accepted);
            if one.text != other.text {
                let difference = recording::difference(&one.text, &other.text);
                if told.insert(signature(&difference)) {
                    found.wrong.push(format!("{}\n{difference}", scenario.told()));
                }
            }
        }
    }
    for (target, _) in &pair {
        answers(target, &definition::removal(name)).await;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_differences_have_a_place_and_a_reason() {
        let text = fs::read_to_string(root().join("IMPORT.md")).unwrap();
        let list = Listed::all(&text);
        assert!(!list.is_empty() && list.iter().all(|listed| listed.name.contains('.') && !listed.place.is_empty()));
    }
}
