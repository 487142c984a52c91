//! Oversized objects: they are skipped while they stream in, reported to the error hook, and do not stop the informer.

use std::sync::Arc;

use conformance::{eventually, on_each_target};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use windlass_api::{Patch, Resource};
use windlass_cache::{InformerError, InformerOptions, InitialSync, SharedInformer, UnreadableObject};
use windlass_client::{Client, Config};

use super::{HandlerState, Run, make_namespace, map, on_server, touch, until_equal};

/// The reported oversized objects.
#[derive(Clone, Default)]
struct OversizedObjects(Arc<Mutex<Vec<String>>>);

impl OversizedObjects {
    fn by(options: InformerOptions) -> (Self, InformerOptions) {
        let oversized = Self::default();
        let log = Arc::clone(&oversized.0);
        let options = options.on_error(move |error| {
            if let InformerError::Object { source: UnreadableObject::TooLarge(object), .. } = error {
                log.lock().push(object.to_string());
            }
        });
        (oversized, options)
    }

    async fn of(&self, name: &str) -> String {
        eventually("the object is named", || async {
            let oversized = self.0.lock();
            oversized.iter().find(|oversized| oversized.contains(name)).cloned()
        })
        .await
    }
}

#[tokio::test]
async fn oversized_object_is_skipped_in_list_and_watch() {
    on_each_target(|target| async {
        let namespace = make_namespace(&target).await;
        let client = target.client.clone();
        let mut large = map(&namespace, "b");
        large.data.get_or_insert_default().insert("large".to_owned(), "x".repeat(50_000));
        for initial_sync in [InitialSync::Watch, InitialSync::List] {
            for map in [&map(&namespace, "a"), &large, &map(&namespace, "c")] {
                client.create(map).await.unwrap();
            }
            let (oversized, options) =
                OversizedObjects::by(InformerOptions::default().initial_sync(initial_sync).page_size(2));
            let run = Run::start(&client.clone().with_object_limit(20_000), &namespace, options);
            let handler_state = HandlerState::of(&run.informer);
            run.informer.has_synced().await.unwrap();
            let first = oversized.of(&format!("{namespace}/b")).await;
            assert!(first.contains("no more than 20000 are read"), "{first}");
            eventually("the others are there", || async { (run.informer.store().len() == 2).then_some(()) }).await;

            let grow = Patch::Merge(json!({"data": {"large": "x".repeat(60_000)}}));
            client.patch::<ConfigMap>("a", grow).within(&namespace).await.unwrap();
            assert!(oversized.of(&format!("{namespace}/a")).await.contains("(MODIFIED)"));
            touch(&client, &namespace, "c").await;
            client.create(&map(&namespace, "d")).await.unwrap();
            eventually("the informer has what came after it", || async {
                (run.informer.store().len() == 3 && handler_state.0.lock().len() == 3).then_some(())
            })
            .await;
            let c = on_server(&client, &namespace).await.remove(&format!("{namespace}/c"));
            assert_eq!(handler_state.0.lock().get(&format!("{namespace}/c")), c.as_ref());

            for name in ["a", "b"] {
                client.delete::<ConfigMap>(name).within(&namespace).await.unwrap();
            }
            until_equal(&client, &namespace, &run.informer, &handler_state).await;
            for name in ["c", "d"] {
                client.delete::<ConfigMap>(name).within(&namespace).await.unwrap();
            }
            until_equal(&client, &namespace, &run.informer, &handler_state).await;
            run.stop().await;
        }
        client.delete::<Namespace>(&*namespace).await.unwrap();
        target
    })
    .await;
}

const MIB: usize = 1 << 20;

/// Answers one request: a list, or a watch that stays open, with an object of 100 MiB between small ones.
async fn answer(connection: TcpStream) -> std::io::Result<()> {
    let object = |name: &str, version: u32| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}"}},"data":{{"k":""#
        )
    };
    let mut connection = BufReader::new(connection);
    let mut request = String::new();
    while connection.read_line(&mut request).await? > 2 {}
    let is_watch = request.contains("watch=true");
    let [before, between, after] = if is_watch {
        [
            format!(r#"{{"type":"ADDED","object":{}"#, object("big", 11)),
            format!("\"}}}}}}\n{{\"type\":\"ADDED\",\"object\":{}", object("last", 12)),
            "\"}}}\n".to_owned(),
        ]
    } else {
        [
            format!(r#"{{"items":[{}"}}}},{}"#, object("first", 8), object("huge", 9)),
            format!(r#""}}}},{}"#, object("second", 10)),
            r#""}}],"metadata":{"resourceVersion":"10"}}"#.to_owned(),
        ]
    };
    let mut answer = BufWriter::new(&mut connection);
    answer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n").await?;
    answer.write_all(before.as_bytes()).await?;
    let filling = vec![b'x'; MIB];
    for _ in 0..100 {
        answer.write_all(&filling).await?;
    }
    answer.write_all(between.as_bytes()).await?;
    answer.write_all(after.as_bytes()).await?;
    answer.flush().await?;
    if is_watch {
        // Waits until the client disconnects.
        connection.read_line(&mut request).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_of_100_mib_does_not_stop_the_informer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let serving = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.spawn(answer(connection));
        }
    });
    let client = Client::new(config).unwrap();
    let (oversized, options) = OversizedObjects::by(InformerOptions::default().initial_sync(InitialSync::List));
    let list_watch = Arc::new(client.list_watch(&ConfigMap::api_resource(), Some("n")));
    let run = Run::of(SharedInformer::new(list_watch, options));
    let names = || -> Vec<_> { run.informer.store().list().iter().map(|map| map.key().name.to_string()).collect() };
    run.informer.has_synced().await.unwrap();
    let in_list = oversized.of("n/huge").await;
    assert!(in_list.starts_with("item 2 of the list, n/huge, has 104857"), "{in_list}");
    assert!(in_list.ends_with("no more than 16777216 are read of an object"), "{in_list}");
    let in_watch = oversized.of("n/big").await;
    assert!(in_watch.starts_with("event 1 of the watch (ADDED), n/big, has 104857"), "{in_watch}");
    eventually("what comes after it is there", || async { (names().len() == 3).then_some(()) }).await;
    let mut names = names();
    names.sort_unstable();
    assert_eq!(names, ["first", "last", "second"]);
    run.stop().await;
    serving.abort();
}
