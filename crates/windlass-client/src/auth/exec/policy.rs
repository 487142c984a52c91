//! The policy for credential plugins: a kubeconfig from an untrusted source may name any program.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use super::PluginError;

/// The credential plugins that may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PluginPolicy {
    /// All programs.
    #[default]
    AllowAll,
    /// No programs.
    DenyAll,
    /// The listed programs, by name or path. A name permits only the program that `$PATH` resolves it to.
    Allowlist(Vec<String>),
}

impl PluginPolicy {
    /// Returns the path to run for `command`, if the policy permits it.
    pub(crate) fn admit(&self, command: &str) -> Result<PathBuf, PluginError> {
        let listed = match self {
            Self::AllowAll => return Ok(command.into()),
            Self::DenyAll => return Err(PluginError::Denied),
            Self::Allowlist(listed) => listed,
        };
        let search = env::var_os("PATH").unwrap_or_default();
        let refused = |path: &Path| PluginError::NotListed { path: path.to_string_lossy().into_owned() };
        let found = look_up(command, &search).ok_or_else(|| refused(Path::new(command)))?;
        if listed.iter().any(|entry| look_up(entry, &search).as_ref() == Some(&found)) {
            // The checked path is the path that is run.
            Ok(found)
        } else {
            Err(refused(&found))
        }
    }
}

/// Resolves a command in a search path, as a shell does.
fn look_up(command: &str, search: &OsStr) -> Option<PathBuf> {
    if command.is_empty() {
        return None;
    }
    if Path::new(command).components().count() > 1 {
        return is_program(Path::new(command)).then(|| command.into());
    }
    env::split_paths(search).map(|folder| folder.join(command)).find(|path| path.is_absolute() && is_program(path))
}

fn is_program(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    #[cfg(unix)]
    let executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let executable = true;
    metadata.is_file() && executable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_allows_only_listed_plugins() {
        let shell = look_up("sh", &env::var_os("PATH").unwrap()).unwrap();
        assert_eq!(PluginPolicy::AllowAll.admit("sh").unwrap(), Path::new("sh"));
        assert!(matches!(PluginPolicy::DenyAll.admit("sh"), Err(PluginError::Denied)));
        let list = |entry: &str| PluginPolicy::Allowlist(vec!["no-such-program".to_owned(), entry.to_owned()]);
        assert_eq!(list("sh").admit("sh").unwrap(), shell);
        assert_eq!(list(&shell.to_string_lossy()).admit("sh").unwrap(), shell);
        assert_eq!(list("sh").admit(&shell.to_string_lossy()).unwrap(), shell);
        for (policy, command) in
            [(list("cat"), "sh"), (list("sh"), "no-such-program"), (list("sh"), "/tmp/sh"), (list(""), "")]
        {
            assert!(matches!(policy.admit(command), Err(PluginError::NotListed { .. })), "{policy:?} {command}");
        }
    }
}
