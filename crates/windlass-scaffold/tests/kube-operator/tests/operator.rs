//! Runs the program on an API server in this process. `cargo xtask migrate` runs this test before and after the
//! migration.

use std::{
    env,
    error::Error,
    fs,
    path::PathBuf,
    process::{self, Child, Command},
    time::Duration,
};

use serde_json::json;
use windlass::{ApiResource, DynamicObject, api::Scope, client::wait, envtest::Environment, k8s::core::v1::ConfigMap};

/// The timeout of each step. It is long, because it only distinguishes slow operators from broken ones.
const PATIENCE: Duration = Duration::from_mins(1);
const PROGRAM: &str = env!("CARGO_BIN_EXE_bucket-operator");

/// A running program with its kubeconfig. Both end on drop.
struct Operator {
    process: Child,
    kubeconfig: PathBuf,
}

impl Operator {
    fn start(env: &Environment) -> Result<Self, Box<dyn Error>> {
        let kubeconfig = env::temp_dir().join(format!("bucket-operator-{}", process::id()));
        env.kubeconfig()?.write(&kubeconfig)?;
        let process = Command::new(PROGRAM).env("KUBECONFIG", &kubeconfig).spawn()?;
        Ok(Self { process, kubeconfig })
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.kubeconfig);
    }
}

#[tokio::test]
async fn bucket_has_a_connection_until_it_is_deleted() -> Result<(), Box<dyn Error>> {
    let env = Environment::builder().listen().start().await?;
    let definition = Command::new(PROGRAM).arg("--crd").output()?;
    env.install_manifests(&String::from_utf8(definition.stdout)?).await?;
    let operator = Operator::start(&env)?;

    let client = env.client();
    let buckets = client.dynamic(&ApiResource {
        group: "storage.example.com".into(),
        version: "v1".into(),
        kind: "Bucket".into(),
        plural: "buckets".into(),
        scope: Scope::Namespaced,
    });
    let bucket: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "storage.example.com/v1",
        "kind": "Bucket",
        "metadata": {"name": "photos", "namespace": "default"},
        "spec": {"region": "north"},
    }))?;
    buckets.create(&bucket).await?;
    let map = env.eventually::<ConfigMap>("photos-connection", |map| map.data.is_some()).await;
    assert_eq!(map.data.unwrap_or_default()["endpoint"], "http://storage.example.com");
    let is_ready = |bucket: Option<&DynamicObject>| {
        bucket.is_some_and(|bucket| bucket.data.get("status").is_some_and(|status| status["phase"] == "Ready"))
    };
    let ready = buckets.wait_for("photos").timeout(PATIENCE).until(is_ready).await?;
    assert!(ready.is_some_and(|bucket| bucket.metadata.finalizers.is_some()), "the deletion waits for the operator");

    buckets.delete("photos").await?;
    buckets.wait_for("photos").timeout(PATIENCE).until(wait::is_gone()).await?;
    drop(operator);
    Ok(env.stop().await?)
}
