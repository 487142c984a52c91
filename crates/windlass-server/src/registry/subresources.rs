//! Subresources that are created but not stored: pod bindings and evictions.

mod eviction;

use serde_json::{Value, json};
use windlass_api::{FieldValidation, GroupResource, Status, StatusDetails};

use super::{
    Registry, ResponseBody, WriteParams, Written, record_request,
    update::{WriteScope, precondition_failed},
};
use crate::{
    codec,
    kubernetes::KubernetesVersion,
    registry::{Attributes, Operation, SubresourceKind},
};
use crate::{
    object::{Errors, Path, Tree, dns_subdomain, metadata_mut, object_mut},
    resource::{Body, Target},
};

impl Registry {
    pub(super) async fn create_subresource(
        &self,
        target: &Target,
        subresource: &str,
        body: &Body,
        params: &WriteParams,
    ) -> Result<Written, Status> {
        let Some(info) = target.resource.subresource(subresource) else { return Err(Status::unknown_resource()) };
        let kubernetes = self.resources().kubernetes();
        let plan = codec::plan_of(kubernetes, &info.group, &info.version, &info.kind);
        let Some(plan) = plan.filter(|_| info.verbs.iter().any(|verb| verb == "create")) else {
            return Err(Status::method_not_allowed());
        };
        let shape = crate::resource::Shape::BuiltIn(plan);
        let decoded = shape.decode(body, params.field_validation)?;
        params.warnings.extend(decoded.warnings);
        record_request(&params.audit, &shape, &decoded.value);
        let mut object = decoded.value;
        super::meta::set_namespace(target, &mut object)?;
        let write = Attributes::new(Operation::Create, target, object, params.context(target));
        let mut write = write.with_kind(SubresourceKind::from(info));
        self.admit(&mut write).await?;
        if write.object.text(&["metadata", "name"]) != target.name() {
            return Err(Status::bad_request(format!("name in URL does not match name in {} object", info.kind)));
        }
        match subresource {
            "binding" => {
                check_binding(&write.object, kubernetes)?;
                self.validate_admission(&mut write).await?;
                self.bind(target, &write.object, params).await?;
            }
            "eviction" => {
                let deletion = eviction::deletion(&write.object, params, kubernetes)?;
                self.validate_admission(&mut write).await?;
                self.evict(target, deletion, params).await?;
            }
            _ => return Err(Status::method_not_allowed()),
        }
        Ok(Self::created())
    }

    /// Performs a binding that was sent to the `bindings` collection and names its pod.
    pub(crate) async fn create_binding(
        &self,
        target: &Target,
        body: &Body,
        params: &WriteParams,
    ) -> Result<Written, Status> {
        let decoded = target.resource.shape.decode(body, params.field_validation)?;
        params.warnings.extend(decoded.warnings);
        record_request(&params.audit, &target.resource.shape, &decoded.value);
        let mut object = decoded.value;
        super::meta::set_namespace(target, &mut object)?;
        let name = object.text(&["metadata", "name"]).to_owned();
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let table = self.resources();
        let pods = table.get("", "v1", "pods").ok_or_else(Status::unknown_resource)?;
        let write = Attributes::new(Operation::Create, target, object, params.context(target));
        let mut write = Attributes { name: name.clone(), ..write };
        self.admit(&mut write).await?;
        check_binding(&write.object, table.kubernetes())?;
        self.validate_admission(&mut write).await?;
        let pod = Target::object(pods, target.namespace.as_deref(), &name).subresource("binding");
        self.bind(&pod, &write.object, params).await?;
        Ok(Self::created())
    }

    /// Returns the response to the creation of an object that is not stored.
    fn created() -> Written {
        let status = Status { code: 201, details: None, ..Status::success(StatusDetails::default()) };
        Written { answer: ResponseBody::Status(status), created: true }
    }

    /// Binds a pod to a node.
    async fn bind(&self, target: &Target, binding: &Value, params: &WriteParams) -> Result<(), Status> {
        let node = binding.text(&["target", "name"]);
        let pod = Target { subresource: None, ..target.clone() };
        let name = target.name();
        let refused = |why: String| Err(Status::conflict(&GroupResource::new("", "pods/binding"), name, why));
        let propose = |old: Option<&Value>| {
            let old = old.ok_or_else(|| Status::not_found(&target.group_resource(), name))?;
            for (field, shown) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
                let (given, found) = (binding.text(&["metadata", field]), old.text(&["metadata", field]));
                if !given.is_empty() && given != found {
                    return Err(precondition_failed(target, params.dry_run, shown, given, found));
                }
            }
            if old.at(&["metadata", "deletionTimestamp"]).is_some() {
                return refused(format!("pod {name} is being deleted, cannot be assigned to a host"));
            }
            let assigned = old.text(&["spec", "nodeName"]);
            if !assigned.is_empty() {
                return refused(format!("pod {name} is already assigned to node {assigned:?}"));
            }
            if !old.items(&["spec", "schedulingGates"]).is_empty() {
                return refused(format!("pod {name} has non-empty .spec.schedulingGates"));
            }
            let mut new = old.clone();
            object_mut(&mut new, "spec").insert("nodeName".to_owned(), node.into());
            // Before 1.35, a binding has no labels for the pod.
            let has_labels = self.resources().kubernetes() >= KubernetesVersion::V1_35;
            for map in if has_labels { &["annotations", "labels"][..] } else { &["annotations"] } {
                for (key, value) in binding.entries(&["metadata", *map]) {
                    let entry = metadata_mut(&mut new).entry(*map).or_insert_with(|| json!({}));
                    crate::object::as_object(entry).insert(key.clone(), value.clone());
                }
            }
            self.set_condition(&mut new, "PodScheduled", "True");
            Ok(new)
        };
        let params = WriteParams { field_validation: FieldValidation::Ignore, ..params.clone() };
        self.change(&pod, WriteScope::Internal, &params, propose).await?;
        Ok(())
    }

    /// Sets a condition of a pod and clears its nominated node. The transition time changes only if the condition's
    /// status does.
    fn set_condition(&self, pod: &mut Value, kind: &str, value: &str) {
        let now = windlass_api::format_time(self.clock().now());
        let status = object_mut(pod, "status");
        if self.resources().kubernetes() >= KubernetesVersion::V1_35 {
            status.shift_remove("nominatedNodeName");
        }
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        let Some(conditions) = conditions.as_array_mut() else { return };
        let new = json!({"type": kind, "status": value, "lastProbeTime": null, "lastTransitionTime": now});
        match conditions.iter_mut().find(|condition| condition.text(&["type"]) == kind) {
            Some(old) if old.text(&["status"]) == value => {}
            Some(old) => *old = new,
            None => conditions.push(new),
        }
    }
}

/// Checks that a binding names a node.
fn check_binding(binding: &Value, kubernetes: KubernetesVersion) -> Result<(), Status> {
    let kind = binding.text(&["target", "kind"]);
    let mut errors = Errors::default();
    if !kind.is_empty() && kind != "Node" {
        errors.unsupported(&Path::new("target.kind"), kind, &["Node", "<empty>"]);
    }
    let (name, path) = (binding.text(&["target", "name"]), Path::new("target.name"));
    if name.is_empty() {
        errors.required(&path, "");
    } else if kubernetes >= KubernetesVersion::V1_37 && matches!(kind, "" | "Node") {
        errors.invalid_each(&path, name, dns_subdomain(name));
    }
    let causes = errors.into_causes();
    let texts: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [only] => Err(Status::unclassified(only.clone())),
        several => Err(Status::unclassified(format!("[{}]", several.join(", ")))),
    }
}
