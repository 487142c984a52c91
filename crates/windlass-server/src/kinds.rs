//! The built-in kinds: one table of rules, and the functions that a rule cannot express.
//!
//! A row says where a kind is stored, which of its subresources are served, and what differs from most kinds. Names,
//! verbs and scopes come from the catalog of what a real server serves.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;
use windlass_api::{Clock, Entropy, Status};

use self::service::{Addresses, ServiceCidr};
pub(crate) use self::{pod_defaults::add_amounts, quantity::amount, scheduling::SYSTEM_CLASSES};
use crate::{
    apiextensions,
    authn::User,
    codec,
    discovery::catalog::{CatalogResource, catalog},
    registry::{
        Conversion, Deletion, Dependents, Effect, Errors, FieldRule, Generation, NameRule, Part, Path, Resets,
        ResourceInfo, Rules, ScaleRule, Shape, StatusRule, Strategy, SubresourceInfo,
    },
};

mod autoscaling;
mod certificates;
mod components;
mod core;
mod cron;
mod devices;
mod endpoints;
mod event;
pub(crate) mod flowcontrol;
mod hooks;
mod jobs;
mod limits;
mod networking;
mod pod;
mod pod_defaults;
mod pod_parts;
mod pod_rules;
mod pod_warnings;
mod quantity;
mod rbac;
pub(crate) mod registration;
mod scheduling;
mod selector;
pub(crate) mod service;
mod storage;
mod volumes;
mod workload;

#[cfg(test)]
mod tests;

/// What the built-in kinds need to know of the server.
#[derive(Clone, Debug)]
pub(crate) struct KindOptions {
    /// Where the addresses of services come from.
    pub(crate) service_cidr: ServiceCidr,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
}

/// One row of the table.
struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    prefix: &'static str,
    /// Those that are served, beside what the catalog knows.
    subresources: &'static [&'static str],
    rules: Rules,
    /// Whether it has replicas to scale, `spec.replicas`, and a selector.
    scales: bool,
    default: fn(&mut Value),
    prepare_create: fn(&mut Value),
    prepare_update: fn(&mut Value, &Value),
    prepare_status: fn(&mut Value, &Value),
    prepare_part: fn(Part, &mut Value, &Value),
    /// Writes into a new object who makes it.
    sign: fn(&mut Value, &User),
    /// Writes the time of a creation or of a change of the status into an object that keeps it; `old` is none for
    /// creations.
    stamp: Option<fn(&mut Value, Option<&Value>, &str)>,
    validate: fn(&Value, &mut Errors),
    validate_create: fn(&Value, &mut Errors),
    validate_update: fn(&Value, &Value, &mut Errors),
    validate_status: fn(&Value, &Value, &mut Errors),
    validate_part: fn(Part, &Value, &Value, &mut Errors),
    warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// The fields whose value is not just what stands at their path.
    field: fn(&Value, &str) -> Option<String>,
    deprecation: Option<&'static str>,
    /// The objects of a kind that is not stored.
    fixed: Option<fn() -> Vec<Value>>,
    /// How it differs from what is stored; none when it is what is stored.
    view: Option<View>,
}

/// A version that is made from another one on reading, and turned into it before anything is checked.
struct View {
    /// Group and version of what is stored.
    stored: (&'static str, &'static str),
    from_stored: fn(Value) -> Value,
    to_stored: fn(Value) -> Value,
}

const BASE: Kind = Kind {
    group: "",
    version: "v1",
    name: "",
    prefix: "",
    subresources: &[],
    rules: Rules::COMMON,
    scales: false,
    default: |_| {},
    prepare_create: |_| {},
    prepare_update: |_, _| {},
    prepare_status: |_, _| {},
    prepare_part: |_, _, _| {},
    sign: |_, _| {},
    stamp: None,
    validate: |_, _| {},
    validate_create: |_, _| {},
    validate_update: |_, _, _| {},
    validate_status: |_, _, _| {},
    validate_part: |_, _, _, _| {},
    warnings: |_, _| Vec::new(),
    field: |_, _| None,
    deprecation: None,
    fixed: None,
    view: None,
};

/// What is asked rather than stored.
const QUESTION: Kind = BASE;

/// What workloads have in common.
const WORKLOAD: Rules = Rules { generation: Generation::Spec, ..Rules::WITH_STATUS };

