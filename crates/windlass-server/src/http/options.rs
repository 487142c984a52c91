//! The options of each verb, read from the query (or the body, for deletions) and validated with kube-apiserver's
//! messages.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use windlass_api::{Cause, DryRun, FieldSelector, FieldValidation, GroupKind, PatchKind, Preconditions, Status};

use crate::request::Query;
use crate::{
    codec::{go_quote, go_worded, is_printable},
    kubernetes::KubernetesVersion,
    object::adjust_wording,
    registry::{DeleteParams, ListParams, WatchParams},
};

/// The maximum length of a field manager's name in bytes.
const MANAGER_LIMIT: usize = 128;

/// The options of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: DryRun,
    /// The requested field manager, or the first part of the user agent.
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    /// For server-side apply: whether to take ownership of fields that other managers own.
    pub(crate) force: bool,
    /// The field manager and the field validation, if the request has them.
    pub(crate) given: Option<Arc<Value>>,
}

/// Returns the time for a request: that of the parameter `timeout`, a duration in Go's notation, but at most `longest`.
/// Zero or less means no limit by the client.
pub(crate) fn time_limit(query: &Query, longest: Duration) -> Result<Duration, Status> {
    let Some(text) = query.text("timeout") else { return Ok(longest) };
    let parsed = windlass_api::parse_duration(text).map_err(|error| {
        let why = go_worded(&error);
        Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    let requested = Duration::try_from(parsed).ok().filter(|requested| !requested.is_zero());
    Ok(requested.map_or(longest, |requested| requested.min(longest)))
}

/// Reads the options of a list, or of a deletion of a collection. The registry interprets the values.
pub(crate) fn list_params(query: &Query) -> Result<ListParams, Status> {
    let limit = query.integer("limit")?;
    query.integer("timeoutSeconds")?;
    let text = |name| query.text(name).map(str::to_owned);
    Ok(ListParams {
        labels: text("labelSelector"),
        fields: text("fieldSelector"),
        limit: limit.and_then(|limit| u64::try_from(limit).ok()).unwrap_or_default(),
        continue_token: text("continue"),
        resource_version: text("resourceVersion"),
        version_match: text("resourceVersionMatch"),
        send_initial_events: query.optional_boolean("sendInitialEvents"),
    })
}

/// Reads the options of a watch. `name` is the object in the path of a deprecated `/watch/…/{name}`.
pub(crate) fn watch_params(query: &Query, name: &str) -> Result<WatchParams, Status> {
    query.integer("limit")?;
    let timeout = query.integer("timeoutSeconds")?;
    let text = |name| query.text(name).map(str::to_owned);
    // Multiplies as Go does: a value that is too large wraps around. Zero is the default; a negative timeout has
    // already expired.
    let nanos = timeout.map(|seconds| seconds.wrapping_mul(1_000_000_000)).filter(|nanos| *nanos != 0);
    let mut params = WatchParams {
        labels: text("labelSelector"),
        fields: text("fieldSelector"),
        resource_version: text("resourceVersion"),
        version_match: text("resourceVersionMatch"),
        send_initial_events: query.optional_boolean("sendInitialEvents"),
        bookmarks: query.boolean("allowWatchBookmarks"),
        timeout: nanos.map(|nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())),
    };
    if !name.is_empty() {
        let fields: FieldSelector = match params.fields.as_deref().map(str::parse).transpose() {
            Ok(fields) => fields.unwrap_or_default(),
            Err(error) => return Err(Status::bad_request(format!("{error}"))),
        };
        if !fields.is_empty() && fields.exact("metadata.name") != Some(name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        // A selector of further fields must stay: the permission for the watch may depend on it.
        if fields.is_empty() {
            params.fields = Some(FieldSelector::name(name).to_string());
        }
    }
    Ok(params)
}

impl WriteOptions {
    /// Reads the options of a create (`CreateOptions`) or an update (`UpdateOptions`).
    pub(crate) fn parse(
        query: &Query,
        kind: &str,
        user_agent: &str,
        kubernetes: KubernetesVersion,
    ) -> Result<Self, Status> {
        Self::parse_with(query, kind, user_agent, kubernetes, Vec::new())
    }

    /// Reads the options of a patch.
    pub(crate) fn parse_patch(
        query: &Query,
        patch: PatchKind,
        user_agent: &str,
        kubernetes: KubernetesVersion,
    ) -> Result<Self, Status> {
        let mut causes = Vec::new();
        if patch != PatchKind::Apply && query.get("force").is_some() {
            causes.push(forbidden("force", "may not be specified for non-apply patch"));
        }
        if patch == PatchKind::Apply && query.text("fieldManager").is_none() {
            causes.push(cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch"));
        }
        Self::parse_with(query, "PatchOptions", user_agent, kubernetes, causes)
    }

    fn parse_with(
        query: &Query,
        kind: &str,
        user_agent: &str,
        kubernetes: KubernetesVersion,
        mut causes: Vec<Cause>,
    ) -> Result<Self, Status> {
        let manager = query.text("fieldManager");
        causes.extend(manager_problems(manager.unwrap_or_default()));
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        causes.extend(dry_run_problem(&dry_run));
        let validation = query.get("fieldValidation").unwrap_or_default();
        let field_validation = match validation {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            "" | "Warn" => FieldValidation::Warn,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(unsupported("fieldValidation", &go_quote(other), &supported));
                FieldValidation::Warn
            }
        };
        check(kind, kubernetes, causes)?;
        let given = [("fieldManager", manager), ("fieldValidation", query.get("fieldValidation"))];
        let given = given.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
        let given: Map<String, Value> = given.filter(|(_, text)| text != "").collect();
        Ok(Self {
            given: (!given.is_empty()).then(|| Arc::new(given.into())),
            dry_run: if dry_run.is_empty() { DryRun::No } else { DryRun::All },
            field_manager: manager.map_or_else(|| manager_of(user_agent), str::to_owned),
            field_validation,
            force: query.boolean("force"),
        })
    }
}

/// Reads the options of a deletion without a body.
pub(crate) fn delete_params(query: &Query, kubernetes: KubernetesVersion) -> Result<DeleteParams, Status> {
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    let params = DeleteParams {
        grace_period: query.integer("gracePeriodSeconds")?,
        propagation: query.get("propagationPolicy").map(str::to_owned),
        orphan_dependents: query.optional_boolean("orphanDependents"),
        ..DeleteParams::default()
    };
    validated(params, &dry_run, kubernetes)
}

/// Reads the options of a deletion from its body, a `DeleteOptions`.
pub(crate) fn delete_params_of(options: &Value, kubernetes: KubernetesVersion) -> Result<DeleteParams, Status> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let preconditions = &options["preconditions"];
    let dry_run: Vec<&str> = options["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let params = DeleteParams {
        grace_period: options["gracePeriodSeconds"].as_i64(),
        propagation: text(&options["propagationPolicy"]),
        orphan_dependents: options["orphanDependents"].as_bool(),
        preconditions: Preconditions {
            uid: text(&preconditions["uid"]),
            resource_version: text(&preconditions["resourceVersion"]),
        },
        ..DeleteParams::default()
    };
    validated(params, &dry_run, kubernetes)
}

fn validated(
    mut params: DeleteParams,
    dry_run: &[&str],
    kubernetes: KubernetesVersion,
) -> Result<DeleteParams, Status> {
    const FIELD: &str = "propagationPolicy";
    let mut causes = Vec::new();
    if let Some(policy) = params.propagation.as_deref() {
        if params.orphan_dependents.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(cause(FIELD, "FieldValueInvalid", format!("Invalid value: {}: {why}", go_quote(policy))));
        }
        if !matches!(policy, "Orphan" | "Background" | "Foreground") {
            causes.push(unsupported(FIELD, &go_quote(policy), &["Foreground", "Background", "Orphan", "nil"]));
        }
    }
    causes.extend(dry_run_problem(dry_run));
    check("DeleteOptions", kubernetes, causes)?;
    params.dry_run = if dry_run.is_empty() { DryRun::No } else { DryRun::All };
    Ok(params)
}

