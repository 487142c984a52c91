//! A certificate that is signed by the cluster and renewed before it expires.
//!
//! The manager generates a key, creates a `CertificateSigningRequest`, and waits until it is approved and signed. It
//! then stores key and certificate and passes them to their users. The key never leaves this process, except for the
//! store.
//!
//! The manager renews the certificate after 70 to 90 % of its lifetime, at random to spread the load. If the
//! certificate does not match the request, it is renewed immediately.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};
use windlass_api::{
    Backoff, Clock, Entropy, ErrorChain, ObjectExt as _,
    k8s_openapi::{
        ByteString,
        api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
    },
};

use super::{Certificate, CertificateError, CertificateRequest, CertificateStore, KeyedCertificate, PrivateKey};
use crate::{Client, connection_options::LiveIdentity};

/// The time to wait for a signature before creating a new request, as in Go's manager.
const SIGNATURE_TIMEOUT: Duration = Duration::from_mins(15);
/// The back-off between failed requests, as in Go's manager.
const RETRY: Backoff = Backoff::new(Duration::from_secs(2)).factor(2.0).jitter(0.1).limit(Duration::from_secs(32));
/// The maximum sleep, because the wall clock may be adjusted meanwhile.
const NAP: Duration = Duration::from_hours(1);

/// Obtains a certificate from the cluster and renews it.
///
/// ```no_run
/// # async fn example(client: windlass_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use windlass_client::{Client, Config, certificates::*};
///
/// let request = CertificateRequest::client("kubernetes.io/kube-apiserver-client", "backup");
/// let manager = CertificateManager::new(client, request, FileStore::new("/var/lib/backup/client.pem"))?;
/// let tls = Config::infer()?.tls.with_live_identity(manager.live());
/// tokio::spawn(manager.run());
/// let client = Client::new(Config::infer()?.with_tls(tls))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CertificateManager {
    client: Client,
    requests: watch::Receiver<CertificateRequest>,
    store: Arc<dyn CertificateStore>,
    clock: Clock,
    entropy: Entropy,
    current: Mutex<Option<Current>>,
    live: LiveIdentity,
}

/// The origin of the current certificate.
#[derive(Clone, Debug)]
struct Current {
    certificate: Certificate,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// It was signed for the request.
    Signed,
    /// It is the initial certificate, to be replaced at the first opportunity.
    Bootstrap,
}

impl CertificateManager {
    /// Creates a manager that sends its requests with `client` and starts with the stored certificate. Reads the store,
    /// which may block.
    pub fn new(
        client: Client,
        request: CertificateRequest,
        store: impl CertificateStore,
    ) -> Result<Self, CertificateError> {
        let kept = store.load()?;
        let manager = Self {
            client,
            requests: watch::channel(request).1,
            store: Arc::new(store),
            clock: Clock::system(),
            entropy: Entropy::os(),
            current: Mutex::default(),
            live: LiveIdentity::new(),
        };
        if let Some(kept) = kept {
            manager.put_in_use(&kept, Origin::Signed);
        }
        Ok(manager)
    }

    /// Returns this manager with an initial certificate, used if the store contains no valid one.
    #[must_use]
    pub fn with_bootstrap(self, keyed: &KeyedCertificate) -> Self {
        let now = self.clock.now();
        if !self.current.lock().as_ref().is_some_and(|current| current.certificate.is_valid_at(now)) {
            self.put_in_use(keyed, Origin::Bootstrap);
        }
        self
    }

    /// Returns this manager with requests that may change: each new value in `requests` replaces the previous request,
    /// even while that waits for its signature.
    #[must_use]
    pub fn following(mut self, requests: watch::Receiver<CertificateRequest>) -> Self {
        self.requests = requests;
        self
    }

    /// Returns this manager with another clock. Call it before [`Self::with_bootstrap`].
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns this manager with another source of randomness. Keys are always generated with the system's.
    #[must_use]
    pub fn with_entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Returns the current certificate, which is updated on renewal.
    #[must_use]
    pub fn live(&self) -> LiveIdentity {
        self.live.clone()
    }

    /// Renews the certificate for as long as the future is polled. Failures are logged and retried.
    pub async fn run(mut self) -> Infallible {
        loop {
            let request = self.requests.borrow_and_update().clone();
            let mut requests = self.requests.clone();
            let mut keeping = pin!(self.keep(&request));
            tokio::select! {
                never = &mut keeping => match never {},
                changed = requests.changed() => if changed.is_err() {
                    // The sender is dropped, so the request cannot change any more.
                    return keeping.await;
                },
            }
        }
    }

    /// Requests a certificate now and puts it into use.
    pub async fn renew(&self) -> Result<KeyedCertificate, CertificateError> {
        let request = self.requests.borrow().clone();
        self.renew_by(&request).await
    }

