//! The recorded tables of each version.

use std::{borrow::Cow, sync::OnceLock};

use super::{KubernetesVersion, difference};

/// The recorded tables of a version, as text. `cargo xtask record` and `cargo xtask types` write them.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The Go types. windlass-api describes the format.
    pub(crate) types: Cow<'static, str>,
    /// The schemas of OpenAPI v3: name, tab, JSON.
    pub(crate) openapi: Cow<'static, str>,
    /// The resources in the order of discovery.
    pub(crate) discovery: Cow<'static, str>,
    /// The columns of tables.
    pub(crate) columns: Cow<'static, str>,
    /// The bootstrap roles.
    pub(crate) roles: Cow<'static, str>,
}

/// The tables of the default version.
static DEFAULT: Tables = Tables {
    types: Cow::Borrowed(windlass_api::schema::TYPES),
    openapi: Cow::Borrowed(windlass_api::openapi::RECORDED),
    discovery: Cow::Borrowed(include_str!("../../data/discovery.tsv")),
    columns: Cow::Borrowed(include_str!("../../data/columns.tsv")),
    roles: Cow::Borrowed(include_str!("../../data/roles.tsv")),
};

/// Returns the differences of a version from the default one; `None` for the default version.
const fn differences(version: KubernetesVersion) -> Option<&'static str> {
    match version {
        KubernetesVersion::V1_34 => Some(include_str!("../../data/minors/1.34.txt")),
        KubernetesVersion::V1_35 => Some(include_str!("../../data/minors/1.35.txt")),
        KubernetesVersion::V1_36 => None,
    }
}

/// Returns the tables of a version.
pub(super) fn of(version: KubernetesVersion) -> &'static Tables {
    static TABLES: [OnceLock<Tables>; KubernetesVersion::ALL.len()] =
        [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
    let Some(text) = differences(version) else { return &DEFAULT };
    TABLES[version.index()].get_or_init(|| Tables::with(text))
}

impl Tables {
    /// Applies recorded differences to the tables of the default version.
    fn with(text: &'static str) -> Self {
        let changed = |name: &str, base: &'static str| match difference::apply(text, name, base) {
            Ok(table) => table,
            // The files are part of the program, and a test applies each of them.
            Err(error) => unreachable!("table {name}: {error}"),
        };
        Self {
            types: changed("types", &DEFAULT.types),
            openapi: changed("openapi", &DEFAULT.openapi),
            discovery: changed("discovery", &DEFAULT.discovery),
            columns: changed("columns", &DEFAULT.columns),
            roles: changed("roles", &DEFAULT.roles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_every_version_can_be_built() {
        for version in KubernetesVersion::ALL {
            let tables = version.tables();
            for table in [&tables.types, &tables.openapi, &tables.discovery, &tables.columns, &tables.roles] {
                assert!(table.len() > 5000 && table.ends_with('\n'), "{version}");
            }
        }
    }

    #[test]
    fn tables_of_older_versions_lack_newer_fields() {
        let older = KubernetesVersion::V1_35.tables();
        assert!(DEFAULT.discovery.contains("mutatingadmissionpolicies"));
        assert!(!older.discovery.contains("mutatingadmissionpolicies"));
    }
}
