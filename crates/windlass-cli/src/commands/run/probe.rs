//! The readiness probe of a manager.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

/// The interval between requests.
const INTERVAL: Duration = Duration::from_millis(25);
/// The timeout of a request.
const ANSWER: Duration = Duration::from_secs(5);

/// Waits until `/readyz` responds with 200.
pub(super) async fn ready(probes: SocketAddr) {
    loop {
        if let Ok(Ok(true)) = timeout(ANSWER, ask(probes)).await {
            return;
        }
        sleep(INTERVAL).await;
    }
}

async fn ask(probes: SocketAddr) -> io::Result<bool> {
    let mut connection = TcpStream::connect(probes).await?;
    connection
        .write_all(format!("GET /readyz HTTP/1.1\r\nhost: {probes}\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = Vec::new();
    connection.take(64).read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn unready_manager_is_polled_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = tokio::spawn(async move {
            for answer in ["HTTP/1.1 500 Internal Server Error\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    connection.read_buf(&mut request).await.unwrap();
                }
                assert!(request.starts_with(b"GET /readyz HTTP/1.1\r\n"));
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        timeout(Duration::from_mins(1), ready(address)).await.expect("it becomes ready");
        asked.await.unwrap();
    }
}
