//! Imports CRDs of widely used operators. `cargo xtask long import` runs this program. With two folders, it compares
//! the CRDs in the second with those of the same names in the first.

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use conformance::{CRDS, Operators, imported};
use windlass_import::Document;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    if let [word, read, generated] = &arguments[..]
        && word == "compare"
    {
        return compare(Path::new(read), Path::new(generated));
    }
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let (Some(seed), Some(objects), Some(folder)) = (number(0), number(1), std::env::var_os(CRDS)) else {
        return Err(format!("usage: {CRDS}=FOLDER import SEED OBJECTS [ONLY], or import compare FOLDER FOLDER").into());
    };
    let only = arguments.get(2).cloned().unwrap_or_default();
    let what = Operators { folder: PathBuf::from(folder), seed, objects: usize::try_from(objects)?, only };
    let found = Box::pin(imported(&what, |wrong| println!("{wrong}"))).await;
    println!("{found}");
    Ok(if found.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares the generated CRDs with the input.
fn compare(read: &Path, generated: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let mut originals = BTreeMap::new();
    for file in files(read)? {
        for document in documents(&file)? {
            originals.insert(document.name().to_owned(), document);
        }
    }
    let (mut equal, mut wrong) = (0, 0);
    for file in files(generated)? {
        for document in documents(&file)? {
            let name = document.name();
            let original = originals.get(name).ok_or_else(|| format!("{name} was not read from {}", read.display()))?;
            let differences = windlass_import::differences(original.value(), document.value());
            for difference in &differences {
                println!("{name}: {difference}");
            }
            equal += usize::from(differences.is_empty());
            wrong += differences.len();
        }
    }
    println!("{equal} generated definitions are what was read, {wrong} differences");
    Ok(if wrong == 0 && equal > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn documents(file: &Path) -> Result<Vec<Document>, Box<dyn Error>> {
    Ok(windlass_import::read(&file.display().to_string(), &fs::read_to_string(file)?)?)
}

/// Returns the YAML files in a folder and its direct subfolders.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                found.push(entry?.path());
            }
        } else {
            found.push(path);
        }
    }
    found.retain(|path| path.is_file() && path.extension().is_some_and(|end| end == "yaml"));
    found.retain(|path| path.file_name().is_some_and(|name| name != "kustomization.yaml"));
    found.sort();
    Ok(found)
}
