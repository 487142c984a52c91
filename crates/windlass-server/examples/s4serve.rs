//! scratch
use windlass_server::Server;
#[tokio::main]
async fn main() {
    let server = Server::builder().token("TOKEN").build();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:28080").await.unwrap();
    server.serve_plain(listener, std::future::pending()).await.unwrap();
}
