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
use rustls::ServerConnection;
use windlass_api::BoxError;
use windlass_serve::{Application, Connection, RequestBody};

use super::{boxed, outgoing::Outgoing};
use crate::{
    budget::{Account, Charge},
    http::{Origin, Trust, handle, too_many_requests},
    state::{State, Stopping},
    tls::{ClientCertificate, TlsIdentity},
};

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
    certificate: ClientCertificate,
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
            certificate: ClientCertificate::Nothing,
            account: self.server.budget().open(),
            remote: remote.ip(),
        }
    }
}

impl Connection for ClientConnection {
    type Body = Outgoing;

    fn secured(&mut self, session: &ServerConnection) {
        if let Some(identity) = &self.tls {
            self.certificate = identity.client(session.peer_certificates(), self.server.clock().now());
        }
    }

    fn answer(
        &self,
        request: http::Request<RequestBody>,
    ) -> impl Future<Output = http::Response<Outgoing>> + Send + use<> {
        let server = self.server.clone();
        let origin = Origin {
            trust: Trust::Socket(self.certificate.clone()),
            stopping: self.stopping.clone(),
            remote: Some(self.remote),
        };
        let account = self.account.clone();
        async move {
            let charge = account.nothing();
            let request = request.map(|body| boxed(ChargedBody { body, charge }));
            let busy = || too_many_requests().map(|body| Outgoing::unbounded(body, &account));
            if account.room().await.is_err() {
                return busy();
            }
            let (head, body) = handle(server, origin, request).await.into_parts();
            match Outgoing::new(body, &account) {
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
