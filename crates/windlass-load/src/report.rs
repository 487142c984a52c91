//! Reports: results as text, JSON and HTML.

mod html;
mod plot;
mod text;

use std::{fs, io, path::Path};

pub use html::html;
pub use text::text;

use crate::{
    error::{Error, Result},
    results::Results,
};

/// Returns the results as JSON.
#[must_use]
pub fn json(results: &Results) -> String {
    let mut text = serde_json::to_string_pretty(results).expect("results consist of maps with string keys");
    text.push('\n');
    text
}

/// Writes `report.txt`, `report.json` and `report.html` to a directory, which is created.
pub fn write(results: &Results, directory: &Path) -> Result<()> {
    let failed = |file: &Path, source: io::Error| Error::Write { file: file.to_owned(), source };
    fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let reports = [("report.txt", text(results)), ("report.json", json(results)), ("report.html", html(results))];
    for (name, content) in reports {
        let file = directory.join(name);
        fs::write(&file, content).map_err(|error| failed(&file, error))?;
    }
    Ok(())
}
