//! Runs the API server alone on a socket, without controllers: `cargo run -p windlass-server --example serve
//! 127.0.0.1:6443`.
//!
//! Then run `curl --cacert ca.crt -H 'Authorization: Bearer TOKEN' https://127.0.0.1:6443/api/v1/namespaces`. With
//! `plain` as the second argument the server speaks HTTP without TLS, for measurements.

use std::{env, error::Error};

use tokio::{net::TcpListener, signal};
use windlass_server::{Server, TlsIdentity};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:6443".to_owned());
    let listener = TcpListener::bind(&address).await?;
    let server = Server::builder().token("TOKEN").build();
    let shutdown = async { drop(signal::ctrl_c().await) };
    if arguments.next().as_deref() == Some("plain") {
        println!("http://{}", listener.local_addr()?);
        return Ok(server.serve_plain(listener, shutdown).await?);
    }
    let identity = TlsIdentity::generate([listener.local_addr()?.ip().to_string()])?;
    println!("{}https://{}", identity.ca_pem(), listener.local_addr()?);
    Ok(server.serve(listener, identity, shutdown).await?)
}
