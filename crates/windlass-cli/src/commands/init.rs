//! `windlass init`: creates an operator project.

use std::{
    error::Error,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap::Args;
use windlass_scaffold::{ImportPlan, Init, Overwrite, ProjectLocation};

use super::{from, scaffolding};

/// The flags of `windlass init`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Domain of the project's API groups; defaults to my.domain
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Name of the project, its crate and its image; defaults to the name of the folder
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,
    #[command(flatten)]
    source: scaffolding::Source,
    /// PROJECT file of a kubebuilder project whose APIs are imported, with types generated from its
    /// CustomResourceDefinitions
    #[arg(long, value_name = "PROJECT", conflicts_with_all = ["domain", "project_name"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

/// The default domain, as in kubebuilder.
const DOMAIN: &str = "my.domain";

/// Reports whether a file is expected in the folder of a new project: its Git history and its lock file.
fn is_expected(name: &OsStr) -> bool {
    [".git", "Cargo.lock"].iter().any(|expected| name == *expected)
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(".");
    let existing = if options.mode.overwrite() == Overwrite::Force { ProjectLocation::at(folder)? } else { None };
    let windlass = options.source.windlass()?;
    let overwrite = options.mode.overwrite();
    // A project needs its own folder; other files may be there by mistake.
    if overwrite == Overwrite::Never && folder.read_dir()?.flatten().any(|entry| !is_expected(&entry.file_name())) {
        tracing::warn!("the folder is not empty");
    }
    if let Some(project) = &options.from {
        let ImportPlan { changes, left } = from::plan(project, windlass.unwrap_or_default(), overwrite, folder)?;
        for what in left {
            tracing::warn!("not imported: {what}");
        }
        return options.mode.carry_out(&changes, "next: windlass generate all, cargo test");
    }
    // An existing project keeps its name and domain unless they are specified.
    let (name, domain) = existing.map_or((None, None), |existing| (Some(existing.name), Some(existing.domain)));
    let name = match options.project_name.clone().or(name) {
        Some(name) => name,
        None => folder.canonicalize()?.file_name().unwrap_or_default().to_string_lossy().to_lowercase(),
    };
    let given = options.domain.clone().or(domain);
    let mut init = Init::new(given.as_deref().unwrap_or(DOMAIN), &name)?.overwrite(overwrite);
    if let Some(windlass) = windlass {
        init = init.windlass(windlass);
    }
    let next = "next: windlass create api --group shop --version v1 --kind Website (use your own names)";
    let unsaid = format!(
        "domain: {DOMAIN} by default; to change it before you add a kind: windlass init --force --domain example.com\n{next}"
    );
    options.mode.carry_out(&init.plan(folder)?, if given.is_some() { next } else { &unsaid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_reports_unexpected_files_only() {
        let unexpected = [".git", "Cargo.lock", "Cargo.toml", "notes"].map(|name| !is_expected(OsStr::new(name)));
        assert_eq!(unexpected, [false, false, true, true]);
    }
}
