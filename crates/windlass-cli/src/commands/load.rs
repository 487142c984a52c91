//! `windlass load`: a load test of a cluster.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, Write as _},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{ArgAction, Args, ValueEnum};
use windlass_client::Client;
use windlass_load::{Keep, Load, Size, Workload, report};
use windlass_runtime::shutdown;

use crate::{connection::Connection, time_limits::not_negative};

/// The flags of `windlass load`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Workload: load, density, or a file in the format of these two
    #[arg(long, value_name = "NAME|FILE", default_value = "load")]
    workload: String,
    /// Print the file of a workload, and send no requests
    #[arg(long, value_name = "NAME")]
    print: Option<String>,
    /// Number of nodes that the workload is made for; by default the nodes of the cluster are counted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Pods for each node; by default the number of the workload, 30 for load and density
    #[arg(long, value_name = "N")]
    pods_per_node: Option<f64>,
    /// Rate of the workload; for load and density in pods per second, 10 by default
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Number of namespaces; by default the number of the workload, one for 100 nodes for load and density
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    namespaces: Option<u32>,
    /// Requests per second that delete objects and create others, after the objects were created and scaled
    #[arg(long, value_name = "N", requires = "duration")]
    churn: Option<f64>,
    /// Duration of the churn
    #[arg(long, value_name = "DURATION", value_parser = not_negative, requires = "churn")]
    duration: Option<Duration>,
    /// Factor for the number of gets and lists; 0 for none
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    reads: f64,
    /// Value of a parameter of the workload; can be repeated
    #[arg(long, value_name = "NAME=NUMBER", action = ArgAction::Append)]
    set: Vec<Parameter>,
    /// Seed of the order of requests and of random numbers; random by default, and part of the report
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Maximum number of requests at the same time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Number of connections for the requests; the watches have one of their own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Time limit of each wait for the controllers, and of the deletion at the end
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = not_negative)]
    timeout: Duration,
    /// Format of the report on standard output
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Directory for report.txt, report.json and report.html
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Keep the created objects
    #[arg(long)]
    keep: bool,
    /// Exit with code 1 if an objective is missed
    #[arg(long)]
    fail_on_slo: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
}

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
struct Parameter {
    name: String,
    value: f64,
}

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    if let Some(name) = &options.print {
        let text = Workload::text(name).ok_or_else(|| {
            let names: Vec<&str> = Workload::names().collect();
            format!("unknown workload {name:?}: the built-in workloads are {}", names.join(" and "))
        })?;
        return Ok(io::stdout().write_all(text.as_bytes())?);
    }
    let results = Box::pin(options.load()?.run(shutdown::signal())).await?;
    if let Some(directory) = &options.report {
        report::write(&results, directory)?;
    }
    let text = match options.output {
        Format::Text => report::text(&results),
        Format::Json => report::json(&results),
        Format::Html => report::html(&results),
    };
    io::stdout().write_all(text.as_bytes())?;
    if options.fail_on_slo && !results.slos_met() {
        return Err("objectives are missed".into());
    }
    Ok(())
}

impl Options {
    /// Returns the load with the settings of the flags.
    fn load(&self) -> Result<Load, Box<dyn Error>> {
        let workload = Workload::open(&self.workload)?;
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let size = Size {
            nodes: self.nodes.map_or(0, count),
            pods_per_node: self.pods_per_node,
            rate: self.rate,
            namespaces: self.namespaces.map(count),
            churn: self.churn.unwrap_or_default(),
            duration: self.duration.unwrap_or_default(),
            parameters: self.set.iter().map(|set| (set.name.clone(), set.value)).collect::<BTreeMap<_, _>>(),
        };
        // Each configuration has connections of its own.
        let client = || Ok::<Client, Box<dyn Error>>(Client::new(self.connection.config()?)?);
        let clients: Result<Vec<Client>, _> = (0..self.connections).map(|_| client()).collect();
        let mut load = Load::new(client()?, workload)
            .clients(clients?)
            .size(size)
            .reads(self.reads)
            .timeout(self.timeout)
            .concurrency(count(self.concurrency))
            .keep(if self.keep { Keep::Everything } else { Keep::Nothing })
            .progress(|line| eprintln!("{line}"));
        if let Some(seed) = self.seed {
            load = load.seed(seed);
        }
        Ok(load)
    }
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
        let value = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
        Ok(Self { name: name.to_owned(), value })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(flags: &[&str]) -> Result<Options, clap::Error> {
        Command::try_parse_from(std::iter::once("load").chain(flags.iter().copied())).map(|command| command.options)
    }

    #[test]
    fn flags_are_checked() {
        let error = |flags: &[&str]| options(flags).unwrap_err().to_string();
        assert!(error(&["--churn", "5"]).contains("--duration"));
        assert!(error(&["--set", "size"]).contains("expected NAME=NUMBER"));
        assert!(error(&["--set", "size=big"]).contains("\"big\" is not a number"));
        assert!(error(&["--nodes", "0"]).contains("0 is not in"));
        assert!(
            error(&["--timeout=-5s"])
                .contains("'-5s' for '--timeout <DURATION>': expected a duration that is not negative")
        );
        let parsed = options(&["--set", "size=5", "--set", "pods=1.5"]).unwrap();
        assert_eq!(parsed.set[1], Parameter { name: "pods".to_owned(), value: 1.5 });
    }

    #[tokio::test]
    async fn missing_workload_is_named() {
        let error = run(options(&["--workload", "/no/such.yaml"]).unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read workload /no/such.yaml");
        let error = run(options(&["--print", "lode"]).unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), "unknown workload \"lode\": the built-in workloads are load and density");
    }
}
