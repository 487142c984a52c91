//! Edits of CRDs in the format of `windlass generate crds`: adding versions and the conversion webhook.
//!
//! The types are not known until they are compiled. Until then, these edits keep the text equal to what the compiled
//! types will generate.

/// The line that precedes the versions.
const VERSIONS: &str = "  versions:\n";

/// A CRD, split into its versions.
struct SplitCrd<'a> {
    /// The text before the versions.
    head: &'a str,
    /// The name and text of each version.
    versions: Vec<(&'a str, &'a str)>,
}

impl<'a> SplitCrd<'a> {
    /// Splits a CRD; `None` if it is not in the generated format.
    fn of(text: &'a str) -> Option<Self> {
        let place = text.find(VERSIONS)? + VERSIONS.len();
        let (head, mut rest) = text.split_at(place);
        let mut versions = Vec::new();
        while !rest.is_empty() {
            let end = rest.match_indices("\n  - ").next().map_or(rest.len(), |(end, _)| end + 1);
            let (version, others) = rest.split_at(end);
            let is_one = version.starts_with("  - ") && version.lines().skip(1).all(|line| line.starts_with("    "));
            let name = version.lines().find_map(|line| line.strip_prefix("    name: "))?;
            if !is_one {
                return None;
            }
            versions.push((name, version));
            rest = others;
        }
        Some(Self { head, versions })
    }
}

/// Adds the version of another CRD of the same kind, which is not the storage version, sorted by name. Returns the text
/// unchanged if it has that version.
pub(crate) fn with_version(text: &str, other: &str) -> Option<String> {
    let (SplitCrd { head, mut versions }, other) = (SplitCrd::of(text)?, SplitCrd::of(other)?);
    let [(name, version)] = other.versions[..] else { return None };
    if versions.iter().any(|(existing, _)| *existing == name) {
        return Some(text.to_owned());
    }
    let version = version.replace("\n    storage: true\n", "\n    storage: false\n");
    versions.push((name, &version));
    versions.sort_by_key(|(name, _)| *name);
    Some(versions.iter().fold(head.to_owned(), |text, (_, version)| text + version))
}

/// Adds the conversion webhook, unless one is configured.
pub(crate) fn with_conversion(text: &str, conversion: &str) -> Option<String> {
    let SplitCrd { head, versions } = SplitCrd::of(text)?;
    if head.contains("\n  conversion:\n") {
        return Some(text.to_owned());
    }
    let (before, spec) = head.split_once("\nspec:\n")?;
    let head = format!("{before}\nspec:\n{conversion}{spec}");
    Some(versions.iter().fold(head, |text, (_, version)| text + version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(version: &str) -> String {
        format!(
            "kind: CustomResourceDefinition\nspec:\n  group: g\n  versions:\n  - additionalPrinterColumns:\n    - name: Age\n    \
             name: {version}\n    served: true\n    storage: true\n"
        )
    }

    #[test]
    fn versions_are_sorted_and_first_one_stays_stored() {
        let two = with_version(&crd("v1beta1"), &crd("v1")).unwrap();
        let three = with_version(&two, &crd("v1alpha1")).unwrap();
        let lines = |beginning: &str| {
            let values = three.lines().filter_map(|line| line.strip_prefix(beginning)).collect::<Vec<_>>();
            values.join(" ")
        };
        assert_eq!(lines("    name: "), "v1 v1alpha1 v1beta1");
        assert_eq!(lines("    storage: "), "false false true");
        assert_eq!(with_version(&three, &crd("v1")).unwrap(), three);
    }

    #[test]
    fn conversion_is_added_first_and_once() {
        let conversion = "  conversion:\n    strategy: Webhook\n";
        let converted = with_conversion(&crd("v1"), conversion).unwrap();
        assert_eq!(converted, crd("v1").replace("spec:\n", "spec:\n  conversion:\n    strategy: Webhook\n"));
        assert_eq!(with_conversion(&converted, conversion).unwrap(), converted);
    }

    #[test]
    fn edited_text_is_left_unchanged() {
        let flow = "spec:\n  versions: [{name: v1}]\n";
        assert_eq!((with_version(flow, &crd("v2")), with_conversion(flow, "")), (None, None));
        let wider = crd("v1").replace("\n    ", "\n      ");
        assert_eq!(with_version(&wider, &crd("v2")), None);
    }
}
