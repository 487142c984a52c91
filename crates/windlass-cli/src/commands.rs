//! One module per command.

pub(crate) mod api_resources;
pub(crate) mod api_versions;
pub(crate) mod demo;
pub(crate) mod get;
pub(crate) mod proxy;
pub(crate) mod up;
