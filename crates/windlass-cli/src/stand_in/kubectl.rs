//! kubectl, with the commands that `windlass` implements.

use std::error::Error;

use clap::{Parser, Subcommand};

use crate::commands::{api_resources, api_versions, get, proxy};

/// kubectl, with the commands that windlass implements
#[derive(Debug, Parser)]
#[command(name = "kubectl")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show objects
    Get(get::Options),
    /// Show the resources that a server supports
    ApiResources(api_resources::Options),
    /// Show the groups and versions that a server supports
    ApiVersions(api_versions::Options),
    /// Serve the API on a local port, with the credentials of the kubeconfig
    Proxy(proxy::Options),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// The only connection flag without a value.
const SWITCH: &str = "--insecure-skip-tls-verify";

pub(super) async fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let arguments = std::iter::once("kubectl".to_owned()).chain(command_first(arguments));
    match Arguments::parse_from(arguments).command {
        Command::Get(options) => get::run(options).await,
        Command::ApiResources(options) => api_resources::run(options).await,
        Command::ApiVersions(options) => api_versions::run(options).await,
        Command::Proxy(options) => proxy::run(options).await,
        Command::Other(words) => Err(lacking(&words).into()),
    }
}

/// Returns the error for a command that is not implemented.
fn lacking(words: &[String]) -> String {
    let command = words.first().map(String::as_str).unwrap_or_default();
    format!(
        "this stand-in for kubectl has no command {command:?}, only get, api-resources, api-versions and proxy: put \
         a kubectl in its place, which works with this server"
    )
}

/// Moves the command before the connection flags: envtest puts these flags first, which kubectl accepts.
fn command_first(arguments: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut arguments = arguments.peekable();
    let mut flags = Vec::new();
    while let Some(flag) = arguments.next_if(|argument| argument.starts_with('-') && argument != "--help") {
        let value = (!flag.contains('=') && flag != SWITCH).then(|| arguments.next()).flatten();
        flags.push(flag);
        flags.extend(value);
    }
    let command = arguments.next();
    command.into_iter().chain(flags).chain(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_command_is_named() {
        let line = ["kubectl", "apply", "-f", "x.yaml", "--server-side"];
        let Command::Other(words) = Arguments::try_parse_from(line).unwrap().command else {
            panic!("the command is implemented")
        };
        assert!(lacking(&words).contains("no command \"apply\""), "{}", lacking(&words));
    }

    #[test]
    fn flags_before_the_command_are_the_commands() {
        let line = "--kubeconfig=c --insecure-skip-tls-verify -s https://x get pods -o name";
        let ordered: Vec<_> = command_first(line.split(' ').map(str::to_owned)).collect();
        assert_eq!(ordered.join(" "), "get --kubeconfig=c --insecure-skip-tls-verify -s https://x pods -o name");
        let parsed = Arguments::try_parse_from(std::iter::once("kubectl".to_owned()).chain(ordered));
        assert!(matches!(parsed.unwrap().command, Command::Get(_)));
    }
}
