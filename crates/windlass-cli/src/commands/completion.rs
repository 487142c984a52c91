//! `windlass completion`: prints the shell completion script.

use std::{
    error::Error,
    io::{self, Write as _},
};

use clap::{Args, Command};
use clap_complete::Shell;

/// The flags of `windlass completion`.
#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct Options {
    /// The shell. For bash: source <(windlass completion bash)
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script for the available commands.
pub(crate) fn run(options: &Options, commands: Command) -> Result<(), Box<dyn Error>> {
    io::stdout().lock().write_all(&script(options.shell, commands))?;
    Ok(())
}

fn script(shell: Shell, mut commands: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut commands, "windlass", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Arguments;

    #[test]
    fn completion_lists_commands_and_flags() {
        for (shell, begin) in
            [(Shell::Bash, "_windlass()"), (Shell::Zsh, "#compdef windlass"), (Shell::Fish, "# Print an optspec")]
        {
            let script = String::from_utf8(script(shell, Arguments::command())).unwrap();
            assert!(script.starts_with(begin), "{shell}: {}", &script[..80]);
            for word in ["completion", "api-resources", "programmatic-validation", "network-policy"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
