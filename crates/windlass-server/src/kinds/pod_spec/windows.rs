//! The Windows options of containers.

use serde_json::Value;

use crate::kinds::pod_spec::ContainerKind;
use crate::object::{Errors, Path, Tree, dns_subdomain};

/// The maximum length of a credential spec, in bytes.
const LONGEST_CREDENTIALS: usize = 64 * 1024;
/// The limits on domain and user, in bytes: a domain must be shorter, a user must not be longer.
const LONGEST_DOMAIN: usize = 256;
const LONGEST_USER: usize = 104;
/// Characters that user names must not contain.
const NOT_OF_USERS: &str = "\"/\\:;|=,+*?<>@[]";

/// Validates the Windows options of a pod's or a container's security context.
pub(super) fn validate_options(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(options) = context.at(&["windowsOptions"]) else { return };
    let path = path.child("windowsOptions");
    let text = |field: &str| options.at(&[field]).and_then(Value::as_str);
    if let Some(name) = text("gmsaCredentialSpecName") {
        errors.invalid_each(&path.child("gmsaCredentialSpecName"), name, dns_subdomain(name));
    }
    if let Some(credentials) = text("gmsaCredentialSpec") {
        let place = path.child("gmsaCredentialSpec");
        if credentials.is_empty() {
            errors.invalid(&place, credentials, "gmsaCredentialSpec cannot be an empty string");
        } else if credentials.len() > LONGEST_CREDENTIALS {
            errors.invalid(&place, credentials, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = text("runAsUserName") {
        let place = path.child("runAsUserName");
        for problem in user_problems(name) {
            errors.invalid(&place, name, &format!("runAsUserName{problem}"));
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
        if domain.len() >= LONGEST_DOMAIN {
            problems.push("'s Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !is_domain(domain) {
            problems.push("'s Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        problems.push("'s User cannot be empty");
    } else if user.len() > LONGEST_USER {
        problems.push("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|letter| matches!(letter, '.' | ' ')) {
        problems.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(|letter| NOT_OF_USERS.contains(letter)) {
        problems.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    problems
}

/// Reports whether a domain is a NetBIOS name: up to 15 characters, and no dot at the beginning.
fn is_net_bios(domain: &str) -> bool {
    const NOT_THERE: &str = "\\/:*?\"<>|";
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|letter| NOT_THERE.contains(letter))
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
pub(super) fn validate_host_processes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const FIELD: [&str; 3] = ["securityContext", "windowsOptions", "hostProcess"];
    let asked = |of: &Value| of.at(&FIELD).and_then(Value::as_bool);
    let of_pod = asked(spec);
    let (mut containers, mut processes) = (0, 0);
    for kind in ContainerKind::START_ORDER {
        let list = path.child(kind.list());
        for (index, container) in spec.items(&[kind.list()]).iter().enumerate() {
            let own = asked(container);
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let text = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
                errors.invalid(&list.index(index).child(&FIELD.join(".")), &Value::Bool(own), &text);
            }
            containers += 1;
            processes += usize::from(own.or(of_pod).unwrap_or_default());
        }
    }
    if processes == 0 {
        return;
    }
    if processes != containers {
        let text = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", text);
    }
    if !spec.flag(&["hostNetwork"]) {
        let text = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), &Value::Bool(false), text);
    }
}
