//! The rows of the core, workload and extension kinds.

use serde_json::Value;

use super::{
    BASE, Kind, View, core, endpoints, event, jobs, pod, pod_defaults, pod_parts, pod_rules, pod_warnings, service,
    workload,
};
use crate::{
    apiextensions,
    object::{NameRule, Path, Tree},
    resource::{Deletion, Dependents, FieldRule, Generation, MetadataRule, Resets, Rules, StatusRule, UnknownField},
};

/// A kind that is created but not stored, such as a review.
const UNSTORED: Kind = BASE;

/// The rules that workloads share.
const WORKLOAD: Rules = Rules { metadata: MetadataRule::CHANGES, generation: Generation::Spec, ..Rules::WITH_STATUS };

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "Binding", ..UNSTORED },
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
        pods_at: Some("/spec"),
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
        rules: Rules {
            metadata: MetadataRule::CHANGES,
            generation: Generation::Content,
            returns_deleted: true,
            ..Rules::COMMON
        },
        default: |object| pod_defaults::default_template(object, "template"),
        pods_at: Some("/template/spec"),
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
        rules: Rules {
            name: NameRule::Declared,
            dependents: Dependents::Orphan,
            fields: &[FieldRule { label: "status.replicas", path: "status.replicas" }],
            ..WORKLOAD
        },
        scales: true,
        default: workload::default_replication_controller,
        pods_at: Some("/spec/template/spec"),
        validate: workload::validate_replication_controller,
        validate_status: workload::validate_replica_set_status,
        warnings: pod_warnings::of_named_workload,
        ..BASE
    },
    Kind {
        name: "Service",
        prefix: "/registry/services/specs/",
        subresources: &["status", "proxy"],
        rules: Rules {
            name: NameRule::Label,
            metadata: MetadataRule::CHANGES,
            create_on_update: true,
            returns_deleted: true,
            fields: &[
                FieldRule { label: "spec.clusterIP", path: "spec.clusterIP" },
                FieldRule { label: "spec.type", path: "spec.type" },
            ],
            changes_first: true,
            restores: true,
            ..Rules::WITH_STATUS
        },
        default: service::default,
        prepare_create: service::prepare_create,
        prepare_update: service::prepare_update,
        validate: service::validate,
        validate_update: service::validate_update,
        validate_status: service::validate_status,
        warnings: service::warnings,
        allocator: Some(service::allocator),
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
        rules: Rules { changes_first: true, ..Rules::COMMON },
        validate: core::validate_config_map,
        validate_update: core::validate_config_map_update,
        ..BASE
    },
    Kind {
        name: "Secret",
        prefix: "/registry/secrets/",
        rules: Rules { fields: &[FieldRule { label: "type", path: "type" }], changes_first: true, ..Rules::COMMON },
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
        warnings: core::service_account_warnings,
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
            selects_namespace: false,
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
            selects_namespace: false,
            ..Rules::WITH_STATUS
        },
        default: core::default_node,
        prepare_create: core::drop_node_config,
        prepare_update: |new, _| core::drop_node_config(new),
        prepare_status: |new, _| core::drop_node_config(new),
        validate: core::validate_node,
        validate_update: core::validate_node_update,
        validate_status: core::validate_node_update,
        warnings: core::node_warnings,
        field: core::node_field,
        ..BASE
    },
    Kind {
        name: "Event",
        prefix: "/registry/events/",
        rules: Rules {
            metadata: MetadataRule::NONE,
            create_on_update: true,
            dependents: Dependents::Unsupported,
            cached: false,
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
            metadata: MetadataRule::CHANGES,
            create_on_update: true,
            dependents: Dependents::Unsupported,
            cached: false,
            fields: event::EVENTS_FIELDS,
            ..Rules::COMMON
        },
        validate: event::validate_events,
        validate_create: event::validate_events_create,
        validate_update: event::validate_events_update,
        view: Some(View { stored: ("", "v1"), from_stored: event::events_event, to_stored: event::core_event }),
        ..BASE
    },
    Kind { group: "authentication.k8s.io", name: "SelfSubjectReview", ..UNSTORED },
    Kind { group: "authentication.k8s.io", name: "TokenReview", ..UNSTORED },
    Kind { group: "authorization.k8s.io", name: "LocalSubjectAccessReview", ..UNSTORED },
    Kind { group: "authorization.k8s.io", name: "SelfSubjectAccessReview", ..UNSTORED },
    Kind { group: "authorization.k8s.io", name: "SelfSubjectRulesReview", ..UNSTORED },
    Kind { group: "authorization.k8s.io", name: "SubjectAccessReview", ..UNSTORED },
    Kind {
        group: "apps",
        name: "ControllerRevision",
        prefix: "/registry/controllerrevisions/",
        validate: core::validate_controller_revision,
        validate_create: core::validate_new_controller_revision,
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
        pods_at: Some("/spec/template/spec"),
        validate: workload::validate_deployment,
        validate_update: workload::selector_is_immutable,
        validate_status: workload::validate_deployment_status,
        warnings: pod_warnings::of_named_workload,
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
        pods_at: Some("/spec/template/spec"),
        validate: workload::validate_replica_set,
        validate_update: workload::selector_is_immutable,
        validate_status: workload::validate_replica_set_status,
        warnings: pod_warnings::of_named_workload,
        ..BASE
    },
    Kind {
        group: "apps",
        name: "StatefulSet",
        off: &["spec.updateStrategy.rollingUpdate.maxUnavailable"],
        prefix: "/registry/statefulsets/",
        subresources: &["status", "scale"],
        rules: Rules { name: NameRule::Label, ..WORKLOAD },
        scales: true,
        default: workload::default_stateful_set,
        pods_at: Some("/spec/template/spec"),
        validate_create: workload::validate_new_stateful_set,
        validate_update: workload::validate_stateful_set_update,
        validate_status: workload::validate_stateful_set_status,
        warnings: pod_warnings::of_stateful_set,
        ..BASE
    },
    Kind {
        group: "apps",
        name: "DaemonSet",
        prefix: "/registry/daemonsets/",
        subresources: &["status"],
        rules: Rules { changes_first: true, ..WORKLOAD },
        default: workload::default_daemon_set,
        prepare_create: workload::prepare_daemon_set_create,
        prepare_update: workload::prepare_daemon_set_update,
        pods_at: Some("/spec/template/spec"),
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
            metadata: MetadataRule::FULL,
            dependents: Dependents::OrphanWithWarning,
            // A job without labels gets those of its template from the server.
            rewrites_new: |job| job.at(&["metadata", "labels"]) == job.at(&["spec", "template", "metadata", "labels"]),
            fields: &[FieldRule { label: "status.successful", path: "status.succeeded" }],
            unknown_field: UnknownField::OfKind,
            ..WORKLOAD
        },
        default: jobs::default_job,
        prepare_create: jobs::prepare_job_create,
        pods_at: Some("/spec/template/spec"),
        validate: jobs::validate_job,
        validate_update: jobs::validate_job_update,
        validate_status: jobs::validate_job_status,
        warnings: pod_warnings::of_named_workload,
        ..BASE
    },
    Kind {
        group: "batch",
        name: "CronJob",
        prefix: "/registry/cronjobs/",
        subresources: &["status"],
        rules: WORKLOAD,
        default: jobs::default_cron_job,
        pods_at: Some("/spec/jobTemplate/spec/template/spec"),
        validate: jobs::validate_cron_job,
        validate_create: jobs::validate_new_cron_job,
        warnings: pod_warnings::of_cron_job,
        ..BASE
    },
    Kind {
        group: "coordination.k8s.io",
        name: "Lease",
        prefix: "/registry/leases/",
        rules: Rules {
            metadata: MetadataRule { finalizers: false, ..MetadataRule::CHANGES },
            unconditional_update: false,
            create_on_update: true,
            ..Rules::COMMON
        },
        off: &["spec.strategy", "spec.preferredHolder"],
        validate: core::validate_lease,
        ..BASE
    },
    Kind {
        group: "discovery.k8s.io",
        name: "EndpointSlice",
        prefix: "/registry/endpointslices/",
        rules: Rules { metadata: MetadataRule::OBJECT, generation: Generation::ContentOrLabels, ..Rules::COMMON },
        default: endpoints::default_slice,
        prepare_create: endpoints::prepare_slice,
        prepare_update: endpoints::prepare_slice_update,
        validate: endpoints::validate_slice,
        validate_create: endpoints::validate_slice_endpoints,
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
            metadata: MetadataRule::GENERIC,
            generation: Generation::Spec,
            unconditional_update: false,
            returns_deleted: true,
            deletion: Deletion::Finalized,
            ..Rules::WITH_STATUS
        },
        default: apiextensions::default_definition,
        prepare_create: apiextensions::prepare_definition,
        prepare_update: apiextensions::prepare_definition_update,
        validate: apiextensions::validate_definition,
        validate_update: apiextensions::validate_definition_update,
        begin_deletion: apiextensions::begin_deletion,
        ..BASE
    },
];