/// Returns the default field manager: the first part of the user agent, truncated to the maximum length.
fn manager_of(user_agent: &str) -> String {
    let first = user_agent.split('/').next().unwrap_or_default();
    let printable = first.chars().filter(|character| is_printable(*character));
    let mut manager = String::new();
    for character in printable {
        if manager.len() + character.len_utf8() > MANAGER_LIMIT {
            break;
        }
        manager.push(character);
    }
    manager
}

fn manager_problems(manager: &str) -> Vec<Cause> {
    if manager.len() > MANAGER_LIMIT {
        let message = format!("Too long: may not be more than {MANAGER_LIMIT} bytes");
        return vec![cause("fieldManager", "FieldValueTooLong", message)];
    }
    let unprintable = manager.char_indices().filter(|(_, character)| !is_printable(*character));
    unprintable
        .map(|(position, character)| {
            let why = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
            cause("fieldManager", "FieldValueInvalid", format!("Invalid value: {}: {why}", go_quote(manager)))
        })
        .collect()
}

fn dry_run_problem(values: &[&str]) -> Option<Cause> {
    if values.iter().all(|value| *value == "All") {
        return None;
    }
    let value = serde_json::to_string(values).expect("strings always encode");
    Some(unsupported("dryRun", &value, &["All"]))
}

