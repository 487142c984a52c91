//! serde's rules for renaming fields and variants.

use syn::{Error, LitStr, Result};

/// A naming convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `minreplicas` from `MinReplicas`. Fields are unchanged.
    Lower,
    /// `MIN_REPLICAS` for a field, `MINREPLICAS` for a variant.
    Upper,
    /// `MinReplicas`
    Pascal,
    /// `minReplicas`
    Camel,
    /// `min_replicas`
    Snake,
    /// `MIN_REPLICAS`
    ScreamingSnake,
    /// `min-replicas`
    Kebab,
    /// `MIN-REPLICAS`
    ScreamingKebab,
}

const CASES: [(&str, Case); 8] = [
    ("lowercase", Case::Lower),
    ("UPPERCASE", Case::Upper),
    ("PascalCase", Case::Pascal),
    ("camelCase", Case::Camel),
    ("snake_case", Case::Snake),
    ("SCREAMING_SNAKE_CASE", Case::ScreamingSnake),
    ("kebab-case", Case::Kebab),
    ("SCREAMING-KEBAB-CASE", Case::ScreamingKebab),
];

impl Case {
    pub(crate) fn named(text: &LitStr) -> Result<Self> {
        let found = CASES.iter().find(|(name, _)| *name == text.value());
        found.map(|(_, case)| *case).ok_or_else(|| {
            let names = CASES.map(|(name, _)| name).join(", ");
            Error::new(text.span(), format!("expected one of {names}"))
        })
    }

    /// Renames a field, which is in snake case.
    #[must_use]
    pub fn of_field(self, name: &str) -> String {
        match self {
            Self::Lower | Self::Snake => name.to_owned(),
            Self::Upper | Self::ScreamingSnake => name.to_ascii_uppercase(),
            Self::Pascal => name.split('_').map(capitalised).collect(),
            Self::Camel => uncapitalised(&Self::Pascal.of_field(name)),
            Self::Kebab => name.replace('_', "-"),
            Self::ScreamingKebab => Self::Upper.of_field(name).replace('_', "-"),
        }
    }

    /// Renames a variant, which is in Pascal case.
    #[must_use]
    pub fn of_variant(self, name: &str) -> String {
        match self {
            Self::Pascal => name.to_owned(),
            Self::Lower => name.to_ascii_lowercase(),
            Self::Upper => name.to_ascii_uppercase(),
            Self::Camel => uncapitalised(name),
            Self::Snake => {
                let mut snake = String::new();
                for (index, letter) in name.char_indices() {
                    if index > 0 && letter.is_uppercase() {
                        snake.push('_');
                    }
                    snake.push(letter.to_ascii_lowercase());
                }
                snake
            }
            Self::ScreamingSnake => Self::Snake.of_variant(name).to_ascii_uppercase(),
            Self::Kebab => Self::Snake.of_variant(name).replace('_', "-"),
            Self::ScreamingKebab => Self::ScreamingSnake.of_variant(name).replace('_', "-"),
        }
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn uncapitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_lowercase().to_string() + letters.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_serde_writes() {
        for (case, field, variant) in [
            (Case::Lower, "min_replicas", "rollingupdate"),
            (Case::Upper, "MIN_REPLICAS", "ROLLINGUPDATE"),
            (Case::Pascal, "MinReplicas", "RollingUpdate"),
            (Case::Camel, "minReplicas", "rollingUpdate"),
            (Case::Snake, "min_replicas", "rolling_update"),
            (Case::ScreamingSnake, "MIN_REPLICAS", "ROLLING_UPDATE"),
            (Case::Kebab, "min-replicas", "rolling-update"),
            (Case::ScreamingKebab, "MIN-REPLICAS", "ROLLING-UPDATE"),
        ] {
            assert_eq!(
                (case.of_field("min_replicas"), case.of_variant("RollingUpdate")),
                (field.into(), variant.into())
            );
        }
    }
}
