//! JSON web keys and the signatures that they verify.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use crate::object::Tree;

/// The algorithms that a configuration can name, as in kube-apiserver. ES512 is accepted there, but verifies nothing
/// here.
pub(super) const ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// The maximum number of keys of an issuer that are used.
const MAX_KEYS: usize = 256;

/// A public key of an issuer.
#[derive(Debug)]
pub(super) struct WebKey {
    pub(super) id: String,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

impl WebKey {
    /// Reads a JSON web key set. Unsupported keys are omitted.
    pub(super) fn all(set: &Value) -> Vec<Self> {
        set.items(&["keys"]).iter().filter_map(Self::read).take(MAX_KEYS).collect()
    }

    fn read(key: &Value) -> Option<Self> {
        let number = |field: &str| URL_SAFE_NO_PAD.decode(key.text(&[field]).trim_end_matches('=')).ok();
        let point = |size: usize| {
            let padded = |digits: Vec<u8>| {
                let zeros = size.checked_sub(digits.len())?;
                Some([vec![0; zeros], digits].concat())
            };
            Some([vec![4], padded(number("x")?)?, padded(number("y")?)?].concat())
        };
        let material = match (key.text(&["kty"]), key.text(&["crv"])) {
            ("RSA", _) => {
                let significant =
                    |digits: Vec<u8>| digits.iter().copied().skip_while(|digit| *digit == 0).collect::<Vec<u8>>();
                Material::Rsa { modulus: significant(number("n")?), exponent: significant(number("e")?) }
            }
            ("EC", "P-256") => Material::P256(point(32)?),
            ("EC", "P-384") => Material::P384(point(48)?),
            _ => return None,
        };
        Some(Self { id: key.text(&["kid"]).to_owned(), material })
    }

    /// Reports whether the signature of a text with this algorithm is that of the key.
    pub(super) fn verifies(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters: &RsaParameters = match algorithm {
                    "RS256" => &RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &RSA_PSS_2048_8192_SHA256,
                    "PS384" => &RSA_PSS_2048_8192_SHA384,
                    "PS512" => &RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, text, signature).is_ok()
            }
            Material::P256(point) => algorithm == "ES256" && of_curve(&ECDSA_P256_SHA256_FIXED, point, text, signature),
            Material::P384(point) => algorithm == "ES384" && of_curve(&ECDSA_P384_SHA384_FIXED, point, text, signature),
        }
    }
}

fn of_curve(
    algorithm: &'static dyn signature::VerificationAlgorithm,
    point: &[u8],
    text: &[u8],
    signature: &[u8],
) -> bool {
    UnparsedPublicKey::new(algorithm, point).verify(text, signature).is_ok()
}
