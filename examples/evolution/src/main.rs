//! The program: the table, or one of the three in a cluster.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use evolution::{Program, table};
use windlass::{Client, api::BoxError, client::Config, shutdown};

/// The same controllers three times, and what each asks of the API server
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run one of them in a cluster until it is interrupted: polling, informers or shared
    Run {
        /// Which
        program: Program,
        /// The cluster, instead of that of $KUBECONFIG
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
    },
}

/// The sizes of the table.
const SIZES: [usize; 2] = [1, 10];
const MINUTES: u64 = 4;

fn main() -> Result<(), BoxError> {
    let options = Options::parse();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all();
    match options.task {
        None => {
            println!(
                "requests of each program in {MINUTES} minutes, in which one workload is scaled twice and a pod is lost:\n"
            );
            let runtime = runtime.start_paused(true).build()?;
            println!("{}", runtime.block_on(table(&SIZES, Duration::from_mins(MINUTES)))?);
            println!("polling asks the more, the more there is, whether anything happens or not; those that watch ask");
            println!("once for each kind and controller, or, shared, once for each kind.");
            Ok(())
        }
        Some(Task::Run { program, kubeconfig }) => {
            let config = kubeconfig.map_or_else(Config::infer, Config::from_file)?;
            println!("{program} works until interrupted");
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
