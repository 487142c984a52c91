//! What the commands that write projects have in common.

use std::{
    error::Error,
    io::{self, Write as _},
};

use clap::Args;
use windlass_scaffold::{Changes, Overwrite};

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
        for path in changes.paths() {
            writeln!(output, "{}", path.display())?;
        }
        writeln!(output, "{next}")?;
        Ok(())
    }
}
