//! The reference pages `docs/reference/configuration.md` and `metrics.md` must match the code. `WINDLASS_GOLDEN=write`
//! writes the table of flags.

use std::{collections::BTreeSet, fs, path::Path};

use super::tests::WHOLE;

fn page(name: &str) -> (std::path::PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn the_page_has_every_field() {
    let (_, page) = page("configuration.md");
    let block = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(block, Some(WHOLE));
}

#[test]
fn the_page_has_every_metric() {
    let sources = [
        include_str!("../metrics/registry.rs"),
        include_str!("../metrics/requests.rs"),
        include_str!("../metrics/caches.rs"),
        include_str!("../metrics/shards.rs"),
    ];
    let prefixes = ["controller_runtime_", "workqueue_", "rest_client_", "leader_election_", "windlass_"];
    let named = |quoted: &str| prefixes.iter().any(|prefix| quoted.starts_with(prefix)) && !quoted.contains(' ');
    let ours: BTreeSet<&str> =
        sources.iter().flat_map(|source| source.split('"').skip(1).step_by(2)).filter(|text| named(text)).collect();
    let (_, page) = page("metrics.md");
    let listed: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(ours.len() > 30, "{ours:?}");
    assert_eq!(listed, ours);
}

#[cfg(feature = "flags")]
#[test]
fn the_page_has_every_flag() {
    use clap::Args as _;

    let command = super::ManagerFlags::augment_args(clap::Command::new("manager"));
    let mut table = "| flag | description |\n|---|---|\n".to_owned();
    for argument in command.get_arguments() {
        let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let value = value.map(|names| format!("={}", names[0])).unwrap_or_default();
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        table += &format!("| `--{}{value}` | {help} |\n", argument.get_long().unwrap());
    }
    let (path, page) = page("configuration.md");
    let [begin, end] = ["<!-- begin: flags -->\n", "<!-- end: flags -->"];
    let (before, rest) = page.split_once(begin).unwrap();
    let (there, after) = rest.split_once(end).unwrap();
    if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(there, table, "WINDLASS_GOLDEN=write updates it");
    }
}
