//! The program: prints the table, or runs one of the three programs in a cluster.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use evolution::{Program, table};
use windlass::{Client, api::BoxError, client::Config, shutdown};

/// Compares three ways to write the same controllers by their requests to the API server
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run one program in a cluster until interrupted: polling, informers or shared
    Run {
        /// Name of the program
        program: Program,
        /// Path of a kubeconfig; defaults to $KUBECONFIG
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
    },
}

/// The workload sizes in the table.
const SIZES: [usize; 2] = [1, 10];
const MINUTES: u64 = 4;

fn main() -> Result<(), BoxError> {
    let options = Options::parse();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all();
    match options.task {
        None => {
            println!(
                "requests of each program in {MINUTES} minutes, in which one workload is scaled twice and a pod is deleted:\n"
            );
            let runtime = runtime.start_paused(true).build()?;
            println!("{}", runtime.block_on(table(&SIZES, Duration::from_mins(MINUTES)))?);
            println!("polling sends more requests the more objects there are, even if nothing changes; watching sends");
            println!("one request per kind and controller, or one per kind with shared informers.");
            Ok(())
        }
        Some(Task::Run { program, kubeconfig }) => {
            let config = kubeconfig.map_or_else(Config::infer, Config::from_file)?;
            println!("{program} runs until interrupted");
            runtime.build()?.block_on(async {
                let client = Client::new(config)?;
                tokio::select! {
                    ended = program.run(&client) => ended,
                    () = shutdown::signal() => Ok(()),
                }
            })
        }
    }
}
