//! The default field managers of writes.

use windlass_api::ContentHash;

/// The length at which servers reject a field manager, in bytes.
const MAX_LENGTH: usize = 128;

/// Returns the field manager of a program: the part of its user agent that servers use for writes without a field
/// manager.
pub(crate) fn of_program(user_agent: &str) -> &str {
    let program = user_agent.split('/').next().unwrap_or_default();
    let program = &program[..program.floor_char_boundary(MAX_LENGTH)];
    if program.is_empty() { "unknown" } else { program }
}

/// Returns the field manager of a part of a program, such as a controller. A name that is too long ends with a hash, so
/// that different parts remain different.
pub(crate) fn of_component(program: &str, component: &str) -> String {
    let printable = |character: &char| !character.is_control();
    let name = format!("{program}/{component}").chars().filter(printable).collect::<String>();
    if name.len() <= MAX_LENGTH {
        return name;
    }
    let hash = ContentHash::of(&name).expect("a string always encodes").short();
    format!("{}-{hash}", &name[..name.floor_char_boundary(MAX_LENGTH - 1 - hash.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_as_servers_name_them() {
        assert_eq!(of_program("backup/1.2 (linux/x86_64) windlass/0.1.0"), "backup");
        assert_eq!(of_program(""), "unknown");
        assert_eq!(of_program(&"é".repeat(100)).len(), MAX_LENGTH);
    }

    #[test]
    fn components_differ_also_if_their_names_are_long() {
        assert_eq!(of_component("shop", "website"), "shop/website");
        assert_eq!(of_component("shop", "web\nsite"), "shop/website");
        let long = "w".repeat(200);
        let (one, other) = (of_component("shop", &long), of_component("shop", &format!("{long}x")));
        assert!(one != other && one.starts_with("shop/www"), "{one}");
        assert_eq!((one.len(), other.len()), (MAX_LENGTH, MAX_LENGTH));
        assert!(of_component(&"é".repeat(70), "x").len() <= MAX_LENGTH);
    }
}
