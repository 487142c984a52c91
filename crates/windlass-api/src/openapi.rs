//! The schemas of built-in kinds in the OpenAPI documents of a real server. The embedded server publishes them, and
//! schemas of custom resources embed parts of them.

/// The schemas, one per line: name, tab, JSON. `cargo xtask record` generates them.
pub const RECORDED: &str = include_str!("../data/openapi.tsv");
