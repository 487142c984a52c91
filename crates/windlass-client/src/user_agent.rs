//! The `User-Agent` header of a client.

use std::env;

/// Returns a user agent of the form `name/version (os/arch) windlass/version`. The server uses the part before the
/// first slash as the field manager of writes that name no other.
///
/// ```
/// let agent = windlass_client::user_agent("backup-operator", env!("CARGO_PKG_VERSION"));
/// assert!(agent.starts_with("backup-operator/"));
/// ```
#[must_use]
pub fn user_agent(name: &str, version: &str) -> String {
    let (os, arch) = (env::consts::OS, env::consts::ARCH);
    format!("{}/{} ({os}/{arch}) windlass/{}", product(name), product(version), env!("CARGO_PKG_VERSION"))
}

/// Returns the user agent of the running program, with an unknown version.
pub(crate) fn of_this_program() -> String {
    let program = env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    user_agent(name, "unknown")
}

/// Converts a text to a part of a user agent: without slashes, spaces and characters that are invalid in headers.
fn product(text: &str) -> String {
    let kept: String = text.chars().map(|character| if is_plain(character) { character } else { '-' }).collect();
    if kept.is_empty() { "unknown".to_owned() } else { kept }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_agent_is_always_a_header() {
        for (name, version, start) in [
            ("tool", "1.2.3", "tool/1.2.3 ("),
            ("a tool/of mine", "v1", "a-tool-of-mine/v1 ("),
            ("", "", "unknown/unknown ("),
            ("größe\n", "1", "gr--e-/1 ("),
        ] {
            let agent = user_agent(name, version);
            assert!(agent.starts_with(start) && http::HeaderValue::from_str(&agent).is_ok(), "{agent}");
            assert!(agent.contains(") windlass/"), "{agent}");
        }
    }

    #[test]
    fn default_user_agent_is_the_program_name() {
        let agent = of_this_program();
        assert!(agent.starts_with("windlass_client-"), "{agent}");
    }
}
