//! Connections to other API servers, with the TLS settings of an API service.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection as HttpConnection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_api::BoxError;

use super::{identity::ProxyIdentity, remote::ServiceReference};
use crate::{object::Tree, trust::Bundle};

/// The time to connect, TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// The time that an unused connection stays open, and the number of these for each address.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
const IDLE_CONNECTIONS: usize = 25;

/// The body of a request to another server.
pub(crate) type OutgoingBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// Connections to the service of one API service. Clones share open connections.
#[derive(Clone, Debug)]
pub(super) struct Connection(Client<Connector, OutgoingBody>);

/// Opens connections.
#[derive(Clone)]
struct Connector {
    tls: TlsConnector,
    name: ServerName<'static>,
}

/// An open connection.
struct Socket(TlsStream<TcpStream>);

/// Accepts any certificate, for API services with `insecureSkipTLSVerify`.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl Connection {
    /// Prepares connections with the settings in the specification of an API service.
    pub(super) fn new(
        spec: &Value,
        service: &ServiceReference,
        identity: Option<&ProxyIdentity>,
    ) -> Result<Self, BoxError> {
        let provider = windlass_tls::provider()?;
        let verifier = verifier(spec, &provider)?;
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = tls.dangerous().with_custom_certificate_verifier(verifier);
        let tls = match identity {
            Some(identity) => tls.with_client_cert_resolver(identity.current().clone()),
            None => tls.with_no_client_auth(),
        };
        let name = ServerName::try_from(format!("{}.{}.svc", service.name, service.namespace))?;
        let connector = Connector { tls: TlsConnector::from(Arc::new(tls)), name };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connector);
        Ok(Self(client))
    }

    /// Sends a request. Its URI contains the address of the server.
    pub(super) async fn send(&self, request: Request<OutgoingBody>) -> Result<Response<Incoming>, BoxError> {
        Ok(self.0.request(request).await?)
    }
}

/// Returns the verification of the server that an API service requires.
fn verifier(spec: &Value, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, BoxError> {
    if spec.flag(&["insecureSkipTLSVerify"]) {
        return Ok(Arc::new(NoVerification(Arc::clone(provider))));
    }
    let bundle = spec.text(&["caBundle"]);
    if !bundle.is_empty() {
        let pem = BASE64_STANDARD.decode(bundle)?;
        return Ok(Arc::new(Bundle::from_pem(&pem, Arc::clone(provider))?));
    }
    let mut roots = RootCertStore::empty();
    // Unreadable files of the system are ignored, because the others may suffice.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()?)
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tls, name) = (self.tls.clone(), self.name.clone());
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(443);
            let opened = time::timeout(CONNECT_LIMIT, async {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                tls.connect(name, stream).await
            });
            let socket = match opened.await {
                Ok(opened) => opened.map_err(|error| worded(error, &host, port))?,
                Err(_) => return Err(format!("dial tcp {}: i/o timeout", address(&host, port)).into()),
            };
            Ok(TokioIo::new(Socket(socket)))
        })
    }
}

/// Returns the error in the words of kube-apiserver, where it has some.
fn worded(error: io::Error, host: &str, port: u16) -> BoxError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {}: connect: connection refused", address(host, port)).into()
        }
        _ => error.into(),
    }
}

/// Returns a host and a port as one text.
pub(super) fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl HttpConnection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, shown, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
