//! The columns of tables.

use serde_json::Value;
use windlass_api::JsonPath;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub(crate) kind: String,
    /// `name` for the column that holds the name.
    pub(crate) format: String,
    pub(crate) description: String,
    /// The `schema#property` whose description is used if the column has none.
    pub(crate) source: &'static str,
    /// 0 for columns that are always shown, greater for wide output only.
    pub(crate) priority: i64,
}

/// A column from a CRD's `additionalPrinterColumns`.
#[derive(Clone, Debug)]
pub(crate) struct CustomColumn {
    pub(crate) column: Column,
    pub(crate) path: JsonPath,
}

impl CustomColumn {
    /// Reads the columns of one version of a CRD. Columns with an invalid path are omitted; validation rejects CRDs
    /// with such columns.
    pub(crate) fn read_all(columns: &Value) -> Vec<Self> {
        columns.as_array().into_iter().flatten().filter_map(Self::read).collect()
    }

    fn read(column: &Value) -> Option<Self> {
        let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
        let path = JsonPath::parse(&text("jsonPath")).ok()?;
        let column = Column {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column["priority"].as_i64().unwrap_or_default(),
            source: "",
        };
        Some(Self { column, path })
    }
}
