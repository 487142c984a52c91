//! The health probes, the version and the list of paths.

use std::{borrow::Cow, collections::BTreeSet};

use http::StatusCode;
use serde_json::{Value, json};

use crate::{kubernetes::KubernetesVersion, resource::ResourceTable, state::State};

mod checks;

use self::checks::Results;

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

/// Answers `/healthz`, `/livez` and `/readyz`, and the paths of their individual checks. Returns `None` for any other
/// path.
pub(crate) async fn probe(server: &State, path: &str, options: &Options<'_>) -> Option<Report> {
    let path = path.strip_prefix('/')?;
    let (probe, check) = path.split_once('/').map_or((path, None), |(probe, check)| (probe, Some(check)));
    let checks = checks::of_probe(server, probe)?;
    let mut results = Results::default();
    if let Some(name) = check {
        let check = checks.iter().find(|known| known.name == name)?;
        return Some(match check.run(server, &mut results).await {
            Ok(()) => Report { no_sniff: false, ..Report::new(StatusCode::OK, "ok") },
            Err(reason) => Report::new(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n")),
        });
    }
    let mut lines = String::new();
    let mut failed = false;
    for check in &checks {
        let name = check.name;
        let line = if options.exclude.contains(&name) {
            format!("[+]{name} excluded: ok\n")
        } else if check.run(server, &mut results).await.is_ok() {
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
        .filter(|name| !checks.iter().any(|check| check.name == **name))
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
pub(crate) fn index(server: &State, table: &ResourceTable) -> Value {
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
    for (probe, checks) in checks::all(server) {
        paths.insert(format!("/{probe}"));
        paths.extend(checks.iter().map(|check| format!("/{probe}/{}", check.name)));
    }
    json!({ "paths": paths })
}