/// The strategy of a built-in kind.
struct BuiltIn {
    kind: &'static Kind,
    rules: Rules,
    clock: Clock,
}

/// The strategy of services, which have addresses to give out.
#[derive(Debug)]
struct ServiceStrategy {
    common: BuiltIn,
    addresses: Arc<Addresses>,
}

/// All kinds; those of a module of their own bring their rows along.
static TABLES: &[&[Kind]] = &[
    KINDS,
    autoscaling::KINDS,
    components::KINDS,
    certificates::KINDS,
    devices::KINDS,
    flowcontrol::KINDS,
    hooks::KINDS,
    limits::KINDS,
    networking::KINDS,
    rbac::KINDS,
    registration::KINDS,
    scheduling::KINDS,
    storage::KINDS,
    volumes::KINDS,
];

const KINDS: &[Kind] = &[
    Kind { name: "Binding", ..QUESTION },
    Kind {
        name: "Pod",
        prefix: "/registry/pods/",
        subresources: &[
            "status",
            "binding",
            "eviction",
            "attach",
            "exec",
            "log",
            "portforward",
            "proxy",
            "ephemeralcontainers",
            "resize",
        ],
        rules: Rules {
            resets: Resets {
                status: &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
                ..Resets::STATUS
            },
            generation: Generation::Spec,
            returns_deleted: true,
            deletion: Deletion::Graceful,
            fields: pod::FIELDS,
            ..Rules::WITH_STATUS
        },
        default: pod_defaults::default_pod,
        prepare_create: pod::prepare_create,
        prepare_status: pod::prepare_status,
        prepare_part: pod_parts::prepare,
        validate: pod_rules::validate_pod,
        validate_create: pod_rules::validate_new_pod,
        validate_update: pod::validate_update,
        validate_part: pod_parts::validate,
        field: pod::field,
        validate_status: pod::validate_status,
        warnings: pod_warnings::of_pod,
        ..BASE
    },
    Kind {
        name: "PodTemplate",
        prefix: "/registry/podtemplates/",
        rules: Rules { generation: Generation::Content, returns_deleted: true, ..Rules::COMMON },
        default: |object| pod_defaults::default_template(object, "template"),
        validate: |object, errors| {
            let nothing = Value::Null;
            let template = object.get("template").unwrap_or(&nothing);
            workload::validate_pod_template(template, &Path::new("template"), errors);
        },
        warnings: pod_warnings::of_pod_template,
        ..BASE
    },
    Kind {
        name: "ReplicationController",
        prefix: "/registry/controllers/",
        subresources: &["status", "scale"],
        rules: Rules { fields: &[FieldRule { label: "status.replicas", path: "status.replicas" }], ..WORKLOAD },
        scales: true,
        default: workload::default_replication_controller,
        validate: workload::validate_replication_controller,
        warnings: pod_warnings::of_workload,
        ..BASE
    },
    Kind {
        name: "Service",
        prefix: "/registry/services/specs/",
        subresources: &["status", "proxy"],
        rules: Rules {
            name: NameRule::Label,
            create_on_update: true,
            returns_deleted: true,
            fields: &[
                FieldRule { label: "spec.clusterIP", path: "spec.clusterIP" },
                FieldRule { label: "spec.type", path: "spec.type" },
            ],
            restores: true,
            ..Rules::WITH_STATUS
        },
        default: service::default,
        prepare_create: service::prepare_create,
        prepare_update: service::prepare_update,
        validate: service::validate,
        validate_update: service::validate_update,
        warnings: service::warnings,
        ..BASE
    },
    Kind {
        name: "Endpoints",
        prefix: "/registry/services/endpoints/",
        rules: Rules { create_on_update: true, ..Rules::COMMON },
        default: endpoints::default_endpoints,
        validate: endpoints::validate_endpoints,
        deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ..BASE
    },
    Kind {
        name: "ConfigMap",
        prefix: "/registry/configmaps/",
        validate: core::validate_config_map,
        validate_update: core::validate_config_map_update,
        ..BASE
    },
    Kind {
        name: "Secret",
        prefix: "/registry/secrets/",
        rules: Rules { fields: &[FieldRule { label: "type", path: "type" }], ..Rules::COMMON },
        default: core::default_secret,
        validate: core::validate_secret,
        validate_update: core::validate_secret_update,
        ..BASE
    },
    Kind {
        name: "ServiceAccount",
        prefix: "/registry/serviceaccounts/",
        subresources: &["token"],
        rules: Rules { returns_deleted: true, ..Rules::COMMON },
        prepare_create: core::prepare_service_account,
        prepare_update: |new, _| core::prepare_service_account(new),
        ..BASE
    },
    Kind {
        name: "Namespace",
        prefix: "/registry/namespaces/",
        subresources: &["status", "finalize"],
        rules: Rules {
            name: NameRule::Label,
            returns_deleted: true,
            deletion: Deletion::Namespace,
            fields: &[FieldRule { label: "status.phase", path: "status.phase" }],
            ..Rules::WITH_STATUS
        },
        default: core::default_namespace,
        prepare_create: core::prepare_namespace_create,
        prepare_update: core::prepare_namespace_update,
        validate_status: core::validate_namespace_status,
        validate: core::validate_namespace,
        ..BASE
    },
    Kind {
        name: "Node",
        prefix: "/registry/minions/",
        subresources: &["status", "proxy"],
        rules: Rules {
            status: StatusRule::Initial,
            fields: &[FieldRule { label: "spec.unschedulable", path: "spec.unschedulable" }],
            ..Rules::WITH_STATUS
        },
        default: core::default_node,
        validate: core::validate_node,
        validate_update: core::validate_node_update,
        field: core::node_field,
        ..BASE
    },
    Kind {
        name: "Event",
        prefix: "/registry/events/",
        rules: Rules {
            create_on_update: true,
            dependents: Dependents::Unsupported,
            fields: event::CORE_FIELDS,
            ..Rules::COMMON
        },
        validate: event::validate_core,
        field: event::core_field,
        ..BASE
    },
    Kind {
        group: "events.k8s.io",
        name: "Event",
        prefix: "/registry/events/",
        rules: Rules {
            create_on_update: true,
            dependents: Dependents::Unsupported,
            fields: event::EVENTS_FIELDS,
            ..Rules::COMMON
        },
        validate: event::validate_events,
        validate_create: event::validate_events_create,
        validate_update: event::validate_events_update,
        view: Some(View { stored: ("", "v1"), from_stored: event::events_event, to_stored: event::core_event }),
        ..BASE
    },
    Kind { group: "authentication.k8s.io", name: "SelfSubjectReview", ..QUESTION },
    Kind { group: "authentication.k8s.io", name: "TokenReview", ..QUESTION },
    Kind { group: "authorization.k8s.io", name: "LocalSubjectAccessReview", ..QUESTION },
    Kind { group: "authorization.k8s.io", name: "SelfSubjectAccessReview", ..QUESTION },
    Kind { group: "authorization.k8s.io", name: "SelfSubjectRulesReview", ..QUESTION },
    Kind { group: "authorization.k8s.io", name: "SubjectAccessReview", ..QUESTION },
    Kind {
        group: "apps",
        name: "ControllerRevision",
        prefix: "/registry/controllerrevisions/",
        validate: core::validate_controller_revision,
        validate_update: core::validate_controller_revision_update,
        ..BASE
    },
    Kind {
        group: "apps",
        name: "Deployment",
        prefix: "/registry/deployments/",
        subresources: &["status", "scale"],
        rules: Rules {
            resets: Resets { status: &["spec", "metadata.labels"], ..Resets::STATUS },
            generation: Generation::SpecOrAnnotations,
            ..WORKLOAD
        },
        scales: true,
        default: workload::default_deployment,
        validate: workload::validate_deployment,
        validate_update: workload::selector_is_immutable,
        validate_status: workload::validate_deployment_status,
        warnings: pod_warnings::of_workload,
        ..BASE
    },
    Kind {
        group: "apps",
        name: "ReplicaSet",
        prefix: "/registry/replicasets/",
        subresources: &["status", "scale"],
        rules: WORKLOAD,
        scales: true,
        default: workload::default_replica_set,
        validate: workload::validate_replica_set,
        validate_update: workload::selector_is_immutable,
        validate_status: workload::validate_replica_set_status,
        warnings: pod_warnings::of_workload,
        ..BASE
    },
    Kind {
        group: "apps",
        name: "StatefulSet",
        prefix: "/registry/statefulsets/",
        subresources: &["status", "scale"],
        rules: WORKLOAD,
        scales: true,
        default: workload::default_stateful_set,
        validate: workload::validate_stateful_set,
        validate_update: workload::validate_stateful_set_update,
        validate_status: workload::validate_stateful_set_status,
        warnings: pod_warnings::of_workload,
        ..BASE
    },
    Kind {
        group: "apps",
        name: "DaemonSet",
        prefix: "/registry/daemonsets/",
        subresources: &["status"],
        rules: WORKLOAD,
        default: workload::default_daemon_set,
        prepare_create: workload::prepare_daemon_set_create,
        prepare_update: workload::prepare_daemon_set_update,
        validate: workload::validate_daemon_set,
        validate_update: workload::selector_is_immutable,
        validate_status: workload::validate_daemon_set_status,
        warnings: pod_warnings::of_workload,
        ..BASE
    },
    Kind {
        group: "batch",
        name: "Job",
        prefix: "/registry/jobs/",
        subresources: &["status"],
        rules: Rules {
            dependents: Dependents::Orphan,
            fields: &[FieldRule { label: "status.successful", path: "status.succeeded" }],
            ..WORKLOAD
        },
        default: jobs::default_job,
        prepare_create: jobs::prepare_job_create,
        validate: jobs::validate_job,
        validate_update: jobs::validate_job_update,
        validate_status: jobs::validate_job_status,
        warnings: pod_warnings::of_workload,
        ..BASE
    },
    Kind {
        group: "batch",
        name: "CronJob",
        prefix: "/registry/cronjobs/",
        subresources: &["status"],
        rules: WORKLOAD,
        default: jobs::default_cron_job,
        validate: jobs::validate_cron_job,
        validate_create: jobs::validate_new_cron_job,
        warnings: pod_warnings::of_cron_job,
        ..BASE
    },
    Kind {
        group: "coordination.k8s.io",
        name: "Lease",
        prefix: "/registry/leases/",
        rules: Rules { unconditional_update: false, create_on_update: true, ..Rules::COMMON },
        validate: core::validate_lease,
        ..BASE
    },
    Kind {
        group: "discovery.k8s.io",
        name: "EndpointSlice",
        prefix: "/registry/endpointslices/",
        rules: Rules { generation: Generation::ContentOrLabels, ..Rules::COMMON },
        default: endpoints::default_slice,
        prepare_create: endpoints::prepare_slice,
        prepare_update: endpoints::prepare_slice_update,
        validate: endpoints::validate_slice,
        validate_update: endpoints::validate_slice_update,
        warnings: endpoints::slice_warnings,
        ..BASE
    },
    Kind {
        group: "apiextensions.k8s.io",
        name: "CustomResourceDefinition",
        prefix: "/registry/apiextensions.k8s.io/customresourcedefinitions/",
        subresources: &["status"],
        rules: Rules {
            generation: Generation::Spec,
            unconditional_update: false,
            returns_deleted: true,
            deletion: Deletion::Definition,
            ..Rules::WITH_STATUS
        },
        default: apiextensions::default_definition,
        prepare_create: apiextensions::prepare_definition,
        prepare_update: apiextensions::prepare_definition_update,
        validate: apiextensions::validate_definition,
        validate_update: apiextensions::validate_definition_update,
        ..BASE
    },
];

