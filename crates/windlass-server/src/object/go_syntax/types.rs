//! The Go types whose values messages show: those of Kubernetes' internal API, and some of `meta/v1`.

use std::fmt::Write as _;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::quantity;
use crate::codec::go_quote;

/// A Go type.
#[derive(Debug)]
pub(super) enum Type {
    /// An interface, which holds a value of JSON.
    Any,
    /// A `string`, or a type of another name that is based on it.
    Text(&'static str),
    Int(&'static str),
    Bool,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `resource.Quantity`.
    Quantity,
    /// `v1.Time` in a structure, behind a pointer.
    Time,
    /// `runtime.RawExtension`.
    Raw,
    /// A slice, with its own name and the type of the items.
    List(&'static str, &'static Self),
    /// A map from strings, with its own name and the type of the values.
    Map(&'static str, &'static Self),
    /// A structure with its fields in their order.
    Struct(&'static str, &'static [(&'static str, Self)]),
    /// A pointer in a structure. Go shows an address. Here, the value is shown instead; structures without a list of
    /// fields are shown empty.
    Pointer(&'static Self),
}

use Type::{Any, Bool, Int, IntOrString, List, Map, Pointer, Quantity, Raw, Struct, Text, Time};

const TEXT: &Type = &Text("string");
const TEXTS: Type = List("[]string", TEXT);
const LABELS: &Type = &Map("map[string]string", TEXT);
const RESOURCES: &Type = &Map("core.ResourceList", &Quantity);

const SELECTOR: &Type = &Struct(
    "v1.LabelSelector",
    &[
        ("MatchLabels", Map("map[string]string", TEXT)),
        ("MatchExpressions", List("[]v1.LabelSelectorRequirement", REQUIREMENT)),
    ],
);
const REQUIREMENT: &Type = &Struct(
    "v1.LabelSelectorRequirement",
    &[("Key", Text("string")), ("Operator", Text("v1.LabelSelectorOperator")), ("Values", TEXTS)],
);
const OWNER: &Type = &Struct(
    "v1.OwnerReference",
    &[
        ("APIVersion", Text("string")),
        ("Kind", Text("string")),
        ("Name", Text("string")),
        ("UID", Text("types.UID")),
        ("Controller", Pointer(&Bool)),
        ("BlockOwnerDeletion", Pointer(&Bool)),
    ],
);
const DAEMON_SET_STRATEGY: &Type = &Struct(
    "apps.DaemonSetUpdateStrategy",
    &[
        ("Type", Text("apps.DaemonSetUpdateStrategyType")),
        ("RollingUpdate", Pointer(&Struct("apps.RollingUpdateDaemonSet", ROLLING_UPDATE))),
    ],
);
const DEPLOYMENT_STRATEGY: &Type = &Struct(
    "apps.DeploymentStrategy",
    &[
        ("Type", Text("apps.DeploymentStrategyType")),
        ("RollingUpdate", Pointer(&Struct("apps.RollingUpdateDeployment", ROLLING_UPDATE))),
    ],
);
const ROLLING_UPDATE: &[(&str, Type)] = &[("MaxUnavailable", IntOrString), ("MaxSurge", IntOrString)];

/// The types of fields by the end of their path.
const FIELDS: &[(&str, &Type)] = &[
    ("template.metadata.labels", LABELS),
    ("metadata.ownerReferences", &List("[]v1.OwnerReference", OWNER)),
    ("spec.capacity", RESOURCES),
    ("spec.policyTypes", &List("[]networking.PolicyType", TEXT)),
    ("spec.scopes", &List("[]core.ResourceQuotaScope", TEXT)),
    ("spec.strategy", DEPLOYMENT_STRATEGY),
    ("spec.updateStrategy", DAEMON_SET_STRATEGY),
    ("spec.validationActions", &List("[]admissionregistration.ValidationAction", TEXT)),
    ("spec.versions", &List("[]apiextensions.CustomResourceDefinitionVersion", VERSION)),
    ("status.storedVersions", &TEXTS),
];

/// Structures of the internal API, whose values have Go's field names.
const STRUCTS: &[&Type] = &[
    VERSION,
    &Struct(
        "apiextensions.ValidationRule",
        &[
            ("Rule", Text("string")),
            ("Message", Text("string")),
            ("MessageExpression", Text("string")),
            ("Reason", Pointer(&Text("apiextensions.FieldValueErrorReason"))),
            ("FieldPath", Text("string")),
            ("OptionalOldSelf", Pointer(&Bool)),
        ],
    ),
    &Struct(
        "apps.RollingUpdateStatefulSetStrategy",
        &[("Partition", Int("int32")), ("MaxUnavailable", Pointer(&IntOrString))],
    ),
    &Struct("authorization.NonResourceAttributes", &[("Path", Text("string")), ("Verb", Text("string"))]),
    &Struct(
        "core.PodResourceClaim",
        &[("Name", Text("string")), ("ResourceClaimName", Pointer(TEXT)), ("ResourceClaimTemplateName", Pointer(TEXT))],
    ),
    &Struct("core.ScopeSelector", &[("MatchExpressions", List("[]core.ScopedResourceSelectorRequirement", SCOPE))]),
    &Struct(
        "core.SecurityContext",
        &[
            ("Capabilities", Pointer(CAPABILITIES)),
            ("Privileged", Pointer(&Bool)),
            ("SELinuxOptions", Pointer(&Struct("core.SELinuxOptions", &[]))),
            ("WindowsOptions", Pointer(&Struct("core.WindowsSecurityContextOptions", &[]))),
            ("RunAsUser", Pointer(&Int("int64"))),
            ("RunAsGroup", Pointer(&Int("int64"))),
            ("RunAsNonRoot", Pointer(&Bool)),
            ("ReadOnlyRootFilesystem", Pointer(&Bool)),
            ("AllowPrivilegeEscalation", Pointer(&Bool)),
            ("ProcMount", Pointer(&Text("core.ProcMountType"))),
            ("SeccompProfile", Pointer(&Struct("core.SeccompProfile", &[]))),
            ("AppArmorProfile", Pointer(&Struct("core.AppArmorProfile", &[]))),
        ],
    ),
    &Struct(
        "core.ServicePort",
        &[
            ("Name", Text("string")),
            ("Protocol", Text("core.Protocol")),
            ("AppProtocol", Pointer(TEXT)),
            ("Port", Int("int32")),
            ("TargetPort", IntOrString),
            ("NodePort", Int("int32")),
        ],
    ),
    &Struct(
        "core.Taint",
        &[
            ("Key", Text("string")),
            ("Value", Text("string")),
            ("Effect", Text("core.TaintEffect")),
            ("TimeAdded", Pointer(&Time)),
        ],
    ),
    &Struct(
        "core.Toleration",
        &[
            ("Key", Text("string")),
            ("Operator", Text("core.TolerationOperator")),
            ("Value", Text("string")),
            ("Effect", Text("core.TaintEffect")),
            ("TolerationSeconds", Pointer(&Int("int64"))),
        ],
    ),
    &Struct("flowcontrol.FlowDistinguisherMethod", &[("Type", Text("flowcontrol.FlowDistinguisherMethodType"))]),
    &Struct(
        "networking.ParentReference",
        &[
            ("Group", Text("string")),
            ("Resource", Text("string")),
            ("Namespace", Text("string")),
            ("Name", Text("string")),
        ],
    ),
    &Struct("networking.ServiceCIDRSpec", &[("CIDRs", TEXTS)]),
    &Struct(
        "policy.PodDisruptionBudgetSpec",
        &[
            ("MinAvailable", Pointer(&IntOrString)),
            ("Selector", Pointer(SELECTOR)),
            ("MaxUnavailable", Pointer(&IntOrString)),
            ("UnhealthyPodEvictionPolicy", Pointer(&Text("policy.UnhealthyPodEvictionPolicyType"))),
        ],
    ),
    &Struct("rbac.RoleRef", &[("APIGroup", Text("string")), ("Kind", Text("string")), ("Name", Text("string"))]),
    &Struct(
        "storage.CSINodeDriver",
        &[
            ("Name", Text("string")),
            ("NodeID", Text("string")),
            ("TopologyKeys", TEXTS),
            ("Allocatable", Pointer(&Struct("storage.VolumeNodeResources", &[("Count", Pointer(&Int("int32")))]))),
        ],
    ),
    &Struct(
        "storage.VolumeAttachmentSpec",
        &[("Attacher", Text("string")), ("Source", SOURCE), ("NodeName", Text("string"))],
    ),
];

const VERSION: &Type = &Struct(
    "apiextensions.CustomResourceDefinitionVersion",
    &[
        ("Name", Text("string")),
        ("Served", Bool),
        ("Storage", Bool),
        ("Deprecated", Bool),
        ("DeprecationWarning", Pointer(TEXT)),
        ("Schema", Pointer(&Struct("apiextensions.CustomResourceValidation", &[]))),
        ("Subresources", Pointer(&Struct("apiextensions.CustomResourceSubresources", &[]))),
        ("AdditionalPrinterColumns", List("[]apiextensions.CustomResourceColumnDefinition", &Any)),
        ("SelectableFields", List("[]apiextensions.SelectableField", &Any)),
    ],
);
const SCOPE: &Type = &Struct(
    "core.ScopedResourceSelectorRequirement",
    &[
        ("ScopeName", Text("core.ResourceQuotaScope")),
        ("Operator", Text("core.ScopeSelectorOperator")),
        ("Values", TEXTS),
    ],
);
const CAPABILITIES: &Type = &Struct(
    "core.Capabilities",
    &[("Add", List("[]core.Capability", TEXT)), ("Drop", List("[]core.Capability", TEXT))],
);
const SOURCE: Type = Struct(
    "storage.VolumeAttachmentSource",
    &[
        ("PersistentVolumeName", Pointer(TEXT)),
        ("InlineVolumeSpec", Pointer(&Struct("core.PersistentVolumeSpec", &[]))),
    ],
);

/// Returns the type of a value at a path without positions. The detail of the message tells apart fields of one path.
pub(super) fn of_field(path: &str, value: &Value, detail: &str) -> Option<&'static Type> {
    let by_path = || FIELDS.iter().find(|(end, _)| is_at(path, end)).map(|(_, ty)| *ty);
    match value {
        Value::Array(items) => by_path().or_else(|| match items.first() {
            Some(Value::Number(_)) => Some(&List("[]int32", &Int("int32"))),
            None if path.ends_with("onExitCodes.values") => Some(&List("[]int32", &Int("int32"))),
            Some(Value::String(_)) | None => Some(&TEXTS),
            Some(_) => None,
        }),
        Value::Object(fields) => {
            // In these, users choose the keys.
            if path == "data" {
                return Some(&Raw);
            }
            if let Some(ty @ Map(..)) = by_path() {
                return Some(ty);
            }
            let is_selector = || fields.keys().all(|key| matches!(&**key, "matchLabels" | "matchExpressions"));
            if let Some(ty) = STRUCTS.iter().find(|ty| ty.has_exactly(fields)) {
                return Some(ty);
            }
            match by_path() {
                // The field is a list, and the value one of its items.
                Some(List(_, item)) => Some(item),
                Some(ty) => Some(ty),
                None if path == "nodeTopology" || path.to_ascii_lowercase().contains("selector") && is_selector() => {
                    Some(SELECTOR)
                }
                None => None,
            }
        }
        Value::Null if path == "data" => Some(&Raw),
        Value::Null if is_bytes(path) => Some(&List("[]byte", &Any)),
        Value::Null if detail.starts_with("either `defaultBackend`") => Some(&List("[]networking.IngressRule", &Any)),
        Value::Null => by_path(),
        _ => None,
    }
}

/// Reports whether a message shows the field as an `IntOrString`. Messages about negative values show only the number.
pub(super) fn is_int_or_string(path: &str, detail: &str) -> bool {
    ["maxUnavailable", "maxSurge", "minAvailable"].iter().any(|end| is_at(path, end))
        && !detail.contains("greater than or equal to 0")
}

/// Reports whether a field has bytes, which JSON encodes as a text.
pub(super) fn is_bytes(path: &str) -> bool {
    is_at(path, "spec.request") || is_at(path, "caBundle")
}

/// Returns bytes as Go shows them; `text` encodes them in base64.
pub(super) fn show_bytes(name: &str, text: &str) -> String {
    show_each(name, &BASE64_STANDARD.decode(text).unwrap_or_default())
}

/// Returns a time as Go's `String` formats it; `None` if the text is no time in UTC. Servers in other time zones show
/// local times.
pub(super) fn show_time(text: &str) -> Option<String> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let time = if time.contains('.') { time.trim_end_matches('0').trim_end_matches('.') } else { time };
    Some(format!("{date} {time} +0000 UTC"))
}

fn is_at(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('.'))
}

fn show_each(name: &str, bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len() + 2 + 6 * bytes.len());
    shown.push_str(name);
    shown.push('{');
    for (index, byte) in bytes.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        // Writing to a text cannot fail.
        let _ = write!(shown, "{comma}{byte:#x}");
    }
    shown.push('}');
    shown
}

// === impl Type ===

impl Type {
    /// Returns a value of this type in Go's syntax. A missing value is the zero value.
    pub(super) fn show(&self, value: &Value) -> String {
        match self {
            Any => show_any(value),
            Text(_) => go_quote(value.as_str().unwrap_or_default()),
            Int(_) => value.as_i64().unwrap_or_default().to_string(),
            Bool => value.as_bool().unwrap_or_default().to_string(),
            IntOrString => {
                let text = value.as_str();
                let (kind, number) = (u8::from(text.is_some()), value.as_i64().unwrap_or_default());
                let text = go_quote(text.unwrap_or_default());
                format!("intstr.IntOrString{{Type:{kind}, IntVal:{number}, StrVal:{text}}}")
            }
            Quantity => {
                let text = value.as_str().unwrap_or_default();
                quantity::show(text, false).unwrap_or_else(|| go_quote(text))
            }
            Time => show_date(value.as_str().unwrap_or_default()),
            Raw => {
                let raw = if value.is_null() {
                    "[]uint8(nil)".to_owned()
                } else {
                    show_each("[]uint8", value.to_string().as_bytes())
                };
                format!("runtime.RawExtension{{Raw:{raw}, Object:runtime.Object(nil)}}")
            }
            List(name, item) => match value.as_array() {
                Some(items) => format!("{name}{{{}}}", join(items.iter().map(|value| item.show(value)))),
                None => format!("{name}(nil)"),
            },
            Map(name, item) => match sorted(value) {
                Some(entries) => format!("{name}{{{}}}", join(entries.map(|(key, value)| entry(key, item, value)))),
                None => format!("{name}(nil)"),
            },
            Struct(name, fields) => {
                let fields = fields.iter().map(|(name, ty)| format!("{name}:{}", ty.show(field(value, name))));
                format!("{name}{{{}}}", join(fields))
            }
            Pointer(Time) if value.is_null() => "<nil>".to_owned(),
            // Go calls a method of the time instead of showing the address.
            Pointer(Time) => Time.show(value),
            Pointer(target) if value.is_null() => format!("(*{})(nil)", target.name()),
            Pointer(target) => format!("(*{})({})", target.name(), target.show(value)),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Any => "interface {}",
            Bool => "bool",
            IntOrString => "intstr.IntOrString",
            Quantity => "resource.Quantity",
            Time => "v1.Time",
            Raw => "runtime.RawExtension",
            Text(name) | Int(name) | List(name, _) | Map(name, _) | Struct(name, _) => name,
            Pointer(target) => target.name(),
        }
    }

