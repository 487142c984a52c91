//! A table as text, laid out as kubectl does it: columns three spaces apart, none narrower than six.

use serde_json::Value;
use windlass_api::DynamicObject;

use super::{Table, TableColumn};

const GAP: usize = 3;
const LEAST_WIDTH: usize = 6;
const NOTHING: &str = "<none>";

/// Which columns are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// Those that fit most screens.
    #[default]
    Normal,
    /// All.
    Wide,
}

/// Whether columns have names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// In the first line.
    #[default]
    Shown,
    /// Not at all.
    Hidden,
}

/// Columns of text, each line with its end. It remembers how wide columns have been: lines that come later stand below
/// those that came before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextLayout {
    widths: Vec<usize>,
}

/// Writes tables as text, one after the other: names of columns once, and columns as wide as they have been so far. So the
/// rows of a watch, which come one by one, stand below each other.
#[derive(Clone, Debug, Default)]
pub struct TableWriter {
    columns: Columns,
    headers: Headers,
    namespaces: bool,
    labels: bool,
    /// The labels that have columns of their own.
    label_columns: Vec<String>,
    /// Stands before each name: `pod/`.
    prefix: String,
    /// The columns that the server has told.
    known: Vec<TableColumn>,
    layout: TextLayout,
    begun: bool,
}

impl TableWriter {
    /// With the usual columns and their names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With these columns.
    #[must_use]
    pub const fn columns(mut self, columns: Columns) -> Self {
        self.columns = columns;
        self
    }

    /// With or without the names of the columns.
    #[must_use]
    pub const fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// The namespace of each object in a first column.
    #[must_use]
    pub const fn with_namespaces(mut self) -> Self {
        self.namespaces = true;
        self
    }

    /// The labels of each object in a last column.
    #[must_use]
    pub const fn with_labels(mut self) -> Self {
        self.labels = true;
        self
    }

    /// The value of a label of each object in a column of its own.
    #[must_use]
    pub fn with_label_column(mut self, label: impl Into<String>) -> Self {
        self.label_columns.push(label.into());
        self
    }

    /// This before each name: `pod/`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The text of a table, each line with its end.
    pub fn write(&mut self, table: &Table) -> String {
        if !table.columns.is_empty() {
            self.known.clone_from(&table.columns);
        }
        let shown: Vec<usize> = (0..self.known.len())
            .filter(|&index| self.columns == Columns::Wide || self.known[index].priority == 0)
            .collect();
        let mut lines: Vec<Vec<String>> = Vec::with_capacity(table.rows.len() + 1);
        if !self.begun && self.headers == Headers::Shown && !self.known.is_empty() {
            lines.push(self.header_line(&shown));
            self.begun = true;
        }
        for row in &table.rows {
            lines.push(self.line(&shown, &row.cells, &row.object));
        }
        self.layout.write(&lines)
    }

    fn header_line(&self, shown: &[usize]) -> Vec<String> {
        let mut line = Vec::new();
        if self.namespaces {
            line.push("NAMESPACE".to_owned());
        }
        line.extend(shown.iter().map(|&index| self.known[index].name.to_uppercase()));
        line.extend(self.label_columns.iter().map(|label| {
            let (_, name) = label.rsplit_once('/').unwrap_or(("", label));
            name.to_uppercase()
        }));
        if self.labels {
            line.push("LABELS".to_owned());
        }
        line
    }

    fn line(&self, shown: &[usize], cells: &[Value], object: &DynamicObject) -> Vec<String> {
        let mut line = Vec::new();
        if self.namespaces {
            line.push(object.metadata.namespace.clone().unwrap_or_default());
        }
        for &index in shown {
            let cell = cells.get(index).map_or_else(String::new, text);
            let is_name = self.known[index].format == "name" || self.known[index].name == "Name";
            line.push(if is_name { format!("{}{cell}", self.prefix) } else { cell });
        }
        let label = |name: &String| object.metadata.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
        line.extend(self.label_columns.iter().map(|name| label(name).unwrap_or_else(|| NOTHING.to_owned())));
        if self.labels {
            let labels = object.metadata.labels.iter().flatten();
            let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
            line.push(if labels.is_empty() { NOTHING.to_owned() } else { labels.join(",") });
        }
        line
    }
}

impl TextLayout {
    /// The text of some lines, each given by its cells.
    pub fn write(&mut self, lines: &[Vec<String>]) -> String {
        for line in lines {
            for (index, cell) in line.iter().enumerate() {
                if index >= self.widths.len() {
                    self.widths.push(LEAST_WIDTH);
                }
                self.widths[index] = self.widths[index].max(cell.chars().count() + GAP);
            }
        }
        let mut text = String::new();
        for line in lines {
            for (index, cell) in line.iter().enumerate() {
                text.push_str(cell);
                if index + 1 < line.len() {
                    let gap = self.widths[index].saturating_sub(cell.chars().count());
                    text.extend(std::iter::repeat_n(' ', gap));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// A cell on one line; what a terminal would take for orders is made visible.
fn text(cell: &Value) -> String {
    let cell = match cell {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // Of several lines the first is shown, and that there are more.
    let line = match cell.split_once(['\n', '\r', '\u{c}']) {
        Some((first, _)) => format!("{first}..."),
        None => cell,
    };
    line.replace('\u{1b}', "^[")
}
