use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::testing::kubelet::{Channels, Kubelet};

const V5: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];
const V4: &[&str] = &["v4.channel.k8s.io"];
const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

/// Echoes the input, prefixed with the name of its channel, and ends with the input.
async fn echo(mut channels: Channels) {
    channels.send(2, b"ready").await;
    while let Some((channel, data)) = channels.next().await {
        match channel {
            0 => channels.send(1, &data).await,
            255 => {
                assert_eq!(&data[..], [0]);
                return channels.exit(SUCCESS).await;
            }
            other => channels.send(2, format!("[{other}]{}", String::from_utf8_lossy(&data)).as_bytes()).await,
        }
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it takes no time")
}

#[tokio::test]
async fn streams_are_connected_and_stdin_end_ends_command() {
    let kubelet = Kubelet::start(V5, echo).await;
    let exec = kubelet.client().exec("p", ["sh", "-c", "a & b"]).within("n").container("c").stdin();
    let mut command = exec.await.unwrap();
    let mut stdin = command.stdin().unwrap();
    let feed = async move {
        stdin.write_all(b"one ").await.unwrap();
        stdin.write_all(b"two").await.unwrap();
        stdin.shutdown().await.unwrap();
    };
    let ((), output) = within(async { tokio::join!(feed, command.output()) }).await;
    let output = output.unwrap();
    assert_eq!((output.stdout, output.stderr, output.status.code), (b"one two".to_vec(), b"ready".to_vec(), 0));
    assert_eq!(
        kubelet.seen(),
        ["/api/v1/namespaces/n/pods/p/exec?command=sh&command=-c&command=a%20%26%20b&container=c&stdin=true&\
          stdout=true&stderr=true"]
    );
}

#[tokio::test]
async fn large_output_is_complete_while_input_is_written() {
    let kubelet = Kubelet::start(V5, echo).await;
    let mut command = kubelet.client().exec("p", ["cat"]).stdin().await.unwrap();
    let mut stdin = command.stdin().unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let expected = sent.clone();
    let feed = async move {
        stdin.write_all(&sent).await.unwrap();
        drop(stdin);
    };
    let ((), output) = within(async { tokio::join!(feed, command.output()) }).await;
    assert!(output.unwrap().stdout == expected);
}

#[tokio::test]
async fn writer_waits_while_output_is_not_read() {
    let kubelet = Kubelet::start(V5, echo).await;
    let mut command = kubelet.client().exec("p", ["cat"]).stdin().await.unwrap();
    let (mut stdin, mut stdout) = (command.stdin().unwrap(), command.stdout().unwrap());
    let piece = vec![7; 1 << 20];
    let mut accepted = 0;
    // Sockets buffer some megabytes; without a bound this would not end.
    while let Ok(Ok(written)) = tokio::time::timeout(Duration::from_millis(300), stdin.write(&piece)).await {
        accepted += written;
        assert!(accepted < 1 << 30, "a buffer is unbounded");
    }
    drop(stdin);
    let mut back = Vec::new();
    within(stdout.read_to_end(&mut back)).await.unwrap();
    assert_eq!(back.len(), accepted);
    assert!(within(command.wait()).await.unwrap().success());
}

#[tokio::test]
async fn exit_codes_differ_from_rejections() {
    let ended = |status: &'static str| async move {
        let kubelet = Kubelet::start(V5, move |channels| channels.exit(status)).await;
        within(kubelet.client().exec("p", ["x"]).within("n").await.unwrap().wait()).await
    };
    let failed = r#"{"status":"Failure","reason":"NonZeroExitCode","message":"exit 3",
        "details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    assert_eq!(ended(failed).await.unwrap(), ExitStatus { code: 3 });
    assert!(ended(SUCCESS).await.unwrap().success());
    let error = ended(r#"{"status":"Failure","reason":"InternalError","message":"no such file","code":500}"#).await;
    assert_eq!(error.unwrap_err().status().unwrap().message, "no such file");
    for broken in [r#"{"status":"Failure","reason":"NonZeroExitCode"}"#, "no json"] {
        let error = ended(broken).await.unwrap_err();
        assert!(matches!(error, Error::Decode { .. }), "{error}");
        assert!(error.to_string().contains(r#"pods/exec "n/p""#), "{error}");
    }
}

#[tokio::test]
async fn v4_protocol_is_used_for_older_servers() {
    let kubelet = Kubelet::start(V4, |mut channels| async move {
        // With version 4, no message on channel 255 may be sent to end the input.
        while let Some((channel, data)) = channels.next().await {
            assert_eq!(channel, 0);
            if data.ends_with(b"!") {
                return channels.exit(SUCCESS).await;
            }
        }
    })
    .await;
    let mut command = kubelet.client().attach("p").stdin().await.unwrap();
    let mut stdin = command.stdin().unwrap();
    stdin.write_all(b"bye!").await.unwrap();
    drop(stdin);
    assert!(within(command.wait()).await.unwrap().success());
    assert_eq!(kubelet.seen(), ["/api/v1/namespaces/default/pods/p/attach?stdin=true&stdout=true&stderr=true"]);
}

#[tokio::test]
async fn a_terminal_has_a_size_and_one_output() {
    let kubelet = Kubelet::start(V5, |mut channels| async move {
        let (channel, size) = channels.next().await.unwrap();
        channels.send(1, format!("{channel} {}", String::from_utf8_lossy(&size)).as_bytes()).await;
        channels.exit(SUCCESS).await;
    })
    .await;
    let client = kubelet.client();
    for (begun, path) in [
        (client.exec("p", ["top"]), "exec?command=top&stdout=true&tty=true"),
        (client.attach("p"), "attach?stdout=true&tty=true"),
    ] {
        let mut command = begun.tty().await.unwrap();
        assert!(command.stderr().is_none() && command.stdin().is_none());
        command.resize(TerminalSize { columns: 80, rows: 25 });
        let output = within(command.output()).await.unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), r#"4 {"Width":80,"Height":25}"#);
        assert!(kubelet.seen().last().unwrap().ends_with(path), "{:?}", kubelet.seen());
    }
}

#[tokio::test]
async fn a_connection_that_ends_early_is_an_error() {
    let kubelet = Kubelet::start(V5, |channels| async move { drop(channels) }).await;
    let error = within(kubelet.client().exec("p", ["x"]).await.unwrap().wait()).await.unwrap_err();
    assert!(error.is_transport(), "{error}");
    let kubelet = Kubelet::start(V5, Channels::close).await;
    let error = within(kubelet.client().exec("p", ["x"]).await.unwrap().wait()).await.unwrap_err();
    assert!(error.chain().contains("did not say how the command ended"), "{}", error.chain());
}

#[tokio::test]
async fn server_without_streaming_protocols_is_an_error() {
    let kubelet = Kubelet::start(&["v9.channel.k8s.io"], echo).await;
    let error = kubelet.client().exec("p", ["x"]).await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    let fake = crate::testing::Fake::json("{}");
    let error = fake.client().exec("p", ["x"]).within("n").await.unwrap_err();
    assert!(error.chain().contains("did not switch protocols"), "{}", error.chain());
    assert_eq!(fake.last().headers()["sec-websocket-protocol"], "v5.channel.k8s.io, v4.channel.k8s.io");
}

#[tokio::test]
async fn oversized_message_is_rejected() {
    let kubelet = Kubelet::start(V5, |mut channels| async move {
        channels.send(1, &vec![0; 5 << 20]).await;
        channels.exit(SUCCESS).await;
    })
    .await;
    let error = within(kubelet.client().exec("p", ["x"]).await.unwrap().output()).await.unwrap_err();
    assert!(error.is_transport(), "{}", error.chain());
}

#[tokio::test]
async fn dropping_the_command_ends_its_connection() {
    let mut kubelet = Kubelet::start(V5, echo).await;
    let mut command = kubelet.client().exec("p", ["x"]).stdin().await.unwrap();
    let mut stdout = command.stdout().unwrap();
    drop(command);
    let mut rest = Vec::new();
    within(stdout.read_to_end(&mut rest)).await.unwrap();
    within(kubelet.open.wait_for(|open| *open == 0)).await.unwrap();
}

// The clock is paused and jumps to the next timer when all tasks are idle, so the tests below take no time.

#[tokio::test]
async fn idle_connection_is_kept_alive_by_pings() {
    let (seen, mut pings) = tokio::sync::watch::channel(0);
    let kubelet = Kubelet::start(V5, move |mut channels| {
        let seen = seen.clone();
        async move {
            // A reader also answers pings.
            while let Some(message) = channels.next_message().await {
                seen.send_modify(|pings| *pings += i32::from(message.is_ping()));
            }
        }
    })
    .await;
    let command = kubelet.client().exec("p", ["sleep"]).await.unwrap();
    tokio::time::pause();
    pings.wait_for(|pings| *pings >= 30).await.unwrap();
    drop(command);
}

#[tokio::test]
async fn silent_connection_is_closed() {
    let kubelet = Kubelet::start(V5, |channels| async move {
        std::future::pending::<()>().await;
        drop(channels);
    })
    .await;
    let command = kubelet.client().exec("p", ["sleep"]).await.unwrap();
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let error = command.wait().await.unwrap_err();
    assert!(error.chain().contains("silent for 61 seconds"), "{}", error.chain());
    assert_eq!(begun.elapsed().as_secs(), 61);
}
