//! A test that `docs/reference/commands.md` matches the help texts of the commands. `WINDLASS_GOLDEN=write` updates it.

use std::{fmt::Write as _, fs, path::Path};

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::Arguments;

const HEAD: &str = "\
# Commands

This page contains the output of `windlass --help` and of the help of each command; a test keeps it up to date. `windlass` is `cargo run --release --` in the checkout, or the binary `target/release/windlass`.

- [Run a project](../how-to/run-a-project.md) explains `run`.
- [Scaffold a project](../how-to/scaffold-a-project.md) explains `init`, `create`, `edit` and `generate`.
- [Measure a cluster](../how-to/measure-a-cluster.md) explains `load`, and [Workloads](workloads.md) its files.
- [Explore an operator](../how-to/explore-an-operator.md) explains `explore`.
- [Configuration](configuration.md) explains the flags of a generated *program*.
";

#[test]
fn the_page_has_every_command() {
    let mut root = Arguments::command();
    root.build();
    let mut page = HEAD.to_owned();
    describe(&root, "windlass", &mut page);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(path, page).unwrap();
    } else {
        assert_eq!(fs::read_to_string(path).unwrap(), page, "WINDLASS_GOLDEN=write writes it anew");
    }
}

/// Describes a command, then its subcommands.
fn describe(command: &Command, name: &str, page: &mut String) {
    let text = |styled: Option<&clap::builder::StyledStr>| styled.map(ToString::to_string).unwrap_or_default();
    let about = text(command.get_long_about().or(command.get_about()));
    write!(page, "\n## `{name}`\n\n{}\n", sentence(about.trim())).unwrap();
    let own = |argument: &&Arg| {
        !argument.is_hide_set()
            && !matches!(argument.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::Version)
            && (name == "windlass" || !argument.is_global_set())
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(own).collect();
    if !arguments.is_empty() {
        page.push_str("\n| argument | default | description |\n|---|---|---|\n");
    }
    for argument in arguments {
        let help = text(argument.get_long_help().or(argument.get_help()));
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let flag = !argument.get_action().takes_values();
        let default = match argument.get_default_values() {
            [value] if !flag => format!("`{}`", value.to_string_lossy()),
            _ => String::new(),
        };
        writeln!(page, "| `{}` | {default} | {help} |", spelled(argument)).unwrap();
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()) {
        describe(inner, &format!("{name} {}", inner.get_name()), page);
    }
}

/// Returns `-n, --namespace NAME`, or the value name of a positional argument.
fn spelled(argument: &Arg) -> String {
    let values = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let value = values.map(|names| names.join(" ")).unwrap_or_default();
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    match (short, long) {
        (None, None) => value,
        (short, long) => {
            let names: Vec<String> = short.into_iter().chain(long).collect();
            [names.join(", "), value.replace('|', "\\|")].join(" ").trim_end().to_owned()
        }
    }
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', ')', ':']) { text.to_owned() } else { format!("{text}.") }
}
