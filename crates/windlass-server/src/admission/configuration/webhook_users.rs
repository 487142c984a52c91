//! The configuration of `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`.

use serde_json::Value;
use windlass_api::BoxError;

use super::{
    AdmissionConfiguration, VERSION,
    checks::{check_fields, check_kind},
};
use crate::{
    object::{Errors, Path, Tree},
    webhook::WebhookUsers,
};

impl AdmissionConfiguration {
    /// Reads the kubeconfig with the credentials for webhooks.
    pub(super) fn set_webhook_users(
        &mut self,
        index: usize,
        file: &Value,
        read: &dyn Fn(&str) -> Result<Value, BoxError>,
        errors: &mut Errors,
    ) -> Result<(), BoxError> {
        let (version, kind) = (file.text(&["apiVersion"]), file.text(&["kind"]));
        match version {
            "apiserver.config.k8s.io/v1alpha1" => check_kind((version, kind), &[version], "WebhookAdmission", errors),
            _ => check_kind((version, kind), &[VERSION], "WebhookAdmissionConfiguration", errors),
        }
        check_fields(file, &["apiVersion", "kind", "kubeConfigFile"], &Path::new(""), errors);
        let path = file.text(&["kubeConfigFile"]);
        if path.is_empty() {
            return Ok(());
        }
        if !std::path::Path::new(path).is_absolute() {
            errors.invalid(&Path::new("kubeConfigFile"), path, "must be an absolute file path");
            return Ok(());
        }
        self.webhook_users[index] = WebhookUsers::parse(&read(path)?)?;
        Ok(())
    }
}
