//! Applications without their types. The code of connections is compiled once, in this crate, for all applications.

use std::{future::Future, net::SocketAddr, pin::Pin};

use http::{Request, Response};
use tokio_rustls::rustls::ServerConnection;

use crate::{
    application::{Application, Connection},
    body::{AnyBody, RequestBody},
};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Any [`Application`].
pub(crate) trait AnyApplication: Send + Sync {
    fn connect(&self, peer: SocketAddr) -> Box<dyn AnyConnection>;
}

/// Any [`Connection`].
pub(crate) trait AnyConnection: Send + Sync {
    fn secured(&mut self, session: &ServerConnection);

    fn answer(&self, request: Request<RequestBody>) -> BoxFuture<Response<AnyBody>>;

    fn hold(&self, bytes: usize);

    fn release(&self, bytes: usize);

    fn writing(&self);

    fn written(&self);

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl<A: Application> AnyApplication for A {
    fn connect(&self, peer: SocketAddr) -> Box<dyn AnyConnection> {
        Box::new(Application::connect(self, peer))
    }
}

impl<C: Connection> AnyConnection for C {
    fn secured(&mut self, session: &ServerConnection) {
        Connection::secured(self, session);
    }

    fn answer(&self, request: Request<RequestBody>) -> BoxFuture<Response<AnyBody>> {
        let answer = Connection::answer(self, request);
        Box::pin(async move { answer.await.map(AnyBody::new) })
    }

    fn hold(&self, bytes: usize) {
        Connection::hold(self, bytes);
    }

    fn release(&self, bytes: usize) {
        Connection::release(self, bytes);
    }

    fn writing(&self) {
        Connection::writing(self);
    }

    fn written(&self) {
        Connection::written(self);
    }

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Connection::closed(self))
    }
}
