//! One HTTP/2 connection to one member.

use std::{error::Error as StdError, fs, io, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{mpsc, watch},
};
use tokio_rustls::TlsConnector;
use windlass_grpc::{CallError, KeepAlive, Messages, Settings, Status, code, decode, frame};

use crate::{
    errors::EtcdStatus as _,
    messages::{AuthenticateRequest, AuthenticateResponse, Empty, StatusResponse},
    options::{Credentials, Endpoint, Options, Tls},
};

type BoxError = Box<dyn StdError + Send + Sync>;

const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// The data that a member may send on one stream, and on all of them, before it waits for the reader. All streams are
/// read constantly, so a stream cannot block the others.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// The longest message, as in the client of kube-apiserver.
const LONGEST_MESSAGE: usize = i32::MAX as usize;

/// A connection to a member that had a leader when it was established. Closed when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) endpoint: Endpoint,
    grpc: windlass_grpc::Connection,
    credentials: Option<Credentials>,
    token: Mutex<Option<HeaderValue>>,
    /// Held while a token is renewed.
    renewal: tokio::sync::Mutex<()>,
    abandoned: watch::Sender<bool>,
}

/// The error for a member that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("the connection failed")]
    Tcp(#[source] io::Error),
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error("cannot read {path}")]
    File { path: String, source: BoxError },
    #[error("an https endpoint needs a CA file")]
    NoAuthority,
    #[error("the client certificate and its key are two files, and one of them is not set")]
    HalfCertificate,
    #[error("TLS cannot be configured")]
    Configuration(#[source] BoxError),
    #[error("the TLS handshake failed")]
    Handshake(#[source] io::Error),
    #[error("HTTP/2 failed")]
    Http(#[source] CallError),
    #[error("a request failed")]
    Call(#[from] CallError),
    #[error("the member has no leader")]
    NoLeader,
    #[error("the member is a learner, which serves no requests")]
    Learner,
    #[error(
        "etcd {version} is not supported, because its watches can report progress too early; use 3.4.31, 3.5.13, or a \
         later version"
    )]
    Version { version: String },
}

impl ConnectError {
    /// Reports whether another attempt may succeed without a change of the settings.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            // Certificates that are not accepted are invalid data.
            Self::Handshake(error) => error.kind() != io::ErrorKind::InvalidData,
            Self::Call(CallError::Status(status)) => status.is_unavailable(),
            Self::Tcp(_) | Self::Http(_) | Self::Timeout(_) | Self::NoLeader | Self::Learner | Self::Call(_) => true,
            Self::File { .. }
            | Self::NoAuthority
            | Self::HalfCertificate
            | Self::Configuration(_)
            | Self::Version { .. } => false,
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connection {
    /// Connects to a member, and checks that it can serve requests.
    pub(crate) async fn open(endpoint: &Endpoint, options: &Options) -> Result<Self, ConnectError> {
        let limit = options.connect_timeout;
        let opening = Self::open_unlimited(endpoint, options);
        tokio::time::timeout(limit, opening).await.unwrap_or(Err(ConnectError::Timeout(limit)))
    }

    async fn open_unlimited(endpoint: &Endpoint, options: &Options) -> Result<Self, ConnectError> {
        let tcp = TcpStream::connect((&*endpoint.host, endpoint.port)).await.map_err(ConnectError::Tcp)?;
        tcp.set_nodelay(true).map_err(ConnectError::Tcp)?;
        let stream: Box<dyn Stream> = if endpoint.is_tls {
            let connector = TlsConnector::from(Arc::new(client_config(&options.tls)?));
            let name = ServerName::try_from(endpoint.host.clone());
            let name = name.map_err(|error| ConnectError::Configuration(error.into()))?;
            Box::new(connector.connect(name, tcp).await.map_err(ConnectError::Handshake)?)
        } else {
            Box::new(tcp)
        };
        let settings = Settings {
            stream_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
            longest_message: LONGEST_MESSAGE,
            keep_alive: Some(KeepAlive { interval: options.keepalive_interval, timeout: options.keepalive_timeout }),
        };
        let origin = endpoint.to_string();
        let shaken = windlass_grpc::Connection::handshake(stream, &origin, settings).await;
        let (grpc, driver) = shaken.map_err(ConnectError::Http)?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(endpoint = origin, error = &error as &dyn StdError, "a connection to etcd was lost");
            }
        });
        let connection = Self {
            endpoint: endpoint.clone(),
            grpc,
            credentials: options.credentials.clone(),
            token: Mutex::default(),
            renewal: tokio::sync::Mutex::default(),
            abandoned: watch::Sender::new(false),
        };
        connection.authenticate().await?;
        connection.check_member().await?;
        Ok(connection)
    }

    /// Checks that the member has a supported version, and a leader.
    async fn check_member(&self) -> Result<(), ConnectError> {
        let status: StatusResponse = match self.unary(STATUS, frame(&Empty {})).await {
            Ok(bytes) => decode(bytes)?,
            // With authentication, only some users may read the status.
            Err(CallError::Status(Status { code: code::PERMISSION_DENIED, .. })) => {
                tracing::warn!(endpoint = %self.endpoint, "the user may not read etcd's status, its version is unknown");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if !is_supported(&status.version) {
            return Err(ConnectError::Version { version: status.version });
        }
        if status.is_learner {
            return Err(ConnectError::Learner);
        }
        if status.leader == 0 { Err(ConnectError::NoLeader) } else { Ok(()) }
    }

    /// Gets a new token, if there are credentials. Requests that need one at the same time share it.
    pub(crate) async fn authenticate(&self) -> Result<(), CallError> {
        let Some(Credentials { user, password }) = &self.credentials else { return Ok(()) };
        let rejected = self.token.lock().clone();
        let _renewal = self.renewal.lock().await;
        if *self.token.lock() != rejected {
            return Ok(());
        }
        let request = AuthenticateRequest { name: user.clone(), password: password.clone() };
        let response: AuthenticateResponse = decode(self.unary(AUTHENTICATE, frame(&request)).await?)?;
        let token = HeaderValue::try_from(response.token).map_err(|error| CallError::Lost(error.into()))?;
        *self.token.lock() = Some(token);
        Ok(())
    }

    /// Sends a request and returns the response's message.
    pub(crate) async fn unary(&self, path: &'static str, frame: Bytes) -> Result<Bytes, CallError> {
        self.grpc.unary(path, &self.metadata(path), frame).await
    }

    /// Starts a call with streams in both directions. Returns when the member has sent the head of its response.
    pub(crate) async fn stream(
        &self,
        path: &'static str,
        requests: mpsc::Receiver<Bytes>,
    ) -> Result<Messages, CallError> {
        self.grpc.stream(path, &self.metadata(path), requests).await
    }

    fn metadata(&self, path: &'static str) -> HeaderMap {
        let mut metadata = HeaderMap::new();
        if path != STATUS && path != AUTHENTICATE {
            // The member rejects the request instead of waiting for a leader, and ends a watch when it loses it.
            metadata.insert("hasleader", HeaderValue::from_static("true"));
        }
        // The old one is rejected.
        if path != AUTHENTICATE
            && let Some(token) = &*self.token.lock()
        {
            metadata.insert("token", token.clone());
        }
        metadata
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.grpc.is_closed() && !*self.abandoned.borrow()
    }

    /// Marks the connection as unusable. Its watches then continue on another one.
    pub(crate) fn abandon(&self) {
        self.abandoned.send_replace(true);
    }

    /// Waits until the connection is abandoned.
    pub(crate) async fn until_abandoned(&self) {
        // Cannot fail, because `self` holds the sender.
        let _ = self.abandoned.subscribe().wait_for(|abandoned| *abandoned).await;
    }
}

/// Reads the certificates.
fn client_config(tls: &Tls) -> Result<ClientConfig, ConnectError> {
    let ca = tls.ca.as_ref().ok_or(ConnectError::NoAuthority)?;
    let configuration = |error: BoxError| ConnectError::Configuration(error);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| configuration(error.into()))?;
    }
    let provider = windlass_tls::provider().map_err(|error| configuration(error.into()))?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| configuration(error.into()))?.with_root_certificates(roots);
    let mut config = match (&tls.certificate, &tls.key) {
        (None, None) => config.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unreadable(key, error.into()))?;
            let config = config.with_client_auth_cert(certificates(certificate)?, private);
            config.map_err(|error| configuration(error.into()))?
        }
        _ => return Err(ConnectError::HalfCertificate),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(|error| unreadable(path, error.into()))?;
    if found.is_empty() { Err(unreadable(path, "it has no certificate".into())) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, ConnectError> {
    fs::read(path).map_err(|error| unreadable(path, error.into()))
}

fn unreadable(path: &Path, source: BoxError) -> ConnectError {
    ConnectError::File { path: path.display().to_string(), source }
}

/// Reports whether progress responses of this version of etcd are correct. kube-apiserver requires the same versions.
fn is_supported(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or_default());
    let mut part = || parts.next().unwrap_or_default();
    let version = (part(), part(), part());
    version >= (3, 5, 13) || ((3, 4, 31)..(3, 5, 0)).contains(&version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_correct_progress_are_supported() {
        for version in ["3.4.31", "3.4.40", "3.5.13", "3.5.21", "3.6.0", "3.7.0-rc.1", "4.0.0"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["3.3.27", "3.4.30", "3.5.0", "3.5.12", "", "unknown"] {
            assert!(!is_supported(version), "{version}");
        }
    }

    #[test]
    fn tls_needs_an_authority_and_both_client_files() {
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca");
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&ca, signed.cert.pem()).unwrap();
        let tls = Tls { ca: Some(ca.clone()), certificate: None, key: None };
        assert_eq!(client_config(&tls).unwrap().alpn_protocols, [b"h2"]);
        assert!(matches!(client_config(&Tls::default()), Err(ConnectError::NoAuthority)));
        let half = Tls { certificate: Some(ca.clone()), ..tls.clone() };
        assert!(matches!(client_config(&half), Err(ConnectError::HalfCertificate)));
        let key = directory.path().join("key");
        let complete = Tls { key: Some(key.clone()), ..half };
        let error = client_config(&complete).unwrap_err().to_string();
        assert_eq!(error, format!("cannot read {}", key.display()));
        fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        client_config(&complete).unwrap();
        fs::write(&ca, "no certificate").unwrap();
        assert!(matches!(client_config(&tls), Err(ConnectError::File { .. })));
    }
}
