//! The certificates that replicas share, and the rules of their renewal. Pure: no clock, no server.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass_api::{
    ObjectExt as _,
    k8s_openapi::{ByteString, api::core::v1::Secret},
};
use windlass_client::certificates::{
    Certificate, CertificateAuthority, CertificateError, KeyedCertificate, Leaf, PrivateKey, Validity,
};

/// The entries of the Secret. The first two are those of type `kubernetes.io/tls`.
const SERVING: [&str; 2] = ["tls.crt", "tls.key"];
const ISSUER: [&str; 2] = ["issuer.crt", "issuer.key"];
const NEXT: [&str; 2] = ["next.crt", "next.key"];
const TRUSTED: &str = "ca.crt";

/// The last line of a PEM certificate.
const END: &str = "-----END CERTIFICATE-----\n";

/// The validity and the names of new certificates. A certificate is renewed when a third of its validity is left.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) names: Vec<String>,
    pub(super) authority: Duration,
    pub(super) serving: Duration,
}

/// The authorities and the serving certificate.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// The authority that signed [`Self::serving`].
    issuer: KeyedCertificate,
    /// The next issuer, as soon as all API servers trust it.
    next: Option<KeyedCertificate>,
    serving: KeyedCertificate,
    /// Former issuers. Replicas that have not reloaded the Secret may still serve certificates signed by them.
    retired: Vec<Certificate>,
}

/// The trust of the API servers in all shared authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Pending,
    Settled,
}

impl Policy {
    /// Returns the new certificates to share, or `None` if the current ones are still valid.
    pub(super) fn renew(
        &self,
        shared: Option<&Shared>,
        trust: Trust,
        now: Timestamp,
    ) -> Result<Option<Shared>, CertificateError> {
        let Some(shared) = shared.filter(|shared| shared.issuer.certificate().is_valid_at(now)) else {
            let issuer = self.authority(now)?;
            let serving = self.serving(&issuer, now)?;
            return Ok(Some(Shared { issuer, next: None, serving, retired: Vec::new() }));
        };
        let (mut new, mut changed) = (shared.clone(), false);
        match &shared.next {
            Some(next) if trust == Trust::Settled => {
                new.serving = self.serving(next, now)?;
                new.retired.push(shared.issuer.certificate().clone());
                new.issuer = next.clone();
                new.next = None;
                changed = true;
            }
            None if is_ending(shared.issuer.certificate(), self.authority, now) => {
                new.next = Some(self.authority(now)?);
                changed = true;
            }
            _ => {}
        }
        let serving = new.serving.certificate();
        if is_ending(serving, self.serving, now) || serving.names != self.names {
            new.serving = self.serving(&new.issuer, now)?;
            changed = true;
        }
        let retired = new.retired.len();
        new.retired.retain(|retired| retired.is_valid_at(now));
        changed |= retired != new.retired.len();
        Ok(changed.then_some(new))
    }

    fn authority(&self, now: Timestamp) -> Result<KeyedCertificate, CertificateError> {
        let validity = Validity::starting(now, self.authority);
        // Unique names: authorities with equal names would be confused with one another.
        let name = format!("windlass-webhook-ca-{}", now.as_millisecond());
        CertificateAuthority::self_signed(&name, validity).map(|authority| authority.keyed().clone())
    }

    /// Issues a serving certificate, which does not outlive its issuer.
    fn serving(&self, issuer: &KeyedCertificate, now: Timestamp) -> Result<KeyedCertificate, CertificateError> {
        let mut validity = Validity::starting(now, self.serving);
        validity.until = validity.until.min(issuer.certificate().not_after);
        let mut leaf = Leaf::server(self.names.iter().cloned());
        // Service names may be longer than a common name allows.
        "windlass-webhook".clone_into(&mut leaf.common_name);
        CertificateAuthority::new(issuer.clone())?.issue(&leaf, validity)
    }
}

/// Reports whether at most a third of the validity is left.
fn is_ending(certificate: &Certificate, lifetime: Duration, now: Timestamp) -> bool {
    let left = certificate.not_after.duration_since(now);
    left <= SignedDuration::try_from(lifetime / 3).unwrap_or(SignedDuration::MAX)
}

impl Shared {
    /// Returns the serving certificate.
    pub(super) const fn serving(&self) -> &KeyedCertificate {
        &self.serving
    }

    /// Returns all trusted authorities, in PEM.
    pub(super) fn bundle(&self) -> String {
        let authorities = [Some(&self.issuer), self.next.as_ref()].into_iter().flatten();
        authorities.map(KeyedCertificate::certificate).chain(&self.retired).map(Certificate::to_pem).collect()
    }

