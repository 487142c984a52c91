use clap::Parser;
use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use windlass_client::{Body, Config, RateLimit};

use tokio::net::TcpListener;

use super::*;
use crate::testing;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

/// Starts a proxy for a new server. Returns clients of both; the proxy's client sends no credentials, like a browser or
/// curl.
async fn proxy(flags: &[&str]) -> (Client, Client, SocketAddr) {
    proxy_of(testing::client(), flags).await
}

async fn proxy_of(server: Client, flags: &[&str]) -> (Client, Client, SocketAddr) {
    let options = Command::try_parse_from(std::iter::once("proxy").chain(flags.iter().copied())).unwrap().options;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, application(options.forward(server.clone())), std::future::pending()));
    (Client::new(Config::new(format!("http://{address}").parse().unwrap())).unwrap(), server, address)
}

async fn ask(client: &Client, path: &str) -> (u16, String) {
    let response = client.request(Request::get(path).body(()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

#[tokio::test]
async fn requests_are_passed_on_and_a_watch_streams_through() {
    let (client, _, _) = proxy(&[]).await;
    let (status, text) = ask(&client, "/api/v1/namespaces/default/configmaps").await;
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &list["kind"]), (200, &json!("ConfigMapList")));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={version}");
    let watch = client.request(Request::get(path).body(()).unwrap()).await.unwrap();
    let mut events = watch.into_body();
    // Each event arrives when it happens, not at the end of the watch.
    for name in ["one", "two"] {
        let create = Request::post("/api/v1/namespaces/default/configmaps").body(Body::from(map(name))).unwrap();
        assert_eq!(client.request(create).await.unwrap().status(), 201);
        let frame = tokio::time::timeout(std::time::Duration::from_secs(20), events.frame());
        let event = frame.await.expect("the event arrives").unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&event).unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
}

#[tokio::test]
async fn proxied_requests_are_not_rate_limited() {
    let an_hour = RateLimit::new(std::time::Duration::from_hours(1), 1);
    let (client, ..) = proxy_of(testing::client().with_rate_limit(an_hour), &[]).await;
    let client = client.without_rate_limit();
    let all = async {
        for _ in 0..20 {
            assert_eq!(ask(&client, "/version").await.0, 200);
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), all).await.expect("requests are not rate limited");
}

#[tokio::test]
async fn proxy_returns_the_servers_failures() {
    let (client, _, _) = proxy(&[]).await;
    let (status, text) = ask(&client, "/api/v1/namespaces/default/pods/nope").await;
    assert_eq!((status, text.contains(r#""reason":"NotFound""#)), (404, true));
}

#[tokio::test]
async fn requests_rejected_by_the_filter_are_not_forwarded() {
    let (client, _, address) = proxy(&["--reject-methods=^DELETE$,^PUT$"]).await;
    assert_eq!(ask(&client, "/api/v1/namespaces/default/pods/p/exec?command=x").await.0, 403);
    let delete = Request::delete("/api/v1/namespaces/default/pods/p").body(()).unwrap();
    assert_eq!(client.request(delete).await.unwrap().status(), 403);
    // A page on another host name that resolves to this address.
    let foreign = Request::get("/version").header(header::HOST, format!("evil.example:{}", address.port()));
    assert_eq!(client.request(foreign.body(()).unwrap()).await.unwrap().status(), 403);
    let (open, ..) = proxy(&["--disable-filter"]).await;
    assert_eq!(ask(&open, "/api/v1/namespaces/default/pods/p/exec?command=x").await.0, 404);
}

#[tokio::test]
async fn rejected_path_in_another_spelling_is_refused() {
    let (client, ..) = proxy(&[]).await;
    assert_eq!(ask(&client, "/api/v1/namespaces/default/pods/p/%65xec?command=x").await.0, 403);
    assert_eq!(ask(&client, "/api/v1/namespaces/default/pods/p/%zz").await.0, 400);
}

#[tokio::test]
async fn page_of_another_origin_is_refused() {
    let (client, _, address) = proxy(&[]).await;
    let status = async |request: http::request::Builder, origin: &str| {
        let request = request.header(header::ORIGIN, origin).body(Body::from(map("forged"))).unwrap();
        client.request(request).await.unwrap().status()
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    // Forms and scripts can send this without a Content-Type.
    assert_eq!(status(Request::post(maps), "http://evil.example").await, 403);
    assert_eq!(status(Request::post(maps), &format!("http://{address}")).await, 201);
    let (open, ..) = proxy(&["--disable-filter"]).await;
    let request = Request::get("/version").header(header::ORIGIN, "http://evil.example").body(()).unwrap();
    assert_eq!(open.request(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn websocket_handshake_of_another_origin_is_refused() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (_, _, address) = proxy(&["--reject-paths=^$"]).await;
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let handshake = format!(
        "GET /api/v1/namespaces/default/pods/p/exec?command=x HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nOrigin: http://evil.example\r\n\r\n"
    );
    stream.write_all(handshake.as_bytes()).await.unwrap();
    let mut answer = [0; 22];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403 Forbidden");
}

#[tokio::test]
async fn a_prefix_is_taken_off() {
    let (client, ..) = proxy(&["--api-prefix=/k8s/"]).await;
    assert_eq!(ask(&client, "/k8s/version").await.0, 200);
    assert_eq!(ask(&client, "/version").await.0, 404);
    assert_eq!(ask(&client, "/k8sversion").await.0, 404);
}

#[tokio::test]
async fn unreachable_server_is_a_bad_gateway() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Client::new(Config::new(format!("http://{gone}").parse().unwrap())).unwrap();
    tokio::spawn(serve(listener, application(Forward::new(server, "/", None)), std::future::pending()));
    let client = Client::new(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
    let (status, text) = ask(&client, "/version").await;
    assert!(status == 502 && text.contains("connection"), "{status} {text}");
}
