//! Responses over HTTP/1.1, whose bodies drive their connections.

use tokio::net::TcpStream;

use super::*;

/// The head of a response, with the first chunk of its body.
const FIRST: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n";
const SECOND: &[u8] = b"6\r\nsecond\r\n";
const END: &[u8] = b"0\r\n\r\n";

/// Accepts a connection and reads the head of a request.
async fn request_on(listener: &TcpListener) -> TcpStream {
    let mut socket = listener.accept().await.unwrap().0;
    read_head(&mut socket).await;
    socket
}

async fn read_head(socket: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), work).await.expect("in time")
}

async fn next(body: &mut Body) -> Bytes {
    within(body.frame()).await.unwrap().unwrap().into_data().unwrap()
}

/// Starts a request, and returns its response's body after the first chunk, with the server's sockets.
async fn start() -> (Client, Body, TcpListener, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(Config::new(url.parse().unwrap())).unwrap();
    let request = Box::pin(client.request(Request::get("/").body(()).unwrap()));
    let served = async {
        let mut socket = request_on(&listener).await;
        socket.write_all(FIRST).await.unwrap();
        socket
    };
    let (response, socket) = within(async { tokio::join!(request, served) }).await;
    let mut body = response.unwrap().into_body();
    assert_eq!(next(&mut body).await, "first");
    (client, body, listener, socket)
}

#[tokio::test]
async fn a_body_continues_in_another_task() {
    let (_client, mut body, _listener, mut socket) = start().await;
    // The first reader has waited for the next chunk, so the connection has its waker.
    assert!(futures::poll!(body.frame()).is_pending());
    let reader = tokio::spawn(async move {
        let second = next(&mut body).await;
        (second, within(body.frame()).await.is_none())
    });
    tokio::task::yield_now().await;
    socket.write_all(SECOND).await.unwrap();
    socket.write_all(END).await.unwrap();
    assert_eq!(reader.await.unwrap(), ("second".into(), true));
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_body_that_drove_it() {
    let (client, mut body, listener, mut socket) = start().await;
    assert!(futures::poll!(body.frame()).is_pending());
    socket.write_all(SECOND).await.unwrap();
    socket.write_all(END).await.unwrap();
    assert_eq!(next(&mut body).await, "second");
    assert!(within(body.frame()).await.is_none());
    // The pool has a task that takes the connection back.
    tokio::task::yield_now().await;
    let request = Box::pin(client.request(Request::get("/").body(()).unwrap()));
    let served = async {
        tokio::select! {
            () = read_head(&mut socket) => {}
            _ = listener.accept() => panic!("the request opened another connection"),
        }
        socket.write_all(FIRST).await.unwrap();
    };
    let (response, ()) = within(async { tokio::join!(request, served) }).await;
    assert_eq!(next(&mut response.unwrap().into_body()).await, "first");
}

#[tokio::test]
async fn a_dropped_body_that_drove_its_connection_closes_it() {
    let (_client, mut body, _listener, mut socket) = start().await;
    assert!(futures::poll!(body.frame()).is_pending());
    drop(body);
    assert_eq!(within(socket.read(&mut [0])).await.unwrap(), 0);
}

#[tokio::test]
async fn an_end_of_the_connection_reaches_the_body_that_drives_it() {
    let (_client, mut body, _listener, socket) = start().await;
    assert!(futures::poll!(body.frame()).is_pending());
    drop(socket);
    assert!(within(body.frame()).await.unwrap().is_err());
}

#[tokio::test]
async fn chunks_arrive_without_the_task_of_the_connection() {
    let (_client, mut body, _listener, mut socket) = start().await;
    assert!(futures::poll!(body.frame()).is_pending());
    // The task of the connection notices that it has a reader.
    tokio::task::yield_now().await;
    socket.write_all(&[SECOND, SECOND].concat()).await.unwrap();
    assert_eq!(next(&mut body).await, "second");
    // No other task runs between the two polls.
    assert!(matches!(futures::poll!(body.frame()), std::task::Poll::Ready(Some(Ok(_)))));
}

#[tokio::test]
async fn a_held_body_that_has_ended_does_not_block_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(Config::new(url.parse().unwrap())).unwrap();
    let request = Box::pin(client.request(Request::get("/").body(()).unwrap()));
    let served = async {
        let mut socket = request_on(&listener).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await.unwrap();
        socket
    };
    let (response, mut socket) = within(async { tokio::join!(request, served) }).await;
    let mut held = response.unwrap().into_body();
    assert!(futures::poll!(held.frame()).is_pending());
    socket.write_all(b"first").await.unwrap();
    assert_eq!(next(&mut held).await, "first");
    // The pool has a task that takes the connection back.
    tokio::task::yield_now().await;
    let request = Box::pin(client.request(Request::get("/").body(()).unwrap()));
    let served = async {
        read_head(&mut socket).await;
        socket.write_all(FIRST).await.unwrap();
    };
    let (response, ()) = within(async { tokio::join!(request, served) }).await;
    assert!(response.is_ok());
    drop(held);
}
