use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;
use crate::testing::kubelet::{Channels, Kubelet};

const V4: &[&str] = &["v4.channel.k8s.io"];

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it takes no time")
}

/// Sends the first messages of both channels, the port in two bytes: once in one message, once in two. Returns the
/// port.
async fn begin(channels: &mut Channels) -> u16 {
    let (_, ports) = channels.uri.split_once("ports=").unwrap();
    let port: u16 = ports.parse().unwrap();
    let [low, high] = port.to_le_bytes();
    channels.send(0, &[low, high]).await;
    channels.send(1, &[low]).await;
    channels.send(1, &[high]).await;
    port
}

/// A pod that echoes its input in capitals, says goodbye after `bye`, and listens on port 80 only.
async fn pod(mut channels: Channels) {
    if begin(&mut channels).await != 80 {
        channels.send(1, b"connection refused\n").await;
        return channels.close().await;
    }
    while let Some((channel, data)) = channels.next().await {
        assert_eq!(channel, 0);
        channels.send(0, &data.to_ascii_uppercase()).await;
        if data.ends_with(b"bye") {
            return channels.close().await;
        }
    }
}

#[tokio::test]
async fn a_connection_carries_bytes_both_ways_until_the_pod_ends_it() {
    let kubelet = Kubelet::start(V4, pod).await;
    let mut stream = kubelet.client().port_forward("p").within("n").connect(80).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut answer = [0; 5];
    within(stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HELLO");
    stream.write_all(b"bye").await.unwrap();
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"BYE");
    assert_eq!(kubelet.seen(), ["/api/v1/namespaces/n/pods/p/portforward?ports=80"]);
}

#[tokio::test]
async fn pod_error_is_returned_to_the_reader() {
    let kubelet = Kubelet::start(V4, pod).await;
    let mut stream = kubelet.client().port_forward("p").connect(81).await.unwrap();
    let error = within(stream.read(&mut [0; 8])).await.unwrap_err();
    assert_eq!(error.to_string(), "connection refused");
    // A broken connection is not a normal end.
    let kubelet = Kubelet::start(V4, |channels| async move { drop(channels) }).await;
    let mut stream = kubelet.client().port_forward("p").connect(80).await.unwrap();
    within(stream.read(&mut [0; 8])).await.unwrap_err();
}

#[tokio::test]
async fn local_ports_lead_to_the_pod_each_connection_for_itself() {
    let mut kubelet = Kubelet::start(V4, pod).await;
    let forward = kubelet.client().port_forward("p").port(":80".parse().unwrap()).port(":81".parse().unwrap());
    let forwarder = forward.listen().await.unwrap();
    let [open, refused] = forwarder.ports() else { panic!("{:?}", forwarder.ports()) };
    assert_eq!((open.remote, refused.remote), (80, 81));
    assert!(open.local.ip().is_loopback() && open.local.port() != 0);

    let mut first = TcpStream::connect(open.local).await.unwrap();
    let mut second = TcpStream::connect(open.local).await.unwrap();
    let mut answer = [0; 3];
    for (stream, said, heard) in [(&mut first, b"one", b"ONE"), (&mut second, b"two", b"TWO")] {
        stream.write_all(said).await.unwrap();
        within(stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, heard);
    }
    // A refused port closes its connection, and no other.
    let mut third = TcpStream::connect(refused.local).await.unwrap();
    assert_eq!(within(third.read(&mut answer)).await.unwrap_or(0), 0);
    first.write_all(b"bye").await.unwrap();
    within(first.read_exact(&mut answer)).await.unwrap();
    assert_eq!((&answer, within(first.read(&mut [0; 1])).await.unwrap()), (b"BYE", 0));

    let address = open.local;
    drop(forwarder);
    assert_eq!(within(second.read(&mut answer)).await.unwrap_or(0), 0);
    within(kubelet.open.wait_for(|open| *open == 0)).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn closed_local_writer_still_reads_pod_data() {
    let kubelet = Kubelet::start(V4, |mut channels| async move {
        begin(&mut channels).await;
        let (_, question) = channels.next().await.unwrap();
        channels.send(0, &question).await;
        channels.close().await;
    })
    .await;
    let forwarder = kubelet.client().port_forward("p").port(":80".parse().unwrap()).listen().await.unwrap();
    let mut stream = TcpStream::connect(forwarder.ports()[0].local).await.unwrap();
    stream.write_all(b"question").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer, b"question");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let client = crate::testing::Fake::json("{}").client();
    let error = client.port_forward("p").port(PortPair { local: port, remote: 80 }).listen().await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("listen on 127.0.0.1:{port}: ")), "{error}");
}

#[tokio::test]
async fn silent_pod_is_closed_after_the_local_end() {
    let kubelet = Kubelet::start(V4, |mut channels| async move {
        begin(&mut channels).await;
        while channels.next().await.is_some() {}
    })
    .await;
    let mut stream = kubelet.client().port_forward("p").connect(80).await.unwrap();
    stream.shutdown().await.unwrap();
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(begun.elapsed().as_secs(), LINGER.as_secs());
}

#[tokio::test]
async fn more_connections_than_the_limit_wait_their_turn() {
    let kubelet = Kubelet::start(V4, pod).await;
    let forward = kubelet.client().port_forward("p").port(":80".parse().unwrap()).limit(1);
    let forwarder = forward.listen().await.unwrap();
    let address = forwarder.ports()[0].local;
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(b"two").await.unwrap();
    first.write_all(b"one").await.unwrap();
    let mut answer = [0; 3];
    within(first.read_exact(&mut answer)).await.unwrap();
    // The second connection is in the system's queue: its data has not been sent.
    assert_eq!((&answer, kubelet.seen().len()), (b"ONE", 1));
    first.write_all(b"bye").await.unwrap();
    within(second.read_exact(&mut answer)).await.unwrap();
    assert_eq!((&answer, kubelet.seen().len()), (b"TWO", 2));
}
