//! The volume types that pods and persistent volumes share, and their validation.
//!
//! The order is that of the real server: required fields come first.

use serde_json::Value;

use crate::kinds::pod_spec::one_of;
use crate::object::{Errors, Path, Tree, dns_label, dns_subdomain};

const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";
const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The owner of the volume.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner<'n> {
    Pod,
    /// A persistent volume with this name.
    Volume(&'n str),
}

impl Owner<'_> {
    /// Returns the fields of a secret reference. References of pods have no namespace, because they use that of the
    /// pod.
    fn secret_fields(self) -> &'static [&'static str] {
        match self {
            Self::Pod => &["name"],
            Self::Volume(_) => &["name", "namespace"],
        }
    }
}

/// Validates a source by its type; required fields come first.
pub(super) fn validate_source(
    kind: &str,
    required: &[&str],
    source: &Value,
    path: &Path<'_>,
    owner: Owner<'_>,
    errors: &mut Errors,
) {
    for field in required {
        let missing = match source.at(&[field]) {
            None => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(_) => false,
        };
        if missing {
            errors.required(&path.child(field), "");
        }
    }
    let file = source.text(&["path"]);
    match kind {
        "hostPath" if !file.is_empty() => {
            no_steps_back(file, &path.child("path"), errors);
            one_of(source, "type", &HOST_PATHS, path, errors);
        }
        "local" => no_steps_back(file, &path.child("path"), errors),
        "nfs" if !file.starts_with('/') => errors.invalid(&path.child("path"), file, "must be an absolute path"),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            within(source, "partition", "must be between 1 and 255, inclusive", path, errors);
        }
        "iscsi" => validate_iscsi(source, path, owner, errors),
        "fc" => validate_fc(source, path, errors),
        "flocker" => validate_dataset(source, path, errors),
        "glusterfs" => validate_endpoints(source, path, errors),
        "quobyte" => validate_quobyte(source, path, errors),
        "cinder" => validate_secret(source, "secretRef", owner, path, errors),
        "storageos" => {
            let name = source.text(&["volumeName"]);
            match name {
                "" => errors.required(&path.child("volumeName"), ""),
                _ => errors.invalid_each(&path.child("volumeName"), name, dns_label(name)),
            }
            let namespace = source.text(&["volumeNamespace"]);
            if !namespace.is_empty() {
                errors.invalid_each(&path.child("volumeNamespace"), namespace, dns_label(namespace));
            }
            validate_secret(source, "secretRef", owner, path, errors);
        }
        "flexVolume" => validate_options(source, path, errors),
        "azureFile" => {
            if let (Owner::Volume(_), Some("")) = (owner, source.at(&["secretNamespace"]).and_then(Value::as_str)) {
                errors.required(&path.child("secretNamespace"), "");
            }
        }
        "azureDisk" => validate_azure_disk(source, path, errors),
        "csi" => validate_driver(source, path, owner, errors),
        _ => {}
    }
}

pub(super) fn no_steps_back(file: &str, path: &Path<'_>, errors: &mut Errors) {
    if file.split('/').any(|part| part == "..") {
        errors.invalid(path, file, "must not contain '..'");
    }
}

/// Validates that a number is between 0 and 255.
fn within(source: &Value, field: &str, why: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(number) = source.int(&[field]).filter(|number| !(0..=255).contains(number)) {
        errors.invalid(&path.child(field), &number, why);
    }
}

fn validate_secret(source: &Value, field: &str, owner: Owner<'_>, path: &Path<'_>, errors: &mut Errors) {
    let Some(secret) = source.at(&[field]) else { return };
    for part in owner.secret_fields() {
        if secret.text(&[part]).is_empty() {
            errors.required(&path.child(field).child(part), "");
        }
    }
}

/// Validates the registry of a Quobyte volume.
fn validate_quobyte(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let registry = source.text(&["registry"]);
    if registry.is_empty() {
        errors.required(&path.child("registry"), REGISTRY);
    } else if source.text(&["tenant"]).len() > 64 {
        let text = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), text);
    } else {
        let is_address = |pair: &&str| {
            let host = pair.rsplit_once(':').map(|(host, _)| host);
            host.is_some_and(|host| !host.contains([':', '[', ']']) || (host.starts_with('[') && host.ends_with(']')))
        };
        for _ in registry.split(',').filter(|pair| !is_address(pair)) {
            errors.invalid(&path.child("registry"), registry, REGISTRY);
        }
    }
    if source.text(&["volume"]).is_empty() {
        errors.required(&path.child("volume"), "");
    }
}

/// Validates the namespace of the endpoints, which only persistent volumes can specify.
fn validate_endpoints(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.child("endpointsNamespace");
    match source.at(&["endpointsNamespace"]).and_then(Value::as_str) {
        Some("") => {
            errors.invalid(&place, "", "if the endpointnamespace is set, it must be a valid namespace name");
        }
        Some(namespace) => errors.invalid_each(&place, namespace, dns_label(namespace)),
        None => {}
    }
}

fn validate_dataset(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, id) = (source.text(&["datasetName"]), source.text(&["datasetUUID"]));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => errors.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

