//! `windlass import`: definitions become types.

use std::{
    error::Error,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use windlass_import::{Imported, Module};
use windlass_scaffold::Sources;

use super::scaffolding;

/// The flags of `windlass import`.
#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct Options {
    /// Files of definitions, or folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    from: Vec<PathBuf>,
    /// Write a file for each version of each kind below this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write one file; without this and --out it is printed
    #[arg(short, value_name = "FILE", conflicts_with = "out")]
    output: Option<PathBuf>,
    /// Only this version of each kind
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let modules = modules(&options.from, options.version.as_deref())?;
    let files = match (&options.out, &options.output) {
        (Some(folder), _) => {
            let files = windlass_import::files(&modules);
            files.into_iter().map(|(path, text)| (folder.join(path), text)).collect()
        }
        (None, Some(file)) => vec![(file.clone(), windlass_import::one_file(&modules))],
        (None, None) => {
            io::stdout().lock().write_all(windlass_import::one_file(&modules).as_bytes())?;
            return Ok(());
        }
    };
    let changes = Sources::new(files).overwrite(options.mode.overwrite()).plan(Path::new("."))?;
    options.mode.carry_out(
        &changes,
        "next: declare the modules, and tell Manifests of the kinds; serde and serde_json are needed",
    )
}

/// The modules of all definitions. What they do not say of a definition is told.
pub(crate) fn modules(from: &[PathBuf], version: Option<&str>) -> Result<Vec<Module>, Box<dyn Error>> {
    let mut files = Vec::new();
    for path in from {
        collect(path, true, &mut files)?;
    }
    let mut modules = Vec::new();
    for path in files {
        let failed = |error: io::Error| format!("reading {}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(failed)?;
        for definition in windlass_import::read(&path.display().to_string(), &text)? {
            // Of many kinds, some may not have the version.
            if version.is_some_and(|version| !definition.versions().contains(&version)) {
                tracing::warn!("{} has no such version", definition.name());
                continue;
            }
            let Imported { modules: more, differences, .. } = definition.import(version)?;
            for difference in differences {
                tracing::warn!("{}: not in the types: {difference}", definition.name());
            }
            modules.extend(more);
        }
    }
    if modules.is_empty() {
        return Err("there is no CustomResourceDefinition in what was given".into());
    }
    Ok(modules)
}

/// The files of a folder, by name; a file that is named is taken whatever its name is.
fn collect(path: &Path, is_named: bool, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    let failed = |error: io::Error| format!("reading {}: {error}", path.display());
    if !path.is_dir() {
        let is_yaml = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if is_named || is_yaml {
            files.push(path.to_owned());
        }
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut paths = entries.into_iter().map(|entry| entry.path()).collect::<Vec<_>>();
    paths.sort();
    paths.iter().try_for_each(|path| collect(path, false, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_in_order_and_what_is_no_definition_is_passed_over() {
        let sites = concat!(env!("CARGO_MANIFEST_DIR"), "/../windlass-import/tests");
        let found = modules(&[sites.into()], None).unwrap();
        assert_eq!(found.iter().map(|module| module.version.as_str()).collect::<Vec<_>>(), ["v1beta1", "v1"]);
        assert_eq!(modules(&[sites.into()], Some("v1")).unwrap().len(), 1);
        let error = modules(&[sites.into()], Some("v9")).unwrap_err().to_string();
        assert_eq!(error, "there is no CustomResourceDefinition in what was given");
        let missing = modules(&["nothing.yaml".into()], None).unwrap_err().to_string();
        assert!(missing.starts_with("reading nothing.yaml: "), "{missing}");
    }
}
