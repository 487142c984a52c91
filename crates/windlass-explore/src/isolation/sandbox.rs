//! The settings of the namespaces of a process.

use std::{collections::BTreeSet, path::PathBuf};

use serde::{Deserialize, Serialize};

/// The directory for temporary files that each process has for itself.
pub(crate) const TEMPORARY: &str = "/tmp";

/// The settings of the namespaces of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    /// The port of the gateway in the network namespace; 0 for any.
    pub(crate) port: u16,
    /// The entries of [`TEMPORARY`] that the process sees; `None` if it sees and shares all.
    pub(crate) visible: Option<BTreeSet<String>>,
    /// Files and directories that are mounted elsewhere.
    pub(crate) bindings: Vec<Binding>,
    /// The host name; by default that of this machine.
    pub(crate) host: Option<String>,
}

/// A file or directory that is mounted at another path.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Binding {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

impl Sandbox {
    /// Adds the entries of [`TEMPORARY`] to which a text refers to the visible ones.
    pub(crate) fn show(visible: &mut BTreeSet<String>, text: &str) {
        let directory = format!("{TEMPORARY}/");
        for (start, _) in text.match_indices(&directory) {
            let before = text[..start].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "-_.".contains(before)) {
                continue;
            }
            let entry = text[start + directory.len()..].split('/').next().unwrap_or_default();
            // The text may be a list of paths, or contain one in quotes.
            let shorter = entry.split([':', ',', ';', '"', '\'', ' ', '\n']).next().unwrap_or_default();
            visible.extend([entry, shorter].into_iter().filter(|name| is_name(name)).map(str::to_owned));
        }
    }
}

/// Reports whether a text can be the name of an entry.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && text.len() < 256 && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_texts_are_visible() {
        let shown = |text: &str| {
            let mut visible = BTreeSet::new();
            Sandbox::show(&mut visible, text);
            visible.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(shown("/tmp/build/manager"), ["build"]);
        assert_eq!(shown("--config=/tmp/config.yaml"), ["config.yaml"]);
        assert_eq!(shown("/usr/bin:/tmp/a/bin:/tmp/b"), ["a", "b"]);
        assert_eq!(shown("file:///tmp/a b/c"), ["a", "a b"]);
        for other in ["/var/tmp/a", "/tmp", "/tmp/", "/tmp/../etc"] {
            assert!(shown(other).is_empty(), "{other}");
        }
    }
}