/// Validates a Fibre Channel source: target WWNs with a LUN, or WWIDs.
fn validate_fc(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let targets = source.items(&["targetWWNs"]);
    match (targets, source.items(&["wwids"])) {
        ([], []) => {
            errors.required(&path.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
        }
        ([_, ..], [_, ..]) => {
            let shown = Value::Array(targets.to_vec());
            let text = "targetWWNs and wwids can not be specified simultaneously";
            errors.invalid(&path.child("targetWWNs"), &shown, text);
        }
        _ => {}
    }
    if targets.is_empty() {
        return;
    }
    if source.at(&["lun"]).is_none() {
        errors.required(&path.child("lun"), "lun is required if targetWWNs is specified");
    }
    within(source, "lun", "must be between 0 and 255, inclusive", path, errors);
}

/// Validates the names of the iSCSI target and initiator.
fn validate_iscsi(source: &Value, path: &Path<'_>, owner: Owner<'_>, errors: &mut Errors) {
    let prefixed = |name: &str| ["iqn", "eui", "naa"].iter().any(|prefix| name.starts_with(prefix));
    let check = |field: &str, shown: &str, errors: &mut Errors| {
        let Some(name) = source.at(&[field]).and_then(Value::as_str) else { return };
        if field == "iqn" && name.is_empty() || is_iscsi_name(name) {
            return;
        }
        let text = match owner {
            Owner::Pod if !prefixed(name) => "must be valid format starting with iqn, eui, or naa",
            _ => "must be valid format",
        };
        errors.invalid(&path.child(shown), name, text);
    };
    if let (Owner::Volume(name), Some(_)) = (owner, source.at(&["initiatorName"])) {
        let portal = source.text(&["targetPortal"]);
        if name.len() + 1 + portal.len() > 64 {
            let text = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                        iscsi.initiatorName is specified.";
            errors.invalid(&path.child("targetportal"), portal, text);
        }
    }
    check("iqn", "iqn", errors);
    within(source, "lun", "must be between 0 and 255, inclusive", path, errors);
    let asks = source.flag(&["chapAuthDiscovery"]) || source.flag(&["chapAuthSession"]);
    match (source.at(&["secretRef"]), owner) {
        (None, _) if asks => errors.required(&path.child("secretRef"), ""),
        (Some(secret), Owner::Volume(_)) if secret.text(&["name"]).is_empty() => {
            errors.required(&path.child("secretRef.name"), "");
        }
        _ => {}
    }
    check("initiatorName", "initiatorname", errors);
}

/// Reports whether a name is valid for iSCSI: `iqn.2001-04.com.example:disk`, or a number after `eui.` or `naa.`.
fn is_iscsi_name(name: &str) -> bool {
    let of = |rest: &str, length: usize| {
        let mut letters = rest.chars();
        letters.next().is_some() && rest.len() == length + 1 && letters.all(|letter| letter.is_ascii_alphanumeric())
    };
    if let Some(rest) = name.strip_prefix("iqn.") {
        let Some((date, rest)) = rest.split_once('.') else { return false };
        let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        let dated = date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2));
        let Some((authority, own)) = rest.split_once(':') else { return false };
        let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        return dated
            && !authority.is_empty()
            && authority.bytes().all(named)
            && !own.is_empty()
            && !own.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r']);
    }
    name.strip_prefix("eui").is_some_and(|rest| of(rest, 16))
        || name.strip_prefix("naa").is_some_and(|rest| of(rest, 32))
}

/// Validates that a driver's options do not use the Kubernetes domains.
fn validate_options(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, _) in source.entries(&["options"]) {
        let namespace = key.split_once('/').map_or(&**key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let text = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&path.child("options").key(key), &**key, text);
        }
    }
}

fn validate_azure_disk(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    one_of(source, "cachingMode", &["None", "ReadOnly", "ReadWrite"], path, errors);
    one_of(source, "kind", &["Dedicated", "Managed", "Shared"], path, errors);
    let address = source.text(&["diskURI"]);
    let (prefix, known) = match source.at(&["kind"]).and_then(Value::as_str) {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !address.starts_with(prefix) {
        errors.unsupported(&path.child("diskURI"), address, &[known]);
    }
}

fn validate_driver(source: &Value, path: &Path<'_>, owner: Owner<'_>, errors: &mut Errors) {
    validate_driver_name(source.text(&["driver"]), &path.child("driver"), errors);
    if let Owner::Pod = owner {
        let Some(secret) = source.at(&["nodePublishSecretRef"]) else { return };
        let name = secret.text(&["name"]);
        return match name {
            "" => errors.required(&path.child("nodePublishSecretRef.name"), ""),
            _ => errors.invalid_each(&path.child("name"), name, dns_subdomain(name)),
        };
    }
    if source.text(&["volumeHandle"]).is_empty() {
        errors.required(&path.child("volumeHandle"), "");
    }
    for field in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let Some(secret) = source.at(&[field]) else { continue };
        let (place, name, namespace) = (path.child(field), secret.text(&["name"]), secret.text(&["namespace"]));
        match name {
            "" => errors.required(&place.child("name"), ""),
            _ => errors.invalid_each(&place.child("name"), name, dns_subdomain(name)),
        }
        match namespace {
            "" => errors.required(&place.child("namespace"), ""),
            _ => errors.invalid_each(&place.child("namespace"), namespace, dns_label(namespace)),
        }
    }
}

/// Validates the name of a volume driver.
pub(super) fn validate_driver_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > 63 {
        errors.too_long(path, 63);
    }
    errors.invalid_each(path, name, dns_subdomain(&name.to_lowercase()));
}
