//! The commands, one module each.

pub(crate) mod api_resources;
pub(crate) mod api_versions;
pub(crate) mod completion;
pub(crate) mod create;
pub(crate) mod demo;
pub(crate) mod edit;
pub(crate) mod envtest_assets;
pub(crate) mod explore;
pub(crate) mod from;
pub(crate) mod generate;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod load;
pub(crate) mod migrate;
pub(crate) mod proxy;
pub(crate) mod run;
pub(crate) mod scaffolding;
pub(crate) mod snapshot;
pub(crate) mod up;

use std::io::{self, Write as _};

use windlass_controllers::BuiltIn;

/// Returns the names of the built-in controllers, for help texts.
fn controller_names() -> String {
    BuiltIn::ALL.iter().map(|controller| controller.name()).collect::<Vec<_>>().join(", ")
}

/// Prints and flushes a readiness message, so that a reader receives it immediately, even through a pipe. Ignores a
/// closed pipe.
pub(crate) fn announce(text: &str) {
    let mut output = io::stdout().lock();
    if let Err(error) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        tracing::debug!(%error, "the output is closed");
    }
}
