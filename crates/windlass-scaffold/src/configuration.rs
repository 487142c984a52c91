//! Adds a webhook to the webhook configurations, in the format of `windlass generate webhooks`.

use serde_json::{Value, json};

use crate::{Changes, Error, documents::Documents, source::with_call};

const FILE: &str = "config/webhook/manifests.yaml";

/// The type of an admission webhook: mutating or validating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Defaulting,
    Validating,
}

/// A webhook of a kind.
pub(crate) struct Webhook<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) project: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) module: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) path: &'a str,
}

impl Purpose {
    const fn kind(self) -> &'static str {
        match self {
            Self::Defaulting => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }
}

impl Webhook<'_> {
    /// Adds the webhook to the manifests in the code and to the webhook configuration.
    pub(crate) fn declare(&self, changes: &mut Changes) -> Result<(), Error> {
        let Self { version, kind, module, .. } = self;
        let made = match self.purpose {
            Purpose::Defaulting => "defaulting",
            Purpose::Validating => "validating",
        };
        let call =
            format!(".webhook(windlass::manifests::Webhook::{made}::<crate::api::{version}::{module}::{kind}>())");
        changes.edit("src/manifests.rs", |path, text| with_call(path, text, "manifests", &call))?;
        let existing = changes.text(FILE)?;
        // A hand-written file is left to `windlass generate webhooks`.
        match self.among(existing.as_deref()) {
            Some(text) => changes.set(FILE, text),
            None => Ok(()),
        }
    }

    /// Returns the file's text with this webhook, sorted by name; `None` if the file is hand-written.
    fn among(&self, text: Option<&str>) -> Option<String> {
        let mut documents = Documents::of(text)?;
        let kind = self.purpose.kind();
        if documents.of_kind(kind).is_none() {
            let configuration = json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": self.project},
                "webhooks": [],
            });
            let place = if self.purpose == Purpose::Defaulting { 0 } else { documents.0.len() };
            documents.0.insert(place, configuration);
        }
        let webhooks = documents.of_kind(kind)?.get_mut("webhooks")?.as_array_mut()?;
        let webhook = self.value();
        match webhooks.iter_mut().find(|existing| existing["name"] == webhook["name"]) {
            // The existing entry already reflects later changes of the code.
            Some(_) => {}
            None => webhooks.push(webhook),
        }
        webhooks.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        Some(documents.text())
    }

    fn value(&self) -> Value {
        let Self { project, group, version, kind, plural, path, .. } = self;
        let verb = match self.purpose {
            Purpose::Defaulting => "default",
            Purpose::Validating => "validate",
        };
        json!({
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {
                    "name": format!("{project}-webhooks"),
                    "namespace": format!("{project}-system"),
                    "path": path,
                },
            },
            "failurePolicy": "Fail",
            "name": format!("{verb}.{}.{version}.{group}", kind.to_lowercase()),
            "rules": [{
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": ["CREATE", "UPDATE"],
                "resources": [plural],
            }],
            "sideEffects": "None",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn webhook(purpose: Purpose, kind: &'static str) -> Webhook<'static> {
        let (project, group, version) = ("shop", "g.io", "v1");
        Webhook { purpose, project, group, version, kind, module: "m", plural: "p", path: "/a" }
    }

    #[test]
    fn webhooks_come_in_the_order_of_names_and_once() {
        let judge = webhook(Purpose::Validating, "Site");
        let one = judge.among(None).unwrap();
        assert_eq!(judge.among(Some(&one)).unwrap(), one);
        let two = webhook(Purpose::Validating, "Gate").among(Some(&one)).unwrap();
        let three = webhook(Purpose::Defaulting, "Site").among(Some(&two)).unwrap();
        let names = three.lines().filter_map(|line| line.strip_prefix("  name: ")).collect::<Vec<_>>();
        assert_eq!(names, ["shop", "default.site.v1.g.io", "shop", "validate.gate.v1.g.io", "validate.site.v1.g.io"]);
        assert_eq!(judge.among(Some("kind: A\n")), None, "somebody else's");
    }
}
