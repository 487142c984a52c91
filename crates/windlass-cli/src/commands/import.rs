//! `windlass import`: generates types from CustomResourceDefinitions.
//!
//! Differences between a CustomResourceDefinition and its types are reported. They are an error after all files are
//! written, unless a project states the difference elsewhere.

use std::{
    error::Error,
    fs,
    io::{self, IsTerminal as _, Write as _},
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
    /// Files with CustomResourceDefinitions, or folders of such files
    #[arg(required = true, value_name = "FILE|DIR")]
    from: Vec<PathBuf>,
    /// Write one file for each kind and version below this folder; without this flag and -o, everything is printed
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write everything to one file
    #[arg(short, value_name = "FILE", conflicts_with = "out")]
    output: Option<PathBuf>,
    /// Import only this version of each kind
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

/// The types generated from CustomResourceDefinitions.
#[derive(Debug, Default)]
pub(crate) struct Types {
    pub(crate) modules: Vec<Module>,
    /// The number of differences between the types and the CustomResourceDefinitions.
    lost: usize,
}

/// The conversion is not part of a type; a project configures it in code.
const ELSEWHERE: &str = "conversion";

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let types = types(&options.from, options.version.as_deref())?;
    write(options, &types.modules)?;
    types.faithful()
}

fn write(options: &Options, modules: &[Module]) -> Result<(), Box<dyn Error>> {
    let files = match (&options.out, &options.output) {
        (Some(folder), _) => {
            let files = windlass_import::files(modules);
            files.into_iter().map(|(path, text)| (folder.join(path), text)).collect()
        }
        (None, Some(file)) => vec![(file.clone(), windlass_import::one_file(modules))],
        (None, None) => {
            let (text, mut output) = (windlass_import::one_file(modules), io::stdout().lock());
            output.write_all(text.as_bytes())?;
            if let Some(hint) = hint(&text, output.is_terminal()) {
                writeln!(io::stderr(), "{hint}")?;
            }
            return Ok(());
        }
    };
    let changes = Sources::new(files).overwrite(options.mode.overwrite()).plan(Path::new("."))?;
    options.mode.carry_out(
        &changes,
        "next: declare the modules, and add your own kinds to Manifests; the code requires serde and serde_json",
    )
}

/// The number of lines that are readable on a terminal.
const READABLE: usize = 200;

/// Returns a hint if too many lines were printed to a terminal.
fn hint(text: &str, at_terminal: bool) -> Option<String> {
    let lines = text.lines().count();
    let is_much = at_terminal && lines > READABLE;
    is_much.then(|| format!("{lines} lines: --out DIR writes a file for each kind and version, -o FILE one file"))
}

impl Types {
    /// Returns an error if the types don't reproduce the CustomResourceDefinitions.
    fn faithful(&self) -> Result<(), Box<dyn Error>> {
        match self.lost {
            0 => Ok(()),
            1 => {
                Err("the types are incomplete: a CustomResourceDefinition generated from them differs in one place"
                    .into())
            }
            lost => Err(format!(
                "the types are incomplete: CustomResourceDefinitions generated from them differ in {lost} places"
            )
            .into()),
        }
    }
}

/// Generates the types of all CustomResourceDefinitions and reports the differences.
pub(crate) fn types(from: &[PathBuf], version: Option<&str>) -> Result<Types, Box<dyn Error>> {
    let mut files = Vec::new();
    for path in from {
        collect(path, true, &mut files)?;
    }
    let mut types = Types::default();
    for path in files {
        let failed = |error: io::Error| format!("reading {}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(failed)?;
        for definition in windlass_import::read(&path.display().to_string(), &text)? {
            // With several kinds, some may not have the version.
            if version.is_some_and(|version| !definition.versions().contains(&version)) {
                tracing::warn!("{} has no such version", definition.name());
                continue;
            }
            let Imported { modules, differences, .. } = definition.import(version)?;
            for difference in differences {
                if difference.place.starts_with(ELSEWHERE) {
                    let place = "configure it in code (CrdBuilder::converted_by)";
                    tracing::warn!("{}: {place}: {difference}", definition.name());
                } else {
                    tracing::error!("{}: missing in the types: {difference}", definition.name());
                    types.lost += 1;
                }
            }
            types.modules.extend(modules);
        }
    }
    if types.modules.is_empty() {
        return Err("the input contains no CustomResourceDefinition".into());
    }
    Ok(types)
}

/// Collects the files of a folder, sorted by name. A file that is named explicitly is always included.
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
    fn import_reads_folders_in_order_and_skips_other_files() {
        let sites = concat!(env!("CARGO_MANIFEST_DIR"), "/../windlass-import/tests");
        let found = types(&[sites.into()], None).unwrap();
        found.faithful().unwrap();
        assert_eq!(found.modules.iter().map(|module| module.version.as_str()).collect::<Vec<_>>(), ["v1beta1", "v1"]);
        assert_eq!(types(&[sites.into()], Some("v1")).unwrap().modules.len(), 1);
        let error = types(&[sites.into()], Some("v9")).unwrap_err().to_string();
        assert_eq!(error, "the input contains no CustomResourceDefinition");
        let missing = types(&["nothing.yaml".into()], None).unwrap_err().to_string();
        assert!(missing.starts_with("reading nothing.yaml: "), "{missing}");
    }

    #[test]
    fn long_output_suggests_writing_files() {
        let much = "line\n".repeat(READABLE + 1);
        assert!(hint(&much, true).unwrap().starts_with("201 lines: --out DIR"));
        assert_eq!((hint(&much, false), hint("line\n", true)), (None, None));
    }

    #[test]
    fn incomplete_import_is_written_and_reported_as_error() {
        let folder = std::env::temp_dir().join(format!("windlass-import-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let definition = |field: &str, conversion: &str| {
            format!(
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: odds.example.com}}\n\
                 spec:\n  group: example.com\n  scope: Cluster\n  names: {{kind: Odd, plural: odds}}\n{conversion}  versions:\n  \
                 - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {field}}}}}}}}}\n"
            )
        };
        let import = |text: String| {
            let (from, to) = (folder.join("odd.yaml"), folder.join("odd.rs"));
            fs::write(&from, text).unwrap();
            let mode = scaffolding::Mode::forced();
            let done = run(&Options { from: vec![from], out: None, output: Some(to.clone()), version: None, mode });
            assert!(fs::read_to_string(to).unwrap().contains("pub struct Odd"));
            done.map_err(|error| error.to_string())
        };
        let lost = "the types are incomplete: a CustomResourceDefinition generated from them differs in one place";
        assert_eq!(import(definition("{type: string, color: red}", "")), Err(lost.to_owned()));
        let webhook = "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1]}}\n";
        assert_eq!(import(definition("{type: string}", webhook)), Ok(()));
        fs::remove_dir_all(folder).unwrap();
    }
}
