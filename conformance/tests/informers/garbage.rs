//! A server whose first responses are not from an API server, as from a proxy in front of it.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use conformance::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use windlass_api::Resource;
use windlass_cache::{InformerError, InformerOptions, InitialSync, SharedInformer};
use windlass_client::{Client, Config};

use super::{BACKOFF, Run};

/// The number of requests of each type.
#[derive(Default)]
struct RequestCounts {
    lists: AtomicUsize,
    watches: AtomicUsize,
}

/// Answers one request. The first list and the first watch get an HTML page.
async fn answer(connection: TcpStream, asked: Arc<RequestCounts>) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut request = String::new();
    while connection.read_line(&mut request).await? > 2 {}
    let is_watch = request.contains("watch=true");
    let is_first = if is_watch { &asked.watches } else { &asked.lists }.fetch_add(1, Ordering::Relaxed) == 0;
    let object = |name: &str, version: u32| {
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}"}}}}"#)
    };
    let body = match (is_first, is_watch) {
        (true, _) => "<html><body>We are back soon.</body></html>\n".to_owned(),
        (false, true) => format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object("new", 9)),
        (false, false) => format!(r#"{{"items":[{}],"metadata":{{"resourceVersion":"8"}}}}"#, object("old", 8)),
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await?;
    connection.flush().await?;
    if is_watch && !is_first {
        // Waits until the client disconnects.
        connection.read_line(&mut request).await?;
    }
    Ok(())
}

/// Returns the error with its causes.
fn chain(error: &InformerError) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informer_reports_invalid_json_and_continues() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let serving = tokio::spawn(async move {
        let (asked, mut connections) = (Arc::<RequestCounts>::default(), JoinSet::new());
        while let Ok((connection, _)) = listener.accept().await {
            connections.spawn(answer(connection, Arc::clone(&asked)));
        }
    });
    let client = Client::new(config).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let options = InformerOptions::default().initial_sync(InitialSync::List).backoff(BACKOFF);
    let options = options.on_error(move |error| log.lock().push(chain(error)));
    let list_watch = Arc::new(client.list_watch(&ConfigMap::api_resource(), Some("n")));
    let run = Run::of(SharedInformer::new(list_watch, options));
    run.informer.has_synced().await.unwrap();
    eventually("what the good watch tells is there", || async { (run.informer.store().len() == 2).then_some(()) })
        .await;
    let told = told.lock().clone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("listing configmaps: ") && told[0].contains("<html>"), "{}", told[0]);
    assert!(told[1].starts_with("watching configmaps: ") && told[1].contains("a watch event"), "{}", told[1]);
    run.stop().await;
    serving.abort();
}
