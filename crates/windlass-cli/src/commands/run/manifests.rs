//! The manifests applied to the cluster while the manager keeps running this machine: CustomResourceDefinitions, and webhooks
//! that are called here.

use std::{
    collections::BTreeSet,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use windlass_api::{ApiResource, DynamicObject, ErrorChain, GroupVersionKind, ObjectExt as _};
use windlass_cel::RuleError;
use windlass_client::{Client, read_manifests, wait};

/// The field manager of the applied objects.
const OWNER: &str = "windlass-run";

/// The folder of the CustomResourceDefinitions.
pub(super) const DEFINITIONS: &str = "config/crd/bases";
const WEBHOOKS: &str = "config/webhook";

/// The timeout for the API server to serve a kind, and for the manager to set its CA bundles.
const PATIENCE: Duration = Duration::from_secs(30);

/// A kind of object that configures the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Definition,
    Mutating,
    Validating,
}

/// The manifests of a project, with all webhooks at an address on this machine.
#[derive(Debug, Default)]
pub(super) struct Manifests(Vec<(Kind, DynamicObject)>);

/// The objects of the last application. Objects that are missing in the next one are deleted.
#[derive(Debug, Default)]
pub(super) struct Applied(BTreeSet<(Kind, String)>);

impl Kind {
    const ALL: [Self; 3] = [Self::Definition, Self::Mutating, Self::Validating];

    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Definition => ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
            Self::Mutating => {
                ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
            }
            Self::Validating => {
                ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
            }
        }
    }

    fn resource(self) -> ApiResource {
        let (group, kind, plural) = self.names();
        ApiResource::namespaced(GroupVersionKind::new(group, "v1", kind), plural).cluster_scoped()
    }

    /// Returns the kind of an object, if it is one of them.
    fn of(object: &DynamicObject) -> Option<Self> {
        let types = object.types.as_ref()?;
        Self::ALL.into_iter().find(|kind| {
            let (group, name, _) = kind.names();
            types.kind == name && types.api_version == format!("{group}/v1")
        })
    }

    /// Returns the client configurations of an object's webhooks.
    fn calls(self, object: &mut DynamicObject) -> Vec<&mut Value> {
        match self {
            Self::Definition => object
                .data
                .get_mut("spec")
                .and_then(|spec| spec.pointer_mut("/conversion/webhook/clientConfig"))
                .into_iter()
                .collect(),
            Self::Mutating | Self::Validating => {
                let webhooks = object.data.get_mut("webhooks").and_then(Value::as_array_mut);
                webhooks.into_iter().flatten().filter_map(|webhook| webhook.get_mut("clientConfig")).collect()
            }
        }
    }
}

impl Manifests {
    /// Reads the CustomResourceDefinitions and webhooks of a project. Webhooks of a service are redirected to
    /// `address`.
    pub(super) fn of(project: &Path, address: SocketAddr) -> Result<Self, String> {
        let mut manifests = Self::default();
        for folder in [DEFINITIONS, WEBHOOKS] {
            for file in files(&project.join(folder))? {
                let text = fs::read_to_string(&file).map_err(|error| format!("reading {}: {error}", file.display()))?;
                manifests.read(&text, address).map_err(|error| format!("{}: {error}", file.display()))?;
            }
        }
        Ok(manifests)
    }

    fn read(&mut self, text: &str, address: SocketAddr) -> Result<(), String> {
        for mut object in read_manifests(text).map_err(|error| ErrorChain(&error).to_string())? {
            let Some(kind) = Kind::of(&object) else { continue };
            for call in kind.calls(&mut object) {
                if let Some(service) = call.get("service") {
                    let path = service["path"].as_str().unwrap_or_default().trim_start_matches('/');
                    *call = json!({"url": format!("https://{address}/{path}")});
                }
            }
            self.0.push((kind, object));
        }
        Ok(())
    }

    /// Applies the manifests and waits until new kinds are served. Deletes webhook configurations that the project no
    /// longer has; CustomResourceDefinitions and their objects remain.
    pub(super) async fn apply(&self, client: &Client, applied: &mut Applied) -> Result<(), String> {
        for (kind, object) in &self.0 {
            let name = object.name();
            let objects = client.dynamic(&kind.resource());
            let failed =
                |error: windlass_client::Error| format!("applying {} {name}: {}", kind.names().1, refused(&error));
            objects.apply(object).field_manager(OWNER).force().await.map_err(failed)?;
            applied.0.insert((*kind, name.to_owned()));
            if *kind == Kind::Definition {
                let established = wait::condition::<DynamicObject>("Established", "True");
                objects.wait_for(name).timeout(PATIENCE).until(established).await.map_err(failed)?;
            }
        }
        let there: BTreeSet<_> = self.0.iter().map(|(kind, object)| (*kind, object.name().to_owned())).collect();
        for (kind, name) in applied.0.difference(&there).filter(|(kind, _)| *kind != Kind::Definition) {
            let gone = client.dynamic(&kind.resource()).delete(name.as_str()).await;
            if let Err(error) = gone
                && !error.status().is_some_and(windlass_api::Status::is_not_found)
            {
                return Err(format!("deleting {} {name}: {}", kind.names().1, ErrorChain(&error)));
            }
        }
        applied.0 = there;
        Ok(())
    }

