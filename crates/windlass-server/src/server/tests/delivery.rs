//! Tests that events reach watchers before the writer gets its response.

use parking_lot::Mutex;

use super::{
    sockets::{Running, head, tls_over, until},
    *,
};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The frames that a watch has sent, read by a separate task.
#[derive(Clone, Default)]
struct Frames(Arc<Mutex<Vec<Bytes>>>);

impl Frames {
    async fn of(service: &Service, path: &str, accept: &str) -> Self {
        let request = request("GET", path).header(header::ACCEPT, accept).body(String::new()).unwrap();
        let mut body = service.clone().oneshot(request).await.unwrap().into_body();
        let frames = Self::default();
        let read = frames.clone();
        tokio::spawn(async move {
            while let Some(frame) = body.frame().await {
                read.0.lock().push(frame.unwrap().into_data().unwrap());
            }
        });
        tokio::task::yield_now().await;
        frames
    }

    /// Returns the types of all events so far.
    fn types(&self) -> Vec<String> {
        let frames = self.0.lock();
        let events = frames.iter().map(|frame| serde_json::from_slice::<Value>(frame).unwrap());
        events.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test(start_paused = true)]
async fn watchers_get_the_event_before_the_writers_response() {
    let service = server().service();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let current = get(&service, CONFIG_MAPS).await.json()["metadata"]["resourceVersion"].clone();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", current.as_str().unwrap());
    let watches = [
        Frames::of(&service, &path, "application/json").await,
        Frames::of(&service, &path, table).await,
        Frames::of(&service, &format!("{path}&labelSelector=x%3Dy"), "application/json").await,
        Frames::of(&service, &format!("{path}&fieldSelector=metadata.name%3Da"), "application/json").await,
    ];
    let began = Instant::now();
    let mut expected = Vec::new();
    let object = format!("{CONFIG_MAPS}/a");
    let patch = json!({"data": {"k": "w"}});
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    for verb in ["ADDED", "MODIFIED", "DELETED"] {
        match verb {
            "MODIFIED" => drop(with_body(&service, "PATCH", &object, "application/merge-patch+json", &patch).await),
            "DELETED" => drop(send(&service, request("DELETE", &object).body(String::new()).unwrap()).await),
            _ => {}
        }
        expected.push(verb.to_owned());
        for (number, watch) in watches.iter().enumerate() {
            assert_eq!(watch.types(), expected, "watch {number}");
        }
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "no write waited for a timer");
}

#[tokio::test]
async fn event_is_sent_to_the_socket_before_the_response() {
    let (running, identity) = Running::tls().await;
    let socket = std::net::TcpStream::connect(running.address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let stream = TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
    let mut watcher = tls_over(stream, &identity, b"http/1.1").await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let mut writer = tls_over(stream, &identity, b"http/1.1").await;
    watcher.write_all(head("GET", &format!("{CONFIG_MAPS}?watch=1"), "").as_bytes()).await.unwrap();
    until(&mut watcher, "\r\n\r\n").await;
    for number in 0..20 {
        let body = config_map(&format!("map-{number}-x")).to_string();
        let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let request = head("POST", CONFIG_MAPS, &more) + &body;
        writer.write_all(request.as_bytes()).await.unwrap();
        until(&mut writer, "\"k\":\"v").await;
        // No task reads from the watcher's connection in the meantime, so the data is in the socket's buffer.
        let arrived = socket.peek(&mut [0]);
        assert!(matches!(arrived, Ok(1)), "the response arrived before the event: {arrived:?}");
        until(&mut watcher, &format!("map-{number}-x")).await;
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_unscheduled_pod_is_readable_by_its_watcher() {
    let service = server().service();
    assert_eq!(post(&service, PODS, pod("p")).await.code, 201);
    let object = format!("{PODS}/p");
    let current = get(&service, PODS).await.json()["metadata"]["resourceVersion"].clone();
    let path = format!("{PODS}?watch=1&resourceVersion={}", current.as_str().unwrap());
    let mut body = watch(&service, &path).await.into_body();
    let controller = tokio::spawn({
        let (service, object) = (service.clone(), object.clone());
        async move {
            let marked: Value = serde_json::from_str(&frame(&mut body).await.unwrap()).unwrap();
            let found = get(&service, &object).await;
            let removed: Value = serde_json::from_str(&frame(&mut body).await.unwrap()).unwrap();
            (
                marked["type"].clone(),
                found.code,
                found.json()["metadata"]["deletionTimestamp"].clone(),
                removed["type"].clone(),
            )
        }
    });
    tokio::task::yield_now().await;
    let answer = send(&service, request("DELETE", &object).body(String::new()).unwrap()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_eq!(get(&service, &object).await.code, 404, "after the response the object does not exist");
    let (marked, found, since, removed) = controller.await.unwrap();
    assert_eq!((marked, found, removed), (json!("MODIFIED"), 200, json!("DELETED")));
    assert!(since.is_string());
}

#[tokio::test(start_paused = true)]
async fn unwatched_unscheduled_pod_is_deleted_immediately() {
    let service = server().service();
    let began = Instant::now();
    for name in ["a", "b", "c"] {
        assert_eq!(post(&service, PODS, pod(name)).await.code, 201);
        let answer = send(&service, request("DELETE", &format!("{PODS}/{name}")).body(String::new()).unwrap()).await;
        assert_eq!(answer.code, 200);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn pod_is_removed_even_if_the_client_disconnects() {
    let service = server().service();
    assert_eq!(post(&service, PODS, pod("p")).await.code, 201);
    let _watching = Frames::of(&service, &format!("{PODS}?watch=1"), "application/json").await;
    let object = format!("{PODS}/p");
    let deletion = send(&service, request("DELETE", &object).body(String::new()).unwrap());
    assert!(time::timeout(Duration::ZERO, deletion).await.is_err());
    let marked = get(&service, &object).await;
    assert!(marked.json()["metadata"]["deletionTimestamp"].is_string(), "{}", marked.body);
    time::sleep(Duration::from_millis(5)).await;
    assert_eq!(get(&service, &object).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn lists_without_version_are_delayed_by_other_kinds() {
    let lag = Duration::from_millis(10);
    let service = Server::builder().list_lag(lag).build().service();
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let secrets = "/api/v1/namespaces/default/secrets";
    let created =
        with_body(&service, "POST", config_maps, "application/json", json!({"metadata": {"name": "a"}})).await;
    assert_eq!(created.code, 201);
    let took = async |path: &str| {
        let began = time::Instant::now();
        assert_eq!(get(&service, path).await.code, 200);
        began.elapsed()
    };
    assert_eq!(took(config_maps).await, Duration::ZERO);
    assert_eq!(took(&format!("{secrets}?resourceVersion=0")).await, Duration::ZERO);
    assert_eq!(took(secrets).await, lag);
    assert_eq!(took(secrets).await, Duration::ZERO);
}