    async fn keep(&self, request: &CertificateRequest) -> Infallible {
        loop {
            let due = self.due(request);
            while let Some(left) = left(self.clock.now(), due) {
                sleep(left.min(NAP)).await;
            }
            let mut delays = RETRY.delays(&self.entropy);
            while let Err(error) = self.renew_by(request).await {
                tracing::warn!(signer = request.signer, error = %ErrorChain(&error), "no new certificate");
                sleep(delays.next_delay()).await;
            }
        }
    }

    /// Returns the time of the next renewal.
    fn due(&self, request: &CertificateRequest) -> Timestamp {
        match &*self.current.lock() {
            Some(Current { certificate, origin: Origin::Signed }) if request.is_met_by(certificate) => {
                let (begin, end) = (certificate.not_before, certificate.not_after);
                let lifetime = Duration::try_from(end.duration_since(begin)).unwrap_or_default();
                let after = self.entropy.jitter(lifetime, 0.2).saturating_sub(lifetime.mul_f64(0.3));
                begin.checked_add(after).unwrap_or(end)
            }
            _ => Timestamp::MIN,
        }
    }

    async fn renew_by(&self, request: &CertificateRequest) -> Result<KeyedCertificate, CertificateError> {
        let key = PrivateKey::generate()?;
        let signed = self.signed(request, request.to_pem(&key)?).await?;
        let keyed = KeyedCertificate::new(signed, key)?;
        let (store, kept) = (Arc::clone(&self.store), keyed.clone());
        let saved = tokio::task::spawn_blocking(move || store.save(&kept)).await;
        saved.map_err(|error| CertificateError::Store(error.into()))??;
        tracing::info!(signer = request.signer, until = %keyed.certificate().not_after, "a new certificate is in use");
        self.put_in_use(&keyed, Origin::Signed);
        Ok(keyed)
    }

    /// Has the cluster sign a certificate signing request in PKCS #10.
    async fn signed(&self, request: &CertificateRequest, pem: String) -> Result<Certificate, CertificateError> {
        let mut asked = CertificateSigningRequest {
            spec: CertificateSigningRequestSpec {
                request: ByteString(pem.into_bytes()),
                signer_name: request.signer.clone(),
                usages: Some(request.usages.iter().map(|usage| usage.as_str().to_owned()).collect()),
                expiration_seconds: request.lifetime.map(|it| i32::try_from(it.as_secs()).unwrap_or(i32::MAX)),
                ..CertificateSigningRequestSpec::default()
            },
            ..CertificateSigningRequest::default()
        };
        asked.metadata.generate_name = Some("csr-".to_owned());
        let asked = self.client.create(&asked).await?;
        let name = asked.name().to_owned();
        tracing::debug!(request = name, signer = request.signer, "waiting for a signature");
        let is_it = |found: &CertificateSigningRequest| found.metadata.uid == asked.metadata.uid;
        let decided = self.client.wait_for::<CertificateSigningRequest>(&*name).timeout(SIGNATURE_TIMEOUT);
        let decided =
            decided.until(|found| found.is_none_or(|found| !is_it(found) || outcome(found).is_some())).await?;
        match decided.filter(is_it).as_ref().and_then(outcome) {
            None => Err(CertificateError::Deleted { request: name }),
            Some(Outcome::NotGranted { condition, message }) => {
                let (condition, message) = (condition.to_owned(), message.to_owned());
                Err(CertificateError::NotGranted { request: name, condition, message })
            }
            Some(Outcome::Signed(pem)) => Certificate::from_pem(&String::from_utf8_lossy(pem)),
        }
    }

    fn put_in_use(&self, keyed: &KeyedCertificate, origin: Origin) {
        *self.current.lock() = Some(Current { certificate: keyed.certificate().clone(), origin });
        self.live.set(keyed.identity());
    }
}

/// The outcome of a request.
enum Outcome<'r> {
    /// Approved, with the certificate.
    Signed(&'r [u8]),
    NotGranted {
        condition: &'r str,
        message: &'r str,
    },
}

/// Returns the outcome; `None` while the request is pending.
fn outcome(request: &CertificateSigningRequest) -> Option<Outcome<'_>> {
    let status = request.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let find = |wanted: &[&str]| conditions.iter().find(|condition| wanted.contains(&&*condition.type_));
    if let Some(refused) = find(&["Denied", "Failed"]) {
        let message = refused.message.as_deref().unwrap_or_default();
        return Some(Outcome::NotGranted { condition: &refused.type_, message });
    }
    find(&["Approved"])?;
    let signed = status.certificate.as_ref().filter(|signed| !signed.0.is_empty())?;
    Some(Outcome::Signed(&signed.0))
}

/// Returns the time left until `due`; `None` if it is past.
fn left(now: Timestamp, due: Timestamp) -> Option<Duration> {
    Duration::try_from(due.duration_since(now)).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
