//! `windlass migrate`: moves an operator from another library to Windlass.

use std::{
    error::Error,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use windlass_scaffold::{FromKube, Leftover, Migration};

use super::scaffolding;

/// The flags of `windlass migrate`.
#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct Options {
    /// Library that the operator uses
    #[arg(long, value_name = "LIBRARY")]
    from: Library,
    /// Folder with the operator's Cargo.toml
    #[arg(default_value = ".", value_name = "DIR")]
    folder: PathBuf,
    /// Show the changes as a diff, and write nothing; the default
    #[arg(long)]
    dry_run: bool,
    /// Write the changes: all files, or none if there is an error
    #[arg(long, conflicts_with = "dry_run")]
    write: bool,
    #[command(flatten)]
    source: scaffolding::Source,
}

/// The libraries.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Library {
    /// kube-rs: kube, kube-runtime and kube-derive
    Kube,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let windlass = options.source.windlass()?.unwrap_or_default();
    let Migration { changes, left } = match options.from {
        Library::Kube => FromKube::default().windlass(windlass).plan(&options.folder)?,
    };
    let mut output = io::stdout().lock();
    if options.write {
        changes.write()?;
        for path in changes.paths() {
            writeln!(output, "{}", path.display())?;
        }
    } else {
        output.write_all(changes.diff().as_bytes())?;
    }
    output.flush()?;
    // The diff alone is a valid patch.
    io::stderr().write_all(summary(&left, &options.folder, options.write).as_bytes())?;
    Ok(())
}

/// Returns the list of places that are left, and the next command.
fn summary(left: &[Leftover], folder: &Path, is_written: bool) -> String {
    let mut text = String::new();
    if !left.is_empty() {
        text.push_str("to review, with the lines before the migration:\n");
    }
    for leftover in left {
        text.push_str(&format!("  {leftover}\n"));
    }
    let flag = if folder == Path::new(".") { String::new() } else { format!(" {}", folder.display()) };
    text.push_str(&if is_written {
        "next: cargo fmt, cargo check\n".to_owned()
    } else {
        format!("nothing is written; next: windlass migrate --from kube{flag} --write\n")
    });
    text
}
