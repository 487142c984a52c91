//! The renewal of the certificates that this program issues for itself.

use std::{path::Path, time::Duration};

use jiff::Timestamp;
use rcgen::CertificateParams;
use tokio::time;
use windlass_api::{Clock, Entropy};

use crate::{
    aggregation::ProxyIdentity,
    tls::{Authority, CA, CA_FILE, Issued, TlsError, TlsIdentity, Validity, serving_params},
};

const DAY: Duration = Duration::from_hours(24);
/// The lifetimes of the certificates of kubeadm.
const LEAF_LIFETIME: Duration = Duration::from_secs(365 * DAY.as_secs());
const CA_LIFETIME: Duration = Duration::from_secs(10 * LEAF_LIFETIME.as_secs());
/// The clock can be set meanwhile, so it is read again at least this often.
const CHECK_INTERVAL: Duration = Duration::from_hours(1);
const RETRY: Duration = Duration::from_mins(1);

/// Renews certificates before they expire, without a restart.
///
/// The serving certificate and the client certificate of the server are valid for a year, their CAs for ten. A certificate is
/// renewed after 67 to 80 % of its lifetime. Connections keep the certificate with which they began.
#[derive(Debug)]
#[must_use = "without `run`, the certificates expire"]
pub struct CertificateRenewal {
    leaves: Vec<Leaf>,
    clock: Clock,
    entropy: Entropy,
}

#[derive(Debug)]
struct Leaf {
    authority: Authority,
    params: CertificateParams,
    holder: Holder,
    validity: Validity,
}

/// The place of a renewed certificate.
#[derive(Debug)]
enum Holder {
    Serving(TlsIdentity),
    Proxy(ProxyIdentity),
}

impl CertificateRenewal {
    /// Creates a renewal of no certificates.
    pub fn new(clock: Clock, entropy: Entropy) -> Self {
        Self { leaves: Vec::new(), clock, entropy }
    }

    /// Issues a serving certificate for the names of [`TlsIdentity::generate`], and renews it. The CA is in `directory`, or
    /// ends with the process.
    ///
    /// Blocks on the file system.
    pub fn serving<N: Into<String>>(
        &mut self,
        directory: Option<&Path>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<TlsIdentity, TlsError> {
        let names = names.into_iter().map(Into::into).collect();
        self.issue_serving(directory, names)
    }

    fn issue_serving(&mut self, directory: Option<&Path>, names: Vec<String>) -> Result<TlsIdentity, TlsError> {
        let authority = self.authority(directory, CA_FILE, CA)?;
        let params = serving_params(names)?;
        let validity = authority.limited(self.validity());
        let Issued { chain, key } = authority.issue_for(params.clone(), validity)?;
        let identity = TlsIdentity::new(chain, key, authority.pem())?;
        self.leaves.push(Leaf { authority, params, holder: Holder::Serving(identity.clone()), validity });
        Ok(identity)
    }

    /// Issues the client certificate of [`ProxyIdentity::generate`], and renews it. Also returns its CA in PEM. The CA is in
    /// `directory`, or ends with the process.
    ///
    /// Blocks on the file system.
    pub fn proxy(&mut self, directory: Option<&Path>) -> Result<(ProxyIdentity, String), TlsError> {
        let (file, name) = ProxyIdentity::CA;
        let authority = self.authority(directory, file, name)?;
        let validity = authority.limited(self.validity());
        let params = ProxyIdentity::params();
        let Issued { chain, key } = authority.issue_for(params.clone(), validity)?;
        let identity = ProxyIdentity::new(chain, key)?;
        let pem = authority.pem().to_owned();
        self.leaves.push(Leaf { authority, params, holder: Holder::Proxy(identity.clone()), validity });
        Ok((identity, pem))
    }

    fn authority(&self, directory: Option<&Path>, file: &str, name: &'static str) -> Result<Authority, TlsError> {
        let now = self.clock.now();
        let validity = Validity::starting(now, CA_LIFETIME);
        match directory {
            Some(directory) => Authority::persisted_for(directory, file, name, now, validity),
            None => Authority::generate_for(name, validity),
        }
    }

    fn validity(&self) -> Validity {
        Validity::starting(self.clock.now(), LEAF_LIFETIME)
    }

    /// Renews the certificates until the future is dropped.
    pub async fn run(mut self) {
        let mut due: Vec<Timestamp> =
            self.leaves.iter().map(|leaf| renewal_time(leaf.validity, &self.entropy)).collect();
        while let Some(first) = due.iter().min().copied() {
            let now = self.clock.now();
            if now < first {
                let left = Duration::try_from(first.duration_since(now)).unwrap_or_default();
                time::sleep(left.min(CHECK_INTERVAL)).await;
                continue;
            }
            for (leaf, due_at) in self.leaves.iter_mut().zip(&mut due).filter(|(_, due)| **due <= now) {
                match leaf.renew(now) {
                    Ok(validity) => {
                        *due_at = renewal_time(validity, &self.entropy);
                        tracing::info!(certificate = leaf.holder.name(), until = %validity.end, "renewed a certificate");
                    }
                    Err(error) => {
                        *due_at = now.checked_add(RETRY).unwrap_or(Timestamp::MAX);
                        tracing::error!(%error, certificate = leaf.holder.name(), "cannot renew a certificate");
                    }
                }
            }
        }
    }
}

impl Leaf {
    /// Replaces the certificate. Returns the validity of the new one.
    fn renew(&mut self, now: Timestamp) -> Result<Validity, TlsError> {
        let validity = self.authority.limited(Validity::starting(now, LEAF_LIFETIME));
        if validity.end <= now {
            return Err(rustls::Error::General("the CA has expired; restart to replace it".to_owned()).into());
        }
        let Issued { chain, key } = self.authority.issue_for(self.params.clone(), validity)?;
        match &self.holder {
            Holder::Serving(identity) => identity.current().replace(chain, key)?,
            Holder::Proxy(identity) => identity.current().replace(chain, key)?,
        }
        self.validity = validity;
        Ok(validity)
    }
}

impl Holder {
    const fn name(&self) -> &'static str {
        match self {
            Self::Serving(_) => "kube-apiserver",
            Self::Proxy(_) => ProxyIdentity::NAME,
        }
    }
}