    /// Reports whether an object has the fields of this structure, under Go's names.
    fn has_exactly(&self, object: &serde_json::Map<String, Value>) -> bool {
        let Struct(_, fields) = self else { return false };
        fields.len() == object.len() && fields.iter().all(|(name, _)| object.contains_key(*name))
    }
}

/// Returns a value of JSON in an interface.
fn show_any(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => go_quote(text),
        Value::Array(_) => List("[]interface {}", &Any).show(value),
        Value::Object(_) => Map("map[string]interface {}", &Any).show(value),
    }
}

/// Returns a field of a structure, by Go's name or that of JSON.
fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.get(name).or_else(|| value.get(json_name(name))).unwrap_or(&Value::Null)
}

/// Returns the name in JSON of a field: `APIVersion` is `apiVersion`, `UID` is `uid`.
fn json_name(name: &str) -> String {
    let capitals = name.chars().take_while(char::is_ascii_uppercase).count();
    // The last capital of several begins the next word.
    let start = if capitals > 1 && capitals < name.len() { capitals - 1 } else { capitals };
    name[..start].to_ascii_lowercase() + &name[start..]
}

/// Returns the entries of an object in the order of their keys.
fn sorted(value: &Value) -> Option<impl Iterator<Item = (&String, &Value)>> {
    let mut entries: Vec<_> = value.as_object()?.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    Some(entries.into_iter())
}

fn entry(key: &str, ty: &Type, value: &Value) -> String {
    format!("{}:{}", go_quote(key), ty.show(value))
}

fn join(parts: impl Iterator<Item = String>) -> String {
    let mut joined = String::new();
    for part in parts {
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&part);
    }
    joined
}

/// Returns a time of whole seconds as Go's `GoString` formats it.
fn show_date(text: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let numbers: Vec<usize> = text.split(['-', 'T', ':', 'Z']).filter_map(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, second] = numbers[..] else { return go_quote(text) };
    let month = MONTHS.get(month.wrapping_sub(1)).copied().unwrap_or_default();
    format!("time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, 0, time.Local)")
}
