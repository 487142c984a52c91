//! The Windows options of containers.

use crate::kinds::{pod_spec::ContainerKind, prelude::*};

/// The maximum length of a credential spec, in bytes.
const MAX_CREDENTIALS: usize = 64 * 1024;
/// The limits on domain and user, in bytes: a domain must be shorter, a user must not be longer.
const DOMAIN_LIMIT: usize = 256;
const MAX_USER: usize = 104;
/// Characters that user names must not contain.
const FORBIDDEN_IN_USERS: &str = "\"/\\:;|=,+*?<>@[]";
/// Characters that NetBIOS names must not contain.
const FORBIDDEN_IN_NET_BIOS: &str = "\\/:*?\"<>|";
const HOST_PROCESS: &str = "securityContext.windowsOptions.hostProcess";

/// Validates the Windows options of a pod's or a container's security context.
pub(super) fn validate_options(context: &Field<'_>, errors: &mut Errors) {
    let options = context.child("windowsOptions");
    options.child("gmsaCredentialSpecName").check_set_text(dns_subdomain, errors);
    let credentials = options.child("gmsaCredentialSpec");
    if credentials.is_set() && credentials.is_empty() {
        credentials.invalid("gmsaCredentialSpec cannot be an empty string", errors);
    } else if credentials.text().len() > MAX_CREDENTIALS {
        credentials.invalid("gmsaCredentialSpec size must be under 64 KiB", errors);
    }
    let user = options.child("runAsUserName");
    if user.is_set() {
        for problem in user_problems(user.text()) {
            user.invalid(&format!("runAsUserName{problem}"), errors);
        }
    }
}

/// Returns the problems of `USER` or `DOMAIN\USER`.
fn user_problems(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, user)) if user.contains('\\') => return vec![" cannot contain more than one backslash"],
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut problems = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN_LIMIT {
            problems.push("'s Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !is_domain(domain) {
            problems.push("'s Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        problems.push("'s User cannot be empty");
    } else if user.len() > MAX_USER {
        problems.push("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|letter| matches!(letter, '.' | ' ')) {
        problems.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(|letter| FORBIDDEN_IN_USERS.contains(letter)) {
        problems.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    problems
}

/// Reports whether a domain is a NetBIOS name: up to 15 characters, and no dot at the beginning.
fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|letter| FORBIDDEN_IN_NET_BIOS.contains(letter))
}

/// Reports whether a domain is a DNS name. Upper case letters are allowed.
fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(is_label)
}

/// Validates host process containers: all containers of a pod or none, and only with the host network.
pub(super) fn validate_host_processes(spec: &Field<'_>, errors: &mut Errors) {
    let host_process = |field: &Field<'_>| field.value().and_then(Value::as_bool);
    let of_pod = host_process(&spec.child(HOST_PROCESS));
    let (mut containers, mut processes) = (0, 0);
    for kind in ContainerKind::START_ORDER {
        for container in spec.child(kind.list()).items() {
            let field = container.child(HOST_PROCESS);
            let of_container = host_process(&field);
            if let (Some(of_pod), Some(of_container)) = (of_pod, of_container)
                && of_pod != of_container
            {
                let detail = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
                field.invalid(&detail, errors);
            }
            containers += 1;
            processes += usize::from(of_container.or(of_pod).unwrap_or_default());
        }
    }
    if processes == 0 {
        return;
    }
    if processes != containers {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        spec.invalid_as("", detail, errors);
    }
    let network = spec.child("hostNetwork");
    if !network.flag() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        network.invalid_as(&Value::Bool(false), detail, errors);
    }
}