fn unsupported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|text| go_quote(text)).collect();
    let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
    cause(field, "FieldValueNotSupported", message)
}

fn forbidden(field: &str, why: &str) -> Cause {
    cause(field, "FieldValueForbidden", format!("Forbidden: {why}"))
}

fn cause(field: &str, reason: &str, message: impl Into<String>) -> Cause {
    Cause { reason: reason.to_owned(), message: message.into(), field: field.to_owned() }
}

fn check(kind: &str, kubernetes: KubernetesVersion, mut causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    for cause in &mut causes {
        adjust_wording(kubernetes, cause);
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind.to_owned()), "", causes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::KubernetesVersion::V1_36;

    fn create(query: &str) -> Result<WriteOptions, String> {
        WriteOptions::parse(&Query::parse(query), "CreateOptions", "kubectl/v1.36", V1_36)
            .map_err(|status| status.message)
    }

    fn patch(query: &str, kind: PatchKind) -> Result<WriteOptions, String> {
        WriteOptions::parse_patch(&Query::parse(query), kind, "", V1_36).map_err(|status| status.message)
    }

    fn delete(query: &str) -> Result<DeleteParams, String> {
        delete_params(&Query::parse(query), V1_36).map_err(|status| status.message)
    }

    #[test]
    fn dry_runs_are_shown_in_go_syntax_before_1_34() {
        let message = |kubernetes| delete_params(&Query::parse("dryRun=Some"), kubernetes).unwrap_err().message;
        assert!(message(KubernetesVersion::V1_33).contains("Unsupported value: []string{\"Some\"}: supported"));
        assert!(message(V1_36).contains("Unsupported value: [\"Some\"]: supported"));
    }

    #[test]
    fn list_options_are_parsed() {
        let params = list_params(&Query::parse("limit=5&continue=abc&labelSelector=a%3Db&resourceVersion=")).unwrap();
        assert_eq!((params.limit, params.continue_token.as_deref()), (5, Some("abc")));
        assert_eq!((params.labels.as_deref(), params.resource_version), (Some("a=b"), None));
        assert_eq!(list_params(&Query::parse("limit=-1")).unwrap().limit, 0);
        for query in ["limit=abc", "timeoutSeconds=abc"] {
            let message = list_params(&Query::parse(query)).unwrap_err().message;
            assert_eq!(message, r#"strconv.ParseInt: parsing "abc": invalid syntax"#, "{query}");
        }
    }

    #[test]
    fn watch_options_are_parsed() {
        let params = watch_params(&Query::parse("timeoutSeconds=5&allowWatchBookmarks=1"), "").unwrap();
        assert_eq!((params.timeout, params.bookmarks), (Some(Duration::from_secs(5)), true));
        let timeout = |text: &str| watch_params(&Query::parse(&format!("timeoutSeconds={text}")), "").unwrap().timeout;
        assert_eq!(timeout("0"), None);
        assert_eq!(timeout("-1"), Some(Duration::ZERO));
        assert_eq!(timeout("9223372036854775807"), Some(Duration::ZERO));
        assert_eq!(timeout("-9223372036854775808"), None);
        assert!(timeout("300000000000").unwrap() > Duration::from_hours(24 * 365));
    }

    #[test]
    fn name_in_a_deprecated_watch_path_is_a_selector() {
        let watch = |query: &str| watch_params(&Query::parse(query), "a").map_err(|status| status.message);
        assert_eq!(watch("").unwrap().fields.as_deref(), Some("metadata.name=a"));
        assert_eq!(
            watch("fieldSelector=metadata.name%3Db").unwrap_err(),
            "fieldSelector metadata.name doesn't match requested name"
        );
        // The permission of a node for a watch depends on the selector of its own pods.
        let both = watch("fieldSelector=metadata.name%3Da,spec.nodeName%3Dn").unwrap();
        assert_eq!(both.fields.as_deref(), Some("metadata.name=a,spec.nodeName=n"));
    }

    #[test]
    fn write_options_default_to_user_agent_and_warnings() {
        let options = create("").unwrap();
        assert_eq!((options.field_manager.as_str(), options.field_validation), ("kubectl", FieldValidation::Warn));
        assert_eq!(create("fieldManager=me&dryRun=All").unwrap().dry_run, DryRun::All);
    }

    #[test]
    fn invalid_write_options_are_reported_together() {
        assert_eq!(
            create("fieldManager=a%01b&dryRun=x&fieldValidation=y"),
            Err(concat!(
                r#"CreateOptions.meta.k8s.io "" is invalid: ["#,
                r#"fieldManager: Invalid value: "a\x01b": invalid character U+0001 (at position 1), "#,
                r#"dryRun: Unsupported value: ["x"]: supported values: "All", "#,
                r#"fieldValidation: Unsupported value: "y": supported values: "", "Ignore", "Strict", "Warn"]"#
            )
            .into())
        );
        assert_eq!(
            create("dryRun=All&dryRun=Some"),
            Err(r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["All","Some"]: supported values: "All""#
                .into())
        );
        assert_eq!(
            create(&format!("fieldManager={}", "a".repeat(129))),
            Err(r#"CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes"#
                .into())
        );
    }

    #[test]
    fn force_requires_apply_and_apply_requires_a_manager() {
        let invalid = |problem: &str| Err(format!(r#"PatchOptions.meta.k8s.io "" is invalid: {problem}"#));
        assert_eq!(
            patch("force=", PatchKind::Merge),
            invalid("force: Forbidden: may not be specified for non-apply patch")
        );
        assert_eq!(patch("", PatchKind::Apply), invalid("fieldManager: Required value: is required for apply patch"));
        assert!(patch("fieldManager=m&force=abc", PatchKind::Apply).unwrap().force);
    }

    #[test]
    fn delete_options_are_read_from_query_or_body() {
        let options = delete("gracePeriodSeconds=5&propagationPolicy=Orphan&dryRun=All").unwrap();
        assert_eq!((options.grace_period, options.propagation.as_deref()), (Some(5), Some("Orphan")));
        assert_eq!(options.dry_run, DryRun::All);
        let body = serde_json::json!({"preconditions": {"uid": "u"}, "orphanDependents": false});
        let options = delete_params_of(&body, V1_36).unwrap();
        assert_eq!((options.preconditions.uid.as_deref(), options.orphan_dependents), (Some("u"), Some(false)));
    }

    #[test]
    fn invalid_delete_options_are_reported_together() {
        assert_eq!(
            delete("orphanDependents=true&propagationPolicy=X&dryRun=x").unwrap_err(),
            concat!(
                r#"DeleteOptions.meta.k8s.io "" is invalid: ["#,
                r#"propagationPolicy: Invalid value: "X": orphanDependents and deletionPropagation cannot be both set, "#,
                r#"propagationPolicy: Unsupported value: "X": supported values: "Foreground", "Background", "Orphan", "nil", "#,
                r#"dryRun: Unsupported value: ["x"]: supported values: "All"]"#
            )
        );
    }
}
