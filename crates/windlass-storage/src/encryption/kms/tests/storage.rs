//! The storage with a plugin behind a Unix socket.

use super::*;

fn configuration(providers: &str) -> EncryptionConfiguration {
    let text = format!(
        "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, \
         resources: [{{resources: [secrets], providers: [{providers}]}}]}}"
    );
    serde_saphyr::from_str(&text).unwrap()
}

fn provider(endpoint: &str) -> String {
    format!("{{kms: {{apiVersion: v2, name: vault, endpoint: '{endpoint}', timeout: 20s}}}}")
}

async fn encrypted(below: &Arc<dyn Storage>, providers: &str) -> EncryptedStorage {
    let resources = windlass_server::stored_resources();
    EncryptedStorage::new(Arc::clone(below), &configuration(providers), resources).await.unwrap()
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::default())
}

async fn put(storage: &EncryptedStorage, key: &str, body: &'static str) -> Revision {
    storage.commit(key, Expect::Absent, Change::Put(body.into())).await.unwrap().revision
}

async fn get(storage: &EncryptedStorage, key: &str) -> windlass_server::storage::StoredValue {
    storage.get(key, None).await.unwrap().1.unwrap()
}

#[tokio::test]
async fn list_of_many_values_needs_one_call_for_each_seed() {
    const SECRETS: usize = 10_000;
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::new();
    let served = plugin.serve(&directory.path().join("kms.sock"));
    let below = memory();
    for server in 0..2 {
        let storage = encrypted(&below, &provider(&served.endpoint())).await;
        for at in 0..SECRETS / 2 {
            put(&storage, &format!("/registry/secrets/default/{server}-{at}"), "body").await;
        }
    }
    let stored = below.get("/registry/secrets/default/1-0", None).await.unwrap().1.unwrap().body;
    assert!(stored.starts_with(b"k8s:enc:kms:v2:vault:"), "{stored:?}");
    assert_eq!((plugin.count("Status"), plugin.count("Encrypt"), plugin.count("Decrypt")), (2, 2, 0));
    let storage = encrypted(&below, &provider(&served.endpoint())).await;
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    let range = storage.range(RangeQuery::prefix("/registry/secrets/")).await.unwrap();
    assert_eq!(range.values.len(), SECRETS);
    assert!(range.values.iter().all(|value| value.body == "body" && !value.is_stale));
    assert_eq!(plugin.count("Decrypt"), 2);
    let event = tokio::time::timeout(PATIENCE, next_event(&mut events)).await.unwrap().unwrap().unwrap();
    assert_eq!(event.current.unwrap().body, "body");
    assert_eq!(plugin.count("Decrypt"), 2);
}

#[tokio::test]
async fn plugin_that_restarts_is_called_on_a_new_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kms.sock");
    let plugin = Plugin::new();
    let served = plugin.serve(&path);
    let below = memory();
    put(&encrypted(&below, &provider(&served.endpoint())).await, PLACE, "body").await;
    let storage = encrypted(&below, &provider(&served.endpoint())).await;
    drop(served);
    // The call waits for the plugin.
    let (value, served) = tokio::join!(get(&storage, PLACE), async { plugin.serve(&path) });
    assert_eq!(value.body, "body");
    drop(served);
    assert_eq!(get(&storage, PLACE).await.body, "body", "a known key needs no plugin");
}

