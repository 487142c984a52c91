//! The plugin `ServiceAccount`: sets the account, the token and the image pull secrets of pods.

use std::{collections::HashSet, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use windlass_api::{GroupResource, Status};

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    kinds::ENFORCE_MOUNTABLE_SECRETS,
    object::{Tree, as_object, object_mut},
    registry::Registry,
    resource::Target,
};

/// The plugin `ServiceAccount`: a pod's account must exist, and the pod gets its token.
#[derive(Debug)]
pub(crate) struct ServiceAccounts;

/// The account of pods that name none. A controller creates it, shortly after the namespace.
const DEFAULT: &str = "default";
/// The number of attempts to find the default account.
const ATTEMPTS: usize = 10;
/// The minimum pause between two attempts. The maximum is twice as long.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The directory in which containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The prefix of the names of token volumes.
const VOLUME: &str = "kube-api-access-";
/// The requested lifetime of a token, in seconds. The seven seconds beyond an hour identify tokens requested by this
/// plugin.
const EXPIRATION: i64 = 3607;
/// The subresource that adds containers to a running pod.
const EPHEMERAL: &str = "ephemeralcontainers";
/// The lists of containers in a new pod, each with its name for messages.
const CONTAINERS: &[(&str, &str)] = &[("initContainers", "init container"), ("containers", "container")];
const EPHEMERAL_CONTAINERS: &[(&str, &str)] = &[("ephemeralContainers", "ephemeral container")];
/// The annotation of mirror pods, which represent a kubelet's static pods.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

impl Admission for ServiceAccounts {
    fn handles(&self, write: &Attributes) -> bool {
        let pods = write.resource.group.is_empty() && write.resource.kind == "Pod";
        let what = (write.operation, write.subresource.as_deref());
        pods && matches!(what, (Operation::Create, None) | (Operation::Update, Some(EPHEMERAL)))
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.operation != Operation::Create {
                return Ok(());
            }
            if is_mirror(&write.object) {
                return check_mirror(&write.object).map_err(|why| write.forbidden(why));
            }
            let spec = object_mut(&mut write.object, "spec");
            if spec.text(&["serviceAccountName"]).is_empty() {
                for key in ["serviceAccountName", "serviceAccount"] {
                    spec.insert(key.to_owned(), DEFAULT.into());
                }
            }
            let account = account_of(registry, write).await?;
            let spec = object_mut(&mut write.object, "spec");
            if automounts_token(spec, &account) {
                mount_token(spec, || format!("{VOLUME}{}", registry.entropy().name_suffix(5)));
            }
            let pull = account.items(&["imagePullSecrets"]);
            if spec.items(&["imagePullSecrets"]).is_empty() && !pull.is_empty() {
                let names: Vec<_> = pull.iter().map(|secret| json!({"name": secret.text(&["name"])})).collect();
                spec.insert("imagePullSecrets".to_owned(), names.into());
            }
            // A violation of the account's rules is reported before errors of the pod.
            check_account(&write.object, &account, write.operation).map_err(|why| write.forbidden(why))
        })
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.operation == Operation::Create && is_mirror(&write.object) {
                return check_mirror(&write.object).map_err(|why| write.forbidden(why));
            }
            if write.object.text(&["spec", "serviceAccountName"]).is_empty() {
                let pod = write.object.text(&["metadata", "name"]);
                return Err(write.forbidden(format!("no service account specified for pod {}/{pod}", write.namespace)));
            }
            let account = account_of(registry, write).await?;
            check_account(&write.object, &account, write.operation).map_err(|why| match write.operation {
                Operation::Create => write.forbidden(why),
                // In kube-apiserver this error has status 500 and no reason.
                Operation::Update | Operation::Delete | Operation::Connect => Status::unclassified(why),
            })
        })
    }
}

/// Returns the account that a pod names.
async fn account_of(registry: &Registry, write: &Attributes) -> Result<Value, Status> {
    let name = write.object.text(&["spec", "serviceAccountName"]);
    let attempts = if name == DEFAULT { ATTEMPTS } else { 1 };
    let resources = registry.resources();
    let pause = registry.entropy().jitter(RETRY_PAUSE, 1.0);
    if let Some(accounts) = resources.get("", "v1", "serviceaccounts") {
        let target = Target::object(accounts, Some(&write.namespace), name);
        for attempt in 0..attempts {
            if attempt > 0 {
                sleep(pause).await;
            }
            if let Some(account) = registry.peek_recent(&target).await? {
                return Ok(account.value());
            }
        }
    }
    let missing = Status::not_found(&GroupResource::new("", "serviceaccount"), name);
    let namespace = &write.namespace;
    Err(write.forbidden(format!("error looking up service account {namespace}/{name}: {}", missing.message)))
}

