//! A fake server of the channel protocol over real sockets, as an API server with a kubelet behaves.

use std::{future::Future, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{Request, Response, StatusCode, header};
use hyper::{
    body::Incoming,
    service::service_fn,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

use crate::{Client, Config, body::Body};

/// The kubelet's end of a connection.
pub(crate) struct Channels {
    socket: WebSocketStream<TokioIo<Upgraded>>,
    /// The path and query that the client requested.
    pub(crate) uri: String,
}

/// A server that listens until dropped.
pub(crate) struct Kubelet {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    /// The number of open connections.
    pub(crate) open: watch::Receiver<usize>,
    _task: JoinSet<()>,
}

impl Kubelet {
    /// Starts a server that supports `protocols` and handles each connection with `serve`.
    pub(crate) async fn start<F>(
        protocols: &'static [&'static str],
        serve: impl Fn(Channels) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (count, open) = watch::channel(0);
        let count = Arc::new(count);
        let mut task = JoinSet::new();
        let log = Arc::clone(&seen);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (serve, log, count) = (serve.clone(), Arc::clone(&log), Arc::clone(&count));
                connections.spawn(async move {
                    count.send_modify(|open| *open += 1);
                    let upgraded = Waiting::default();
                    let service = service_fn(|request: Request<Incoming>| {
                        log.lock().push(request.uri().to_string());
                        std::future::ready(Ok::<_, std::convert::Infallible>(answer(request, protocols, &upgraded)))
                    });
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(socket), service)
                        .with_upgrades();
                    let _ = connection.await;
                    let waiting = upgraded.lock().take();
                    if let Some((waiting, uri)) = waiting
                        && let Ok(connection) = waiting.await
                    {
                        let socket =
                            WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, None).await;
                        serve(Channels { socket, uri }).await;
                    }
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { address, seen, open, _task: task }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Config::new(format!("http://{}", self.address).parse().unwrap())).unwrap()
    }

    /// Returns the requests so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

type Waiting = Arc<Mutex<Option<(OnUpgrade, String)>>>;

fn answer(mut request: Request<Incoming>, protocols: &[&str], waiting: &Waiting) -> Response<Body> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header(header::UPGRADE) != "websocket" {
        return Response::builder().status(StatusCode::BAD_REQUEST).body("not an upgrade".into()).unwrap();
    }
    // As servers do: choose the first of the client's protocols that is supported.
    let chosen = header(header::SEC_WEBSOCKET_PROTOCOL).split(", ").find(|offered| protocols.contains(offered));
    let Some(chosen) = chosen.map(str::to_owned) else {
        return Response::builder().status(StatusCode::FORBIDDEN).body("no common protocol".into()).unwrap();
    };
    let accept = derive_accept_key(header(header::SEC_WEBSOCKET_KEY).as_bytes());
    *waiting.lock() = Some((hyper::upgrade::on(&mut request), request.uri().to_string()));
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::UPGRADE, "websocket")
        .header(header::CONNECTION, "Upgrade")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept)
        .header(header::SEC_WEBSOCKET_PROTOCOL, chosen)
        .body(Body::empty())
        .unwrap()
}

impl Channels {
    pub(crate) async fn send(&mut self, channel: u8, data: &[u8]) {
        let message = [&[channel], data].concat();
        // The client may have disconnected; tests check what it received.
        let _ = self.socket.send(Message::Binary(message.into())).await;
    }

    /// Returns the client's next message; `None` after it has disconnected.
    pub(crate) async fn next(&mut self) -> Option<(u8, Bytes)> {
        loop {
            match self.socket.next().await? {
                Ok(Message::Binary(mut data)) => {
                    let channel = data.split_to(1)[0];
                    return Some((channel, data));
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Returns the next message of any kind, including pings.
    pub(crate) async fn next_message(&mut self) -> Option<Message> {
        self.socket.next().await?.ok()
    }

    /// Closes the connection properly, and waits until the client has disconnected.
    pub(crate) async fn close(mut self) {
        let _ = self.socket.close(None).await;
        while self.next().await.is_some() {}
    }

    /// Ends the command with a status, as kubelets do.
    pub(crate) async fn exit(mut self, status: &str) {
        self.send(3, status.as_bytes()).await;
        self.close().await;
    }
}
