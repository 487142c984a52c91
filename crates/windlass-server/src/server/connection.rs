//! The state of a connection: its budget and its client certificate.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rustls::{ServerConnection, pki_types::CertificateDer};
use windlass_api::BoxError;
use windlass_serve::{Application, Connection, RequestBody, Upgrade};

use super::{boxed, outgoing::Outgoing, upgraded};
use crate::{
    budget::{Account, Charge},
    http::{Body as ResponseBody, Origin, Trust, UpgradedProtocol, handle, too_many_requests},
    state::{State, Stopping},
    tls::{ClientCertificate, TlsIdentity},
};

/// The time for which the verification of a certificate is used.
const VERIFICATION_LIFETIME: SignedDuration = SignedDuration::from_secs(60);

/// A server on a socket.
pub(super) struct Sockets {
    pub(super) server: Arc<State>,
    pub(super) tls: Option<TlsIdentity>,
    pub(super) stopping: Stopping,
}

/// A connection being served.
pub(super) struct ClientConnection {
    server: Arc<State>,
    tls: Option<TlsIdentity>,
    stopping: Stopping,
    /// The client's certificate chain, leaf first.
    chain: Option<Vec<CertificateDer<'static>>>,
    certificate: Mutex<Verified>,
    account: Arc<Account>,
    remote: IpAddr,
}

/// A request body that is charged to its connection while it is read.
struct ChargedBody {
    body: RequestBody,
    charge: Charge,
}

impl Application for Sockets {
    type Connection = ClientConnection;

    fn connect(&self, remote: SocketAddr) -> ClientConnection {
        ClientConnection {
            server: Arc::clone(&self.server),
            tls: self.tls.clone(),
            stopping: self.stopping.clone(),
            chain: None,
            certificate: Mutex::default(),
            account: self.server.budget().open(),
            remote: remote.ip(),
        }
    }
}

/// The result of verifying the client's certificate.
#[derive(Default)]
struct Verified {
    certificate: ClientCertificate,
    /// The time and the CA of the verification. `None` before the first one.
    basis: Option<(Timestamp, u64)>,
}

impl ClientConnection {
    /// Returns the user of the client's certificate. It is verified again if the client CA was replaced, and from time to
    /// time, because it may have expired.
    fn certificate(&self) -> ClientCertificate {
        let (Some(identity), Some(chain)) = (&self.tls, &self.chain) else { return ClientCertificate::Nothing };
        let (now, generation) = (self.server.clock().now(), identity.generation());
        let mut verified = self.certificate.lock();
        let is_fresh = verified.basis.is_some_and(|(since, basis)| {
            basis == generation && now >= since && now.duration_since(since) < VERIFICATION_LIFETIME
        });
        if !is_fresh {
            let certificate = identity.client(Some(chain), now);
            *verified = Verified { certificate, basis: Some((now, generation)) };
        }
        verified.certificate.clone()
    }
}

impl Connection for ClientConnection {
    type Body = Outgoing;

    fn secured(&mut self, session: &ServerConnection) {
        let chain = session.peer_certificates();
        self.chain = chain.map(|chain| chain.iter().map(|certificate| certificate.clone().into_owned()).collect());
    }

    fn answer(
        &self,
        mut request: http::Request<RequestBody>,
    ) -> impl Future<Output = http::Response<Outgoing>> + Send + use<> {
        let server = self.server.clone();
        let upgrade = request.extensions_mut().remove::<Upgrade>();
        let origin = Origin {
            trust: Trust::Socket(self.certificate()),
            stopping: self.stopping.clone(),
            remote: Some(self.remote),
            is_upgradable: upgrade.is_some(),
        };
        let account = self.account.clone();
        async move {
            let charge = account.nothing();
            let request = request.map(|body| boxed(ChargedBody { body, charge }));
            let busy = || too_many_requests().map(|body| Outgoing::unbounded(body, &account));
            if account.room().await.is_err() {
                return busy();
            }
            let (mut head, body) = handle(server, origin, request).await.into_parts();
            let body = match (head.extensions.remove::<UpgradedProtocol>(), upgrade) {
                (Some(protocol), Some(upgrade)) => upgraded::run(protocol, body, upgrade, &account)
                    .map(|()| Outgoing::unbounded(ResponseBody::whole(""), &account)),
                _ => Outgoing::new(body, &account),
            };
            match body {
                Ok(body) => http::Response::from_parts(head, body),
                Err(_) => busy(),
            }
        }
    }

    fn hold(&self, bytes: usize) {
        self.account.hold(bytes);
    }

    fn release(&self, bytes: usize) {
        self.account.release(bytes);
    }

    fn writing(&self) {
        self.account.slices().writing();
    }

    fn written(&self) {
        self.account.slices().written();
    }

    fn closed(&self) -> impl Future<Output = ()> + Send {
        self.account.closed()
    }
}

impl Body for ChargedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(length) = frame.as_ref().and_then(|frame| Some(frame.as_ref().ok()?.data_ref()?.len())) {
            self.charge.try_add(length)?;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
