use base64::{Engine as _, engine::general_purpose::STANDARD};
use windlass_server::{
    storage::{Change, Expect, MemoryStorage, RangeQuery, Revision, StorageError, next_event, suite::PATIENCE},
    stored_resources,
};

use super::{
    kms::tests::{Plugin, Served},
    *,
};
use crate::{DiskStorage, EncodedStorage};

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

async fn encrypted(below: &Arc<dyn Storage>, providers: &str) -> EncryptedStorage {
    EncryptedStorage::new(Arc::clone(below), &for_secrets(providers), stored_resources()).await.unwrap()
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::default())
}

fn put(body: &str) -> Change {
    Change::Put(Bytes::copy_from_slice(body.as_bytes()))
}

/// Encrypts the value of every key, which the configuration cannot demand.
#[derive(Debug)]
struct Everything(Encryption);

impl Everything {
    fn with<T>(&self, with: impl FnOnce(&Chain) -> T) -> T {
        self.0.with(KEY, with).unwrap()
    }
}

impl Transform for Everything {
    fn encode(&self, key: &str, body: Bytes) -> Result<Bytes, Failure> {
        Ok(self.with(|chain| chain.encrypt(key, &body))?)
    }

    fn decode(&self, value: StoredValue) -> Decoding {
        self.with(|chain| chain.decrypt(&value.key, &value.body)).value_of(value)
    }
}

async fn everything_encrypted(providers: &str) -> Arc<dyn Storage> {
    let encryption = Encryption::new(&for_secrets(providers), stored_resources(), None).await.unwrap();
    Arc::new(TransformedStorage::over(memory(), Everything(encryption)))
}

mod suite {
    windlass_server::storage_suite!(|| super::everything_encrypted(
        "{aesgcm: {keys: [{name: a, secret: AAECAwQFBgcICQoLDA0ODw==}]}}"
    ));
}

mod suite_with_kms {
    use super::*;

    windlass_server::storage_suite!(|| async {
        let (directory, served) = plugin();
        let storage = everything_encrypted(&kms(&served)).await;
        // The first check has called the plugin, so it is not needed any more.
        drop((directory, served));
        storage
    });
}

/// Starts a KMS plugin.
fn plugin() -> (tempfile::TempDir, Served) {
    let directory = tempfile::tempdir().unwrap();
    let served = Plugin::new().serve(&directory.path().join("kms.sock"));
    (directory, served)
}

fn kms(served: &Served) -> String {
    format!("{{kms: {{apiVersion: v2, name: vault, endpoint: '{}'}}}}", served.endpoint())
}

/// Reads a recorded configuration.
async fn recorded(config: &str, served: &Served, key: &str) -> (String, Encryption) {
    let config = String::from_utf8(decoded(config)).unwrap();
    let parsed = configuration(&config.replace("ENDPOINT", &served.endpoint()));
    let prefix = key.split_once("/secrets/").unwrap().0;
    (config, Encryption::new(&parsed, stored_resources(), Some(prefix)).await.unwrap())
}

/// Returns a value of the server for a recorded key in etcd.
fn stored(key: &str, body: Vec<u8>) -> StoredValue {
    let (_, rest) = key.split_once("/secrets/").unwrap();
    let key = format!("/registry/secrets/{rest}").into();
    StoredValue { key, body: body.into(), created: Revision(1), modified: Revision(1), is_stale: false }
}

#[tokio::test]
async fn values_of_the_real_server_are_decrypted() {
    let (_directory, served) = plugin();
    let mut count = 0;
    for line in RECORDED.lines().filter_map(|line| line.strip_prefix("value\t")) {
        let [config, _, key, body, sealed]: [&str; 5] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let (config, encryption) = recorded(config, &served, key).await;
        let (body, sealed) = (decoded(body), decoded(sealed));
        let size = sealed.len();
        let value = encryption.decode(stored(key, sealed)).finish().await.unwrap();
        // Windlass has no keys without seeds, so it writes such a value again.
        assert_eq!((value.body.to_vec(), value.is_stale), (body.clone(), config.contains("unseeded")), "{config}");
        let ours = encryption.encode(&value.key, body.clone().into()).unwrap();
        let value = encryption.decode(stored(key, ours.to_vec())).finish().await.unwrap();
        assert_eq!((value.body.to_vec(), value.is_stale), (body.clone(), false), "{config}");
        if !config.contains("unseeded") {
            assert_eq!(ours.len(), size, "{config}");
        }
        let encrypts = !config.contains("providers:\n  - identity");
        let again = encryption.encode(&value.key, body.into()).unwrap();
        assert_eq!(ours != again, encrypts, "each value has its own nonce: {config}");
        count += 1;
    }
    assert_eq!(count, 50);
}

