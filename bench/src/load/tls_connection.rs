//! TLS on a socket, with minimal overhead. The socket blocks, until [`TlsConnection::into_async`] is called.
//!
//! There is a single cipher suite, so all servers do the same work. Certificates are not verified, because the
//! benchmark itself starts the servers.

use std::{
    future::poll_fn,
    io::{self, Read as _, Write as _},
    net::TcpStream,
    pin::Pin,
    sync::Arc,
    task::ready,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::{
        UnbufferedClientConnection,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
    unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus},
};
use tokio::io::{AsyncRead as _, ReadBuf};
use windlass_api::BoxError;

/// The maximum size of a read from the socket of a connection with much data.
pub(crate) const LARGE_READ: usize = 256 << 10;

/// The same for one of very many connections: one record of maximum size, and a part of the next one.
pub(crate) const SMALL_READ: usize = 20 << 10;

/// A connection after the handshake.
pub(crate) struct TlsConnection<S = TcpStream> {
    stream: S,
    tls: UnbufferedClientConnection,
    /// Received bytes that are not decrypted yet: `from..to`.
    incoming: Vec<u8>,
    from: usize,
    to: usize,
    /// Encrypted bytes that are not sent yet.
    outgoing: Vec<u8>,
}

impl TlsConnection {
    /// Connects and selects the protocol, by its name in TLS. `room` is the maximum size of a read, and more than a record.
    pub(super) fn connect(host: &str, port: u16, protocol: &str, room: usize) -> Result<Self, BoxError> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_nodelay(true)?;
        let provider = CryptoProvider {
            cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
            ..ring::default_provider()
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let tls = UnbufferedClientConnection::new(Arc::new(config), ServerName::try_from(host.to_owned())?)?;
        let incoming = vec![0; room];
        let mut connection = Self { stream, tls, incoming, from: 0, to: 0, outgoing: Vec::new() };
        while !connection.advance(&[], &mut |_| Ok(()))? {
            connection.receive()?;
        }
        if connection.tls.alpn_protocol() != Some(protocol.as_bytes()) {
            return Err(format!("the server does not speak {protocol}").into());
        }
        Ok(connection)
    }

    /// Returns the connection for a runtime.
    pub(crate) fn into_async(self) -> io::Result<TlsConnection<tokio::net::TcpStream>> {
        self.stream.set_nonblocking(true)?;
        let Self { stream, tls, incoming, from, to, outgoing } = self;
        Ok(TlsConnection { stream: tokio::net::TcpStream::from_std(stream)?, tls, incoming, from, to, outgoing })
    }

    /// Waits for data and passes it to `take`.
    pub(crate) fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), BoxError>) -> Result<(), BoxError> {
        self.receive()?;
        self.advance(&[], take)?;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        self.make_space();
        let read = self.stream.read(&mut self.incoming[self.to..])?;
        self.received(read)
    }
}

impl TlsConnection<tokio::net::TcpStream> {
    /// Waits for data. [`Self::process`] passes it on.
    pub(crate) async fn receive(&mut self) -> io::Result<()> {
        self.make_space();
        let read = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut self.incoming[self.to..]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            io::Result::Ok(buffer.filled().len()).into()
        });
        let read = read.await?;
        self.received(read)
    }

    /// Passes the received data to `take`.
    pub(crate) fn process(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), BoxError>) -> Result<(), BoxError> {
        self.advance(&[], take)?;
        Ok(())
    }
}

impl<S: Socket> TlsConnection<S> {
    /// Sends all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
        if !self.advance(bytes, &mut |_| Err("data before it was asked for".into()))? {
            return Err("the connection does not take data".into());
        }
        Ok(())
    }

    /// Moves the remaining bytes to the front. The space after them is larger than any record.
    fn make_space(&mut self) {
        self.incoming.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
    }

    fn received(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.to += bytes;
        Ok(())
    }

    /// Processes records until more input is needed, then sends `bytes`. Reports whether they could be sent.
    fn advance(&mut self, bytes: &[u8], take: &mut dyn FnMut(&[u8]) -> Result<(), BoxError>) -> Result<bool, BoxError> {
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut self.incoming[self.from..self.to]);
            let mut done = None;
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        take(record.payload)?;
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encoded(&mut self.outgoing, |room| {
                        data.encode(room).map_err(|error| match error {
                            EncodeError::InsufficientSize(size) => Ok(size.required_size),
                            EncodeError::AlreadyEncoded => Err(error.into()),
                        })
                    })?;
                }
                ConnectionState::TransmitTlsData(data) => {
                    self.stream.send(&self.outgoing)?;
                    self.outgoing.clear();
                    data.done();
                }
                ConnectionState::WriteTraffic(mut traffic) => {
                    if !bytes.is_empty() {
                        encoded(&mut self.outgoing, |room| {
                            traffic.encrypt(bytes, room).map_err(|error| match error {
                                EncryptError::InsufficientSize(size) => Ok(size.required_size),
                                EncryptError::EncryptExhausted => Err(error.into()),
                            })
                        })?;
                        self.stream.send(&self.outgoing)?;
                        self.outgoing.clear();
                    }
                    done = Some(true);
                }
                ConnectionState::BlockedHandshake => done = Some(false),
                other => return Err(format!("the connection has ended: {other:?}").into()),
            }
            self.from += discard;
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }
}

/// A socket that bytes are written to.
pub(crate) trait Socket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }
}

impl Socket for tokio::net::TcpStream {
    /// Does not wait. The few bytes of a client that reads always fit into the buffer of the socket.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.try_write(bytes)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

/// Appends the output of a function that requests its buffer size.
fn encoded(
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Result<usize, BoxError>>,
) -> Result<(), BoxError> {
    let start = out.len();
    loop {
        match write(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(Ok(required)) if start + required > out.len() => out.resize(start + required, 0),
            Err(Ok(_)) => return Err("the required buffer size is invalid".into()),
            Err(Err(error)) => return Err(error),
        }
    }
}

/// Accepts every certificate.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
