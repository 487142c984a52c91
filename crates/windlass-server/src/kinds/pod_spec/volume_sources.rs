//! The volume types that pods and persistent volumes share, and their validation.
//!
//! The order is that of the real server: required fields come first.

use crate::kinds::prelude::*;

const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const MAX_TENANT: usize = 64;
/// The maximum length of the name of a volume and the portal of its iSCSI target, separated by a colon.
const MAX_NAME_AND_PORTAL: usize = 64;
const MAX_DRIVER_NAME: usize = 63;
/// The secrets of a persistent volume's CSI driver, in the order of the errors.
const CSI_SECRETS: [&str; 4] =
    ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];

/// The volume types in the order of validation, with their required fields. Only persistent volumes are `local`.
pub(super) const KINDS: [(&str, &[&str]); 31] = [
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &[]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &[]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &[]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &[]),
    ("local", &["path"]),
];

/// The owner of the volume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'n> {
    Pod,
    /// A persistent volume with this name.
    Volume(&'n str),
}

/// Returns the source of a volume by its type. In errors, one type has another name.
pub(crate) fn source<'c>(volume: &'c Field<'_>, kind: &'c str) -> Field<'c> {
    let reported_name = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
    Field::new(volume.path().child(reported_name), volume.child(kind).value())
}

/// Adds the error for a second type of a volume. In these errors, two types have another name.
pub(crate) fn forbid_second_source(volume: &Field<'_>, kind: &str, errors: &mut Errors) {
    let reported_name = match kind {
        "cephfs" => "cephFS",
        "downwardAPI" => "downwarAPI",
        kind => kind,
    };
    volume.child(reported_name).forbidden("may not specify more than 1 volume type", errors);
}

/// Validates a source by its type; required fields come first.
pub(crate) fn validate_source(kind: &str, source: &Field<'_>, owner: Owner<'_>, errors: &mut Errors) {
    let required_fields = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, fields)| *fields);
    for name in required_fields.unwrap_or_default() {
        let field = source.child(name);
        // An empty claim template is valid here.
        if field.is_empty() && !field.json().is_object() {
            field.required("", errors);
        }
    }
    let file = source.child("path");
    match kind {
        "hostPath" if !file.is_empty() => {
            validate_no_backsteps(&file, errors);
            source.child("type").one_of(&HOST_PATH_TYPES, errors);
        }
        "local" => validate_no_backsteps(&file, errors),
        "nfs" if !file.text().starts_with('/') => file.invalid_as(file.text(), "must be an absolute path", errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            // 0 stands for a volume without partitions.
            let partition = source.child("partition");
            if partition.int() != Some(0) {
                partition.in_range(1, 255, errors);
            }
        }
        "iscsi" => validate_iscsi(source, owner, errors),
        "fc" => validate_fc(source, errors),
        "flocker" => validate_dataset(source, errors),
        "glusterfs" => validate_endpoints_namespace(&source.child("endpointsNamespace"), errors),
        "quobyte" => validate_quobyte(source, errors),
        "cinder" => validate_secret(&source.child("secretRef"), owner, errors),
        "storageos" => {
            source.child("volumeName").required_text(dns_label, errors);
            source.child("volumeNamespace").optional_text(dns_label, errors);
            validate_secret(&source.child("secretRef"), owner, errors);
        }
        "flexVolume" => validate_options(&source.child("options"), errors),
        "azureFile" => {
            let namespace = source.child("secretNamespace");
            if matches!(owner, Owner::Volume(_)) && namespace.is_set() && namespace.is_empty() {
                namespace.required("", errors);
            }
        }
        "azureDisk" => validate_azure_disk(source, errors),
        "csi" => validate_csi(source, owner, errors),
        _ => {}
    }
}

/// Validates that a path does not leave its directory.
pub(super) fn validate_no_backsteps(file: &Field<'_>, errors: &mut Errors) {
    if file.text().split('/').any(|part| part == "..") {
        file.invalid("must not contain '..'", errors);
    }
}

/// Validates a reference to a secret. References of pods have no namespace, because they use that of the pod.
fn validate_secret(secret: &Field<'_>, owner: Owner<'_>, errors: &mut Errors) {
    if !secret.is_set() {
        return;
    }
    secret.check(&[("name", Rule::Required)], errors);
    if let Owner::Volume(_) = owner {
        secret.check(&[("namespace", Rule::Required)], errors);
    }
}

/// Validates the registry of a Quobyte volume.
fn validate_quobyte(source: &Field<'_>, errors: &mut Errors) {
    let (registry, tenant) = (source.child("registry"), source.child("tenant"));
    if registry.is_empty() {
        registry.required(REGISTRY, errors);
    } else if tenant.text().len() > MAX_TENANT {
        tenant.required("must be a UUID and may not exceed a length of 64 characters", errors);
    } else {
        let is_address = |pair: &&str| {
            let host = pair.rsplit_once(':').map(|(host, _)| host);
            host.is_some_and(|host| !host.contains([':', '[', ']']) || (host.starts_with('[') && host.ends_with(']')))
        };
        for _ in registry.text().split(',').filter(|pair| !is_address(pair)) {
            registry.invalid(REGISTRY, errors);
        }
    }
    source.check(&[("volume", Rule::Required)], errors);
}

/// Validates the namespace of the endpoints, which only persistent volumes can specify.
fn validate_endpoints_namespace(namespace: &Field<'_>, errors: &mut Errors) {
    namespace.optional_text(dns_label, errors);
    if namespace.is_set() && namespace.is_empty() {
        namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name", errors);
    }
}