#[tokio::test]
async fn errors_of_values_are_those_of_the_real_server() {
    let (_directory, served) = plugin();
    let mut count = 0;
    for line in RECORDED.lines().filter_map(|line| line.strip_prefix("unreadable\t")) {
        let [config, _, key, expected, sealed]: [&str; 5] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let (config, encryption) = recorded(config, &served, key).await;
        let error = encryption.decode(stored(key, decoded(sealed))).finish().await.unwrap_err();
        assert_eq!(error.to_string(), expected, "{config}");
        count += 1;
    }
    assert_eq!(count, 11);
}

/// Writes the recorded values again, for kube-apiserver to read.
#[tokio::test]
#[ignore = "needs Go: cargo xtask long etcd"]
async fn values_are_decrypted_by_the_real_server() {
    let (_directory, served) = plugin();
    let mut lines = String::new();
    for line in RECORDED.lines().filter_map(|line| line.strip_prefix("value\t")) {
        let [config, resource, key, body, _]: [&str; 5] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let (text, encryption) = recorded(config, &served, key).await;
        if !text.contains("unseeded") {
            let ours = encryption.encode(&stored(key, Vec::new()).key, decoded(body).into()).unwrap();
            lines += &format!("value\t{config}\t{resource}\t{key}\t{body}\t{}\n", STANDARD.encode(ours));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("values");
    std::fs::write(&file, &lines).unwrap();
    let mut command = std::process::Command::new("go");
    command.args(["run", "./encryption", "read"]).stdin(std::fs::File::open(&file).unwrap());
    let output = command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "46 values are read\n", "{errors}");
}

/// Parses a configuration. An error has the path of the wrong field.
fn parsed(config: &str) -> Result<EncryptionConfiguration, String> {
    let mut path = String::new();
    let parsed = serde_saphyr::with_deserializer_from_str(config, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            path = error.path().to_string();
            error.into_inner()
        })
    });
    parsed.map_err(|error: serde_saphyr::Error| format!("{path}: {error}"))
}

#[test]
fn errors_are_those_of_the_real_server() {
    let mut count = 0;
    for line in RECORDED.lines().filter_map(|line| line.strip_prefix("error\t")) {
        let (config, expected) = line.split_once('\t').unwrap();
        let config = String::from_utf8(decoded(config)).unwrap();
        count += 1;
        let (stage, expected) = expected.split_once(": ").unwrap();
        let parsed = parsed(&config.replace("ENDPOINT", "unix:///kms.sock"));
        if let Some(reason) = expected.strip_prefix("error decoding encryption provider configuration file \"FILE\": ")
        {
            let found = parsed.err().unwrap_or_else(|| panic!("valid: {config}"));
            let expected = match reason.strip_prefix("strict decoding error: ") {
                None => reason.to_owned(),
                Some(unknown) if unknown.starts_with("unknown field ") => {
                    let path = unknown.strip_prefix("unknown field \"").unwrap().strip_suffix('"').unwrap();
                    let (_, field) = path.rsplit_once('.').unwrap();
                    assert!(found.contains(&format!("unknown field `{field}`")), "{found}");
                    format!("{path}: ")
                }
                Some(repeated) => {
                    assert_eq!(repeated, "yaml: unmarshal errors:   line 4: key \"resources\" already set in map");
                    "resources: ".to_owned()
                }
            };
            assert!(found.contains(&expected), "{found}\n{expected}\n{config}");
            continue;
        }
        let parsed = parsed.unwrap_or_else(|error| panic!("{error}: {config}"));
        let found = parsed.providers().err().unwrap_or_else(|| panic!("valid: {config}")).to_string();
        // The real server's error contains the whole provider, with its keys.
        match expected.split_once("Invalid value: {") {
            Some((path, rest)) => {
                let reason = rest.rsplit_once("}: ").unwrap().1;
                assert_eq!(found, format!("{path}{reason}"), "{config}");
            }
            // The feature gate of KMS v1 does not exist here.
            None if stage == "error while building transformers" && expected.starts_with("KMSv1") => {
                let (reason, _) = expected.split_once("  Set --feature-gates=").unwrap();
                assert_eq!(found, format!("{reason}  Set apiVersion: v2 for the provider \"a\""), "{config}");
            }
            None => assert_eq!(found, expected, "{config}"),
        }
    }
    assert_eq!(count, 49);
}

