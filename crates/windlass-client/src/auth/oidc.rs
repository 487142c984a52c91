//! OpenID Connect providers: the auth provider `oidc` of kubeconfigs.

use std::path::PathBuf;

use http::{StatusCode, Uri};
use thiserror::Error;
use windlass_api::BoxError;

use crate::{connection_options::Pem, secret::Secret};

/// The configuration of an OpenID Connect provider, with its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// The provider's URL.
    pub issuer: Uri,
    /// The client ID of this program.
    pub client_id: String,
    /// The client secret of this program.
    pub client_secret: Option<Secret>,
    /// The trusted certificate authorities for the provider; `None` for those of the system.
    pub certificate_authority: Option<Pem>,
    /// The ID token, sent as long as it is valid.
    pub id_token: Option<Secret>,
    /// The refresh token, with which ID tokens are renewed.
    pub refresh_token: Option<Secret>,
    /// The place where new tokens are written; `None` for nowhere.
    pub store: Option<OidcStore>,
}

/// The kubeconfig user whose tokens are updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcStore {
    /// The kubeconfig.
    pub file: PathBuf,
    /// The user's name in it.
    pub user: String,
}

/// The reason why a provider returned no token. It does not contain the provider's response, which may be a secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OidcError {
    /// The ID token has expired, and there is no refresh token.
    #[error("the id-token has expired or is missing, and there is no refresh-token: log in again")]
    NoRefreshToken,
    /// The ID token is not a JSON Web Token.
    #[error("the id-token is not a JSON web token")]
    NotAToken,
    /// The provider is unreachable.
    #[error("{url} cannot be reached")]
    Unreachable {
        /// The URL.
        url: String,
        /// The cause.
        source: BoxError,
    },
    /// The configuration of the connection is invalid.
    #[error("{url} cannot be connected to")]
    Config {
        /// The URL.
        url: String,
        /// The cause.
        source: BoxError,
    },
    /// The provider rejected the request.
    #[error("{url} answered {status}")]
    Refused {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: StatusCode,
    },
    /// The provider's response lacks a field.
    #[error("the answer of {url} has no usable {what}")]
    Answer {
        /// The URL.
        url: String,
        /// The missing field.
        what: &'static str,
    },
}
