//! The options of connections to a server: TLS, proxy and dialer.

mod dialer;
mod live_identity;
mod proxy;
mod tls;

pub use dialer::Dialer;
pub(crate) use dialer::Wire;
pub use live_identity::LiveIdentity;
pub(crate) use proxy::ProxyProtocol;
pub use proxy::{Proxy, ProxyError, ProxyServer};
pub use tls::{CipherSuite, Identity, Pem, Protocols, TlsOptions, TlsVersion, Verification};