/// The built-in resources that are served, in the order of discovery.
pub(crate) fn built_ins(options: &KindOptions) -> Vec<Arc<ResourceInfo>> {
    catalog().iter().filter_map(|entry| resource(entry, options)).map(Arc::new).collect()
}

fn resource(entry: &CatalogResource, options: &KindOptions) -> Option<ResourceInfo> {
    let is_it = |kind: &&Kind| (kind.group, kind.version, kind.name) == (entry.group, entry.version, entry.kind);
    let kind = TABLES.iter().copied().flatten().find(is_it)?;
    let plan = codec::plan(entry.group, entry.version, entry.kind)?;
    let conversion = match &kind.view {
        None => None,
        Some(view) => Some(view.conversion(kind.name)?),
    };
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<String>>();
    let subresources = entry.subresources.iter().filter(|subresource| kind.subresources.contains(&subresource.name));
    let subresources = subresources.map(|subresource| {
        let (group, version) = subresource.other.unwrap_or((entry.group, entry.version));
        SubresourceInfo {
            name: subresource.name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: subresource.kind.to_owned(),
            verbs: own(&subresource.verbs),
        }
    });
    Some(ResourceInfo {
        group: entry.group.to_owned(),
        version: entry.version.to_owned(),
        kind: entry.kind.to_owned(),
        list_kind: format!("{}List", entry.kind),
        plural: entry.plural.to_owned(),
        singular: entry.singular.to_owned(),
        short_names: own(&entry.short_names),
        categories: own(&entry.categories),
        scope: entry.scope,
        verbs: own(&entry.verbs),
        subresources: subresources.collect(),
        prefix: kind.prefix.to_owned(),
        shape: Shape::BuiltIn(plan),
        strategy: strategy(kind, options),
        conversion,
        deprecation: kind.deprecation.map(str::to_owned),
    })
}

