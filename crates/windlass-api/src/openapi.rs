//! What a real server publishes of the built-in kinds: the schemas of its OpenAPI documents. The embedded server publishes
//! them in turn, and definitions of custom resources take parts from them.

/// The schemas, one per line: name, tab, JSON. `cargo xtask record` writes them.
pub const RECORDED: &str = include_str!("../data/openapi.tsv");
