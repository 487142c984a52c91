//! The configuration of `PodSecurity`.

use serde::Deserialize;

use super::{
    AdmissionConfiguration,
    checks::{check_kind, checked, parsed},
};
use crate::{
    admission::pod_security::{Exemptions, Level, Policy, Standard, Version},
    object::{Errors, dns_label, dns_subdomain},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PodSecurityFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    defaults: DefaultsFile,
    #[serde(default)]
    exemptions: ExemptionsFile,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct DefaultsFile {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ExemptionsFile {
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

impl AdmissionConfiguration {
    pub(super) fn set_pod_security(&mut self, file: PodSecurityFile, errors: &mut Errors) {
        let versions =
            ["v1", "v1beta1", "v1alpha1"].map(|version| format!("pod-security.admission.config.k8s.io/{version}"));
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        check_kind((&file.api_version, &file.kind), &versions, "PodSecurityConfiguration", errors);
        let defaults = &file.defaults;
        let mut standard = |mode: &str, level: &str, version: &str| Standard {
            level: parsed(&format!("defaults.{mode}"), level, Level::parse, errors),
            version: parsed(&format!("defaults.{mode}-version"), version, Version::parse, errors),
        };
        self.policy = Policy {
            enforce: standard("enforce", &defaults.enforce, &defaults.enforce_version),
            warn: standard("warn", &defaults.warn, &defaults.warn_version),
            audit: standard("audit", &defaults.audit, &defaults.audit_version),
        };
        let ExemptionsFile { usernames, namespaces, runtime_classes } = file.exemptions;
        let is_named = |name: &str| {
            if name.is_empty() { vec!["username must not be empty".to_owned()] } else { Vec::new() }
        };
        self.exemptions = Exemptions {
            namespaces: checked("exemptions.namespaces", namespaces, dns_label, errors),
            runtime_classes: checked("exemptions.runtimeClasses", runtime_classes, dns_subdomain, errors),
            usernames: checked("exemptions.usernames", usernames, is_named, errors),
        };
    }
}
