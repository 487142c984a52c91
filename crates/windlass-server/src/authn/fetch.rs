//! GET requests to the issuers of JSON web tokens.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{net::TcpStream, time};
use tokio_rustls::TlsConnector;
use windlass_api::{BoxError, ErrorChain};

use crate::trust::Bundle;

/// The maximum size of a response, in bytes.
const LIMIT: usize = 1 << 20;
/// The maximum time for a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An HTTPS client that trusts a CA bundle, or else the CAs of the system.
#[derive(Clone, Debug)]
pub(super) struct Fetcher(Arc<ClientConfig>);

impl Fetcher {
    /// Creates a client. `authority` is a CA bundle in PEM; if it is empty, the CAs of the system are trusted.
    pub(super) fn new(authority: &str) -> Result<Self, BoxError> {
        let provider = windlass_tls::provider()?;
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let config = if authority.is_empty() {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            builder.with_root_certificates(roots).with_no_client_auth()
        } else {
            let bundle = Bundle::from_pem(authority.as_bytes(), provider)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(bundle)).with_no_client_auth()
        };
        Ok(Self(Arc::new(config)))
    }

    /// Returns the body of a successful response.
    pub(super) async fn get(&self, url: &str) -> Result<Bytes, String> {
        let failed = |why: String| format!("Get {url:?}: {why}");
        match time::timeout(TIMEOUT, self.send(url)).await {
            Ok(Ok((StatusCode::OK, body))) => Ok(body),
            Ok(Ok((code, body))) => {
                let text = String::from_utf8_lossy(&body);
                Err(format!("{code}: {}", text.chars().take(200).collect::<String>()))
            }
            Ok(Err(error)) => Err(failed(ErrorChain(&*error).to_string())),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    async fn send(&self, url: &str) -> Result<(StatusCode, Bytes), BoxError> {
        let url: Uri = url.parse()?;
        if url.scheme_str() != Some("https") {
            return Err("the URL scheme must be https".into());
        }
        let host = url.host().ok_or("the URL names no host")?;
        let port = url.port_u16().unwrap_or(443);
        let name = host.trim_matches(['[', ']']).to_owned();
        let stream = TcpStream::connect((name.as_str(), port)).await?;
        let stream = TlsConnector::from(Arc::clone(&self.0)).connect(ServerName::try_from(name)?, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(url.path_and_query().map_or("/", |path| path.as_str()))
            .header(header::HOST, url.authority().map_or(host, |authority| authority.as_str()))
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "kube-apiserver")
            .body(Empty::<Bytes>::new())?;
        let answer = async {
            let answer = sender.send_request(request).await?;
            let code = answer.status();
            Ok::<_, BoxError>((code, Limited::new(answer.into_body(), LIMIT).collect().await?.to_bytes()))
        };
        // The connection exists as long as the request: the response arrives before it ends, or never.
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            ended = &mut connection => {
                ended?;
                answer.await
            }
        }
    }
}
