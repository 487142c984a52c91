//! Attacks on the proxy with the administrator's credentials: `windlass proxy` or `kubectl proxy`.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::Command,
};

use crate::{
    catalog::{AttackResult, Error},
    server::Server,
};

pub(crate) async fn bypasses(server: Server) -> Result<AttackResult, Error> {
    let Some(program) = server.proxy() else { return Ok(AttackResult::Held("not run: no proxy program".to_owned())) };
    let mut proxy = Command::new(program)
        .args(["proxy", "--port", "0", "--kubeconfig", server.kubeconfig()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = proxy.stdout.take().ok_or("the proxy has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await?;
    let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    let ask = async |head: &str, more: &str| -> Result<u16, Error> {
        let mut stream = TcpStream::connect(&address).await?;
        let request = format!("{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.take(1 << 16).read_to_string(&mut answer).await?;
        Ok(answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default())
    };
    let pod = "/api/v1/namespaces/default/pods/p";
    let codes = [
        ("exec", ask(&format!("GET {pod}/exec?command=x"), "").await?),
        ("%65xec", ask(&format!("GET {pod}/%65xec?command=x"), "").await?),
        ("%2Fexec", ask(&format!("GET {pod}%2Fexec?command=x"), "").await?),
        ("other host", ask("GET /version", "").await.and(ask_as(&address, "evil.example").await)?),
        (
            "POST of another origin",
            ask("POST /api/v1/namespaces", "Origin: http://evil.example\r\nContent-Length: 0\r\n").await?,
        ),
    ];
    proxy.kill().await?;
    let passed: Vec<&str> = codes.iter().filter(|(_, code)| *code != 403).map(|(name, _)| *name).collect();
    Ok(AttackResult::when(
        passed.is_empty(),
        if passed.is_empty() { "403".into() } else { format!("passed on: {}", passed.join(", ")) },
    ))
}

/// Sends a request as a web page of another host, after DNS rebinding.
async fn ask_as(address: &str, host: &str) -> Result<u16, Error> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.take(1 << 16).read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default())
}
