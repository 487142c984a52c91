//! Code shared by the commands that write projects.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
use windlass_scaffold::{Changes, Overwrite, ProjectLocation, Windlass};

/// The next step after the project has an API or controller.
pub(crate) const TRY: &str = "next: cargo test, or windlass run";

/// Finds the project of the current folder or its nearest ancestor, like cargo.
pub(crate) fn project() -> Result<PathBuf, Box<dyn Error>> {
    Ok(ProjectLocation::above(&env::current_dir()?)?.folder)
}

/// The flags for the source of Windlass in a project's Cargo.toml.
#[derive(Args, Debug)]
pub(crate) struct Source {
    /// Path of Windlass' repository, instead of the release on crates.io
    #[arg(long, value_name = "DIR")]
    windlass_path: Option<PathBuf>,
    /// Registry that contains Windlass, as cargo's configuration names it
    #[arg(long, value_name = "NAME", conflicts_with = "windlass_path")]
    windlass_registry: Option<String>,
}

impl Source {
    /// Returns the source, or `None` without flags.
    pub(crate) fn windlass(&self) -> Result<Option<Windlass>, windlass_scaffold::Error> {
        match (&self.windlass_path, &self.windlass_registry) {
            (Some(path), _) => Windlass::at(path).map(Some),
            (None, Some(registry)) => Ok(Some(Windlass::in_registry(registry))),
            (None, None) => Ok(None),
        }
    }
}

/// The flags shared by these commands: overwrite, or show only.
#[derive(Args, Debug)]
pub(crate) struct Mode {
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// Show the changes as a diff, and write nothing
    #[arg(long)]
    dry_run: bool,
}

impl Mode {
    pub(crate) const fn overwrite(&self) -> Overwrite {
        if self.force { Overwrite::Force } else { Overwrite::Never }
    }

    #[cfg(test)]
    pub(crate) const fn forced() -> Self {
        Self { force: true, dry_run: false }
    }

    /// Writes the changes, or shows them as a diff.
    pub(crate) fn carry_out(&self, changes: &Changes, next: &str) -> Result<(), Box<dyn Error>> {
        let mut output = io::stdout().lock();
        if self.dry_run {
            output.write_all(changes.diff().as_bytes())?;
            return Ok(());
        }
        changes.write()?;
        let folder = changes.folder().canonicalize()?;
        if folder != env::current_dir()?.canonicalize()? {
            writeln!(output, "in {}:", folder.display())?;
        }
        for path in changes.paths() {
            writeln!(output, "{}", path.display())?;
        }
        writeln!(output, "{next}")?;
        Ok(())
    }
}
