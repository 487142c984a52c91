//! The health probes, the version and the list of paths.

use std::{borrow::Cow, collections::BTreeSet};

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    kubernetes::KubernetesVersion,
    resource::ResourceTable,
    state::{AddedCheck, State},
};

/// The probes and their own checks. The storage check is called `etcd`, as probes expect.
const PROBES: [(&str, &[Check]); 3] = [
    ("healthz", &[Check::Ping, Check::Etcd, Check::Added]),
    ("livez", &[Check::Ping, Check::Etcd]),
    ("readyz", &[Check::Ping, Check::Etcd, Check::Added, Check::Bootstrap, Check::Shutdown]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// Always succeeds.
    Ping,
    /// The storage takes reads and writes.
    Etcd,
    /// The check that the program has added, if there is one.
    Added,
    /// The bootstrap objects exist.
    Bootstrap,
    /// The server is not shutting down.
    Shutdown,
}

/// The query of a probe.
#[derive(Debug, Default)]
pub(crate) struct Options<'q> {
    pub(crate) verbose: bool,
    /// Checks that are excluded.
    pub(crate) exclude: Vec<&'q str>,
}

/// The response to a probe.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) status: StatusCode,
    pub(crate) text: Cow<'static, str>,
    /// The response has the header `X-Content-Type-Options`.
    pub(crate) no_sniff: bool,
}

impl Report {
    fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into(), no_sniff: true }
    }
}

impl Check {
    /// Returns `None` for a check that has not been added.
    fn name(self, added: Option<&AddedCheck>) -> Option<&'static str> {
        Some(match self {
            Self::Ping => "ping",
            Self::Etcd => "etcd",
            Self::Added => return added.map(|added| added.name),
            Self::Bootstrap => "poststarthook/bootstrap-controller",
            Self::Shutdown => "shutdown",
        })
    }

    /// Returns the reason of a failure, if clients may know it. As in kube-apiserver, only the path of the check itself
    /// reports it, for which clients need more permissions than for the probe.
    async fn run(self, server: &State) -> Result<(), Cow<'static, str>> {
        let holds = match self {
            Self::Ping => true,
            Self::Etcd => server.storage().check().await.is_ok(),
            Self::Added => match server.added_check() {
                Some(added) => return (added.check)().await.map_err(|error| error.to_string().into()),
                None => true,
            },
            Self::Bootstrap => server.registry().await.is_ok(),
            Self::Shutdown => !server.is_stopping(),
        };
        if holds { Ok(()) } else { Err("reason withheld".into()) }
    }
}

/// Answers `/healthz`, `/livez` and `/readyz`, and the paths of their individual checks. Returns `None` for any other
/// path.
pub(crate) async fn probe(server: &State, path: &str, options: &Options<'_>) -> Option<Report> {
    let path = path.strip_prefix('/')?;
    let (probe, check) = path.split_once('/').map_or((path, None), |(probe, check)| (probe, Some(check)));
    let (_, checks) = PROBES.iter().find(|(name, _)| *name == probe)?;
    let added = server.added_check();
    let checks: Vec<(Check, &str)> = checks.iter().filter_map(|check| Some((*check, check.name(added)?))).collect();
    if let Some(name) = check {
        let (check, _) = checks.iter().find(|(_, known)| *known == name)?;
        return Some(match check.run(server).await {
            Ok(()) => Report { no_sniff: false, ..Report::new(StatusCode::OK, "ok") },
            Err(reason) => Report::new(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n")),
        });
    }
    let mut lines = String::new();
    let mut failed = false;
    for (check, name) in &checks {
        let line = if options.exclude.contains(name) {
            format!("[+]{name} excluded: ok\n")
        } else if check.run(server).await.is_ok() {
            format!("[+]{name} ok\n")
        } else {
            failed = true;
            format!("[-]{name} failed: reason withheld\n")
        };
        lines.push_str(&line);
    }
    let unknown: BTreeSet<String> = options
        .exclude
        .iter()
        .filter(|name| !checks.iter().any(|(_, known)| known == *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.into_iter().collect::<Vec<_>>().join(",");
        lines += "warn: some health checks cannot be excluded: no matches for ";
        lines += &unknown;
        lines.push('\n');
    }
    Some(match (failed, options.verbose) {
        (true, _) => Report::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{probe} check failed\n")),
        (false, true) => Report::new(StatusCode::OK, format!("{lines}{probe} check passed\n")),
        (false, false) => Report::new(StatusCode::OK, "ok"),
    })
}

/// Returns the compact document at `/version`. Our version is the build metadata of the served version.
pub(crate) fn version(kubernetes: KubernetesVersion) -> Vec<u8> {
    let platform = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let minor = kubernetes.minor();
    let version = json!({
        "major": "1",
        "minor": minor.to_string(),
        "emulationMajor": "1",
        "emulationMinor": minor.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": (minor - 1).to_string(),
        "gitVersion": format!("{}+windlass.{}", kubernetes.release(), env!("CARGO_PKG_VERSION")),
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{platform}", std::env::consts::OS),
    });
    version.to_string().into_bytes()
}

/// Paths that exist regardless of the served resources.
const FIXED: [&str; 10] = [
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/apis/",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/version",
];

/// Returns the document at `/`: the list of paths.
pub(crate) fn index(table: &ResourceTable, added: Option<&AddedCheck>) -> Value {
    let mut paths: BTreeSet<String> = FIXED.map(str::to_owned).into();
    if table.kubernetes() >= KubernetesVersion::V1_36 {
        paths.extend(["/flagz", "/statusz"].map(str::to_owned));
    }
    for resource in table.iter() {
        if resource.group.is_empty() {
            paths.insert(format!("/api/{}", resource.version));
        } else {
            paths.insert(format!("/apis/{}", resource.group));
            paths.insert(format!("/apis/{}/{}", resource.group, resource.version));
        }
    }
    for (probe, checks) in PROBES {
        paths.insert(format!("/{probe}"));
        paths.extend(checks.iter().filter_map(|check| Some(format!("/{probe}/{}", check.name(added)?))));
    }
    json!({ "paths": paths })
}
