//! Keeps what replicas share, and tells whom it concerns.

use std::{fmt, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::time::{Instant, sleep};
use windlass_api::{Clock, ErrorChain, ObjectExt as _, ObjectRef, k8s_openapi::api::core::v1::Secret};
use windlass_client::{Client, certificates::ServingCertificate, config::LiveIdentity};

use super::{
    Trustee,
    shared::{Policy, Shared, Trust},
};
use crate::{
    Error, Result,
    manager::{Group, Runnable, Running},
};

const DAY: Duration = Duration::from_hours(24);

/// An authority of the program's own, and a serving certificate from it, shared by its replicas and replaced in time: a
/// runnable of a manager.
///
/// It may get, create and update the Secret, and get and patch its trustees: all by name, and it watches nothing.
#[must_use = "certificates are made when this runs in a `Manager`"]
pub struct WebhookCertificates {
    secret: ObjectRef<Secret>,
    policy: Policy,
    settle: Duration,
    interval: Duration,
    trustees: Vec<Trustee>,
    live: LiveIdentity,
}

/// What one replica knows.
struct Keeper {
    certificates: WebhookCertificates,
    client: Client,
    clock: Clock,
    /// Which authorities all trustees have been told of, and since when.
    told: Option<(String, Instant)>,
}

/// How a look at the Secret ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Done,
    /// Another replica was faster.
    Again,
}

impl WebhookCertificates {
    /// Kept in this Secret, which is made if it is not there.
    ///
    /// Authorities are valid for a year, serving certificates for 30 days, unless told otherwise; each is replaced when a third
    /// of its time is left.
    pub fn in_secret(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace: String = namespace.into();
        let name: String = name.into();
        Self {
            secret: ObjectRef::new(name).within(namespace),
            policy: Policy { names: Vec::new(), authority: DAY * 365, serving: DAY * 30 },
            settle: Duration::from_mins(1),
            interval: Duration::from_secs(10),
            trustees: Vec::new(),
            live: LiveIdentity::new(),
        }
    }

    /// For a server behind this Service.
    pub fn for_service(self, namespace: &str, name: &str) -> Self {
        let service = format!("{name}.{namespace}.svc");
        let in_cluster = format!("{service}.cluster.local");
        self.for_names([service, in_cluster])
    }

    /// For a server that is reached by these names and addresses.
    pub fn for_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.policy.names.extend(names.into_iter().map(Into::into));
        self
    }

    /// These are told of its authorities.
    pub fn trusted_by(mut self, trustees: impl IntoIterator<Item = Trustee>) -> Self {
        self.trustees.extend(trustees);
        self
    }

    /// How long an authority, and how long a serving certificate is valid.
    pub const fn lifetimes(mut self, authority: Duration, serving: Duration) -> Self {
        self.policy.authority = authority;
        self.policy.serving = serving;
        self
    }

    /// How long API servers may take to hear of an authority that their configurations know of, before it signs; a minute by
    /// default.
    pub const fn settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// How often Secret and trustees are looked at; every ten seconds by default.
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The certificate to serve with: for [`windlass_webhook::Server::certificate`]. There is none before this has run.
    #[must_use]
    pub fn serving(&self) -> Arc<ServingCertificate> {
        Arc::new(ServingCertificate::new(self.live.clone()))
    }
}

impl Keeper {
    async fn look(&mut self) -> Result<Look> {
        let WebhookCertificates { secret: key, policy, .. } = &self.certificates;
        let found = self.client.get_opt(key).await?;
        let shared = found.as_ref().and_then(|secret| {
            Shared::read(secret).unwrap_or_else(|error| {
                tracing::warn!(secret = %key, error = %ErrorChain(&error), "its certificates cannot be used: making new ones");
                None
            })
        });
        let trust = shared.as_ref().map_or(Trust::Pending, |shared| self.trust(shared));
        let renewed = policy.renew(shared.as_ref(), trust, self.clock.now()).map_err(Error::other)?;
        let current = match (renewed, shared) {
            (None, Some(shared)) => shared,
            (None, None) => return Ok(Look::Again),
            (Some(renewed), _) => {
                if self.write(found, &renewed).await? == Look::Again {
                    return Ok(Look::Again);
                }
                renewed
            }
        };
        self.publish(&current);
        self.tell(&current).await?;
        Ok(Look::Done)
    }

    /// Whether API servers know all that is shared.
    fn trust(&self, shared: &Shared) -> Trust {
        let settled = |(bundle, since): &(String, Instant)| {
            *bundle == shared.bundle() && since.elapsed() >= self.certificates.settle
        };
        if self.told.as_ref().is_some_and(settled) { Trust::Settled } else { Trust::Pending }
    }

    async fn write(&self, found: Option<Secret>, shared: &Shared) -> Result<Look> {
        let key = &self.certificates.secret;
        let written = if let Some(mut secret) = found {
            shared.write(&mut secret);
            self.client.update(&secret).await
        } else {
            let mut secret = Secret { type_: Some("kubernetes.io/tls".to_owned()), ..Secret::default() };
            secret.metadata.name = Some(key.name().to_owned());
            secret.metadata.namespace = key.namespace().map(str::to_owned);
            shared.write(&mut secret);
            self.client.create(&secret).await
        };
        match written {
            Ok(secret) => {
                tracing::info!(secret = %key, version = secret.resource_version(), "wrote certificates for webhooks");
                Ok(Look::Done)
            }
            Err(error) if error.status().is_some_and(|status| status.is_conflict() || status.is_already_exists()) => {
                Ok(Look::Again)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Connections that come from now on see it.
    fn publish(&self, shared: &Shared) {
        let identity = shared.serving().identity();
        if self.certificates.live.current().as_deref() != Some(&identity) {
            self.certificates.live.set(identity);
        }
    }

    async fn tell(&mut self, shared: &Shared) -> Result<()> {
        let bundle = shared.bundle();
        for trustee in &self.certificates.trustees {
            trustee.tell(&self.client, &bundle).await?;
        }
        if self.told.as_ref().is_none_or(|(told, _)| *told != bundle) {
            self.told = Some((bundle, Instant::now()));
        }
        Ok(())
    }
}

impl Runnable for WebhookCertificates {
    fn name(&self) -> String {
        format!("certificates of webhooks in {}", self.secret)
    }

    fn group(&self) -> Group {
        Group::Webhooks
    }

    fn run(self: Box<Self>, running: Running) -> BoxFuture<'static, Result<()>> {
        let (client, clock) = (running.cluster().client().clone(), running.cluster().clock().clone());
        let mut keeper = Keeper { certificates: *self, client, clock, told: None };
        async move {
            let stop = running.stop().clone();
            loop {
                let looked = tokio::select! {
                    () = stop.requested() => return Ok(()),
                    looked = keeper.look() => looked,
                };
                match looked {
                    Ok(Look::Done) => {}
                    Ok(Look::Again) => continue,
                    Err(error) => {
                        let error = ErrorChain(&error);
                        tracing::warn!(%error, "could not look after the certificates of webhooks");
                    }
                }
                tokio::select! {
                    () = stop.requested() => return Ok(()),
                    () = sleep(keeper.certificates.interval) => {}
                }
            }
        }
        .boxed()
    }
}

impl fmt::Debug for WebhookCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secret, policy, settle, interval, trustees, .. } = self;
        let mut debug = f.debug_struct("WebhookCertificates");
        debug.field("secret", secret).field("policy", policy).field("settle", settle);
        debug.field("interval", interval).field("trustees", trustees).finish_non_exhaustive()
    }
}
