//! `windlass init`: a project for an operator.

use std::{
    error::Error,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap::Args;
use windlass_scaffold::{Init, Overwrite, Taken, Windlass};

use super::{from, scaffolding};

/// The flags of `windlass init`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The end of the groups of the project's APIs
    #[arg(long, value_name = "DOMAIN", default_value = "my.domain")]
    domain: String,
    /// The project's name; that of the folder unless given
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,
    /// Windlass' repository in a folder, in place of the released version
    #[arg(long, value_name = "DIR")]
    windlass_path: Option<PathBuf>,
    /// A PROJECT file of kubebuilder: its APIs are taken over, with the types of its definitions
    #[arg(long, value_name = "PROJECT", conflicts_with_all = ["domain", "project_name"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

/// What a folder may hold that waits for a project: its history, and the versions that its dependencies are to have.
fn is_expected(name: &OsStr) -> bool {
    [".git", "Cargo.lock"].iter().any(|expected| name == *expected)
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(".");
    let name = match &options.project_name {
        Some(name) => name.clone(),
        None => folder.canonicalize()?.file_name().unwrap_or_default().to_string_lossy().to_lowercase(),
    };
    let windlass = match &options.windlass_path {
        Some(path) => Windlass::At(path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?),
        None => Windlass::default(),
    };
    let overwrite = options.mode.overwrite();
    // A project of its own is what is wanted; what else is in the folder may have been forgotten there.
    if overwrite == Overwrite::Never && folder.read_dir()?.flatten().any(|entry| !is_expected(&entry.file_name())) {
        tracing::warn!("the folder is not empty");
    }
    if let Some(project) = &options.from {
        let Taken { changes, left } = from::plan(project, windlass, overwrite, folder)?;
        for what in left {
            tracing::warn!("not taken over: {what}");
        }
        return options.mode.carry_out(&changes, "next: windlass generate crds, cargo test");
    }
    let changes = Init::new(&options.domain, &name)?.windlass(windlass).overwrite(overwrite).plan(folder)?;
    options.mode.carry_out(&changes, "next: windlass create api --group … --version v1 --kind …")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_in_a_folder_is_told_from_what_waits_for_a_project() {
        let unexpected = [".git", "Cargo.lock", "Cargo.toml", "notes"].map(|name| !is_expected(OsStr::new(name)));
        assert_eq!(unexpected, [false, false, true, true]);
    }
}
