//! The life of a seed with a paused clock and a plugin in the process, and the storage with one behind a socket.

use windlass_server::storage::{
    Change, Expect, MemoryStorage, RangeQuery, Revision, Storage, next_event, suite::PATIENCE,
};

pub(in crate::encryption) use self::plugin::{Plugin, Served};
use super::{
    super::{EncryptedStorage, EncryptionConfiguration},
    *,
};

mod plugin;
mod storage;

const PLACE: &str = "/registry/secrets/default/a";

fn kms(plugin: &Plugin) -> Arc<Kms> {
    Arc::new(Kms::over("vault", Arc::new(plugin.clone())))
}

/// Encrypts a value, without the prefix of the provider.
fn sealed(kms: &Kms, body: &str) -> Result<Bytes, KmsError> {
    Ok(kms.encrypt(PLACE, body.as_bytes())?.slice(kms.prefix().len()..))
}

/// Decrypts a value, and returns whether it is stale.
async fn opened(kms: &Kms, sealed: &Bytes) -> Result<(Bytes, bool), KmsError> {
    let decrypted = match kms.decrypt(PLACE, sealed.clone()) {
        Decryption::Done(decrypted) => decrypted,
        Decryption::Pending(decrypting) => decrypting.await,
    };
    decrypted.map(|Decrypted { body, is_stale }| (body, is_stale))
}

/// Returns a value of another server with the same plugin.
async fn foreign(plugin: &Plugin, body: &str) -> Bytes {
    let other = kms(plugin);
    other.check().await.unwrap();
    sealed(&other, body).unwrap()
}

fn object(sealed: &Bytes) -> EncryptedObject {
    EncryptedObject::decode(sealed.clone()).unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn new_key_id_replaces_the_seed() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    kms.check().await.unwrap();
    let checks = tokio::spawn(Arc::clone(&kms).poll(true));
    let first = sealed(&kms, "first").unwrap();
    assert_eq!(object(&first).key_id, "key-1");
    assert_eq!(opened(&kms, &first).await.unwrap(), ("first".into(), false));
    // Each value has a key of its own, from the same seed.
    let again = sealed(&kms, "first").unwrap();
    assert_ne!(object(&again).encrypted_data, object(&first).encrypted_data);
    assert_eq!(object(&again).source, object(&first).source);
    plugin.set(|answers| answers.key_id = "key-2".into());
    pass(61).await;
    assert_eq!(opened(&kms, &first).await.unwrap(), ("first".into(), true), "an update writes it again");
    let second = sealed(&kms, "second").unwrap();
    assert_eq!(object(&second).key_id, "key-2");
    assert_eq!(opened(&kms, &second).await.unwrap(), ("second".into(), false));
    // Without another id, the seed stays.
    pass(600).await;
    assert_eq!(object(&sealed(&kms, "third").unwrap()).source, object(&second).source);
    assert_eq!((plugin.count("Encrypt"), plugin.count("Decrypt")), (2, 0), "own seeds are known");
    checks.abort();
}

#[tokio::test(start_paused = true)]
async fn checks_follow_after_a_minute_or_ten_seconds() {
    let plugin = Plugin::new();
    plugin.set(|answers| answers.failing = Some(("Status", "sealed")));
    let kms = kms(&plugin);
    assert!(kms.check().await.is_err());
    let checks = tokio::spawn(Arc::clone(&kms).poll(false));
    // In the middle between two checks.
    pass(5).await;
    for expected in 1..4 {
        assert_eq!(plugin.count("Status"), expected);
        pass(10).await;
    }
    plugin.set(|answers| answers.failing = None);
    pass(10).await;
    for expected in 5..8 {
        assert_eq!(plugin.count("Status"), expected);
        pass(60).await;
    }
    checks.abort();
}

#[tokio::test(start_paused = true)]
async fn checks_shortly_after_another_one_have_its_result() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    let counts = async |seconds| {
        pass(seconds).await;
        let result = kms.check().await;
        (plugin.count("Status"), result.is_ok())
    };
    assert_eq!(counts(0).await, (1, true));
    plugin.set(|answers| answers.healthz = "disk full".into());
    assert_eq!(counts(19).await, (1, true));
    assert_eq!(counts(2).await, (2, false));
    plugin.set(|answers| answers.healthz = "ok".into());
    assert_eq!(counts(2).await, (2, false));
    assert_eq!(counts(2).await, (3, true));
}