    /// Reads the certificates from a Secret. Returns `None` if it contains none.
    pub(super) fn read(secret: &Secret) -> Result<Option<Self>, CertificateError> {
        let Some(data) = &secret.data else { return Ok(None) };
        let text = |entry: &str| data.get(entry).map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        let pair = |[certificate, key]: [&str; 2]| match text(certificate).zip(text(key)) {
            None => Ok(None),
            Some((certificate, key)) => {
                KeyedCertificate::new(Certificate::from_pem(&certificate)?, PrivateKey::from_pem(&key)?).map(Some)
            }
        };
        let (Some(issuer), Some(serving)) = (pair(ISSUER)?, pair(SERVING)?) else { return Ok(None) };
        let next = pair(NEXT)?;
        let trusted = text(TRUSTED).unwrap_or_default();
        let known = [Some(&issuer), next.as_ref()];
        let is_known = |certificate: &Certificate| known.into_iter().flatten().any(|k| k.certificate() == certificate);
        let mut retired = trusted.split_inclusive(END).map(Certificate::from_pem).collect::<Result<Vec<_>, _>>()?;
        retired.retain(|certificate| !is_known(certificate));
        Ok(Some(Self { issuer, next, serving, retired }))
    }

    /// Writes the certificates into the Secret. Other entries are retained.
    pub(super) fn write(&self, secret: &mut Secret) {
        secret.labels_mut().entry("app.kubernetes.io/managed-by".to_owned()).or_insert_with(|| "windlass".to_owned());
        let data = secret.data.get_or_insert_default();
        data.insert(TRUSTED.to_owned(), ByteString(self.bundle().into_bytes()));
        put(data, SERVING, Some(&self.serving));
        put(data, ISSUER, Some(&self.issuer));
        put(data, NEXT, self.next.as_ref());
    }
}

fn put(data: &mut BTreeMap<String, ByteString>, entries: [&str; 2], keyed: Option<&KeyedCertificate>) {
    let texts = keyed.map(|keyed| [keyed.certificate().to_pem().to_owned(), keyed.key().to_pem().expose().to_owned()]);
    for (place, entry) in entries.into_iter().enumerate() {
        match &texts {
            Some(texts) => data.insert(entry.to_owned(), ByteString(texts[place].clone().into_bytes())),
            None => data.remove(entry),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn policy() -> Policy {
        Policy { names: vec!["hooks.shop.svc".to_owned()], authority: DAY * 30, serving: DAY * 3 }
    }

    fn day(number: u32) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + DAY * number
    }

    /// Returns the certificates after a round trip through a Secret.
    fn kept(shared: &Shared) -> Shared {
        let mut secret = Secret::default();
        shared.write(&mut secret);
        Shared::read(&secret).unwrap().unwrap()
    }

    fn authorities(shared: &Shared) -> usize {
        shared.bundle().matches(END).count()
    }

    #[test]
    fn certificate_is_kept_until_a_third_of_its_lifetime() {
        let first = policy().renew(None, Trust::Pending, day(0)).unwrap().unwrap();
        assert_eq!(first.serving().certificate().names, ["hooks.shop.svc"]);
        let first = kept(&first);
        assert!(policy().renew(Some(&first), Trust::Settled, day(1)).unwrap().is_none());
        let second = policy().renew(Some(&first), Trust::Settled, day(2)).unwrap().unwrap();
        assert_ne!(second.serving().certificate(), first.serving().certificate());
        assert_eq!(second.bundle(), first.bundle(), "the authority is the same");
    }

    #[test]
    fn authority_signs_when_trusted_until_it_expires() {
        let first = kept(&policy().renew(None, Trust::Pending, day(0)).unwrap().unwrap());
        let announced = kept(&policy().renew(Some(&first), Trust::Settled, day(20)).unwrap().unwrap());
        assert_eq!((authorities(&announced), &announced.issuer.certificate()), (2, &first.issuer.certificate()));
        let next = announced.next.clone().unwrap();
        assert!(policy().renew(Some(&announced), Trust::Pending, day(21)).unwrap().is_none());
        let changed = kept(&policy().renew(Some(&announced), Trust::Settled, day(21)).unwrap().unwrap());
        assert_eq!((changed.issuer.certificate(), changed.next.is_none()), (next.certificate(), true));
        assert_eq!(authorities(&changed), 2, "the previous authority is still trusted");
        assert!(changed.serving().certificate().not_after <= next.certificate().not_after);
        let later = kept(&policy().renew(Some(&changed), Trust::Settled, day(31)).unwrap().unwrap());
        assert_eq!(authorities(&later), 1, "the previous authority has expired");
    }

    #[test]
    fn changed_names_or_expired_authority_renew_certificates() {
        let first = policy().renew(None, Trust::Pending, day(0)).unwrap().unwrap();
        let other = Policy { names: vec!["other.shop.svc".to_owned()], ..policy() };
        let renamed = other.renew(Some(&first), Trust::Pending, day(0)).unwrap().unwrap();
        assert_eq!(renamed.serving().certificate().names, ["other.shop.svc"]);
        let anew = policy().renew(Some(&first), Trust::Settled, day(40)).unwrap().unwrap();
        assert_ne!(anew.bundle(), first.bundle());
    }

    #[test]
    fn foreign_secret_is_empty_and_broken_entries_fail() {
        let mut secret = Secret::default();
        assert!(Shared::read(&secret).unwrap().is_none());
        policy().renew(None, Trust::Pending, day(0)).unwrap().unwrap().write(&mut secret);
        secret.data.as_mut().unwrap().insert("issuer.crt".to_owned(), ByteString(b"nonsense".to_vec()));
        assert!(Shared::read(&secret).is_err());
    }
}
