//! The runnable that renews shared certificates and injects their authorities into webhook configurations.

use std::{fmt, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::time::{Instant, sleep};
use windlass_api::{Clock, ErrorChain, ObjectExt as _, ObjectRef, k8s_openapi::api::core::v1::Secret};
use windlass_client::{Client, certificates::ServingCertificate, config::LiveIdentity};

use super::{
    CaBundleTarget,
    shared::{Policy, Shared, Trust},
};
use crate::{
    Error, Result,
    runnable::{Group, Runnable, RunnableContext},
};

const DAY: Duration = Duration::from_hours(24);

/// A certificate authority and a serving certificate, shared by the program's replicas and renewed before they expire.
/// Add it to a manager as a runnable.
///
/// It needs the verbs `get`, `create` and `update` on the Secret, and `get` and `patch` on its targets, all by name. It
/// watches nothing.
#[must_use = "certificates are not created until this is added to a `Manager`"]
pub struct WebhookCertificates {
    secret: ObjectRef<Secret>,
    policy: Policy,
    settle: Duration,
    interval: Duration,
    targets: Vec<CaBundleTarget>,
    live: LiveIdentity,
}

/// The state of one replica.
struct CertificateManager {
    certificates: WebhookCertificates,
    client: Client,
    clock: Clock,
    /// The authorities that were injected into all targets, and the time of the injection.
    injected: Option<(String, Instant)>,
}

/// The result of a pass over the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassResult {
    Done,
    /// Another replica wrote first.
    Again,
}

impl WebhookCertificates {
    /// Stores the certificates in this Secret, which is created if it does not exist.
    ///
    /// By default authorities are valid for one year and serving certificates for 30 days. Each is renewed when a third
    /// of its validity is left.
    pub fn in_secret(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace: String = namespace.into();
        let name: String = name.into();
        Self {
            secret: ObjectRef::new(name).within(namespace),
            policy: Policy { names: Vec::new(), authority: DAY * 365, serving: DAY * 30 },
            settle: Duration::from_mins(1),
            interval: Duration::from_secs(10),
            targets: Vec::new(),
            live: LiveIdentity::new(),
        }
    }

    /// Issues the certificate for a server behind this Service.
    pub fn for_service(self, namespace: &str, name: &str) -> Self {
        let service = format!("{name}.{namespace}.svc");
        let in_cluster = format!("{service}.cluster.local");
        self.for_names([service, in_cluster])
    }

    /// Issues the certificate for these DNS names and IP addresses.
    pub fn for_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.policy.names.extend(names.into_iter().map(Into::into));
        self
    }

    /// Injects the authorities into these objects.
    pub fn inject_into(mut self, targets: impl IntoIterator<Item = CaBundleTarget>) -> Self {
        self.targets.extend(targets);
        self
    }

    /// Sets the validity of authorities and of serving certificates.
    pub const fn lifetimes(mut self, authority: Duration, serving: Duration) -> Self {
        self.policy.authority = authority;
        self.policy.serving = serving;
        self
    }

    /// Sets how long API servers may take to apply a new `caBundle` before the new authority signs certificates.
    /// Defaults to 1 minute.
    pub const fn settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Sets the interval at which the Secret and the targets are checked. Defaults to 10 s.
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Returns the serving certificate, for [`windlass_webhook::Server::certificate`]. It is empty until the runnable
    /// has run.
    #[must_use]
    pub fn serving(&self) -> Arc<ServingCertificate> {
        Arc::new(ServingCertificate::new(self.live.clone()))
    }
}

impl CertificateManager {
    async fn pass(&mut self) -> Result<PassResult> {
        let WebhookCertificates { secret: key, policy, .. } = &self.certificates;
        let found = self.client.get_opt(key).await?;
        let shared = found.as_ref().and_then(|secret| {
            Shared::read(secret).unwrap_or_else(|error| {
                tracing::warn!(secret = %key, error = %ErrorChain(&error), "the certificates in the secret are invalid, creating new ones");
                None
            })
        });
        let trust = shared.as_ref().map_or(Trust::Pending, |shared| self.trust(shared));
        let renewed = policy.renew(shared.as_ref(), trust, self.clock.now()).map_err(Error::other)?;
        let current = match (renewed, shared) {
            (None, Some(shared)) => shared,
            (None, None) => return Ok(PassResult::Again),
            (Some(renewed), _) => {
                if self.write(found, &renewed).await? == PassResult::Again {
                    return Ok(PassResult::Again);
                }
                renewed
            }
        };
        self.publish(&current);
        self.inject(&current).await?;
        Ok(PassResult::Done)
    }

    /// Reports whether API servers trust all shared authorities.
    fn trust(&self, shared: &Shared) -> Trust {
        let settled = |(bundle, since): &(String, Instant)| {
            *bundle == shared.bundle() && since.elapsed() >= self.certificates.settle
        };
        if self.injected.as_ref().is_some_and(settled) { Trust::Settled } else { Trust::Pending }
    }

    async fn write(&self, found: Option<Secret>, shared: &Shared) -> Result<PassResult> {
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
                Ok(PassResult::Done)
            }
            Err(error) if error.status().is_some_and(|status| status.is_conflict() || status.is_already_exists()) => {
                Ok(PassResult::Again)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Puts the certificate into use for new connections.
    fn publish(&self, shared: &Shared) {
        let identity = shared.serving().identity();
        if self.certificates.live.current().as_deref() != Some(&identity) {
            self.certificates.live.set(identity);
        }
    }

    async fn inject(&mut self, shared: &Shared) -> Result<()> {
        let bundle = shared.bundle();
        for target in &self.certificates.targets {
            target.inject(&self.client, &bundle).await?;
        }
        if self.injected.as_ref().is_none_or(|(injected, _)| *injected != bundle) {
            self.injected = Some((bundle, Instant::now()));
        }
        Ok(())
    }
}

impl Runnable for WebhookCertificates {
    fn name(&self) -> String {
        format!("webhook certificates in {}", self.secret)
    }

    fn group(&self) -> Group {
        Group::Webhooks
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        let (client, clock) = (context.cluster().client().clone(), context.cluster().clock().clone());
        let mut manager = CertificateManager { certificates: *self, client, clock, injected: None };
        async move {
            let stop = context.stop().clone();
            loop {
                let result = tokio::select! {
                    () = stop.requested() => return Ok(()),
                    result = manager.pass() => result,
                };
                match result {
                    Ok(PassResult::Done) => {}
                    Ok(PassResult::Again) => continue,
                    Err(error) => {
                        let error = ErrorChain(&error);
                        tracing::warn!(%error, "cannot renew the webhook certificates");
                    }
                }
                tokio::select! {
                    () = stop.requested() => return Ok(()),
                    () = sleep(manager.certificates.interval) => {}
                }
            }
        }
        .boxed()
    }
}

impl fmt::Debug for WebhookCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secret, policy, settle, interval, targets, .. } = self;
        let mut debug = f.debug_struct("WebhookCertificates");
        debug.field("secret", secret).field("policy", policy).field("settle", settle);
        debug.field("interval", interval).field("targets", targets).finish_non_exhaustive()
    }
}