#[tokio::test(start_paused = true)]
async fn seed_expires_for_writes_after_three_minutes_without_success() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    kms.check().await.unwrap();
    let checks = tokio::spawn(Arc::clone(&kms).poll(true));
    pass(590).await;
    let value = sealed(&kms, "value").unwrap();
    plugin.set(|answers| answers.failing = Some(("Status", "sealed")));
    // The last success was at 540 seconds.
    pass(540 + 179 - 590).await;
    sealed(&kms, "still").unwrap();
    pass(3).await;
    let error = sealed(&kms, "expired").unwrap_err().to_string();
    assert!(error.starts_with("the key of KMS provider \"vault\" with key id sha256:"), "{error}");
    assert!(error.ends_with("expired 2s ago: its plugin has not been healthy since"), "{error}");
    assert_eq!(opened(&kms, &value).await.unwrap(), ("value".into(), false), "reads continue");
    // With the same key id, the same seed encrypts again.
    plugin.set(|answers| answers.failing = None);
    pass(11).await;
    assert_eq!(object(&sealed(&kms, "again").unwrap()).source, object(&value).source);
    checks.abort();
}

#[tokio::test(start_paused = true)]
async fn reads_and_writes_before_the_first_success_are_errors() {
    let plugin = Plugin::new();
    let value = foreign(&plugin, "value").await;
    plugin.set(|answers| answers.failing = Some(("Encrypt", "no such key")));
    let kms = kms(&plugin);
    let unhealthy = kms.check().await.unwrap_err().to_string();
    assert_eq!(unhealthy, "kmsv2 Provider vault is not healthy, error: failed to encrypt DEK, error: no such key");
    let expected = "KMS provider \"vault\" has no key yet: its plugin has not been healthy since the start";
    assert_eq!(sealed(&kms, "x").unwrap_err().to_string(), expected);
    assert_eq!(opened(&kms, &value).await.unwrap_err().to_string(), expected);
    assert_eq!(plugin.count("Decrypt"), 0);
}

