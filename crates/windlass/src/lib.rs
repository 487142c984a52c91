//! The facade of Windlass: one line in a user's Cargo.toml, and the prelude
