//! `windlass snapshot`: saves and restores the objects of a data directory.

use std::{
    error::Error,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use windlass_storage::snapshot::{self, Contents};

use crate::data_directory;

/// The subcommands of `windlass snapshot`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Save the objects of a data directory to a file. The control plane may be running
    #[command(disable_version_flag = true)]
    Save(Place),
    /// Create a data directory with the objects of a file. Resource versions are raised, so clients list everything again
    #[command(disable_version_flag = true)]
    Restore(Place),
    /// Verify a file, and show what it contains
    #[command(disable_version_flag = true)]
    Status {
        /// File of the snapshot
        file: PathBuf,
    },
}

/// A snapshot and a data directory.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// Data directory, as for windlass up
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// File of the snapshot
    file: PathBuf,
}

pub(crate) fn run(command: &Command) -> Result<(), Box<dyn Error>> {
    let (done, contents) = match command {
        Command::Save(Place { data_dir, file }) => ("saved", snapshot::save(&data_directory::storage(data_dir), file)?),
        Command::Restore(Place { data_dir, file }) => {
            let storage = data_directory::storage(data_dir);
            for folder in [data_dir, &storage] {
                data_directory::create(folder).map_err(|error| format!("creating {}: {error}", folder.display()))?;
            }
            ("restored", snapshot::restore(file, &storage)?)
        }
        Command::Status { file } => ("intact", snapshot::status(file)?),
    };
    let Contents { revision, keys, bytes } = contents;
    writeln!(io::stdout(), "{done}: revision {revision}, {keys} objects, {bytes} bytes")?;
    Ok(())
}
