//! A server that replays a list and a watch, to measure clients.
//!
//! It serves LIST (with `limit` and `continue`) and WATCH for one workload, over HTTP/1.1, optionally with TLS, and
//! then also over HTTP/2. A watch is silent at first, so that clients can measure their memory. Then it sends the
//! changes, in a burst or at a rate, and is silent again. Streaming lists are rejected, as by servers that do not
//! support them.

mod answers;
pub(crate) mod chunks;
mod tls;
pub(crate) mod workload;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use clap::Args;
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use windlass_api::BoxError;

use self::{
    answers::Replay,
    workload::{Kind, Workload},
};

/// The flags of `windlass-bench replay`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The listen address
    #[arg(long, default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// The kind of the objects
    #[arg(long, value_enum, default_value_t = Kind::Uniform)]
    workload: Kind,
    /// The number of objects
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// The number of changes in each watch
    #[arg(long, default_value_t = 50_000)]
    updates: u64,
    /// The number of objects that change
    #[arg(long, default_value_t = 1_000)]
    over: usize,
    /// Changes per second; defaults to a burst
    #[arg(long)]
    rate: Option<u64>,
    /// The number of changes that are sent together, with a rate
    #[arg(long, default_value_t = 1, requires = "rate", value_parser = clap::value_parser!(u64).range(1..))]
    per_write: u64,
    /// Seconds between the start of a watch and its first change
    #[arg(long, default_value_t = 2.0)]
    pause: f64,
    /// Also serve protobuf, with messages from this program: bench/client-go
    #[arg(long, value_name = "PROGRAM")]
    protobuf: Option<PathBuf>,
    /// Serve TLS, and write a kubeconfig into this directory
    #[arg(long, value_name = "DIRECTORY")]
    tls: Option<PathBuf>,
}

/// Runs until an error occurs. Prints its address first.
pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let listener = TcpListener::bind(options.bind).await?;
    let address = listener.local_addr()?;
    let mut workload = Workload::new(options.workload, options.objects);
    if let Some(program) = &options.protobuf {
        workload = workload.with_messages(program)?;
    }
    let mut told = json!({"server": format!("http://{address}"), "path": workload.path});
    let tls = match &options.tls {
        Some(directory) => {
            let endpoint = tls::secure(directory, address)?;
            told["server"] = format!("https://{address}").into();
            told["kubeconfig"] = endpoint.kubeconfig.display().to_string().into();
            Some(endpoint.acceptor)
        }
        None => None,
    };
    println!("{told}");
    let replay = Arc::new(Replay { workload, options });
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (replay, tls) = (replay.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => attend(replay, socket).await,
                // The client has disconnected during the handshake.
                Some(tls) => {
                    if let Ok(socket) = tls.accept(socket).await {
                        attend(replay, socket).await;
                    }
                }
            }
        });
    }
}

/// Serves a connection until it ends. A disconnect of the client is not an error.
async fn attend(replay: Arc<Replay>, socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let service = service_fn(move |request| {
        let answer = replay.clone().answer(&request);
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}