#[tokio::test(start_paused = true)]
async fn wrong_answers_of_the_plugin_leave_the_old_seed() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    kms.check().await.unwrap();
    let old = object(&sealed(&kms, "x").unwrap()).source;
    type Change = fn(&mut plugin::Answers);
    let cases: [(Change, &str); 9] = [
        (|answers| answers.healthz = "disk full".into(), "got unexpected healthz status: disk full"),
        (|answers| answers.version = "v1".into(), "expected KMSv2 API version v2, got v1"),
        (
            |answers| answers.version = "v2beta1".into(),
            "KMSv2 API version should not change after the initial status response version v2, got v2beta1",
        ),
        (|answers| answers.key_id = String::new(), "got invalid KMSv2 KeyID hash \"\": keyID is empty"),
        (|answers| answers.key_id = "k".repeat(1025), ": keyID is 1025 bytes, which exceeds the max size of 1024"),
        (
            |answers| {
                answers.key_id = "key-2".into();
                answers.encrypted_by = Some("key-3".into());
            },
            "failed to rotate DEK: the response to Encrypt has the key id sha256:",
        ),
        (
            |answers| {
                answers.key_id = "key-2".into();
                answers.encrypted = |response| response.ciphertext = Bytes::new();
            },
            "failed to validate encrypted DEK source: encrypted DEK source is empty",
        ),
        (
            |answers| {
                answers.key_id = "key-2".into();
                answers.encrypted = |response| response.ciphertext = vec![1; 1025].into();
            },
            "failed to validate encrypted DEK source: encrypted DEK source is 1025 bytes, which exceeds the max size of 1024",
        ),
        (
            |answers| {
                answers.key_id = "key-2".into();
                answers.encrypted = |response| {
                    response.annotations.insert("local".into(), vec![0; 32 << 10]);
                };
            },
            "failed to validate annotations: [annotations: Invalid value: \"local\": should be a domain with at least two \
             segments separated by dots, total size of annotations is 32795, which exceeds the max size of 32768]",
        ),
    ];
    for (change, expected) in cases {
        plugin.set(change);
        pass(30).await;
        let error = kms.check().await.unwrap_err().to_string();
        assert!(
            error.starts_with("kmsv2 Provider vault is not healthy, error: ") && error.contains(expected),
            "{error}"
        );
        assert!(!error.contains("key-3"), "key ids are hashed: {error}");
        plugin.set(|answers| {
            *answers = plugin::Answers {
                version: "v2".into(),
                healthz: "ok".into(),
                key_id: "key-1".into(),
                encrypted_by: None,
                encrypted: |_| {},
                failing: None,
                hanging: None,
            }
        });
        pass(4).await;
        kms.check().await.unwrap();
        assert_eq!(object(&sealed(&kms, "x").unwrap()).source, old);
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_reads_share_one_call_that_outlives_them() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    kms.check().await.unwrap();
    let values = [foreign(&plugin, "one").await, foreign(&plugin, "two").await];
    plugin.set(|answers| answers.hanging = Some("Decrypt"));
    {
        let reads = (0..100).map(|at| opened(&kms, &values[at % 2]));
        let reads = tokio::time::timeout(Duration::from_secs(1), futures::future::join_all(reads));
        reads.await.unwrap_err();
    }
    assert_eq!(plugin.count("Decrypt"), 2, "one for each seed");
    // All reads were dropped.
    plugin.set(|answers| answers.hanging = None);
    pass(1).await;
    for (value, body) in values.iter().zip(["one", "two"]) {
        assert!(matches!(kms.decrypt(PLACE, value.clone()), Decryption::Done(Ok(_))), "no call is needed");
        assert_eq!(opened(&kms, value).await.unwrap(), (body.into(), false));
    }
    assert_eq!(plugin.count("Decrypt"), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_call_fails_all_reads_of_a_second_and_is_then_repeated() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    kms.check().await.unwrap();
    let value = foreign(&plugin, "one").await;
    plugin.set(|answers| answers.failing = Some(("Decrypt", "sealed")));
    let (first, second) = tokio::join!(opened(&kms, &value), opened(&kms, &value));
    let expected = "failed to decrypt DEK, error: KMS provider \"vault\": sealed";
    assert_eq!(first.unwrap_err().to_string(), expected);
    assert_eq!(second.unwrap_err().to_string(), expected);
    assert_eq!(plugin.count("Decrypt"), 1);
    plugin.set(|answers| answers.failing = None);
    assert_eq!(opened(&kms, &value).await.unwrap_err().to_string(), expected);
    assert_eq!(plugin.count("Decrypt"), 1, "a plugin that hangs delays the first of many reads only");
    pass(1).await;
    assert_eq!(opened(&kms, &value).await.unwrap(), ("one".into(), false));
    assert_eq!(plugin.count("Decrypt"), 2);
}

#[tokio::test(start_paused = true)]
async fn decrypted_keys_are_kept_for_a_day() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    kms.check().await.unwrap();
    let value = foreign(&plugin, "one").await;
    for (hours, calls) in [(0, 1), (23, 1), (2, 2), (23, 2)] {
        pass(hours * 3600).await;
        opened(&kms, &value).await.unwrap();
        assert_eq!(plugin.count("Decrypt"), calls, "after {hours} more hours");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_values_are_errors_without_a_call() {
    let plugin = Plugin::new();
    let kms = kms(&plugin);
    kms.check().await.unwrap();
    let valid = object(&sealed(&kms, "value").unwrap());
    let cases = [
        (EncryptedObject { source_type: 2, ..valid.clone() }, "unknown encryptedDEKSourceType: 2"),
        (EncryptedObject { encrypted_data: Bytes::new(), ..valid.clone() }, "encrypted data is empty"),
        (EncryptedObject { key_id: String::new(), ..valid.clone() }, "failed to validate key id: keyID is empty"),
    ];
    for (object, reason) in cases {
        let error = opened(&kms, &object.encode_to_vec().into()).await.unwrap_err().to_string();
        assert_eq!(error, format!("the value of KMS provider \"vault\" is invalid: {reason}"));
    }
    let short = EncryptedObject { encrypted_data: Bytes::from_static(&[1; 31]), ..valid.clone() };
    let error = opened(&kms, &short.encode_to_vec().into()).await.unwrap_err().to_string();
    assert_eq!(error, "the stored data was shorter than the required size");
    let error = opened(&kms, &Bytes::from_static(b"\xff")).await.unwrap_err().to_string();
    assert!(error.starts_with("the value of KMS provider \"vault\" is invalid: "), "{error}");
    // A value of another key cannot be decrypted here.
    let sealed = valid.encode_to_vec().into();
    let Decryption::Done(exchanged) = kms.decrypt("/registry/secrets/default/b", sealed) else { panic!("a call") };
    assert_eq!(exchanged.unwrap_err().to_string(), "cipher: message authentication failed");
    assert_eq!(plugin.count("Decrypt"), 0);
}