    /// Waits until the manager has set the CA bundle of all its webhooks. The error names the first object without one.
    pub(super) async fn trusted(&self, client: &Client) -> Result<(), String> {
        for (kind, object) in &self.0 {
            if kind.calls(&mut object.clone()).is_empty() {
                continue;
            }
            let name = object.name();
            let told = |found: Option<&DynamicObject>| {
                let is_told = |call: &mut Value| {
                    call.get("caBundle").is_some_and(|bundle| bundle.as_str().is_some_and(|bundle| !bundle.is_empty()))
                };
                found.is_some_and(|found| kind.calls(&mut found.clone()).into_iter().all(is_told))
            };
            let waited = client.dynamic(&kind.resource()).wait_for(name).timeout(PATIENCE).until(told).await;
            waited.map_err(|error| {
                format!("the manager has not set the CA bundle in {} {name}: {}", kind.names().1, ErrorChain(&error))
            })?;
        }
        Ok(())
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the server's reason for a rejection. Validation rules are described by version, field and expression instead
/// of the server's JSON.
fn refused(error: &windlass_client::Error) -> String {
    let causes = error.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
    let rule = |cause: &windlass_api::Cause| {
        let RuleError { field, rule, why } = RuleError::of(cause)?;
        Some(format!("\n  {field}: rule {:?}: {why}", rule.unwrap_or_default()))
    };
    let rules: String = causes.into_iter().flatten().filter_map(rule).collect();
    if rules.is_empty() { ErrorChain(error).to_string() } else { format!("the server rejected it:{rules}") }
}

/// Returns the YAML files of a folder, sorted by name; empty if it does not exist.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: io::Error| format!("reading {}: {error}", folder.display());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if is_yaml && path.file_name().is_some_and(|name| name != "kustomization.yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.shop.example.com}
spec:
  group: shop.example.com
  names: {kind: Site, plural: sites}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {name: s, namespace: n, path: /convert}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

    const WEBHOOKS: &str = r"
apiVersion: v1
kind: Service
metadata: {name: s}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: shop-site}
webhooks:
- name: validate.site.shop.example.com
  clientConfig: {service: {name: s, namespace: n, path: /validate}}
  admissionReviewVersions: [v1]
  sideEffects: None
";

    fn manifests(texts: &[&str]) -> Manifests {
        let mut manifests = Manifests::default();
        for text in texts {
            manifests.read(text, "127.0.0.1:9443".parse().unwrap()).unwrap();
        }
        manifests
    }

    #[tokio::test]
    async fn webhooks_use_local_url_and_apply_keeps_ca_bundle() {
        let client = crate::testing::client();
        let mut applied = Applied::default();
        let all = manifests(&[DEFINITION, WEBHOOKS]);
        assert_eq!(all.len(), 2, "a Service is not applied");
        all.apply(&client, &mut applied).await.unwrap();
        let definitions = client.dynamic(&Kind::Definition.resource());
        let webhooks = client.dynamic(&Kind::Validating.resource());
        let conversion = definitions.get("sites.shop.example.com").await.unwrap().data["spec"]["conversion"].clone();
        assert_eq!(conversion["webhook"]["clientConfig"], json!({"url": "https://127.0.0.1:9443/convert"}));
        let found = webhooks.get("shop-site").await.unwrap();
        assert_eq!(found.data["webhooks"][0]["clientConfig"], json!({"url": "https://127.0.0.1:9443/validate"}));

        // Sets the CA bundle, as the manager does.
        let patch = |path: &str| windlass_api::Patch::Json(json!([{"op": "add", "path": path, "value": "Q0E="}]));
        webhooks.patch("shop-site", patch("/webhooks/0/clientConfig/caBundle")).await.unwrap();
        all.apply(&client, &mut applied).await.unwrap();
        let told = webhooks.get("shop-site").await.unwrap();
        assert_eq!(told.data["webhooks"][0]["clientConfig"]["caBundle"], "Q0E=");
        manifests(&[WEBHOOKS]).trusted(&client).await.unwrap();

        // A removed webhook configuration is deleted; the project's kinds remain.
        manifests(&[]).apply(&client, &mut applied).await.unwrap();
        assert!(webhooks.get_opt("shop-site").await.unwrap().is_none());
        assert!(definitions.get_opt("sites.shop.example.com").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn rejected_rule_is_reported_by_field_and_expression() {
        let rule = "x-kubernetes-validations: [{rule: self.size( > 1, message: no}]";
        let spec = format!("{{type: object, properties: {{spec: {{type: string, {rule}}}}}}}");
        let wrong = DEFINITION.replace("{type: object}", &spec);
        let client = crate::testing::client();
        let error = manifests(&[&wrong]).apply(&client, &mut Applied::default()).await.unwrap_err();
        let expected = "applying CustomResourceDefinition sites.shop.example.com: the server rejected it:\n  spec: rule \"self.size( > 1\": \
                        compilation failed: ERROR: <input>:1:12";
        assert!(error.starts_with(expected) && !error.contains("OptionalOldSelf"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn unserved_webhooks_are_named() {
        let client = crate::testing::client();
        let webhooks = manifests(&[WEBHOOKS]);
        webhooks.apply(&client, &mut Applied::default()).await.unwrap();
        let error = webhooks.trusted(&client).await.unwrap_err();
        assert!(
            error.starts_with("the manager has not set the CA bundle in ValidatingWebhookConfiguration shop-site"),
            "{error}"
        );
    }
}