/// Reports whether a token is mounted. The pod's own setting overrides the account's.
fn automounts_token(spec: &Map<String, Value>, account: &Value) -> bool {
    const FIELD: &str = "automountServiceAccountToken";
    let setting = spec.get(FIELD).or_else(|| account.get(FIELD));
    setting.and_then(Value::as_bool).unwrap_or(true)
}

/// Mounts the token into every container that has no other volume mounted at the same path.
fn mount_token(spec: &mut Map<String, Value>, new_name: impl FnOnce() -> String) {
    let volumes = spec.items(&["volumes"]).iter();
    let known = volumes.map(|volume| volume.text(&["name"])).find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let is_known = known.is_some();
    let name = known.unwrap_or_else(new_name);
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = container.items(&["volumeMounts"]);
            if !mounts.iter().any(|mount| mount.text(&["mountPath"]) == MOUNT_PATH) {
                let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
                push(as_object(container), "volumeMounts", mount);
                is_mounted = true;
            }
        }
    }
    if is_mounted && !is_known {
        push(spec, "volumes", token_volume(&name));
    }
}

/// Returns a volume with a token, the cluster CA certificate and the pod's namespace.
fn token_volume(name: &str) -> Value {
    let token = json!({"expirationSeconds": EXPIRATION, "path": "token"});
    let authority = json!({"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]});
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let namespace = json!({"items": [{"path": "namespace", "fieldRef": field}]});
    let sources = json!([{"serviceAccountToken": token}, {"configMap": authority}, {"downwardAPI": namespace}]);
    json!({"name": name, "projected": {"sources": sources, "defaultMode": 0o644}})
}

fn push(map: &mut Map<String, Value>, key: &str, item: Value) {
    match map.entry(key).or_insert(Value::Null) {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR_ANNOTATION]).is_some()
}

/// Rejects mirror pods that use API objects, for example secrets or a service account.
fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    if !pod.text(&["spec", "serviceAccountName"]).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    let volumes = pod.items(&["spec", "volumes"]);
    let pulls = !pod.items(&["spec", "imagePullSecrets"]).is_empty();
    let in_containers =
        || [CONTAINERS, EPHEMERAL_CONTAINERS].into_iter().any(|lists| secrets_of(pod, lists).next().is_some());
    if pulls || volumes.iter().any(names_secret) || in_containers() {
        return Err("a mirror pod may not reference secrets");
    }
    let mut sources = volumes.iter().flat_map(|volume| volume.items(&["projected", "sources"]));
    if sources.any(|source| source.at(&["serviceAccountToken"]).is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// Reports whether a volume refers to a secret, in any of its sources.
fn names_secret(volume: &Value) -> bool {
    const SECRET_FIELDS: [&str; 3] = ["secretName", "secretRef", "nodePublishSecretRef"];
    let sources = volume.entries(&[]).map(|(_, source)| source);
    let mut parts = sources.flat_map(|source| std::iter::once(source).chain(source.items(&["sources"])));
    parts.any(|part| part.at(&["secret"]).is_some() || SECRET_FIELDS.iter().any(|field| part.at(&[field]).is_some()))
}

/// Checks that a new pod, or its new ephemeral containers, use only secrets that the account allows.
fn check_account(pod: &Value, account: &Value, operation: Operation) -> Result<(), String> {
    let annotation = account.at(&["metadata", "annotations", ENFORCE_MOUNTABLE_SECRETS]).and_then(Value::as_str);
    // The values that Go's `strconv.ParseBool` accepts as true.
    let is_enforced = matches!(annotation, Some("1" | "t" | "T" | "true" | "TRUE" | "True"));
    match operation {
        _ if !is_enforced => Ok(()),
        Operation::Create => check_secrets(pod, account),
        Operation::Update | Operation::Delete | Operation::Connect => {
            check_containers(pod, EPHEMERAL_CONTAINERS, account)
        }
    }
}

/// Checks that the account lists all secrets of a pod.
fn check_secrets(pod: &Value, account: &Value) -> Result<(), String> {
    let secrets = secret_names(account, "secrets");
    for volume in pod.items(&["spec", "volumes"]) {
        let secret = volume.text(&["secret", "secretName"]);
        if volume.at(&["secret"]).is_some() && !secrets.contains(secret) {
            return Err(not_referenced(account, &format!("volume with secret.secretName=\"{secret}\""), "secret"));
        }
    }
    check_containers(pod, CONTAINERS, account)?;
    let secrets = secret_names(account, "imagePullSecrets");
    for (index, secret) in pod.items(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = secret.text(&["name"]);
        if !secrets.contains(secret) {
            return Err(not_referenced(
                account,
                &format!("imagePullSecrets[{index}].name=\"{secret}\""),
                "imagePullSecret",
            ));
        }
    }
    Ok(())
}

fn check_containers(pod: &Value, containers: &'static [(&str, &str)], account: &Value) -> Result<(), String> {
    let secrets = secret_names(account, "secrets");
    match secrets_of(pod, containers).find(|(_, secret)| !secrets.contains(&**secret)) {
        None => Ok(()),
        Some((place, secret)) => {
            Err(not_referenced(account, &format!("{place} referencing secret.secretName=\"{secret}\""), "secret"))
        }
    }
}

/// Returns the names in one of an account's lists of secrets.
fn secret_names<'v>(account: &'v Value, list: &str) -> HashSet<&'v str> {
    account.items(&[list]).iter().map(|listed| listed.text(&["name"])).collect()
}

