//! `windlass init`: a project for an operator.

use std::{
    error::Error,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap::Args;
use windlass_scaffold::{Init, Overwrite, Place, Taken, Windlass};

use super::{from, scaffolding};

/// The flags of `windlass init`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The end of the groups of the project's APIs; my.domain unless given
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// The project's name, of its crate and its image; that of the folder unless given
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,
    /// Windlass' repository in a folder, in place of the released version; with --force, Cargo.toml is changed to it
    #[arg(long, value_name = "DIR")]
    windlass_path: Option<PathBuf>,
    /// A PROJECT file of kubebuilder: its APIs are taken over, with the types of its definitions
    #[arg(long, value_name = "PROJECT", conflicts_with_all = ["domain", "project_name"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

/// The end of groups for which nothing is said, as kubebuilder has it.
const DOMAIN: &str = "my.domain";

/// What a folder may hold that waits for a project: its history, and the versions that its dependencies are to have.
fn is_expected(name: &OsStr) -> bool {
    [".git", "Cargo.lock"].iter().any(|expected| name == *expected)
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(".");
    let there = if options.mode.overwrite() == Overwrite::Force { Place::at(folder)? } else { None };
    let windlass = options.windlass_path.as_deref().map(Windlass::at).transpose()?;
    let overwrite = options.mode.overwrite();
    // A project of its own is what is wanted; what else is in the folder may have been forgotten there.
    if overwrite == Overwrite::Never && folder.read_dir()?.flatten().any(|entry| !is_expected(&entry.file_name())) {
        tracing::warn!("the folder is not empty");
    }
    if let Some(project) = &options.from {
        let Taken { changes, left } = from::plan(project, windlass.unwrap_or_default(), overwrite, folder)?;
        for what in left {
            tracing::warn!("not taken over: {what}");
        }
        return options.mode.carry_out(&changes, "next: windlass generate all, cargo test");
    }
    // A project that is begun anew keeps what it is called, unless something else is said.
    let (name, domain) = there.map_or((None, None), |there| (Some(there.name), Some(there.domain)));
    let name = match options.project_name.clone().or(name) {
        Some(name) => name,
        None => folder.canonicalize()?.file_name().unwrap_or_default().to_string_lossy().to_lowercase(),
    };
    let given = options.domain.clone().or(domain);
    let mut init = Init::new(given.as_deref().unwrap_or(DOMAIN), &name)?.overwrite(overwrite);
    if let Some(windlass) = windlass {
        init = init.windlass(windlass);
    }
    let next = "next: windlass create api --group shop --version v1 --kind Website (names of yours)";
    let unsaid = format!(
        "domain: {DOMAIN}, for none was given: groups will end so; before the first kind, windlass init --force --domain example.com changes it\n{next}"
    );
    options.mode.carry_out(&init.plan(folder)?, if given.is_some() { next } else { &unsaid })
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