/// Returns the time of a renewal: after two thirds to four fifths of the lifetime.
fn renewal_time(validity: Validity, entropy: &Entropy) -> Timestamp {
    let lifetime = Duration::try_from(validity.end.duration_since(validity.start)).unwrap_or_default();
    let after = entropy.jitter(lifetime * 2 / 3, 0.2);
    validity.start.checked_add(after).unwrap_or(validity.end)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    use tokio::time::Instant;
    use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

    use super::*;

    /// A clock that follows the paused clock of tokio, from 2026 on.
    fn clock() -> Clock {
        let begin = Instant::now();
        Clock::from_fn(move || "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap() + begin.elapsed())
    }

    /// Returns the beginning and the end of validity, in seconds.
    fn period(certificate: &CertificateDer<'_>) -> (i64, i64) {
        let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
        (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp())
    }

    fn served(identity: &TlsIdentity) -> CertificateDer<'static> {
        identity.current().chain()[0].clone()
    }

    fn authority(identity: &TlsIdentity) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(identity.ca_pem().as_bytes()).unwrap()
    }

    const YEAR: i64 = 365 * 24 * 3600;

    #[tokio::test(start_paused = true)]
    async fn certificates_are_renewed_before_they_expire() {
        let clock = clock();
        let mut renewal = CertificateRenewal::new(clock.clone(), Entropy::seeded(1));
        let identity = renewal.serving::<String>(None, []).unwrap();
        let (proxy, _) = renewal.proxy(None).unwrap();
        let client = || proxy.current().chain()[0].clone();
        let now = clock.now().as_second();
        let (begin, end) = period(&served(&identity));
        assert!(begin < now && end == now + YEAR, "{begin} {now} {end}");
        assert_eq!(period(&authority(&identity)).1, now + 10 * YEAR);
        let (first, first_client) = (served(&identity), client());
        let running = tokio::spawn(renewal.run());
        // A year has 31.5 million seconds.
        time::sleep(Duration::from_secs(20_900_000)).await;
        assert_eq!((served(&identity), client()), (first.clone(), first_client.clone()), "after 66 %");
        time::sleep(Duration::from_secs(4_400_000)).await;
        let second = served(&identity);
        assert_ne!(second, first, "after 80 %");
        assert_ne!(client(), first_client);
        time::sleep(Duration::from_hours(17_520)).await;
        let (begin, end) = period(&served(&identity));
        let now = clock.now().as_second();
        assert!(begin <= now && now < end, "two years later");
        assert!(!running.is_finished());
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn persistent_ca_is_reused_until_it_expires() {
        let directory = tempfile::tempdir().unwrap();
        let clock = clock();
        let start = |clock: &Clock| {
            CertificateRenewal::new(clock.clone(), Entropy::seeded(1))
                .serving::<String>(Some(directory.path()), [])
                .unwrap()
        };
        let first = start(&clock);
        time::advance(Duration::from_hours(9 * 365 * 24)).await;
        let second = start(&clock);
        assert_eq!(first.ca_pem(), second.ca_pem());
        // A certificate does not outlast its CA.
        assert_eq!(period(&served(&second)).1, period(&authority(&second)).1);
        time::advance(Duration::from_hours(2 * 365 * 24)).await;
        assert_ne!(start(&clock).ca_pem(), first.ca_pem());
    }

    #[tokio::test]
    async fn ca_without_an_end_stays_valid() {
        let directory = tempfile::tempdir().unwrap();
        let old = TlsIdentity::persisted::<String>(directory.path(), []).unwrap();
        let mut renewal = CertificateRenewal::new(Clock::system(), Entropy::seeded(1));
        assert_eq!(renewal.serving::<String>(Some(directory.path()), []).unwrap().ca_pem(), old.ca_pem());
    }
}
