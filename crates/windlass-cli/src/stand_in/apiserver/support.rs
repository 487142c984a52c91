//! The flags of kube-apiserver without an effect in this stand-in: ignored ones, and rejected ones.
//!
//! A flag that restricts, records or protects something must not be ignored, because users rely on it. Unknown flags
//! are rejected, as by the real server.

use std::error::Error;

use windlass_server::AdmissionPlugins;

use crate::stand_in::flags::{Flag, Flags};

/// The flag that lets the server start with unsupported flags. There is also an environment variable, for tests that
/// cannot add a flag.
pub(super) const ALLOW: &str = "allow-unsupported-flags";
pub(super) const ALLOW_VARIABLE: &str = "WINDLASS_ALLOW_UNSUPPORTED_FLAGS";

/// Ignored flags: tuning, logs, and flags for etcd, kubelets or other API servers. A name that ends in `-` is a prefix.
const IGNORED: &[&str] = &[
    "aggregator-reject-forwarding-redirect",
    "allow-metric-labels",
    "allow-metric-labels-manifest",
    "alsologtostderr",
    "contention-profiling",
    "coordinated-leadership-",
    "cors-allowed-origins",
    "debug-socket-path",
    "default-not-ready-toleration-seconds",
    "default-unreachable-toleration-seconds",
    "delete-collection-workers",
    "disable-http2-serving",
    "disabled-metrics",
    "egress-selector-config-file",
    "emulated-version",
    "emulation-forward-compatible",
    "enable-aggregator-routing",
    "enable-garbage-collector",
    "enable-logs-handler",
    "endpoint-reconciler-type",
    "etcd-",
    "external-hostname",
    "feature-gates",
    "goaway-chance",
    "kubelet-",
    "kubernetes-service-node-port",
    "lease-reuse-duration-seconds",
    "livez-grace-period",
    "log-",
    "logging-format",
    "logtostderr",
    "min-compatibility-version",
    "min-request-timeout",
    "peer-",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "runtime-config-emulation-forward-compatible",
    "service-account-extend-token-expiration",
    "service-account-jwks-uri",
    "service-node-port-range",
    "show-hidden-metrics-for-version",
    "shutdown-",
    "stderrthreshold",
    "storage-",
    "tracing-config-file",
    "v",
    "vmodule",
    "watch-cache",
    "watch-cache-sizes",
];

/// The missing feature of each rejected flag.
const MISSING: &[(&str, &str)] = &[
    ("api-audiences", "tokens have the issuer as their only audience"),
    ("authorization-policy-file", "there are no other authorizers"),
    ("encryption-provider-config", "objects are in memory, and not encrypted"),
    ("encryption-provider-config-automatic-reload", "objects are in memory, and not encrypted"),
    ("max-connection-bytes-per-sec", "connections have no rate limit"),
    ("service-account-max-token-expiration", "the lifetime of tokens is not limited"),
    ("service-account-signing-endpoint", "tokens are signed by the server"),
    ("strict-transport-security-directives", "there is no such header"),
    ("tls-curve-preferences", "curves cannot be chosen"),
    ("tls-sni-cert-key", "there is one certificate"),
];

/// Flags that are accepted with these values, because they request no missing feature.
const HARMLESS_VALUES: &[(&str, &str)] =
    &[("encryption-provider-config-automatic-reload", "false"), ("max-connection-bytes-per-sec", "0")];

/// Rejects unsupported flags, or prints a warning if they are allowed.
pub(super) fn check(flags: &Flags, known: &[Flag], allowed: bool) -> Result<(), Box<dyn Error>> {
    let complaints: Vec<String> = flags.iter().filter_map(|(name, value)| complaint(name, value, known)).collect();
    if complaints.is_empty() {
        return Ok(());
    }
    if allowed {
        for complaint in complaints {
            tracing::warn!("{complaint}");
        }
        return Ok(());
    }
    Err(format!(
        "{}; --{ALLOW} (or {ALLOW_VARIABLE}=true) starts the server although these flags are not supported",
        complaints.join("; ")
    )
    .into())
}

fn complaint(name: &str, value: &str, known: &[Flag]) -> Option<String> {
    let is_harmless = HARMLESS_VALUES.iter().any(|(flag, harmless)| *flag == name && *harmless == value);
    if name == ALLOW || is_harmless {
        return None;
    }
    if matches!(name, "enable-admission-plugins" | "admission-control") {
        let missing: Vec<&str> = plugins(value).filter(|plugin| AdmissionPlugins::is_missing(plugin)).collect();
        let complain = || format!("unsupported flag --{name}={}: these plugins are not enforced", missing.join(","));
        return (!missing.is_empty()).then(complain);
    }
    if known.iter().any(|known| known.name == name) || IGNORED.iter().any(|ignored| covers(ignored, name)) {
        return None;
    }
    let missing = MISSING.iter().find(|(flag, _)| covers(flag, name));
    Some(
        missing
            .map_or_else(|| format!("unknown flag: --{name}"), |(_, why)| format!("unsupported flag --{name}: {why}")),
    )
}

fn plugins(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|plugin| !plugin.is_empty())
}

fn covers(entry: &str, name: &str) -> bool {
    if entry.ends_with('-') { name.starts_with(entry) } else { name == entry }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::{apiserver::FLAGS, flags::Invocation};

    fn checked(line: &str, allowed: bool) -> Result<(), String> {
        let arguments = line.split(' ').map(str::to_owned);
        let Invocation::Run(flags) = Flags::read(FLAGS, arguments) else { panic!("{line}") };
        check(&flags, FLAGS, allowed).map_err(|error| error.to_string())
    }

    #[test]
    fn flag_that_protects_something_is_refused_by_its_name() {
        for (flag, why) in [
            ("--encryption-provider-config=/e.yaml", "--encryption-provider-config: objects are in memory"),
            (
                "--enable-admission-plugins=LimitRanger,ImagePolicyWebhook",
                "--enable-admission-plugins=ImagePolicyWebhook: ",
            ),
            ("--authorization-policy-file=/p", "--authorization-policy-file: there are no other authorizers"),
        ] {
            let error = checked(flag, false).unwrap_err();
            assert!(error.contains(&format!("unsupported flag {why}")), "{flag}: {error}");
            assert!(error.contains("--allow-unsupported-flags"), "{error}");
            assert_eq!(checked(flag, true), Ok(()), "{flag}");
        }
        let error = checked("--anonymous-auht=false", false).unwrap_err();
        assert!(error.starts_with("unknown flag: --anonymous-auht; "), "{error}");
    }

    #[test]
    fn flags_of_test_suites_are_taken() {
        for flag in [
            "--feature-gates=A=true,B=false",
            "--runtime-config=api/beta=true",
            "--enable-admission-plugins=NamespaceLifecycle,AlwaysPullImages",
            "--disable-admission-plugins=ServiceAccount,NamespaceLifecycle",
            "--etcd-servers=http://127.0.0.1:1 --watch-cache=false --v=4",
            "--service-account-lookup=true --enable-bootstrap-token-auth --enable-admission-plugins=NodeRestriction",
            "--authentication-config=/a.yaml --requestheader-client-ca-file=/ca.crt",
            "--oidc-issuer-url=https://x --authentication-token-webhook-config-file=/w",
            "--max-requests-inflight=0 --service-node-port-range=1-2",
            "--anonymous-auth=false --tls-min-version=VersionTLS13",
            "--audit-log-path= --audit-policy-file=/policy.yaml --audit-webhook-batch-max-size=5",
        ] {
            assert_eq!(checked(flag, false), Ok(()), "{flag}");
        }
    }
}