#[tokio::test]
async fn configured_values_are_encrypted_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["aesgcm", "aescbc", "secretbox"] {
        let path = directory.path().join(kind);
        let below: Arc<dyn Storage> = Arc::new(DiskStorage::open(&path).unwrap());
        let storage = encrypted(&below, &provider(kind, &[1])).await;
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
    let storage = encrypted(&below, &provider("aescbc", &[1])).await;
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    let first = storage.commit(KEY, Expect::Absent, put("body")).await.unwrap().revision;
    // The new key encrypts, and the old one still decrypts.
    storage.reconfigure(&for_secrets(&provider("aescbc", &[2, 1]))).await.unwrap();
    let value = storage.get(KEY, None).await.unwrap().1.unwrap();
    assert_eq!((&*value.body, value.is_stale), (&b"body"[..], true));
    storage.commit(KEY, Expect::Unchanged(first), put("body")).await.unwrap();
    assert!(!storage.get(KEY, None).await.unwrap().1.unwrap().is_stale);
    storage.reconfigure(&for_secrets(&provider("aescbc", &[2]))).await.unwrap();
    assert_eq!(storage.get(KEY, None).await.unwrap().1.unwrap().body, "body");
    // The first event cannot be decrypted any more.
    let event = tokio::time::timeout(PATIENCE, next_event(&mut events)).await.unwrap().unwrap();
    assert!(matches!(event, Err(StorageError::Unreadable { ref key, .. }) if key == KEY), "{event:?}");
    let invalid = storage.reconfigure(&for_secrets("{aescbc: {keys: []}}")).await.unwrap_err().to_string();
    assert_eq!(invalid, "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required");
    assert_eq!(storage.get(KEY, None).await.unwrap().1.unwrap().body, "body", "the valid configuration stays");
}

#[tokio::test]
async fn value_without_its_key_is_an_error() {
    let below = memory();
    encrypted(&below, &provider("aesgcm", &[1])).await.commit(KEY, Expect::Absent, put("body")).await.unwrap();
    for (providers, reason) in [
        (provider("secretbox", &[1]), "no matching prefix found"),
        ("{identity: {}}".to_owned(), "no matching prefix found"),
        (provider("aesgcm", &[2]), "no matching key was found for the provided AES transformer"),
        (provider("aesgcm", &[2]).replace("key2", "key1"), "cipher: message authentication failed"),
    ] {
        let storage = encrypted(&below, &providers).await;
        let expected = format!("unable to transform key \"{KEY}\": {reason}");
        assert_eq!(storage.get(KEY, None).await.unwrap_err().to_string(), expected, "{providers}");
        assert_eq!(storage.range(RangeQuery::default()).await.unwrap_err().to_string(), expected, "{providers}");
    }
}

#[tokio::test]
async fn exchanged_values_are_noticed_with_aes_gcm() {
    let below = memory();
    let storage = encrypted(&below, &provider("aesgcm", &[1])).await;
    storage.commit(KEY, Expect::Absent, put("body")).await.unwrap();
    let sealed = below.get(KEY, None).await.unwrap().1.unwrap().body;
    let other = "/registry/secrets/default/other";
    below.commit(other, Expect::Absent, Change::Put(sealed)).await.unwrap();
    let error = storage.get(other, None).await.unwrap_err();
    assert!(matches!(error, StorageError::Unreadable { ref key, .. } if key == other), "{error}");
}

