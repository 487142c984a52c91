//! Liveness and readiness probes.
//!
//! `/healthz` and `/readyz` return `ok` if all of their checks pass, otherwise status 500 and the names of the failed
//! checks. `?verbose` lists each check, `?exclude=NAME` excludes a check, and `/readyz/NAME` runs a single check. The
//! responses are byte-identical to those of controller-runtime.

use std::{
    borrow::Cow,
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::{Request, StatusCode};
use tokio::net::TcpListener;
use windlass_api::{BoxError, ErrorChain};
use windlass_serve::RequestBody;

use crate::{
    Error, Group, Result, Runnable, RunnableContext,
    leader_election::Leadership,
    serving::{Answer, Listen, not_found, serve, text},
};

/// A server for probes, to be added to a [`Manager`](crate::Manager). It serves from the start of the manager, while
/// caches still sync, until the end.
///
/// ```
/// # use windlass_runtime::{Manager, Result, health::Probes};
/// # fn add(manager: &mut Manager) {
/// manager.add(Probes::bind(":8081").readyz("database", async || -> Result<()> { Ok(()) }));
/// # }
/// ```
#[must_use = "probes are not served until they are added to a `Manager`"]
pub struct Probes {
    listen: Listen,
    healthz: Checks,
    readyz: Checks,
    /// How long after its expiry a lease is still accepted.
    lease_tolerance: Option<Duration>,
}

/// The checks of one probe.
#[derive(Clone, Default)]
struct Checks(Vec<Check>);

#[derive(Clone)]
struct Check {
    name: Cow<'static, str>,
    run: Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>,
}

// === impl Probes ===

impl Probes {
    /// Serves at an address: `host:port`, or `:port` for every address of the machine. An empty address or `0` disables
    /// the server.
    pub fn bind(address: impl Into<String>) -> Self {
        Self::new(Listen::at(address))
    }

    /// Serves connections of a listener.
    pub fn on(listener: TcpListener) -> Self {
        Self::new(Listen::Bound(listener))
    }

    pub(crate) fn disabled() -> Self {
        Self::new(Listen::Off)
    }

    fn new(listen: Listen) -> Self {
        Self { listen, healthz: Checks::default(), readyz: Checks::default(), lease_tolerance: None }
    }

    /// Adds a liveness check. If it fails, the kubelet restarts the container.
    pub fn healthz<F, E>(
        mut self,
        name: impl Into<Cow<'static, str>>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.add_healthz(name, check);
        self
    }

    /// Adds a readiness check. If it fails, the pod receives no requests.
    pub fn readyz<F, E>(
        mut self,
        name: impl Into<Cow<'static, str>>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.add_readyz(name, check);
        self
    }

    pub(crate) fn add_healthz<F, E>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.healthz.0.push(Check::new(name, check));
    }

    pub(crate) fn add_readyz<F, E>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.readyz.0.push(Check::new(name, check));
    }

    /// Reports whether the probes are served.
    pub(crate) fn is_enabled(&self) -> bool {
        !matches!(self.listen, Listen::Off)
    }

    /// Fails `/healthz` if the manager considers itself the leader although its lease has expired by more than
    /// `tolerance`, see [`Leadership::check`]. The check is named `leaderElection`.
    pub fn leader_election(mut self, tolerance: Duration) -> Self {
        self.lease_tolerance = Some(tolerance);
        self
    }
}

impl Runnable for Probes {
    fn name(&self) -> String {
        "health probes".to_owned()
    }

    fn group(&self) -> Group {
        Group::Servers
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        async move {
            let Self { listen, mut healthz, readyz, lease_tolerance } = *self;
            if let Some(tolerance) = lease_tolerance {
                let leadership: Leadership = context.leadership().clone();
                healthz.0.push(Check::new("leaderElection", move || std::future::ready(leadership.check(tolerance))));
            }
            let Some(listener) = listen.bind().await.map_err(|source| Error::Listen { source })? else { return Ok(()) };
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "answering probes");
            }
            let probes = Arc::new([("/healthz", healthz.or_ping()), ("/readyz", readyz.or_ping())]);
            serve(listener, None, context.stop(), move |request: Request<RequestBody>| {
                let probes = Arc::clone(&probes);
                async move { answer(&*probes, &request).await }
            })
            .await;
            Ok(())
        }
        .boxed()
    }
}

impl Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Returns the response to a request of either probe.
async fn answer<B>(probes: &[(&str, Checks)], request: &Request<B>) -> Answer {
    let path = request.uri().path();
    let found = probes.iter().find_map(|(probe, checks)| {
        let rest = path.strip_prefix(probe)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| (rest.trim_start_matches('/'), checks))
    });
    match found {
        Some(("", checks)) => checks.answer(request.uri().query().unwrap_or_default()).await,
        Some((name, checks)) => match checks.0.iter().find(|check| check.name == name) {
            Some(check) => check.answer().await,
            None => not_found(),
        },
        None => not_found(),
    }
}