#[tokio::test]
async fn plugin_that_starts_later_becomes_healthy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kms.sock");
    let endpoint = format!("unix://{}", path.display());
    let providers = provider(&endpoint).replace("20s", "50ms");
    let storage = encrypted(&memory(), &providers).await;
    assert!(storage.has_kms());
    let error = storage.check_providers().await.unwrap_err().to_string();
    let expected = format!(
        "kms-provider-0: kmsv2 Provider vault is not healthy, error: cannot call Status of the plugin at {endpoint}: no \
         response within 50ms: the request was not sent: "
    );
    assert!(error.starts_with(&expected), "{error}");
    let error = storage.commit(PLACE, Expect::Absent, Change::Put("body".into())).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "unable to transform key \"{PLACE}\": KMS provider \"vault\" has no key yet: its plugin has not been healthy \
             since the start"
        )
    );
    let plugin = Plugin::new();
    let _served = plugin.serve(&path);
    // A check of the last three seconds is not repeated.
    tokio::time::timeout(PATIENCE, async {
        while storage.check_providers().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    put(&storage, PLACE, "body").await;
    assert_eq!(get(&storage, PLACE).await.body, "body");
}

#[tokio::test]
async fn slow_plugin_is_an_error_after_the_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::new();
    let served = plugin.serve(&directory.path().join("kms.sock"));
    let below = memory();
    put(&encrypted(&below, &provider(&served.endpoint())).await, PLACE, "body").await;
    let storage = encrypted(&below, &provider(&served.endpoint()).replace("20s", "200ms")).await;
    plugin.set(|answers| answers.hanging = Some("Decrypt"));
    let error = storage.get(PLACE, None).await.unwrap_err().to_string();
    let endpoint = served.endpoint();
    assert_eq!(
        error,
        format!(
            "unable to transform key \"{PLACE}\": failed to decrypt DEK, error: KMS provider \"vault\": cannot call Decrypt \
             of the plugin at {endpoint}: no response within 200ms"
        )
    );
    plugin.set(|answers| answers.failing = Some(("Decrypt", "sealed")));
    plugin.set(|answers| answers.hanging = None);
    // The first failure is returned for a second.
    let sealed = format!("of the plugin at {endpoint}: rpc error: code = Unknown desc = sealed");
    let next = async {
        while !storage.get(PLACE, None).await.unwrap_err().to_string().ends_with(&sealed) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), next).await.expect("another call in time");
    // A commit does not need the old value.
    let revision = below.get(PLACE, None).await.unwrap().1.unwrap().modified;
    let committed = storage.commit(PLACE, Expect::Unchanged(revision), Change::Put("new".into())).await.unwrap();
    assert_eq!((committed.value.unwrap().body, committed.previous), ("new".into(), None));
}

#[tokio::test]
async fn configuration_is_changed_to_kms_and_back() {
    const KEYS: &str = "{aescbc: {keys: [{name: a, secret: AAECAwQFBgcICQoLDA0ODw==}]}}";
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::new();
    let served = plugin.serve(&directory.path().join("kms.sock"));
    let below = memory();
    let storage = encrypted(&below, KEYS).await;
    let mut revision = put(&storage, PLACE, "body").await;
    let kms = provider(&served.endpoint());
    for (providers, prefix) in [
        (format!("{kms}, {KEYS}"), "k8s:enc:kms:v2:vault:"),
        (format!("{KEYS}, {kms}"), "k8s:enc:aescbc:v1:a:"),
        (kms.clone() + ", " + KEYS, "k8s:enc:kms:v2:vault:"),
    ] {
        storage.reconfigure(&configuration(&providers)).await.unwrap();
        let value = get(&storage, PLACE).await;
        assert_eq!((&*value.body, value.is_stale), (&b"body"[..], true), "{prefix}");
        let change = Change::Put(value.body);
        revision = storage.commit(PLACE, Expect::Unchanged(revision), change).await.unwrap().revision;
        let stored = below.get(PLACE, None).await.unwrap().1.unwrap().body;
        assert!(stored.starts_with(prefix.as_bytes()), "{stored:?}");
        assert!(!get(&storage, PLACE).await.is_stale);
    }
}

#[tokio::test(start_paused = true)]
async fn configuration_with_an_unhealthy_provider_changes_nothing() {
    let storage = encrypted(&memory(), "{identity: {}}").await;
    let before = tokio::time::Instant::now();
    let missing = configuration(&provider("unix:///nonexistent/kms.sock").replace("20s", "1s"));
    let error = storage.reconfigure(&missing).await.unwrap_err().to_string();
    assert!(
        error.starts_with("health check for new transformers failed: kms-provider-0: kmsv2 Provider vault"),
        "{error}"
    );
    assert!(before.elapsed() >= Duration::from_secs(10), "{:?}", before.elapsed());
    put(&storage, PLACE, "body").await;
    assert!(!storage.has_kms());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn abstract_socket_is_an_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = Plugin::new();
    // The name of the directory is unique on this machine.
    let name = directory.path().file_name().unwrap().to_string_lossy().replace('.', "windlass-");
    let served = plugin.serve_abstract(&name);
    assert_eq!(served.endpoint(), format!("unix:///@{name}"));
    let storage = encrypted(&memory(), &provider(&served.endpoint())).await;
    storage.check_providers().await.unwrap();
    put(&storage, PLACE, "body").await;
    assert_eq!(get(&storage, PLACE).await.body, "body");
}
