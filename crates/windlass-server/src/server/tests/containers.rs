//! Commands in containers and logs, from a runtime in place of the kubelets.

use futures::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};
use windlass_api::{CommandResult, ContainerId, ContainerLog, ContainerRuntime};

use super::{
    sockets::{Running, head, rest},
    *,
};

const PODS: &str = "/api/v1/namespaces/default/pods";
const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";
const LOG: &str = "/api/v1/namespaces/default/pods/p/log";

const STARTED: &str = "2026-01-02T03:04:00Z";

/// A runtime whose commands are instructions: `print TEXT`, `fail CODE`, `wait` and `break`.
#[derive(Debug, Default)]
struct Script;

impl ContainerRuntime for Script {
    fn is_reachable(&self, node: &Value) -> bool {
        node["metadata"]["name"] == "node-1"
    }

    fn exec(&self, container: &ContainerId<'_>, command: &[&str]) -> Result<Option<CommandResult>, String> {
        let done = |stdout: String, exit_code| {
            let (stderr, delay) = (Bytes::from_static(b"!"), Duration::ZERO);
            Ok(Some(CommandResult { stdout: stdout.into(), stderr, exit_code, delay }))
        };
        match command {
            ["print", text] => done(format!("{}: {text}", container.name), 0),
            ["fail", code] => done(String::new(), code.parse().unwrap()),
            ["fill", length] => done("x".repeat(length.parse().unwrap()), 0),
            ["wait"] => Ok(Some(CommandResult { delay: Duration::from_hours(1), ..CommandResult::default() })),
            ["break"] => Err("broken".to_owned()),
            _ => Ok(None),
        }
    }

    fn log(&self, container: &ContainerId<'_>, previous: bool) -> Result<ContainerLog, String> {
        match (container.name, previous) {
            ("side", _) => Err("unreadable".to_owned()),
            (_, true) => Ok(ContainerLog { text: "old\n".into(), interval: Duration::ZERO }),
            (_, false) => Ok(ContainerLog { text: "a\nbb\n\nd".into(), interval: Duration::from_secs(2) }),
        }
    }
}

fn with_containers() -> Server {
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    let server = Server::builder().clock(Clock::from_fn(move || now)).entropy(Entropy::seeded(1)).token("TOKEN");
    server.containers(Script).build()
}

/// Creates a node, and a pod on it with the containers `main` and `side`, which runs.
async fn create_pod(service: &Service, node: &str) {
    let addresses = json!([{"type": "Hostname", "address": node}]);
    let object = json!({"metadata": {"name": node}, "status": {"addresses": addresses}});
    assert_eq!(post(service, "/api/v1/nodes", object).await.code, 201);
    let containers = json!([{"name": "main", "image": "i"}, {"name": "side", "image": "i"}]);
    let spec = json!({"nodeName": node, "containers": containers});
    assert_eq!(post(service, PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await.code, 201);
    set_state(service, json!({"running": {"startedAt": STARTED}}), json!({})).await;
}

/// Sets the state of the container `main`. `side` waits.
async fn set_state(service: &Service, state: Value, last: Value) {
    let status = |name: &str, state: Value, last: Value| {
        json!({"name": name, "image": "i", "imageID": "i", "containerID": "c://1", "ready": true, "restartCount": 0,
            "state": state, "lastState": last})
    };
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    let statuses = json!([status("main", state, last), status("side", waiting, json!({}))]);
    let patch = json!({"status": {"containerStatuses": statuses}});
    let set = with_body(service, "PATCH", &format!("{PODS}/p/status"), "application/merge-patch+json", patch).await;
    assert_eq!(set.code, 200, "{}", set.body);
}

async fn running() -> Running {
    let running = Running::of(with_containers(), None).await;
    create_pod(&running.server.service(), "node-1").await;
    running
}

/// Returns the query of a command in the container `main`, with both outputs.
fn query(command: &str) -> String {
    let arguments: String = command.split(' ').map(|argument| format!("&command={argument}")).collect();
    format!("container=main&stdout=true&stderr=true{arguments}")
}

/// The messages of a connection by their channel, joined, and the close code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Output {
    stdout: String,
    stderr: String,
    error: String,
}