fn strategy(kind: &'static Kind, options: &KindOptions) -> Arc<dyn Strategy> {
    let scale = kind.scales.then(|| {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        ScaleRule {
            spec_replicas: path("spec.replicas"),
            status_replicas: path("status.replicas"),
            selector: Some(path("spec.selector")),
        }
    });
    let common = BuiltIn { kind, rules: Rules { scale, ..kind.rules.clone() }, clock: options.clock.clone() };
    if kind.name == "Service" {
        let addresses = Arc::new(Addresses::new(options.service_cidr, options.entropy.clone()));
        return Arc::new(ServiceStrategy { common, addresses });
    }
    Arc::new(common)
}

impl View {
    /// None: the stored version has no plan.
    fn conversion(&self, name: &str) -> Option<Conversion> {
        let stored = Shape::BuiltIn(codec::plan(self.stored.0, self.stored.1, name)?);
        Some(Conversion { stored, from_stored: Arc::new(self.from_stored), to_stored: Arc::new(self.to_stored) })
    }
}

impl BuiltIn {
    fn stamp(&self, new: &mut Value, old: Option<&Value>) {
        if let Some(stamp) = self.kind.stamp {
            stamp(new, old, &windlass_api::format_time(self.clock.now()));
        }
    }
}

impl Strategy for BuiltIn {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn default(&self, object: &mut Value) {
        (self.kind.default)(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        (self.kind.prepare_create)(object);
        self.stamp(object, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        (self.kind.prepare_update)(new, old);
    }

    fn prepare_status(&self, new: &mut Value, old: &Value) {
        (self.kind.prepare_status)(new, old);
        self.stamp(new, Some(old));
    }

    fn sign(&self, object: &mut Value, user: &User) {
        (self.kind.sign)(object, user);
    }

    fn prepare_part(&self, part: Part, new: &mut Value, old: &Value) {
        (self.kind.prepare_part)(part, new, old);
        self.stamp(new, Some(old));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        (self.kind.validate)(object, errors);
    }

    fn validate_part(&self, part: Part, new: &Value, old: &Value, errors: &mut Errors) {
        (self.kind.validate_part)(part, new, old, errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        (self.kind.validate_create)(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        (self.kind.validate_update)(new, old, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut Errors) {
        (self.kind.validate_status)(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        (self.kind.warnings)(new, old)
    }

    fn fixed(&self) -> Option<Vec<Value>> {
        self.kind.fixed.map(|fixed| fixed())
    }

    fn field<'v>(&self, object: &'v Value, label: &str) -> Cow<'v, str> {
        if let Some(text) = (self.kind.field)(object, label) {
            return Cow::Owned(text);
        }
        let path = self.rules.fields.iter().find(|field| field.label == label).map_or("", |field| field.path);
        crate::registry::field_text(object, path)
    }
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuiltIn({})", self.kind.name)
    }
}

impl Strategy for ServiceStrategy {
    fn rules(&self) -> &Rules {
        self.common.rules()
    }

    fn default(&self, object: &mut Value) {
        self.common.default(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        self.common.prepare_create(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        self.common.prepare_update(new, old);
    }

    fn begin(&self, new: &mut Value, old: Option<&Value>) -> Result<Option<Box<dyn Effect>>, Status> {
        service::allocate(&self.addresses, new, old)
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        self.common.validate(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        self.common.validate_update(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        self.common.warnings(new, old)
    }

    fn restore(&self, object: &Value) {
        self.addresses.restore(object);
    }

    fn deleted(&self, object: &Value) {
        self.addresses.release(object);
    }
}
