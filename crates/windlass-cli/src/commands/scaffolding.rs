//! What the commands that write projects have in common.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
use windlass_scaffold::{Changes, Overwrite, Place};

/// What comes next where there is something to try.
pub(crate) const TRY: &str = "next: cargo test, or windlass run";

/// The folder of the project that we are in, here or above, as cargo finds it.
pub(crate) fn project() -> Result<PathBuf, Box<dyn Error>> {
    Ok(Place::above(&env::current_dir()?)?.folder)
}

/// Flags of each of them: what becomes of what is computed.
#[derive(Args, Debug)]
pub(crate) struct Mode {
    /// Write files that are there anew
    #[arg(long)]
    force: bool,
    /// Show what would change, as a diff, and write nothing
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

    /// Writes, or shows, what changes.
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