#[tokio::test]
async fn encrypted_value_without_a_configuration_is_an_error() {
    let below = memory();
    let (_directory, served) = plugin();
    let kms = kms(&served);
    let cases = [
        ("/registry/secrets/default/a", provider("aesgcm", &[1]), "aesgcm:v1:key1"),
        ("/registry/secrets/default/b", kms, "kms:v2:vault"),
    ];
    for (key, providers, shown) in cases {
        encrypted(&below, &providers).await.commit(key, Expect::Absent, put("body")).await.unwrap();
        let expected = format!(
            "unable to transform key \"{key}\": identity transformer tried to read encrypted data: it is encrypted by \
             {shown}, and no configuration of this resource is given; use --encryption-provider-config"
        );
        let others = configuration(
            "{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, \
             resources: [{resources: [configmaps], providers: [{identity: {}}]}]}",
        );
        let others = EncryptedStorage::new(Arc::clone(&below), &others, stored_resources()).await.unwrap();
        let version = windlass_server::KubernetesVersion::default();
        let storages: [Arc<dyn Storage>; 3] = [
            Arc::new(others),
            Arc::new(EncodedStorage::shared(Arc::clone(&below), version)),
            Arc::new(EncodedStorage::imported(Arc::clone(&below), version)),
        ];
        for storage in storages {
            assert_eq!(storage.get(key, None).await.unwrap_err().to_string(), expected);
        }
    }
}

#[tokio::test]
async fn commit_succeeds_without_the_key_of_the_previous_value() {
    let below = memory();
    let old = encrypted(&below, &provider("aesgcm", &[1])).await;
    let first = old.commit(KEY, Expect::Absent, put("old")).await.unwrap().revision;
    let new = encrypted(&below, &provider("secretbox", &[1])).await;
    let committed = new.commit(KEY, Expect::Unchanged(first), put("new")).await.unwrap();
    assert_eq!((committed.value.unwrap().body, committed.previous), ("new".into(), None));
    let second = committed.revision;
    let committed = old.commit(KEY, Expect::Unchanged(second), Change::Delete).await.unwrap();
    assert_eq!((committed.value, committed.previous), (None, None));
}

#[tokio::test]
async fn key_in_etcd_is_authenticated_with_its_prefix() {
    let below = memory();
    let configuration = for_secrets(&provider("aesgcm", &[1]));
    let storage = async |prefix: &str| {
        EncryptedStorage::with_prefix(Arc::clone(&below), &configuration, stored_resources(), prefix).await.unwrap()
    };
    storage("clusters/one").await.commit(KEY, Expect::Absent, put("body")).await.unwrap();
    for (prefix, is_equal) in
        [("/clusters/one", true), ("/clusters/one/", true), ("/", false), ("/registry", false), ("/clusters", false)]
    {
        assert_eq!(storage(prefix).await.get(KEY, None).await.is_ok(), is_equal, "{prefix}");
    }
    let default = encrypted(&below, &provider("aesgcm", &[1])).await;
    let other = "/registry/secrets/default/other";
    default.commit(other, Expect::Absent, put("body")).await.unwrap();
    assert_eq!(storage("registry/").await.get(other, None).await.unwrap().1.unwrap().body, "body");
}

#[tokio::test]
async fn rules_apply_to_the_keys_of_their_resources() {
    let text = "{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: [\
                {resources: [nodes, services, 'ingresses.networking.k8s.io', 'sites.example.com', '*.apps'], providers: [PROVIDER]}, \
                {resources: ['*.'], providers: [{identity: {}}]}]}";
    let configuration = configuration(&text.replace("PROVIDER", &provider("aesgcm", &[1])));
    let encryption = Encryption::new(&configuration, stored_resources(), None).await.unwrap();
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
