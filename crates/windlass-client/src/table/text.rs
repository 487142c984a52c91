//! The text form of tables in kubectl's layout: columns three spaces apart, with a minimum width of six.

use serde_json::Value;
use windlass_api::DynamicObject;

use super::{Table, TableColumn};

const GAP: usize = 3;
const LEAST_WIDTH: usize = 6;
const NOTHING: &str = "<none>";

/// The columns to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// The columns with priority 0.
    #[default]
    Normal,
    /// All columns.
    Wide,
}

/// The visibility of column names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// Shows them in the first line.
    #[default]
    Shown,
    /// Hides them.
    Hidden,
}

/// Text in columns, with a line break after each line. It remembers the column widths, so that later lines are aligned
/// with earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextLayout {
    widths: Vec<usize>,
}

/// Writes tables as text. Column names are written once, and the column widths are remembered. The rows of a watch,
/// which arrive one by one, are thus aligned.
#[derive(Clone, Debug, Default)]
pub struct TableWriter {
    columns: Columns,
    headers: Headers,
    namespaces: bool,
    labels: bool,
    /// The labels with their own columns.
    label_columns: Vec<String>,
    /// The prefix of each name, such as `pod/`.
    prefix: String,
    /// The column definitions that the server has sent.
    known: Vec<TableColumn>,
    layout: TextLayout,
    begun: bool,
}

impl TableWriter {
    /// Creates a writer for the normal columns, with column names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the columns to show.
    #[must_use]
    pub const fn columns(mut self, columns: Columns) -> Self {
        self.columns = columns;
        self
    }

    /// Sets whether to show column names.
    #[must_use]
    pub const fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// Adds a first column with the namespace of each object.
    #[must_use]
    pub const fn with_namespaces(mut self) -> Self {
        self.namespaces = true;
        self
    }

    /// Adds a last column with the labels of each object.
    #[must_use]
    pub const fn with_labels(mut self) -> Self {
        self.labels = true;
        self
    }

    /// Adds a column with the value of a label.
    #[must_use]
    pub fn with_label_column(mut self, label: impl Into<String>) -> Self {
        self.label_columns.push(label.into());
        self
    }

    /// Sets the prefix of each name, such as `pod/`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Returns the text of a table, with a line break after each line.
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
    /// Returns the text of lines, each given as its cells.
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

/// Formats a cell on one line. Control characters are made visible.
fn text(cell: &Value) -> String {
    let cell = match cell {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // Shows the first line of a text, with a mark if more lines follow.
    let line = match cell.split_once(['\n', '\r', '\u{c}']) {
        Some((first, _)) => format!("{first}..."),
        None => cell,
    };
    line.replace('\u{1b}', "^[")
}