impl Output {
    fn push(&mut self, channel: u8, text: &str) {
        match channel {
            1 => self.stdout += text,
            2 => self.stderr += text,
            3 => self.error += text,
            other => panic!("channel {other}: {text}"),
        }
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.error).unwrap()
    }
}

// === WebSockets ===

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

/// Returns the head of a handshake.
fn handshake(query: &str, protocols: &str) -> String {
    let protocols =
        if protocols.is_empty() { String::new() } else { format!("Sec-WebSocket-Protocol: {protocols}\r\n") };
    head("GET", &format!("{EXEC}?{query}"), &format!("Connection: Upgrade\r\nUpgrade: websocket\r\n{KEY}{protocols}"))
}

/// Opens a connection, and returns it with the head of the response.
async fn open(running: &Running, request: &str) -> (TcpStream, String) {
    let mut stream = running.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(time::timeout(DEADLINE, stream.read_u8()).await.unwrap().unwrap());
    }
    (stream, String::from_utf8(answer).unwrap())
}

/// Runs a command over a WebSocket, and returns its output after the end.
async fn run(running: &Running, query: &str, protocols: &str) -> Output {
    let (stream, answer) = open(running, &handshake(query, protocols)).await;
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    let first = protocols.split(',').next().unwrap();
    assert_eq!(answer.contains(&format!("sec-websocket-protocol: {first}\r\n")), !protocols.is_empty(), "{answer}");
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let mut output = Output::default();
    loop {
        match time::timeout(DEADLINE, socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Binary(message) => output.push(message[0], std::str::from_utf8(&message[1..]).unwrap()),
            Message::Close(close) => {
                assert_eq!(u16::from(close.unwrap().code), 1000);
                return output;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn websocket_has_the_output_and_the_status() {
    let running = running().await;
    for protocol in ["v5.channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io, v4.channel.k8s.io"] {
        let output = run(&running, &query("print hello"), protocol).await;
        let error = r#"{"metadata":{},"status":"Success"}"#.to_owned();
        assert_eq!(output, Output { stdout: "main: hello".into(), stderr: "!".into(), error });
    }
    let output = run(&running, &query("print a").replace("&stderr=true", ""), "v4.channel.k8s.io").await;
    assert_eq!((&*output.stdout, &*output.stderr), ("main: a", ""));
    let output = run(&running, &format!("{}&tty=true", query("print a")), "v5.channel.k8s.io").await;
    assert_eq!((&*output.stdout, &*output.stderr), ("main: a!", ""), "a terminal has one output");
    let output = run(&running, &query("fill 100000"), "v5.channel.k8s.io").await;
    assert_eq!(output.stdout.len(), 100_000);
    running.stop().await;
}

#[tokio::test]
async fn websocket_has_the_exit_code() {
    let running = running().await;
    let exit = |why: &str| {
        json!({"metadata": {}, "status": "Failure", "message": format!("command terminated with non-zero exit code: {why}"),
            "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}})
    };
    let output = run(&running, &query("fail 3"), "v4.channel.k8s.io").await;
    assert_eq!(output.status(), exit("error executing command [fail 3], exit code 3"));
    let output = run(&running, &query("fail 3"), "v5.channel.k8s.io").await;
    assert_eq!(output.status(), exit("command terminated with exit code 3"));
    let output = run(&running, &query("fail 3"), "").await;
    let text = "command terminated with non-zero exit code: error executing command [fail 3], exit code 3";
    assert_eq!(output.error, text, "the first version has a text");
    assert_eq!(run(&running, &query("fail 0"), "channel.k8s.io").await.error, "");
    running.stop().await;
}

#[tokio::test]
async fn command_that_cannot_start_is_an_internal_error() {
    let running = running().await;
    let message = |output: Output| {
        let status = output.status();
        assert_eq!((&status["reason"], &status["code"]), (&json!("InternalError"), &json!(500)));
        status["message"].as_str().unwrap().to_owned()
    };
    let missing = message(run(&running, &query("ls -l"), "v4.channel.k8s.io").await);
    let expected = "Internal error occurred: error executing command in container: failed to exec in container: failed to \
                    start exec \"1\": OCI runtime exec failed: exec failed: unable to start container process: exec: \
                    \"ls\": executable file not found in $PATH";
    assert_eq!(missing, expected);
    let broken = message(run(&running, &query("break"), "v5.channel.k8s.io").await);
    let expected = "Internal error occurred: Internal error occurred: error executing command in container: broken";
    assert_eq!(broken, expected);
    let stopped = query("print a").replace("main", "side");
    let stopped = message(run(&running, &stopped, "v5.channel.k8s.io").await);
    assert_eq!(stopped, "Internal error occurred: unable to upgrade connection: container not found (\"side\")");
    running.stop().await;
}

#[tokio::test]
async fn refused_commands_have_the_errors_of_kubernetes() {
    let running = running().await;
    let v4 = "v4.channel.k8s.io";
    let spdy = |query: &str| head("POST", &format!("{EXEC}?{query}"), "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n");
    for (request, code, text) in [
        (handshake(&query("print a").replace("main", "side"), v4), 500, "container not found (\"side\")"),
        (spdy(&query("print a").replace("main", "side")), 500, "container not found (\"side\")"),
        (spdy("container=main&command=a"), 400, "you must specify at least 1 of stdin, stdout, stderr"),
        (handshake(&query("print a"), "v9.channel.k8s.io"), 403, ""),
        (
            spdy(&query("print a")).replace("\r\n\r\n", "\r\nX-Stream-Protocol-Version: v9\r\n\r\n"),
            403,
            "unable to negotiate protocol: client supports [v9], server accepts [v4.channel.k8s.io v3.channel.k8s.io \
             v2.channel.k8s.io channel.k8s.io]",
        ),
    ] {
        let request = request.replace("Connection: Upgrade\r\n", "Connection: Upgrade, close\r\n");
        let answer = running.raw(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{request}{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{text}")), "{request}{answer}");
    }
    let service = running.server.service();
    let message = async |query: &str| get(&service, &format!("{EXEC}?{query}")).await.json()["message"].clone();
    assert_eq!(message(&query("print a")).await, "Upgrade request required");
    assert_eq!(message("container=no&stdout=true").await, "container no is not valid for pod p");
    let unnamed = message("stdout=true").await;
    assert_eq!(unnamed, "a container name must be specified for pod p, choose one of: [main side]");
    running.stop().await;
}

#[tokio::test]
async fn unreachable_node_has_no_commands_and_no_logs() {
    let service = with_containers().service();
    create_pod(&service, "node-2").await;
    for path in [format!("{EXEC}?{}", query("print a")), format!("{LOG}?container=main")] {
        let answer = get(&service, &path).await;
        assert_eq!(answer.code, 500, "{path}");
        assert_eq!(
            answer.json()["message"],
            "error dialing backend: node-2:0: this server does not connect to kubelets"
        );
    }
}

#[tokio::test]
async fn stopping_server_does_not_report_success() {
    let running = running().await;
    let (stream, _) = open(&running, &handshake(&query("wait"), "v5.channel.k8s.io")).await;
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary(vec![1]), "it is connected");
    socket.send(Message::binary(b"\0input".to_vec())).await.unwrap();
    running.server.stop();
    let end = time::timeout(DEADLINE, socket.next()).await.unwrap();
    assert!(end.is_none_or(|message| message.is_err()), "the connection ends without a status");
    running.ended().await;
}

// === SPDY ===

/// The headers `streamtype: error`, `stdin`, `stdout` and `stderr` as client-go sends them, one compressed sequence.
const STREAM_HEADERS: [&[u8]; 4] = [
    include_bytes!("../spdy/testdata/error"),
    include_bytes!("../spdy/testdata/stdin"),
    include_bytes!("../spdy/testdata/stdout"),
    include_bytes!("../spdy/testdata/stderr"),
];
const ERROR: usize = 0;
const STDIN: usize = 1;
const STDOUT: usize = 2;
const STDERR: usize = 3;

fn control(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&[0x80, 3, 0, kind], &length[..], content].concat()
}

/// Returns the frame that opens a stream.
fn syn_stream(id: u32, headers: &[u8]) -> Vec<u8> {
    control(1, &[&id.to_be_bytes()[..], &[0; 6], headers].concat())
}

/// A connection after a SPDY handshake.
async fn spdy(running: &Running, query: &str, versions: &str) -> TcpStream {
    let more = format!("Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n{versions}");
    let (stream, answer) = open(running, &head("POST", &format!("{EXEC}?{query}"), &more)).await;
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    assert!(answer.contains("upgrade: SPDY/3.1\r\n"), "{answer}");
    stream
}

/// Reads a frame: its first word, its flags and its content.
async fn frame_of(stream: &mut TcpStream) -> (u32, u8, Vec<u8>) {
    let (first, second) = (stream.read_u32().await.unwrap(), stream.read_u32().await.unwrap());
    let mut content = vec![0; (second & 0x00ff_ffff) as usize];
    stream.read_exact(&mut content).await.unwrap();
    (first, u8::try_from(second >> 24).unwrap(), content)
}

/// Reads the frames of streams until the connection ends. `streams` are the channels of the streams 1, 3, 5 and so on.
async fn output(stream: &mut TcpStream, streams: &[u8]) -> Output {
    let mut output = Output::default();
    let mut open = streams.len();
    let reading = async {
        loop {
            let (first, flags, content) = frame_of(stream).await;
            if first == 0x8003_0007 {
                assert_eq!(open, 0, "all streams have ended");
                return;
            }
            assert_eq!(first >> 31, 0, "{first:x}");
            let channel = streams[usize::try_from(first / 2).unwrap()];
            open -= usize::from(flags & 1);
            if !content.is_empty() {
                output.push(channel, std::str::from_utf8(&content).unwrap());
            }
        }
    };
    time::timeout(DEADLINE, reading).await.unwrap();
    assert_eq!(rest(stream).await, "");
    output
}

const V4: &str = "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Stream-Protocol-Version: channel.k8s.io\r\n";

/// Opens the streams that a client opens for both outputs and an input, and reads the replies.
async fn open_streams(stream: &mut TcpStream) {
    for (index, headers) in STREAM_HEADERS.iter().enumerate() {
        let id = u32::try_from(2 * index + 1).unwrap();
        stream.write_all(&syn_stream(id, headers)).await.unwrap();
        let (first, flags, content) = frame_of(stream).await;
        assert_eq!((first, flags, &content[..4]), (0x8003_0002, 0, &id.to_be_bytes()[..]));
    }
}

#[tokio::test]
async fn spdy_has_the_output_and_the_status() {
    let running = running().await;
    let query = |command: &str| format!("stdin=true&{}", query(command));
    let mut stream = spdy(&running, &query("print hello"), V4).await;
    // A ping before the streams, and input.
    stream.write_all(&control(6, &7u32.to_be_bytes())).await.unwrap();
    assert_eq!(frame_of(&mut stream).await, (0x8003_0006, 0, 7u32.to_be_bytes().to_vec()));
    open_streams(&mut stream).await;
    stream.write_all(b"\0\0\0\x03\x01\0\0\x05input").await.unwrap();
    let found = output(&mut stream, &[3, 0, 1, 2]).await;
    let error = r#"{"metadata":{},"status":"Success"}"#.to_owned();
    assert_eq!(found, Output { stdout: "main: hello".into(), stderr: "!".into(), error });

    let mut stream = spdy(&running, &query("fail 7"), V4).await;
    open_streams(&mut stream).await;
    let found = output(&mut stream, &[3, 0, 1, 2]).await.status();
    assert_eq!(found["details"]["causes"], json!([{"reason": "ExitCode", "message": "7"}]));

    let mut stream = spdy(&running, &query("fill 100000"), "").await;
    open_streams(&mut stream).await;
    let found = output(&mut stream, &[3, 0, 1, 2]).await;
    assert_eq!((found.stdout.len(), &*found.error), (100_000, ""), "without a version, success has no status");
    running.stop().await;
}

#[tokio::test]
async fn invalid_spdy_frames_end_the_connection() {
    let running = running().await;
    let first = STREAM_HEADERS[ERROR];
    let other_version = [0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
    for (name, frames) in [
        ("another version", other_version.to_vec()),
        ("a long control frame", vec![0x80, 3, 0, 4, 0, 1, 0, 0]),
        ("a short stream", control(1, &[0; 9])),
        ("a short ping", control(6, &[0; 3])),
        ("no compressed headers", syn_stream(1, b"streamtype")),
        ("truncated headers", syn_stream(1, &first[..first.len() - 12])),
        ("a stream of the server", syn_stream(2, first)),
        ("a stream twice", [syn_stream(1, first), syn_stream(1, STREAM_HEADERS[STDIN])].concat()),
    ] {
        let mut stream = spdy(&running, &query("wait"), V4).await;
        stream.write_all(&frames).await.unwrap();
        let mut answers = Vec::new();
        let ended = time::timeout(DEADLINE, stream.read_to_end(&mut answers)).await;
        assert!(ended.is_ok(), "{name}: the connection is open");
        assert!(answers.len() < 64, "{name}: {answers:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn streams_that_were_not_requested_are_reset() {
    let running = running().await;
    let mut stream = spdy(&running, &query("print a"), V4).await;
    for (index, kind) in [(ERROR, 2), (STDIN, 3), (STDOUT, 2), (STDERR, 2)] {
        let id = u32::try_from(2 * index + 1).unwrap();
        stream.write_all(&syn_stream(id, STREAM_HEADERS[index])).await.unwrap();
        let (first, _, content) = frame_of(&mut stream).await;
        assert_eq!((first, &content[..4]), (0x8003_0000 | kind, &id.to_be_bytes()[..]));
    }
    let mut found = Output::default();
    for (id, channel) in [(5, 1), (7, 2)] {
        let (first, _, content) = frame_of(&mut stream).await;
        assert_eq!(first, id);
        found.push(channel, std::str::from_utf8(&content).unwrap());
    }
    assert_eq!((&*found.stdout, &*found.stderr), ("main: a", "!"));
    running.stop().await;
}

// === logs ===

/// A service with a pod whose container `main` has run for five seconds.
async fn logging() -> Service {
    let service = with_containers().service();
    create_pod(&service, "node-1").await;
    service
}

async fn log(service: &Service, query: &str) -> String {
    let answer = get(service, &format!("{LOG}?container=main{query}")).await;
    assert_eq!((answer.code, answer.header("content-type")), (200, "text/plain"), "{}", answer.body);
    answer.body
}

#[tokio::test]
async fn log_has_the_lines_until_now() {
    let service = logging().await;
    assert_eq!(log(&service, "").await, "a\nbb\n\n", "the next line is written in a second");
    assert_eq!(log(&service, "&tailLines=2").await, "bb\n\n");
    assert_eq!(log(&service, "&tailLines=0").await, "");
    assert_eq!(log(&service, "&limitBytes=3").await, "a\nb");
    assert_eq!(log(&service, "&sinceSeconds=3").await, "bb\n\n");
    assert_eq!(log(&service, "&sinceTime=2026-01-02T03:04:03Z").await, "\n");
    let stamped = "2026-01-02T03:04:02.000000000Z bb\n2026-01-02T03:04:04.000000000Z \n";
    assert_eq!(log(&service, "&timestamps=true&tailLines=2").await, stamped);
    let ended = json!({"terminated": {"exitCode": 0, "startedAt": "2026-01-02T03:00:00Z", "finishedAt": "2026-01-02T03:00:03Z"}});
    set_state(&service, json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended.clone()).await;
    assert_eq!(log(&service, "").await, "a\nbb\n", "those until its end");
    assert_eq!(log(&service, "&follow=true").await, "a\nbb\n");
    assert_eq!(log(&service, "&previous=true").await, "old\n");
    set_state(&service, json!({"running": {"startedAt": STARTED}}), ended).await;
    assert_eq!(log(&service, "&previous=true").await, "old\n");
}

#[tokio::test]
async fn refused_logs_have_the_errors_of_kubernetes() {
    let service = logging().await;
    let error = async |query: &str| {
        let answer = get(&service, &format!("{LOG}?{query}")).await;
        (answer.code, answer.json()["message"].as_str().unwrap().to_owned())
    };
    for (query, code, message) in [
        ("container=side", 400, "container \"side\" in pod \"p\" is waiting to start: ContainerCreating"),
        ("container=main&previous=true", 400, "previous terminated container \"main\" in pod \"p\" not found"),
        ("container=other", 400, "container other is not valid for pod p"),
        ("", 400, "a container name must be specified for pod p, choose one of: [main side]"),
    ] {
        assert_eq!(error(query).await, (code, message.to_owned()), "{query}");
    }
    let (code, _) = error("container=main&sinceTime=now").await;
    assert_eq!(code, 400);
}

#[tokio::test(start_paused = true)]
async fn followed_log_ends_with_its_container() {
    let service = logging().await;
    let mut body = watch(&service, &format!("{LOG}?container=main&follow=true&tailLines=1")).await.into_body();
    assert_eq!(frame(&mut body).await.as_deref(), Some("\n"));
    let before = Instant::now();
    assert_eq!(frame(&mut body).await.as_deref(), Some("d"));
    assert_eq!(before.elapsed().as_secs(), 1, "the line has its time");
    assert!(time::timeout(Duration::from_mins(10), frame(&mut body)).await.is_err(), "the container runs");
    let ended = json!({"terminated": {"exitCode": 0, "containerID": "c://1", "startedAt": STARTED, "finishedAt": "2026-01-02T03:05:00Z"}});
    set_state(&service, ended, json!({})).await;
    assert_eq!(frame(&mut body).await, None);
}

#[tokio::test]
async fn followed_log_ends_with_its_pod_and_the_server() {
    let server = with_containers();
    let service = server.service();
    create_pod(&service, "node-1").await;
    let follow = || watch(&service, "/api/v1/namespaces/default/pods/p/log?container=main&follow=true&limitBytes=100");
    let (mut first, mut second) = (follow().await.into_body(), follow().await.into_body());
    for body in [&mut first, &mut second] {
        assert_eq!(frame(body).await.as_deref(), Some("a\nbb\n\n"));
    }
    server.stop();
    let ended = async { while frame(&mut second).await.is_some() {} };
    time::timeout(DEADLINE, ended).await.expect("the log ends with the server");
    drop(first);
    let server = with_containers();
    let service = server.service();
    create_pod(&service, "node-1").await;
    let mut body = watch(&service, &format!("{LOG}?container=main&follow=true")).await.into_body();
    assert_eq!(frame(&mut body).await.as_deref(), Some("a\nbb\n\n"));
    let options = json!({"gracePeriodSeconds": 0});
    assert_eq!(with_body(&service, "DELETE", &format!("{PODS}/p"), "application/json", options).await.code, 200);
    let ended = async { while frame(&mut body).await.is_some() {} };
    time::timeout(DEADLINE, ended).await.expect("the log ends with the pod");
}
