//! A kind as kopium generates it from a CustomResourceDefinition, beside a test: `kopium --schema=derived --derive=…`.

#![allow(missing_docs, unreachable_pub, reason = "generated types have no comments for fields without a description")]

mod prelude {
    pub use kube::CustomResource;
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use std::collections::BTreeMap;
}
use std::sync::Arc;

use windlass_api::{ObjectExt as _, k8s_openapi::api::core::v1::ConfigMap};
use windlass_envtest::Environment;
use windlass_runtime::{Action, Context, Controller};

use self::prelude::*;

/// BackupSpec defines the desired state of Backup
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[kube(
    group = "storage.example.org",
    version = "v1beta2",
    kind = "Backup",
    plural = "backups",
    shortname = "bk",
    status = "BackupStatus",
    schema = "derived"
)]
#[kube(namespaced)]
#[kube(derive = "Default")]
#[kube(derive = "PartialEq")]
pub struct BackupSpec {
    /// Labels of the stored objects
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "objectLabels")]
    pub object_labels: Option<BTreeMap<String, String>>,
    pub schedule: BackupSchedule,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "volumeNames")]
    pub volume_names: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct BackupSchedule {
    pub cron: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<BackupSchedulePolicy>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
pub enum BackupSchedulePolicy {
    Skip,
    #[serde(rename = "")]
    KopiumEmpty,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct BackupStatus {
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "lastRun")]
    pub last_run: Option<String>,
}

async fn reconcile(backup: Arc<Backup>, cx: Context) -> windlass_runtime::Result<Action> {
    let mut plan = ConfigMap::default().controlled_by(&*backup);
    plan.metadata.name = Some(format!("{}-plan", backup.name()));
    plan.data = Some([("cron".to_owned(), backup.spec.schedule.cron.clone())].into());
    cx.client().apply(&plan).await?;
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn kopium_type_is_reconciled_and_owns_children() {
    let env = Environment::start().await;
    env.define::<Backup>().await;
    let mut manager = env.manager();
    manager.add(Controller::<Backup>::new().owns::<ConfigMap>().reconcile(reconcile));
    env.run(manager);

    let schedule = BackupSchedule { cron: "0 3 * * *".to_owned(), policy: Some(BackupSchedulePolicy::Skip) };
    let backup = Backup::new("nightly", BackupSpec { schedule, ..BackupSpec::default() });
    let backup = env.client().create(&backup).await.unwrap();
    let has_plan = |plan: &ConfigMap| plan.is_controlled_by(&backup) && plan.data.is_some();
    env.eventually::<ConfigMap>("nightly-plan", has_plan).await;

    // The watch of the children leads back to the owner.
    env.client().delete::<ConfigMap>("nightly-plan").await.unwrap();
    env.eventually::<ConfigMap>("nightly-plan", has_plan).await;
    env.stop().await.unwrap();
}
