//! Rules that kube-apiserver declares with its Go types.

use windlass_api::Cause;

/// A rule that is declared with a type. Its errors come after those of all other rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredRule {
    /// The path of a field, in which `*` stands for each element of a list or a map.
    path: &'static str,
    check: Check,
}

/// The check of a declared rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Required,
    Forbidden,
    Immutable,
    /// An immutable field whose value is shown.
    ImmutableValue,
    /// A syntax, or a minimum.
    Valid,
    Enum,
    Length,
    Items,
    Unique,
}

impl DeclaredRule {
    pub(crate) const fn new(path: &'static str, check: Check) -> Self {
        Self { path, check }
    }

    /// Reports whether an error is one of this rule.
    pub(crate) fn concerns(&self, error: &Cause) -> bool {
        error.reason == self.check.reason() && self.check.concerns(&error.message) && matches(self.path, &error.field)
    }

    /// Returns the place of an error of the rule at `index` among those of all rules: kube-apiserver checks fields in the
    /// order of the rules, and the elements of a list one by one. The keys of maps count as 0 unless they are numbers.
    pub(crate) fn place(rules: &[Self], index: usize, field: &str) -> Vec<usize> {
        let path = rules[index].path;
        let mut elements = field.split('[').skip(1).map(|rest| {
            let number = rest.split(']').next().unwrap_or_default();
            number.parse::<usize>().unwrap_or_default()
        });
        let mut place = Vec::new();
        for (end, step) in path.match_indices(".*.") {
            let list = &path[..end + step.len()];
            place.push(rules.iter().position(|rule| rule.path.starts_with(list)).unwrap_or(index));
            place.extend(elements.next());
        }
        place.push(index);
        place.extend(elements.next());
        place
    }

    /// Returns the message of this rule, if it differs from that of the same rule without a declaration.
    pub(crate) fn message(&self) -> Option<&'static str> {
        match self.check {
            Check::Required => Some("Required value"),
            Check::Forbidden => Some("Forbidden"),
            Check::Immutable => Some("Invalid value: null: field is immutable"),
            Check::ImmutableValue | Check::Valid | Check::Enum | Check::Length | Check::Items | Check::Unique => None,
        }
    }
}

impl Check {
    const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::Immutable | Self::ImmutableValue | Self::Valid => "FieldValueInvalid",
            Self::Enum => "FieldValueNotSupported",
            Self::Length => "FieldValueTooLong",
            Self::Items => "FieldValueTooMany",
            Self::Unique => "FieldValueDuplicate",
        }
    }

    fn concerns(self, message: &str) -> bool {
        match self {
            Self::Immutable | Self::ImmutableValue => message.ends_with(": field is immutable"),
            Self::Valid => !message.ends_with(": field is immutable"),
            _ => true,
        }
    }
}

/// Reports whether a field such as `spec.ports[0].name` is at a path such as `spec.ports.*.name`.
fn matches(path: &str, field: &str) -> bool {
    let mut rest = field;
    for step in path.split('.') {
        let found = if step == "*" {
            rest.strip_prefix('[').and_then(|rest| rest.find(']').map(|end| &rest[end + 1..]))
        } else {
            rest.strip_prefix('.').unwrap_or(rest).strip_prefix(step)
        };
        match found {
            Some(after) if after.is_empty() || after.starts_with(['.', '[']) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_fields_of_list_elements() {
        assert!(matches("spec.ports.*.name", "spec.ports[12].name"));
        assert!(matches("parameters.*", "parameters[a.b]"));
        assert!(!matches("spec.ports.*.name", "spec.ports"));
        assert!(!matches("spec.ports", "spec.ports[0]"));
        assert!(!matches("spec.port", "spec.ports"));
    }

    #[test]
    fn places_follow_rules_and_list_elements() {
        let rules = [
            DeclaredRule::new("kind", Check::Required),
            DeclaredRule::new("ports.*", Check::Unique),
            DeclaredRule::new("ports.*.name", Check::Required),
            DeclaredRule::new("ports.*.number", Check::Required),
            DeclaredRule::new("last", Check::Required),
        ];
        let place = |index, field| DeclaredRule::place(&rules, index, field);
        let expected = [
            place(0, "kind"),
            place(1, "ports[1]"),
            place(1, "ports[10]"),
            place(3, "ports[0].number"),
            place(2, "ports[2].name"),
            place(3, "ports[2].number"),
            place(2, "ports[10].name"),
            place(4, "last"),
        ];
        assert!(expected.is_sorted(), "{expected:?}");
    }

    #[test]
    fn rules_concern_errors_of_their_check() {
        let error = |reason: &str, message: &str| Cause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            field: "handler".to_owned(),
        };
        let immutable = DeclaredRule::new("handler", Check::Immutable);
        assert!(immutable.concerns(&error("FieldValueInvalid", "Invalid value: \"b\": field is immutable")));
        assert!(!immutable.concerns(&error("FieldValueInvalid", "Invalid value: \"B\": a lowercase RFC 1123 label")));
        assert!(!immutable.concerns(&error("FieldValueRequired", "Required value")));
        let shown = DeclaredRule::new("handler", Check::ImmutableValue);
        assert!(shown.concerns(&error("FieldValueInvalid", "Invalid value: \"b\": field is immutable")));
        assert_eq!((shown.message(), immutable.message().is_some()), (None, true));
    }
}
