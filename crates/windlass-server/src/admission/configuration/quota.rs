//! The configuration of `ResourceQuota`.

use serde::Deserialize;
use serde_json::Value;
use windlass_api::quota::ScopeRequirement;

use super::{AdmissionConfiguration, VERSION, checks::check_kind};
use crate::{
    admission::quota::LimitedResource,
    object::{Errors, Path},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QuotaFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    limited_resources: Vec<LimitedFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
struct LimitedFile {
    api_group: String,
    resource: String,
    match_contains: Vec<String>,
    match_scopes: Vec<Value>,
}

impl AdmissionConfiguration {
    pub(super) fn set_quota(&mut self, file: QuotaFile, errors: &mut Errors) {
        match &*file.api_version {
            "resourcequota.admission.k8s.io/v1alpha1" | "resourcequota.admission.k8s.io/v1beta1" => {
                check_kind((&file.api_version, &file.kind), &[&*file.api_version], "Configuration", errors);
            }
            _ => check_kind((&file.api_version, &file.kind), &[VERSION], "ResourceQuotaConfiguration", errors),
        }
        let list = Path::new("limitedResources");
        for (index, limited) in file.limited_resources.into_iter().enumerate() {
            if limited.resource.is_empty() {
                errors.required(&list.index(index).child("resource"), "");
            }
            self.limited.push(LimitedResource {
                group: limited.api_group,
                plural: limited.resource,
                match_contains: limited.match_contains,
                match_scopes: ScopeRequirement::list(&limited.match_scopes).collect(),
            });
        }
    }
}