fn not_referenced(account: &Value, what: &str, kind: &str) -> String {
    let name = account.text(&["metadata", "name"]);
    format!("{what} is not allowed because service account {name} does not reference that {kind}")
}

/// Returns the secrets in the environments of containers, each with the place of its reference.
fn secrets_of<'p>(pod: &'p Value, lists: &'static [(&str, &str)]) -> impl Iterator<Item = (String, &'p str)> {
    lists.iter().flat_map(move |(list, kind)| {
        pod.items(&["spec", list]).iter().flat_map(move |container| {
            let owner = format!("{kind} {}", container.text(&["name"]));
            let whole = format!("{owner} with envFrom");
            let single = container.items(&["env"]).iter().filter_map(move |variable| {
                let secret = variable.at(&["valueFrom", "secretKeyRef"])?;
                Some((format!("{owner} with envVar {}", variable.text(&["name"])), secret.text(&["name"])))
            });
            let whole = container
                .items(&["envFrom"])
                .iter()
                .filter_map(move |source| Some((whole.clone(), source.at(&["secretRef"])?.text(&["name"]))));
            single.chain(whole)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Map<String, Value> {
        let elsewhere = json!({"name": "other", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]});
        let Value::Object(spec) = json!({"containers": [{"name": "main"}, elsewhere]}) else { unreachable!() };
        spec
    }

    #[test]
    fn token_is_mounted_unless_path_or_volume_exists() {
        let mut pod = spec();
        mount_token(&mut pod, || format!("{VOLUME}abcde"));
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-abcde");
        assert_eq!(pod["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
        assert_eq!(pod["volumes"].as_array().unwrap().len(), 1);
        assert_eq!(pod["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3607);

        let before = pod.clone();
        mount_token(&mut pod, || unreachable!("the pod has a volume"));
        assert_eq!(pod, before, "a pod copied from another one keeps its volume");
    }

    #[test]
    fn pod_and_account_can_opt_out_of_the_token() {
        let declines = json!({"automountServiceAccountToken": false});
        let mut pod = spec();
        assert!(automounts_token(&pod, &json!({})) && !automounts_token(&pod, &declines));
        pod.insert("automountServiceAccountToken".to_owned(), true.into());
        assert!(automounts_token(&pod, &declines));
    }

    #[test]
    fn account_can_restrict_the_secrets_of_its_pods() {
        let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "listed"}]});
        let with = |secret: &str| {
            let variable = json!({"name": "X", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}});
            json!({"spec": {"containers": [{"name": "main", "env": [variable]}]}})
        };
        assert_eq!(check_secrets(&with("listed"), &account), Ok(()));
        let refused = check_secrets(&with("other"), &account).unwrap_err();
        let expected = "container main with envVar X referencing secret.secretName=\"other\" is not allowed because \
                        service account robot does not reference that secret";
        assert_eq!(refused, expected);
        let pull = json!({"spec": {"imagePullSecrets": [{"name": "listed"}]}});
        let refused = check_secrets(&pull, &account).unwrap_err();
        assert!(refused.ends_with("does not reference that imagePullSecret"), "{refused}");
    }

    #[test]
    fn mirror_pod_with_secrets_is_rejected() {
        let mirror = |spec: Value| check_mirror(&json!({"spec": spec}));
        assert_eq!(mirror(json!({})), Ok(()));
        assert!(mirror(json!({"serviceAccountName": "default"})).is_err());
        assert!(mirror(json!({"volumes": [{"secret": {"secretName": "x"}}]})).is_err());
        assert!(mirror(json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]})).is_err());
        assert!(mirror(json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "x"}}]}}]})).is_err());
        assert!(mirror(json!({"volumes": [{"rbd": {"secretRef": {"name": "x"}}}]})).is_err());
        assert!(mirror(json!({"imagePullSecrets": [{"name": "x"}]})).is_err());
        assert_eq!(mirror(json!({"volumes": [{"projected": {"sources": [{"configMap": {"name": "x"}}]}}]})), Ok(()));
    }
}
