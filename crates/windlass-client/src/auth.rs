//! The description of credentials: what authenticates requests, and whom they impersonate. Client certificates are part
//! of the TLS options; see [`crate::config::Identity`].

mod exec;
mod header;
mod impersonation;
mod oidc;
mod source;

use std::path::PathBuf;

use thiserror::Error;
use windlass_api::BoxError;

pub use exec::{ExecConfig, ExecVersion, Interaction, PluginError, PluginPolicy};
pub(crate) use header::{basic, bearer};
pub use impersonation::Impersonation;
pub(crate) use impersonation::add_impersonation;
pub use oidc::{OidcConfig, OidcError, OidcStore};
pub use source::{IssuedToken, TokenSource};

pub use crate::secret::Secret;

/// The credentials of each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// No credentials, or only a client certificate.
    #[default]
    None,
    /// A static bearer token.
    Bearer(Secret),
    /// A bearer token in a file that another program keeps up to date. The file is read again after a minute, and when
    /// the server has rejected the token. While the file cannot be read, the last token remains in use.
    TokenFile(PathBuf),
    /// Basic authentication.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// Credentials from a plugin: an external program.
    Exec(Box<ExecConfig>),
    /// A token of an OpenID Connect provider.
    Oidc(Box<OidcConfig>),
    /// Tokens from a function of the program.
    Source(TokenSource),
}

/// The error of credentials that cannot be obtained.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The token file cannot be read, and no earlier token is known.
    #[error("reading the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A token contains characters that are invalid in a header.
    #[error("the token from {origin} contains characters that are invalid in a header")]
    Unprintable {
        /// The origin of the token.
        origin: String,
    },
    /// A part of the impersonation contains characters that are invalid in a header.
    #[error("the impersonated {what} contains characters that are invalid in a header")]
    Impersonation {
        /// The part.
        what: &'static str,
    },
    /// The plugin returned no credentials.
    #[error("the plugin {command:?} returned no credentials")]
    Plugin {
        /// The program.
        command: String,
        /// The cause.
        source: PluginError,
    },
    /// The program's token source returned an error.
    #[error("the program's token source failed")]
    Source {
        /// The cause.
        source: BoxError,
    },
    /// The OpenID Connect provider returned no token.
    #[error("the provider {issuer} returned no token")]
    Oidc {
        /// The provider.
        issuer: String,
        /// The cause.
        source: OidcError,
    },
}
