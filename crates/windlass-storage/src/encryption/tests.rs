use base64::{Engine as _, engine::general_purpose::STANDARD};
use windlass_server::{
    storage::{Change, Expect, MemoryStorage, RangeQuery, Revision, StorageError, next_event, suite::PATIENCE},
    stored_resources,
};

use super::*;
use crate::DiskStorage;

/// Values that kube-apiserver encrypted, and its errors. `tools/encryption` writes the file.
const RECORDED: &str = include_str!("../../testdata/encryption.tsv");

const KEY: &str = "/registry/secrets/default/first";

fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

fn configuration(text: &str) -> EncryptionConfiguration {
    serde_saphyr::from_str(text).unwrap()
}

/// Returns a configuration with these providers for Secrets.
fn for_secrets(providers: &str) -> EncryptionConfiguration {
    configuration(&format!(
        "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, \
         resources: [{{resources: [secrets], providers: [{providers}]}}]}}"
    ))
}

/// Returns a provider with keys of 32 equal bytes each.
fn provider(kind: &str, keys: &[u8]) -> String {
    let keys = keys.iter().map(|key| format!("{{name: key{key}, secret: {}}}", STANDARD.encode([*key; 32])));
    format!("{{{kind}: {{keys: [{}]}}}}", keys.collect::<Vec<_>>().join(", "))
}

fn encrypted(below: &Arc<dyn Storage>, providers: &str) -> EncryptedStorage {
    EncryptedStorage::new(Arc::clone(below), &for_secrets(providers), stored_resources()).unwrap()
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::default())
}

fn put(body: &str) -> Change {
    Change::Put(Bytes::copy_from_slice(body.as_bytes()))
}

/// A storage in which every key is one of an encrypted resource.
fn everything_encrypted() -> Arc<dyn Storage> {
    let mut encryption = Encryption::new(&for_secrets(&provider("aesgcm", &[1])), stored_resources()).unwrap();
    encryption.everything = Some(GroupResource::new("", "secrets"));
    Arc::new(EncryptedStorage::over(memory(), encryption))
}

mod suite {
    windlass_server::storage_suite!(|| std::future::ready(super::everything_encrypted()));
}

#[test]
fn values_of_the_real_server_are_decrypted() {
    let mut count = 0;
    for line in RECORDED.lines().filter_map(|line| line.strip_prefix("value\t")) {
        let [config, resource, key, body, sealed]: [&str; 5] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let config = String::from_utf8(decoded(config)).unwrap();
        let chains = configuration(&config).chains().unwrap();
        let chain = &chains[&GroupResource::new("", resource)];
        let (body, sealed) = (Bytes::from(decoded(body)), Bytes::from(decoded(sealed)));
        let expected = Decrypted { body: body.clone(), is_stale: false };
        assert_eq!(chain.decrypt(key, &sealed).as_ref(), Ok(&expected), "{config}");
        let ours = chain.encrypt(key, &body);
        assert_eq!(chain.decrypt(key, &ours).as_ref(), Ok(&expected), "{config}");
        assert_eq!(ours.len(), sealed.len(), "{config}");
        let encrypts = !config.contains("providers:\n  - identity");
        assert_eq!(ours != chain.encrypt(key, &body), encrypts, "each value has its own nonce: {config}");
        count += 1;
    }
    assert_eq!(count, 36);
}

#[test]
fn errors_are_those_of_the_real_server() {
    let mut count = 0;
    for line in RECORDED.lines().filter_map(|line| line.strip_prefix("error\t")) {
        let (config, expected) = line.split_once('\t').unwrap();
        let config = String::from_utf8(decoded(config)).unwrap();
        count += 1;
        let parsed = serde_saphyr::from_str::<EncryptionConfiguration>(&config);
        if expected.contains("strict decoding error: unknown") {
            assert!(parsed.is_err_and(|error| error.to_string().contains("unknown field")), "{config}");
            continue;
        }
        let Ok(parsed) = parsed else {
            assert!(expected.contains("strict decoding error"), "{config}");
            continue;
        };
        let found = parsed.chains().err().unwrap_or_else(|| panic!("valid: {config}")).to_string();
        let (_, expected) = expected.split_once(": ").unwrap();
        // The real server's error contains the whole provider, with its keys.
        match expected.split_once("Invalid value: {") {
            Some((path, rest)) => {
                let reason = rest.rsplit_once("}: ").unwrap().1;
                assert_eq!(found, format!("{path}{reason}"), "{config}");
            }
            None => assert_eq!(found, expected, "{config}"),
        }
    }
    assert_eq!(count, 26);
}

