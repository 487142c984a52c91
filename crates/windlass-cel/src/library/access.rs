//! Access checks by the authorizer, and the keys of JSON patches.

use windlass_api::validation;

use crate::{
    access::{AccessCheck, AccessTarget, AccessValue, ResourceTarget},
    cost::Cost,
    extension::ExtensionValue,
    fault::EvalFault,
    function::Row,
    library::text,
    meter::Meter,
    value::Value,
};

/// The cost of an access check. It allows two checks per expression.
const CHECK: Cost = Cost::Fixed(350_000);

/// The function that exists only in expressions that return patches.
pub(crate) const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// A row for a method that sets a field of a resource.
macro_rules! resource_row {
    ($name:literal $field:ident $cost:expr) => {
        (
            concat!(
                "kubernetes.authorization.ResourceCheck::",
                $name,
                "(string) kubernetes.authorization.ResourceCheck"
            ),
            $cost,
            |_, args| {
                let (AccessValue::Resource { account, target }, text) = (access(args)?, text(args, 1)?) else {
                    return Err(EvalFault::error("no such overload"));
                };
                let target = ResourceTarget { $field: text.to_owned(), ..target.clone() };
                Ok(value(AccessValue::Resource { account: account.clone(), target }))
            },
        )
    };
}

pub(super) const TABLE: &[Row] = &[
    ("kubernetes.authorization.Authorizer::path(string) kubernetes.authorization.PathCheck", Cost::Flat, |_, args| {
        let (AccessValue::Authorizer { account }, path) = (access(args)?, text(args, 1)?) else {
            return Err(EvalFault::error("no such overload"));
        };
        if path.trim().is_empty() {
            return Err(EvalFault::error("path must not be empty"));
        }
        Ok(value(AccessValue::Path { account: account.clone(), path: path.to_owned() }))
    }),
    (
        "kubernetes.authorization.Authorizer::group(string) kubernetes.authorization.GroupCheck",
        Cost::Flat,
        |_, args| {
            let (AccessValue::Authorizer { account }, group) = (access(args)?, text(args, 1)?) else {
                return Err(EvalFault::error("no such overload"));
            };
            Ok(value(AccessValue::Group { account: account.clone(), group: group.to_owned() }))
        },
    ),
    (
        "kubernetes.authorization.Authorizer::serviceAccount(string, string) kubernetes.authorization.Authorizer",
        Cost::Flat,
        |_, args| {
            let (namespace, name) = (text(args, 1)?, text(args, 2)?);
            if !validation::dns_subdomain(name).is_empty() {
                return Err(EvalFault::error("Invalid service account name"));
            }
            if !validation::dns_label(namespace).is_empty() {
                return Err(EvalFault::error("Invalid service account namespace"));
            }
            Ok(value(AccessValue::Authorizer { account: Some((namespace.to_owned(), name.to_owned())) }))
        },
    ),
    (
        "kubernetes.authorization.GroupCheck::resource(string) kubernetes.authorization.ResourceCheck",
        Cost::Flat,
        |_, args| {
            let (AccessValue::Group { account, group }, resource) = (access(args)?, text(args, 1)?) else {
                return Err(EvalFault::error("no such overload"));
            };
            if resource.trim().is_empty() {
                return Err(EvalFault::error("resource must not be empty"));
            }
            let target =
                ResourceTarget { group: group.clone(), resource: resource.to_owned(), ..ResourceTarget::default() };
            Ok(value(AccessValue::Resource { account: account.clone(), target }))
        },
    ),
    resource_row!("subresource" subresource Cost::Flat),
    resource_row!("namespace" namespace Cost::Flat),
    resource_row!("name" name Cost::Flat),
    resource_row!("fieldSelector" field_selector Cost::Selector),
    resource_row!("labelSelector" label_selector Cost::Selector),
    ("kubernetes.authorization.PathCheck::check(string) kubernetes.authorization.Decision", CHECK, check),
    ("kubernetes.authorization.ResourceCheck::check(string) kubernetes.authorization.Decision", CHECK, check),
    ("kubernetes.authorization.Decision::allowed() bool", Cost::Flat, |_, args| match access(args)? {
        AccessValue::Decision(decision) => Ok(Value::Bool(decision.allowed)),
        _ => Err(EvalFault::error("no such overload")),
    }),
    ("kubernetes.authorization.Decision::reason() string", Cost::Flat, |_, args| match access(args)? {
        AccessValue::Decision(decision) => Ok(Value::text(&decision.reason)),
        _ => Err(EvalFault::error("no such overload")),
    }),
    ("kubernetes.authorization.Decision::errored() bool", Cost::Flat, |_, args| match access(args)? {
        AccessValue::Decision(decision) => Ok(Value::Bool(decision.error.is_some())),
        _ => Err(EvalFault::error("no such overload")),
    }),
    ("kubernetes.authorization.Decision::error() string", Cost::Flat, |_, args| match access(args)? {
        AccessValue::Decision(decision) => Ok(Value::text(decision.error.as_deref().unwrap_or_default())),
        _ => Err(EvalFault::error("no such overload")),
    }),
    ("jsonpatch.escapeKey(string) string", Cost::First, |_, args| {
        Ok(Value::from(text(args, 0)?.replace('~', "~0").replace('/', "~1")))
    }),
];

fn value<'v>(access: AccessValue) -> Value<'v> {
    Value::extension(ExtensionValue::Access(access))
}

/// Returns the target of a method.
fn access<'a>(args: &'a [Value<'_>]) -> Result<&'a AccessValue, EvalFault> {
    match args.first() {
        Some(Value::Extension(value)) => match &**value {
            ExtensionValue::Access(access) => Ok(access),
            _ => Err(EvalFault::error("no such overload")),
        },
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn check<'v>(meter: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let verb = text(args, 1)?.to_owned();
    let (account, target) = match access(args)?.clone() {
        AccessValue::Path { account, path } => (account, AccessTarget::Path(path)),
        AccessValue::Resource { account, target } => (account, AccessTarget::Resource(target)),
        _ => return Err(EvalFault::error("no such overload")),
    };
    Ok(value(AccessValue::Decision(meter.decide(AccessCheck { account, verb, target })?)))
}