// === impl Checks ===

impl Checks {
    /// Adds the default check `ping` if there are no checks.
    fn or_ping(mut self) -> Self {
        if self.0.is_empty() {
            self.0.push(Check::new("ping", || std::future::ready(Ok::<_, BoxError>(()))));
        }
        self
    }

    async fn answer(&self, query: &str) -> Answer {
        let values = |name: &str| -> Vec<String> {
            let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs.filter(|(key, _)| *key == name).map(|(_, value)| decoded(value)).collect()
        };
        let mut excluded = values("exclude");
        let (mut report, mut passed) = (String::new(), true);
        for check in &self.0 {
            let name = &*check.name;
            if excluded.iter().any(|excluded| excluded == name) {
                excluded.retain(|excluded| excluded != name);
                report += &format!("[+]{name} excluded: ok\n");
                continue;
            }
            match (check.run)().await {
                Ok(()) => report += &format!("[+]{name} ok\n"),
                Err(error) => {
                    // The endpoint is public, so the reason is only logged.
                    tracing::debug!(check = name, error = %ErrorChain(&*error), "a health check failed");
                    report += &format!("[-]{name} failed: reason withheld\n");
                    passed = false;
                }
            }
        }
        excluded.sort();
        excluded.dedup();
        if !excluded.is_empty() {
            let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
            report += &format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(","));
        }
        if !passed {
            return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}healthz check failed\n"));
        }
        if values("verbose").is_empty() {
            return text(StatusCode::OK, "ok");
        }
        text(StatusCode::OK, format!("{report}healthz check passed\n"))
    }
}

// === impl Check ===

impl Check {
    fn new<F, E>(name: impl Into<Cow<'static, str>>, check: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let run = move || check().map(|result| result.map_err(Into::into)).boxed();
        Self { name: name.into(), run: Arc::new(run) }
    }

    async fn answer(&self) -> Answer {
        match (self.run)().await {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(error) => {
                let message = format!("internal server error: {}\n", ErrorChain(&*error));
                text(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
        }
    }
}

/// Decodes a query value.
fn decoded(value: &str) -> String {
    let value = value.replace('+', " ");
    percent_encoding::percent_decode_str(&value).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};

    use super::*;

    fn failing() -> std::future::Ready<Result<(), BoxError>> {
        std::future::ready(Err("no connection".into()))
    }

    fn fine() -> std::future::Ready<Result<(), BoxError>> {
        std::future::ready(Ok(()))
    }

    async fn asked(probes: &Probes, uri: &str) -> (u16, String) {
        let probes = [("/healthz", probes.healthz.clone().or_ping()), ("/readyz", probes.readyz.clone().or_ping())];
        let request = Request::get(uri).body(Empty::<bytes::Bytes>::new()).unwrap();
        let answer = answer(&probes, &request).await;
        let status = answer.status().as_u16();
        assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
        let body = BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn probe_without_checks_succeeds() {
        let probes = Probes::bind("0");
        for uri in ["/healthz", "/readyz/", "/readyz/ping"] {
            assert_eq!(asked(&probes, uri).await, (200, "ok".to_owned()), "{uri}");
        }
        let verbose = asked(&probes, "/healthz?verbose").await;
        assert_eq!(verbose, (200, "[+]ping ok\nhealthz check passed\n".to_owned()));
        for uri in ["/healthzz", "/", "/readyz/other", "/metrics"] {
            assert_eq!(asked(&probes, uri).await, (404, "404 page not found\n".to_owned()), "{uri}");
        }
    }

    #[tokio::test]
    async fn failed_check_shows_reason_only_on_its_own_path() {
        let probes = Probes::bind("0").readyz("cache", fine).readyz("database", failing);
        let report = "[+]cache ok\n[-]database failed: reason withheld\nhealthz check failed\n";
        assert_eq!(asked(&probes, "/readyz").await, (500, report.to_owned()));
        assert_eq!(asked(&probes, "/healthz").await.0, 200, "the other probe has its own checks");
        assert_eq!(asked(&probes, "/readyz/cache").await, (200, "ok".to_owned()));
        let alone = asked(&probes, "/readyz/database").await;
        assert_eq!(alone, (500, "internal server error: no connection\n".to_owned()));
    }

    #[tokio::test]
    async fn checks_are_excluded_by_name() {
        let probes = Probes::bind("0").readyz("cache", fine).readyz("data base", failing);
        assert_eq!(asked(&probes, "/readyz?exclude=data%20base").await, (200, "ok".to_owned()));
        let (status, report) = asked(&probes, "/readyz?verbose=1&exclude=data+base&exclude=z&exclude=a").await;
        let expected = "[+]cache ok\n[+]data base excluded: ok\n\
            warn: some health checks cannot be excluded: no matches for \"a\",\"z\"\nhealthz check passed\n";
        assert_eq!((status, &*report), (200, expected));
    }
}