#[tokio::test]
async fn configured_values_are_encrypted_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["aesgcm", "aescbc", "secretbox"] {
        let path = directory.path().join(kind);
        let below: Arc<dyn Storage> = Arc::new(DiskStorage::open(&path).unwrap());
        let storage = encrypted(&below, &provider(kind, &[1]));
        let committed = storage.commit(KEY, Expect::Absent, put("TOP SECRET")).await.unwrap();
        assert_eq!(committed.value.unwrap().body, "TOP SECRET");
        storage.commit("/registry/configmaps/default/open", Expect::Absent, put("PUBLIC")).await.unwrap();
        assert_eq!(storage.get(KEY, None).await.unwrap().1.unwrap().body, "TOP SECRET");
        drop((storage, below));
        let bytes = std::fs::read(path.join("database")).unwrap();
        let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert_eq!((contains("TOP SECRET"), contains("PUBLIC")), (false, true), "{kind}");
        assert!(contains(&format!("k8s:enc:{kind}:v1:key1:")), "{kind}");
    }
}

#[tokio::test]
async fn key_is_rotated_by_updates() {
    let below = memory();
    let storage = encrypted(&below, &provider("aescbc", &[1]));
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    let first = storage.commit(KEY, Expect::Absent, put("body")).await.unwrap().revision;
    // The new key encrypts, and the old one still decrypts.
    storage.reconfigure(&for_secrets(&provider("aescbc", &[2, 1]))).unwrap();
    let value = storage.get(KEY, None).await.unwrap().1.unwrap();
    assert_eq!((&*value.body, value.is_stale), (&b"body"[..], true));
    storage.commit(KEY, Expect::Unchanged(first), put("body")).await.unwrap();
    assert!(!storage.get(KEY, None).await.unwrap().1.unwrap().is_stale);
    storage.reconfigure(&for_secrets(&provider("aescbc", &[2]))).unwrap();
    assert_eq!(storage.get(KEY, None).await.unwrap().1.unwrap().body, "body");
    // The first event cannot be decrypted any more.
    let event = tokio::time::timeout(PATIENCE, next_event(&mut events)).await.unwrap().unwrap();
    assert!(matches!(event, Err(StorageError::Unreadable { ref key, .. }) if key == KEY), "{event:?}");
    let invalid = storage.reconfigure(&for_secrets("{aescbc: {keys: []}}")).unwrap_err().to_string();
    assert_eq!(invalid, "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required");
    assert_eq!(storage.get(KEY, None).await.unwrap().1.unwrap().body, "body", "the valid configuration stays");
}

#[tokio::test]
async fn value_without_its_key_is_an_error() {
    let below = memory();
    encrypted(&below, &provider("aesgcm", &[1])).commit(KEY, Expect::Absent, put("body")).await.unwrap();
    for (providers, reason) in [
        (provider("secretbox", &[1]), "no matching prefix found"),
        ("{identity: {}}".to_owned(), "no matching prefix found"),
        (provider("aesgcm", &[2]), "no matching prefix found"),
        (provider("aesgcm", &[2]).replace("key2", "key1"), "cipher: message authentication failed"),
    ] {
        let storage = encrypted(&below, &providers);
        let expected = format!("unable to transform key \"{KEY}\": {reason}");
        assert_eq!(storage.get(KEY, None).await.unwrap_err().to_string(), expected, "{providers}");
        assert_eq!(storage.range(RangeQuery::default()).await.unwrap_err().to_string(), expected, "{providers}");
    }
}

#[tokio::test]
async fn exchanged_values_are_noticed_with_aes_gcm() {
    let below = memory();
    let storage = encrypted(&below, &provider("aesgcm", &[1]));
    storage.commit(KEY, Expect::Absent, put("body")).await.unwrap();
    let sealed = below.get(KEY, None).await.unwrap().1.unwrap().body;
    let other = "/registry/secrets/default/other";
    below.commit(other, Expect::Absent, Change::Put(sealed)).await.unwrap();
    let error = storage.get(other, None).await.unwrap_err();
    assert!(matches!(error, StorageError::Unreadable { ref key, .. } if key == other), "{error}");
}

#[test]
fn rules_apply_to_the_keys_of_their_resources() {
    let text = "{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: [\
                {resources: [nodes, services, 'ingresses.networking.k8s.io', 'sites.example.com', '*.apps'], providers: [PROVIDER]}, \
                {resources: ['*.'], providers: [{identity: {}}]}]}";
    let encryption =
        Encryption::new(&configuration(&text.replace("PROVIDER", &provider("aesgcm", &[1]))), stored_resources());
    let encryption = encryption.unwrap();
    let encrypts = |key: &str| encryption.encode(key, Bytes::from_static(b"body")).unwrap() != "body";
    for key in [
        "/registry/minions/a",
        "/registry/services/specs/default/a",
        "/registry/ingress/default/a",
        "/registry/example.com/sites/a",
        "/registry/deployments/default/a",
    ] {
        assert!(encrypts(key), "{key}");
    }
    for key in [
        "/registry/services/endpoints/default/a",
        "/registry/secrets/default/a",
        "/registry/example.org/sites/a",
        "/registry/jobs/default/a",
        "/registry/ranges/serviceips",
        "/other/minions/a",
    ] {
        assert!(!encrypts(key), "{key}");
    }
}
