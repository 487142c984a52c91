//! Requests to etcd over its JSON gateway.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::Result;

/// Compacts every revision before the current one.
pub(super) fn compact(port: u16) -> Result {
    // The revision is part of every response. The key is a zero byte.
    let answer = ask(port, "/v3/kv/range", &json!({"key": "AA=="}))?;
    let present = answer["header"]["revision"].as_str().ok_or_else(|| format!("etcd sent no revision: {answer}"))?;
    ask(port, "/v3/kv/compaction", &json!({"revision": present, "physical": true}))?;
    Ok(())
}

fn ask(port: u16, path: &str, question: &Value) -> Result<Value> {
    let question = question.to_string();
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    // HTTP/1.0 responses end with their connection.
    write!(connection, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{question}", question.len())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) != Some("200") {
        return Err(format!("etcd, asked {path}: {answer}").into());
    }
    Ok(serde_json::from_str(body)?)
}