/// Validates the dataset of a Flocker volume.
fn validate_dataset(source: &Field<'_>, errors: &mut Errors) {
    let name = source.child("datasetName");
    match (name.is_empty(), source.child("datasetUUID").is_empty()) {
        (true, true) => source.required("one of datasetName and datasetUUID is required", errors),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            source.invalid_as("resource", detail, errors);
        }
        _ => {}
    }
    if name.text().contains('/') {
        name.invalid("must not contain '/'", errors);
    }
}

/// Validates a Fibre Channel source: target WWNs with a LUN, or WWIDs.
fn validate_fc(source: &Field<'_>, errors: &mut Errors) {
    let targets = source.child("targetWWNs");
    match (targets.is_empty(), source.child("wwids").is_empty()) {
        (true, true) => targets.required("must specify either targetWWNs or wwids, but not both", errors),
        (false, false) => targets.invalid("targetWWNs and wwids can not be specified simultaneously", errors),
        _ => {}
    }
    if targets.is_empty() {
        return;
    }
    let unit = source.child("lun");
    unit.check_set("lun is required if targetWWNs is specified", errors);
    unit.in_range(0, 255, errors);
}

/// Validates an iSCSI source. In errors, some fields have another name.
fn validate_iscsi(source: &Field<'_>, owner: Owner<'_>, errors: &mut Errors) {
    let initiator = Field::new(source.path().child("initiatorname"), source.child("initiatorName").value());
    if let Owner::Volume(name) = owner
        && initiator.is_set()
    {
        let portal = source.child("targetPortal").text();
        if name.len() + 1 + portal.len() > MAX_NAME_AND_PORTAL {
            let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                          iscsi.initiatorName is specified.";
            source.child("targetportal").invalid_as(portal, detail, errors);
        }
    }
    let target = source.child("iqn");
    if !target.is_empty() {
        validate_iscsi_name(&target, owner, errors);
    }
    source.child("lun").in_range(0, 255, errors);
    let secret = source.child("secretRef");
    if secret.is_set() {
        if let Owner::Volume(_) = owner {
            secret.check(&[("name", Rule::Required)], errors);
        }
    } else if source.child("chapAuthDiscovery").flag() || source.child("chapAuthSession").flag() {
        secret.required("", errors);
    }
    initiator.if_set(|initiator, errors| validate_iscsi_name(initiator, owner, errors), errors);
}

/// Validates the name of an iSCSI target or initiator.
fn validate_iscsi_name(name: &Field<'_>, owner: Owner<'_>, errors: &mut Errors) {
    if is_iscsi_name(name.text()) {
        return;
    }
    let has_prefix = ["iqn", "eui", "naa"].iter().any(|prefix| name.text().starts_with(prefix));
    let detail = match owner {
        Owner::Pod if !has_prefix => "must be valid format starting with iqn, eui, or naa",
        _ => "must be valid format",
    };
    name.invalid(detail, errors);
}

/// Reports whether a name is valid for iSCSI: `iqn.2001-04.com.example:disk`, or a number after `eui.` or `naa.`.
fn is_iscsi_name(name: &str) -> bool {
    let is_number = |rest: &str, length: usize| {
        let mut letters = rest.chars();
        letters.next().is_some() && rest.len() == length + 1 && letters.all(|letter| letter.is_ascii_alphanumeric())
    };
    if let Some(rest) = name.strip_prefix("iqn.") {
        let Some((date, rest)) = rest.split_once('.') else { return false };
        let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_dated = date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2));
        let Some((authority, own_name)) = rest.split_once(':') else { return false };
        let in_authority = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        return is_dated
            && !authority.is_empty()
            && authority.bytes().all(in_authority)
            && !own_name.is_empty()
            && !own_name.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r']);
    }
    name.strip_prefix("eui").is_some_and(|rest| is_number(rest, 16))
        || name.strip_prefix("naa").is_some_and(|rest| is_number(rest, 32))
}

/// Validates that a driver's options do not use the Kubernetes domains.
fn validate_options(options: &Field<'_>, errors: &mut Errors) {
    for (key, option) in options.entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved", errors);
        }
    }
}

fn validate_azure_disk(source: &Field<'_>, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let rules = [
        ("cachingMode", Rule::OneOf(&["None", "ReadOnly", "ReadWrite"])),
        ("kind", Rule::OneOf(&["Dedicated", "Managed", "Shared"])),
    ];
    source.check(&rules, errors);
    let (prefix, format) = match source.child("kind").value().and_then(Value::as_str) {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    let address = source.child("diskURI");
    if !address.text().starts_with(prefix) {
        address.unsupported(&[format], errors);
    }
}

/// Validates the driver of a CSI volume and the secrets for it.
fn validate_csi(source: &Field<'_>, owner: Owner<'_>, errors: &mut Errors) {
    validate_driver_name(&source.child("driver"), errors);
    if let Owner::Pod = owner {
        let secret = source.child("nodePublishSecretRef");
        if !secret.is_set() {
            return;
        }
        let name = secret.child("name");
        if name.is_empty() {
            return name.required("", errors);
        }
        // The real server reports this path.
        return errors.invalid_each(&source.path().child("name"), name.text(), dns_subdomain(name.text()));
    }
    source.check(&[("volumeHandle", Rule::Required)], errors);
    for name in CSI_SECRETS {
        let secret = source.child(name);
        if secret.is_set() {
            secret.child("name").required_text(dns_subdomain, errors);
            secret.child("namespace").required_text(dns_label, errors);
        }
    }
}

/// Validates the name of a volume driver.
pub(crate) fn validate_driver_name(name: &Field<'_>, errors: &mut Errors) {
    if name.is_empty() {
        name.required("", errors);
        // Before 1.35, the syntax of an empty name is checked, too.
        if !errors.before(V1_35) {
            return;
        }
    }
    name.check_bytes(MAX_DRIVER_NAME, errors);
    name.invalid_each(dns_subdomain(&name.text().to_lowercase()), errors);
}
