//! Validation of configurations.

use std::net::SocketAddr;

use windlass_api::{GroupKind, validation};

use super::{
    Access, Cache, ConfigurationError, Controllers, LeaderElectionConfig, ManagerConfiguration, ShardingConfig,
};
use crate::{LeaderElection, Sharding, leader_election::InvalidElection, sharding::InvalidSharding};

/// A field and the reason why it is invalid.
type Violation = (String, String);

impl ManagerConfiguration {
    /// Checks the configuration. Parsing and applying call this method. Call it after you change a configuration in
    /// code.
    pub fn validate(&self) -> Result<(), ConfigurationError> {
        let rules = [
            address("metrics.bindAddress", &self.metrics.bind_address),
            address("health.bindAddress", &self.health.bind_address),
            console_address(&self.console.bind_address),
            self.addresses_differ(),
            self.tokens_are_safe(),
            self.leader_election.holds(),
            self.sharding.holds(),
            self.cache.namespaces_are_named(),
            self.controllers.kinds_are_named(),
            self.rate_makes_sense(),
        ];
        let violation = rules.into_iter().find_map(Result::err);
        violation.map_or(Ok(()), |(field, reason)| Err(ConfigurationError::Invalid { file: None, field, reason }))
    }

    fn addresses_differ(&self) -> Result<(), Violation> {
        let (metrics, health) = (&self.metrics.bind_address, &self.health.bind_address);
        let taken = metrics == health && !is_off(health) && !health.ends_with(":0");
        violation_if(taken, "health.bindAddress", || format!("{health:?} is also the address of the metrics"))
    }

    fn tokens_are_safe(&self) -> Result<(), Violation> {
        let unsafe_ = !self.metrics.secure && self.metrics.access == Some(Access::Authorized);
        violation_if(unsafe_, "metrics.access", || "tokens would be sent in plain text: metrics.secure is false".into())
    }

    fn rate_makes_sense(&self) -> Result<(), Violation> {
        let (qps, burst) = (self.client.qps, self.client.burst);
        let wrong_rate = qps.is_some_and(|qps| !(qps.is_finite() && qps > 0.0));
        violation_if(wrong_rate, "client.qps", || "must be more than 0; without it there is no limit".into())?;
        violation_if(burst == Some(0), "client.burst", || "must be more than 0".into())?;
        violation_if(burst.is_some() && qps.is_none(), "client.burst", || "has no effect without client.qps".into())
    }
}

impl LeaderElectionConfig {
    /// Checks the rules of [`LeaderElection`].
    fn holds(&self) -> Result<(), Violation> {
        if !self.enabled {
            return Ok(());
        }
        let Err(error) = LeaderElection::from(self).validate() else { return Ok(()) };
        Err((format!("leaderElection.{}", timing(error).unwrap_or("id")), error.to_string()))
    }
}

impl ShardingConfig {
    /// Checks the rules of [`Sharding`].
    fn holds(&self) -> Result<(), Violation> {
        if !self.enabled {
            return Ok(());
        }
        let Err(error) = Sharding::from(self).validate() else { return Ok(()) };
        let field = match &error {
            InvalidSharding::Timings(error) => timing(*error).unwrap_or("group"),
            InvalidSharding::Group { .. } | InvalidSharding::Lease { .. } => "group",
        };
        Err((format!("sharding.{field}"), error.to_string()))
    }
}

impl Cache {
    fn namespaces_are_named(&self) -> Result<(), Violation> {
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let field = format!("cache.namespaces[{index}]");
            let wrong = validation::dns_label(namespace);
            violation_if(!wrong.is_empty(), &field, || {
                format!("{namespace:?} is not a valid namespace: {}", wrong.join(", "))
            })?;
            let again = self.namespaces[..index].contains(namespace);
            violation_if(again, &field, || format!("{namespace:?} is listed twice"))?;
        }
        Ok(())
    }
}

/// Returns the field of the invalid duration.
fn timing(error: InvalidElection) -> Option<&'static str> {
    Some(match error {
        InvalidElection::LeaseNotLongerThanDeadline | InvalidElection::NoLeaseDuration => "leaseDuration",
        InvalidElection::DeadlineNotLongerThanRetry | InvalidElection::NoRenewDeadline => "renewDeadline",
        InvalidElection::NoRetryPeriod => "retryPeriod",
        InvalidElection::NoIdentity | InvalidElection::NoLease => return None,
    })
}

impl Controllers {
    fn kinds_are_named(&self) -> Result<(), Violation> {
        let mut kinds = self.group_kind_concurrency.keys();
        let wrong = kinds.find(|kind| !kind.starts_with(|first: char| first.is_ascii_uppercase()));
        match wrong {
            None => Ok(()),
            Some(wrong) => Err((
                format!("controllers.groupKindConcurrency.{wrong}"),
                "is not a kind and group, such as Deployment.apps, or Pod for the core group".into(),
            )),
        }
    }
}

/// Parses a kind such as `Deployment.apps`.
pub(super) fn group_kind(text: &str) -> GroupKind {
    let (kind, group) = text.split_once('.').unwrap_or((text, ""));
    GroupKind::new(group.to_owned(), kind.to_owned())
}

/// Reports whether an address disables a server, as in flags.
pub(super) fn is_off(address: &str) -> bool {
    address.is_empty() || address == "0"
}

fn address(field: &str, address: &str) -> Result<(), Violation> {
    let port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let bare_ipv6 = address.matches(':').count() > 1 && address.parse::<SocketAddr>().is_err();
    violation_if(!is_off(address) && (!port || bare_ipv6), field, || {
        format!(
            "{address:?} is not a valid address: expected host:port, :port for every address of the machine, or 0 to disable it"
        )
    })
}

/// A port alone means loopback here.
fn console_address(bound: &str) -> Result<(), Violation> {
    let wrong = bound.parse::<u16>().is_err() && address("", bound).is_err();
    violation_if(wrong, "console.bindAddress", || {
        format!("{bound:?} is not a valid address: expected a loopback port, host:port, or 0 to disable it")
    })
}

fn violation_if(broken: bool, field: &str, reason: impl FnOnce() -> String) -> Result<(), Violation> {
    if broken { Err((field.to_owned(), reason())) } else { Ok(()) }
}
