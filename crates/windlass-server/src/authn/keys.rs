//! The keys of service account tokens: the private key that signs them, and the public keys that verify them.
//!
//! As in kube-apiserver, these are RSA keys (RS256) and ECDSA keys over P-256 (ES256) and P-384 (ES384), and the ID of a
//! key is the hash of its public key. P-521 is not supported.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    rsa,
    signature::{
        self, ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
        ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
        RSA_PKCS1_SHA256, UnparsedPublicKey,
    },
};
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use x509_parser::{
    prelude::{FromDer as _, X509Certificate},
    x509::SubjectPublicKeyInfo,
};

use super::token::KeyError;

/// A private key, which signs tokens.
pub(super) struct SigningKey {
    pair: Pair,
    pub(super) public: PublicKey,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(rsa::KeyPair),
}

/// A public key, which verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    pub(super) algorithm: Algorithm,
    pub(super) id: String,
    /// An uncompressed point, or the modulus and the exponent as `RSAPublicKey` in DER.
    key: Vec<u8>,
    /// For RSA.
    numbers: Option<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Algorithm {
    Es256,
    Es384,
    Rs256,
}

/// A section of a PEM file.
type Section = (SectionKind, Vec<u8>);

/// The DER of `AlgorithmIdentifier` for each kind of key.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07,
];
const P384: &[u8] =
    &[0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
const RSA: &[u8] = &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;

impl SigningKey {
    /// Generates a key, ECDSA over P-256.
    pub(super) fn generate() -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let random = SystemRandom::new();
        EcdsaKeyPair::generate_pkcs8(algorithm, &random)
            .ok()
            .and_then(|pkcs8| EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).ok())
            .and_then(|pair| Self::new(Pair::Ecdsa(pair)))
            .expect("the operating system provides randomness, and a generated key is valid")
    }

    /// Reads the first private key in a PEM file: PKCS #8, PKCS #1, or SEC 1.
    pub(super) fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        for section in Section::pem_slice_iter(pem) {
            let (kind, der) = section.map_err(KeyError::Pem)?;
            if let Some(pair) = pair(kind, &der)? {
                return Self::new(pair).ok_or(KeyError::Kind);
            }
        }
        Err(KeyError::Pem(rustls::pki_types::pem::Error::NoItemsFound))
    }

    fn new(pair: Pair) -> Option<Self> {
        let (algorithm, key) = match &pair {
            Pair::Ecdsa(pair) if pair.public_key().as_ref().len() == 65 => (P256, pair.public_key().as_ref()),
            Pair::Ecdsa(pair) => (P384, pair.public_key().as_ref()),
            Pair::Rsa(pair) => (RSA, pair.public().as_ref()),
        };
        let bits = [&[0], key].concat();
        let public = PublicKey::from_spki(&element(SEQUENCE, &[algorithm, &element(BIT_STRING, &bits)].concat()))?;
        Some(Self { pair, public })
    }

    /// Signs the first two parts of a token. Returns `None` without randomness.
    pub(super) fn sign(&self, text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ecdsa(pair) => Some(pair.sign(&random, text).ok()?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

/// Returns the key pair of a section. `None` for other sections.
fn pair(kind: SectionKind, der: &[u8]) -> Result<Option<Pair>, KeyError> {
    let random = SystemRandom::new();
    let curves: [(&[u8], &'static EcdsaSigningAlgorithm); 2] =
        [(P256, &ECDSA_P256_SHA256_FIXED_SIGNING), (P384, &ECDSA_P384_SHA384_FIXED_SIGNING)];
    let pair = match kind {
        SectionKind::PrivateKey => {
            let mut ecdsa = curves.iter().filter_map(|(_, curve)| EcdsaKeyPair::from_pkcs8(curve, der, &random).ok());
            let rsa = || rsa::KeyPair::from_pkcs8(der).ok().map(Pair::Rsa);
            ecdsa.next().map(Pair::Ecdsa).or_else(rsa)
        }
        SectionKind::RsaPrivateKey => rsa::KeyPair::from_der(der).ok().map(Pair::Rsa),
        SectionKind::EcPrivateKey => {
            let mut ecdsa = curves.iter().filter_map(|(identifier, curve)| {
                let version: &[u8] = &[0x02, 0x01, 0x00];
                let pkcs8 = [version, identifier, &element(OCTET_STRING, der)].concat();
                EcdsaKeyPair::from_pkcs8(curve, &element(SEQUENCE, &pkcs8), &random).ok()
            });
            ecdsa.next().map(Pair::Ecdsa)
        }
        _ => return Ok(None),
    };
    pair.map(Some).ok_or(KeyError::Kind)
}

/// Returns an element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let head = match (content.len(), u8::try_from(length.len())) {
        (0x80.., Ok(bytes)) => [&[tag, 0x80 | bytes], length].concat(),
        (short, _) => vec![tag, u8::try_from(short).unwrap_or_default()],
    };
    [&head, content].concat()
}

impl PublicKey {
    /// Reads all keys in a PEM file: public keys, certificates, and the public keys of private keys.
    pub(super) fn all_from_pem(pem: &[u8]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for section in Section::pem_slice_iter(pem) {
            let (kind, der) = section.map_err(KeyError::Pem)?;
            let key = match kind {
                SectionKind::PublicKey => Self::from_spki(&der),
                SectionKind::Certificate => {
                    X509Certificate::from_der(&der).ok().and_then(|(_, found)| Self::from_spki(found.public_key().raw))
                }
                kind => match pair(kind, &der)? {
                    Some(pair) => SigningKey::new(pair).map(|key| key.public),
                    None => continue,
                },
            };
            keys.push(key.ok_or(KeyError::Kind)?);
        }
        if keys.is_empty() { Err(KeyError::Pem(rustls::pki_types::pem::Error::NoItemsFound)) } else { Ok(keys) }
    }

    /// Reads a `SubjectPublicKeyInfo` in DER. Returns `None` for an unsupported one.
    fn from_spki(der: &[u8]) -> Option<Self> {
        let (_, found) = SubjectPublicKeyInfo::from_der(der).ok()?;
        let key = found.subject_public_key.data.to_vec();
        let (algorithm, numbers) = match found.parsed().ok()? {
            x509_parser::public_key::PublicKey::RSA(rsa) => {
                let number = |digits: &[u8]| digits[digits.iter().take_while(|digit| **digit == 0).count()..].to_vec();
                (Algorithm::Rs256, Some((number(rsa.modulus), number(rsa.exponent))))
            }
            x509_parser::public_key::PublicKey::EC(_) if key.len() == 65 => (Algorithm::Es256, None),
            x509_parser::public_key::PublicKey::EC(_) if key.len() == 97 => (Algorithm::Es384, None),
            _ => return None,
        };
        Some(Self { algorithm, id: URL_SAFE_NO_PAD.encode(Sha256::digest(der)), key, numbers })
    }

    /// Reports whether the signature of the first two parts of a token is that of this key.
    pub(super) fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn signature::VerificationAlgorithm = match self.algorithm {
            Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(algorithm, &self.key).verify(text, signature).is_ok()
    }

    /// Returns the JSON web key.
    pub(super) fn web_key(&self) -> Value {
        let number = |digits: Option<&[u8]>| URL_SAFE_NO_PAD.encode(digits.unwrap_or_default());
        let (id, algorithm) = (&self.id, self.algorithm.name());
        if let Some((modulus, exponent)) = &self.numbers {
            let (modulus, exponent) = (number(Some(modulus)), number(Some(exponent)));
            return json!({"use": "sig", "kty": "RSA", "kid": id, "alg": algorithm, "n": modulus, "e": exponent});
        }
        // A tag and two numbers of equal length.
        let half = self.key.len() / 2;
        let curve = if self.algorithm == Algorithm::Es256 { "P-256" } else { "P-384" };
        json!({
            "use": "sig", "kty": "EC", "kid": id, "crv": curve, "alg": algorithm,
            "x": number(self.key.get(1..=half)), "y": number(self.key.get(half + 1..)),
        })
    }
}

impl Algorithm {
    /// Returns the name in the header of a token.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Generated with `openssl genrsa -traditional 2048`, `openssl ecparam -genkey`, and `openssl pkey -pubout`.
    const FILES: [(&str, &str, Algorithm); 5] = [
        (include_str!("keys/testdata/rsa-pkcs1.pem"), include_str!("keys/testdata/rsa-pkcs1.pub"), Algorithm::Rs256),
        (include_str!("keys/testdata/rsa-pkcs8.pem"), include_str!("keys/testdata/rsa-pkcs8.pub"), Algorithm::Rs256),
        (include_str!("keys/testdata/p256-sec1.pem"), include_str!("keys/testdata/p256-sec1.pub"), Algorithm::Es256),
        (include_str!("keys/testdata/p384-sec1.pem"), include_str!("keys/testdata/p384-sec1.pub"), Algorithm::Es384),
        (include_str!("keys/testdata/p384-pkcs8.pem"), include_str!("keys/testdata/p384-pkcs8.pub"), Algorithm::Es384),
    ];

    #[test]
    fn signatures_are_verified_with_the_public_key() {
        for (private, public, algorithm) in FILES {
            let key = SigningKey::from_pem(private.as_bytes()).unwrap();
            let public = PublicKey::all_from_pem(public.as_bytes()).unwrap();
            assert_eq!((public.as_slice(), key.public.algorithm), (&[key.public.clone()][..], algorithm));
            assert_eq!(PublicKey::all_from_pem(private.as_bytes()).unwrap(), public);
            let signature = key.sign(b"text").unwrap();
            assert!(public[0].verifies(b"text", &signature) && !public[0].verifies(b"other", &signature));
        }
    }

    #[test]
    fn files_can_have_several_keys() {
        let all: String = FILES.iter().map(|(_, public, _)| *public).collect();
        assert_eq!(PublicKey::all_from_pem(all.as_bytes()).unwrap().len(), FILES.len());
    }

    #[test]
    fn unsupported_keys_are_errors() {
        let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        for (pem, why) in [(other.serialize_pem(), "expected RSA"), ("no key".to_owned(), "as PEM")] {
            let error = SigningKey::from_pem(pem.as_bytes()).err().unwrap().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(PublicKey::all_from_pem(pem.as_bytes()).unwrap_err().to_string(), error);
        }
        let public = PublicKey::all_from_pem(other.public_key_pem().as_bytes()).unwrap_err().to_string();
        assert!(public.contains("expected RSA"), "{public}");
    }
}
