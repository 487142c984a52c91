//! The flags for time limits, with the names of kube-apiserver.

use std::time::Duration;

use clap::Args;
use windlass_server::ServerBuilder;

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct TimeLimits {
    /// Maximum time for a request, except watches and other long-running requests; by default 1m
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    request_timeout: Option<Duration>,
    /// Time after which Events are deleted, unless they are written again; by default 1h
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    event_ttl: Option<Duration>,
}

impl TimeLimits {
    pub(crate) fn new(request_timeout: Option<Duration>, event_ttl: Option<Duration>) -> Self {
        Self { request_timeout, event_ttl }
    }

    pub(crate) fn apply(self, mut server: ServerBuilder) -> ServerBuilder {
        if let Some(timeout) = self.request_timeout {
            server = server.request_timeout(timeout);
        }
        if let Some(lifetime) = self.event_ttl {
            server = server.event_lifetime(lifetime);
        }
        server
    }
}

/// Parses a duration in Go's notation, which may be zero.
pub(crate) fn not_negative(text: &str) -> Result<Duration, String> {
    let duration = windlass_api::parse_duration(text).map_err(|error| error.to_string())?;
    duration.try_into().map_err(|_| "expected a duration that is not negative, such as 30s".to_owned())
}

/// Parses a positive duration in Go's notation.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    let duration = windlass_api::parse_duration(text).map_err(|error| error.to_string())?;
    let duration = Duration::try_from(duration).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "expected a positive duration, such as 5m or 1h30m".to_owned())
}
