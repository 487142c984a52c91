//! Token requests of service accounts.

use serde_json::{Value, json};
use windlass_api::{GroupKind, GroupResource, Status, format_time};

use super::Review;
use crate::{
    authn::{Bound, Grant},
    kubernetes::KubernetesVersion,
    object::{Errors, Path, Tree, default_pointer, metadata_mut, object_mut},
    registry::Registry,
    resource::Target,
};

/// One hour, in seconds.
const DEFAULT_LIFETIME: i64 = 3600;
const MIN_LIFETIME: i64 = 600;
/// The lifetime that kubelets request to get only a warning after an hour. Such tokens are valid for a year.
const WARN_ONLY_LIFETIME: i64 = 3607;
const YEAR: i64 = 365 * 24 * 3600;

pub(super) const KIND: &str = "TokenRequest";

/// Sets the default lifetime, before admission.
pub(super) fn default(request: &mut Value) {
    default_pointer(object_mut(request, "spec"), "expirationSeconds", DEFAULT_LIFETIME);
}

/// Answers a `TokenRequest`.
pub(super) async fn create_token_request(mut review: Review<'_>) -> Result<Value, Status> {
    let (context, target) = (review.context, review.target);
    let object = &mut review.object;
    let kind = GroupKind::new("authentication.k8s.io", KIND);
    let (registry, issuer) = (context.registry, context.server.authenticator().issuer());
    let name = target.name.as_deref().unwrap_or_default();
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let given = object.text(&["metadata", "name"]);
    if !given.is_empty() && given != name {
        let mut errors = Errors::default();
        errors.invalid(&Path::new("metadata.name"), given, "must match the service account name if specified");
        errors.check(&kind, name)?;
    }
    let account = found(registry, "serviceaccounts", Some(namespace), name).await?;
    let uid = account.text(&["metadata", "uid"]).to_owned();
    // Before 1.34, the uid of a request is ignored.
    let has_uid = registry.resources().kubernetes() >= KubernetesVersion::V1_34;
    let given = object.text(&["metadata", "uid"]);
    if has_uid && !given.is_empty() && given != uid {
        let why =
            format!("the UID in the token request ({given}) does not match the UID of the service account ({uid})");
        return Err(Status::conflict(&GroupResource::new(kind.group, kind.kind), name, why));
    }
    let spec = object_mut(object, "spec");
    if spec.items(&["audiences"]).is_empty() {
        spec.insert("audiences".to_owned(), json!([issuer.audience()]));
    }
    let requested = spec.int(&["expirationSeconds"]).unwrap_or(DEFAULT_LIFETIME);
    let audiences: Vec<String> =
        spec.items(&["audiences"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut errors = Errors::default();
    let path = Path::new("spec.expirationSeconds");
    if requested < MIN_LIFETIME {
        errors.invalid(&path, &requested, "may not specify a duration less than 10 minutes");
    } else if requested > 1 << 32 {
        errors.invalid(&path, &requested, "may not specify a duration larger than 2^32 seconds");
    }
    // Served since 1.37. Tokens are not bound to webhook configurations here.
    if let Some(attestations) = spec.at(&["attestations"]) {
        let detail = "attestations may only be specified with a webhook bound object reference";
        errors.invalid(&Path::new("spec.attestations"), attestations, detail);
    }
    errors.check(&kind, "")?;
    review.admit().await?;
    let Review { mut object, write, .. } = review;
    let bound = match object.at(&["spec", "boundObjectRef"]) {
        Some(reference) => bound_to(registry, namespace, name, reference).await?,
        None => Vec::new(),
    };
    let to_pod = bound.iter().any(|bound| bound.kind == "pod");
    let extended = to_pod && requested == WARN_ONLY_LIFETIME && audiences == [issuer.audience()];
    let now = registry.clock().now();
    let id = registry.entropy().uuid();
    let grant = Grant {
        namespace,
        name,
        uid: &uid,
        bound: &bound,
        audiences: &audiences,
        lifetime: if extended { YEAR } else { requested },
        warn_after: extended.then_some(requested),
        id: &id,
    };
    let token = issuer.issue(&grant, now)?;
    write.context.audit.annotate("authentication.kubernetes.io/issued-credential-id", format!("JTI={id}"));
    tracing::debug!(namespace, name, id, dry_run = ?write.context.dry_run, "issued a token");
    let end = jiff::Timestamp::from_second(now.as_second().saturating_add(requested)).unwrap_or(jiff::Timestamp::MAX);
    let metadata = metadata_mut(&mut object);
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), namespace.into());
    if has_uid {
        metadata.insert("uid".to_owned(), uid.as_str().into());
    } else {
        metadata.shift_remove("uid");
    }
    metadata.insert("creationTimestamp".to_owned(), format_time(now).into());
    object["status"] = json!({"token": token, "expirationTimestamp": format_time(end)});
    Ok(object)
}

/// Returns the object that a token is bound to, and the node of a pod.
async fn bound_to(
    registry: &Registry,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<Vec<Bound>, Status> {
    let (kind, name) = (reference.text(&["kind"]), reference.text(&["name"]));
    let api_version = reference.text(&["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (bound, plural, namespace) = match (group, kind) {
        ("", "Pod") => ("pod", "pods", Some(namespace)),
        ("", "Secret") => ("secret", "secrets", Some(namespace)),
        ("", "Node") => ("node", "nodes", None),
        _ => {
            let text = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(text));
        }
    };
    let object = found(registry, plural, namespace, name).await?;
    let mut all = Vec::new();
    if bound == "pod" {
        if object.text(&["spec", "serviceAccountName"]) != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        let node = object.text(&["spec", "nodeName"]);
        if !node.is_empty() {
            let uid = match found(registry, "nodes", None, node).await {
                Ok(node) => node.text(&["metadata", "uid"]).to_owned(),
                Err(status) if status.is_not_found() => String::new(),
                Err(status) => return Err(status),
            };
            all.push(Bound { kind: "node", name: node.to_owned(), uid });
        }
    }
    let uid = object.text(&["metadata", "uid"]);
    let given = reference.text(&["uid"]);
    if !given.is_empty() && given != uid {
        let why = format!(
            "the UID in the bound object reference ({given}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Status::conflict(&GroupResource::new(group.to_owned(), kind.to_owned()), name, why));
    }
    all.push(Bound { kind: bound, name: name.to_owned(), uid: uid.to_owned() });
    Ok(all)
}

/// Returns an object of the core group, or a `NotFound` error.
async fn found(registry: &Registry, plural: &str, namespace: Option<&str>, name: &str) -> Result<Value, Status> {
    let table = registry.resources();
    let resource = table.get("", "v1", plural).ok_or_else(Status::unknown_resource)?;
    let target = Target::object(resource, namespace, name);
    let item = registry.peek(&target).await?;
    let item = item.ok_or_else(|| Status::not_found(&resource.group_resource(), name))?;
    Ok(item.value())
}
