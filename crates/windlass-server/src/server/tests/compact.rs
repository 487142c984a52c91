//! Tests with a storage that keeps its values compressed.

use futures::future::BoxFuture;

use super::*;
use crate::storage::{
    CompactBody, CompactRange, CompressedBody, Decompress, MemoryStorage, RangeQuery, Storage, StorageError, suite,
};

/// A storage whose values are compressed when a list reads them.
#[derive(Debug)]
struct Compressed {
    storage: MemoryStorage,
    /// The number of values that were decompressed.
    read: Arc<AtomicUsize>,
}

/// Its compression: the bytes in reverse order.
struct Reversed(Arc<AtomicUsize>);

impl Decompress for Reversed {
    fn decompress(&self, bytes: &[u8]) -> Bytes {
        self.0.fetch_add(1, Ordering::Relaxed);
        bytes.iter().rev().copied().collect()
    }
}

impl suite::Forward for Compressed {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }

    fn range_compact(&self, query: RangeQuery) -> BoxFuture<'_, Result<CompactRange, StorageError>> {
        Box::pin(async move {
            let mut range = self.storage.range_compact(query).await?;
            for value in &mut range.values {
                let bytes = value.body.clone().into_bytes();
                let codec = Arc::new(Reversed(Arc::clone(&self.read)));
                let reversed = bytes.iter().rev().copied().collect();
                value.body = CompactBody::Compressed(CompressedBody::new(reversed, bytes.len(), codec));
            }
            Ok(range)
        })
    }
}

/// The number of objects. Together they are larger than what is read at once.
const COUNT: usize = 400;

struct Both {
    plain: Service,
    compressed: Service,
    read: Arc<AtomicUsize>,
}

/// Returns two servers with the same objects.
async fn both() -> Both {
    let storage = MemoryStorage::new();
    let read = Arc::new(AtomicUsize::new(0));
    let server = |storage: Arc<dyn Storage>| {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        Server::builder().clock(Clock::from_fn(move || now)).entropy(Entropy::seeded(1)).storage(storage).build()
    };
    let plain = server(Arc::new(storage.clone())).service();
    for number in 0..COUNT {
        let mut object = config_map(&format!("map-{number:03}"));
        object["metadata"]["labels"] = json!({"parity": if number % 2 == 0 { "even" } else { "odd" }});
        object["data"] = json!({"text": "x".repeat(4096)});
        assert_eq!(post(&plain, CONFIG_MAPS, object).await.code, 201);
    }
    let compressed = server(Arc::new(Compressed { storage, read: Arc::clone(&read) })).service();
    // The start of the server lists some objects.
    assert_eq!(get(&compressed, "/api/v1/namespaces/default").await.code, 200);
    Both { plain, compressed, read }
}

async fn listed(service: &Service, path: &str, accept: &str) -> (u16, Bytes) {
    let request = request("GET", path).header(header::ACCEPT, accept).body(String::new()).unwrap();
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn lists_and_watches_of_compressed_values_are_those_of_plain_ones() {
    let Both { plain, compressed, .. } = both().await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let accepted = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", table, partial];
    let queries =
        ["", "?labelSelector=parity%3Dodd", "?fieldSelector=metadata.name%3Dmap-007", "?limit=7", "?pretty=true"];
    for accept in accepted {
        for query in queries {
            let path = format!("{CONFIG_MAPS}{query}");
            let (code, expected) = listed(&plain, &path, accept).await;
            assert_eq!(code, 200);
            assert!(listed(&compressed, &path, accept).await == (code, expected), "{accept} {query}");
        }
    }
    let path = format!("{CONFIG_MAPS}?watch=true&labelSelector=parity%3Deven");
    let (mut expected, mut found) =
        (watch(&plain, &path).await.into_body(), watch(&compressed, &path).await.into_body());
    for _ in 0..COUNT / 2 {
        let event = frame(&mut found).await.unwrap();
        assert!(event.starts_with("{\"type\":\"ADDED\""), "{event}");
        assert_eq!(frame(&mut expected).await.unwrap(), event);
    }
}

#[tokio::test]
async fn list_is_decompressed_while_it_is_sent() {
    let Both { compressed, read, .. } = both().await;
    let before = read.load(Ordering::Relaxed);
    let mut body = watch(&compressed, CONFIG_MAPS).await.into_body();
    let held = body.held_bytes();
    assert!((COUNT..256 * COUNT).contains(&held), "{held} bytes: the bodies belong to the storage");
    assert_eq!(read.load(Ordering::Relaxed), before);
    assert!(frame(&mut body).await.unwrap().starts_with("{\"kind\":\"ConfigMapList\""));
    let first = read.load(Ordering::Relaxed) - before;
    assert!((1..COUNT / 4).contains(&first), "{first} of {COUNT} values");
    while frame(&mut body).await.is_some() {}
    assert_eq!(read.load(Ordering::Relaxed) - before, COUNT);
}

#[tokio::test]
async fn collection_of_compressed_values_is_deleted() {
    let Both { plain, compressed, .. } = both().await;
    let path = format!("{CONFIG_MAPS}?labelSelector=parity%3Dodd");
    let deleted = send(&compressed, request("DELETE", &path).body(String::new()).unwrap()).await;
    assert_eq!((deleted.code, deleted.json()["items"].as_array().unwrap().len()), (200, COUNT / 2));
    let left = get(&plain, CONFIG_MAPS).await.json();
    assert_eq!(left["items"].as_array().unwrap().len(), COUNT / 2);
}
