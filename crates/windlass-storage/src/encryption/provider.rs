//! The providers of a resource, and the form of encrypted values: a prefix that names provider and key, and the rest.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};

use super::{
    cipher::{self, Cipher, Kind},
    kms::{Kms, KmsError},
};
use crate::transform::ENCRYPTED;

/// An item of the list of providers.
pub(super) enum Provider {
    Identity,
    Keys(Keys),
    Kms(Arc<Kms>),
}

/// A cipher with several keys. The first one encrypts, and each can decrypt.
pub(super) struct Keys {
    kind: Kind,
    prefix: String,
    /// Each with its name and a colon, as in values.
    keys: Vec<(String, Cipher)>,
}

/// The reason why a value cannot be decrypted, in the words of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecryptError {
    /// No provider has the prefix of the value.
    NoProvider,
    /// The provider does not have the key.
    NoKey(Kind),
    Cipher(cipher::DecryptError),
    Kms(KmsError),
    /// One error for each provider or key that has the prefix of the value.
    Several(Vec<Self>),
}

/// A decrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decrypted {
    pub(super) body: Bytes,
    /// `true` if the first provider would encrypt the value differently.
    pub(super) is_stale: bool,
}

/// The decryption of a value.
pub(super) enum Decryption<E = DecryptError> {
    Done(Result<Decrypted, E>),
    /// A plugin decrypts the key first.
    Pending(BoxFuture<'static, Result<Decrypted, E>>),
}

/// The providers of a resource. The first one encrypts, and each can decrypt.
#[derive(Clone)]
pub(super) struct Chain(pub(super) Vec<Arc<Provider>>);

impl Keys {
    pub(super) fn new(kind: Kind, keys: impl IntoIterator<Item = (String, Cipher)>) -> Self {
        let keys = keys.into_iter().map(|(name, cipher)| (name + ":", cipher));
        Self { kind, prefix: format!("k8s:enc:{}:v1:", kind.name()), keys: keys.collect() }
    }

    fn encrypt(&self, place: &str, body: &[u8]) -> Vec<u8> {
        let Some((name, cipher)) = self.keys.first() else { return body.to_vec() };
        let mut output = [self.prefix.as_bytes(), name.as_bytes()].concat();
        cipher.seal(place, body, &mut output);
        output
    }

    /// Decrypts a value without the provider's prefix.
    fn decrypt(&self, place: &str, data: &[u8]) -> Result<Decrypted, DecryptError> {
        let mut errors = Vec::new();
        for (at, (name, cipher)) in self.keys.iter().enumerate() {
            let Some(sealed) = data.strip_prefix(name.as_bytes()) else { continue };
            match cipher.open(place, sealed) {
                Ok(body) => return Ok(Decrypted { body: body.into(), is_stale: at != 0 }),
                Err(error) => errors.push(DecryptError::Cipher(error)),
            }
        }
        Err(DecryptError::all(errors, DecryptError::NoKey(self.kind)))
    }
}

impl Chain {
    /// Encrypts a value. `place` is its key in the storage.
    pub(super) fn encrypt(&self, place: &str, body: &Bytes) -> Result<Bytes, KmsError> {
        match self.0.first().map(|provider| &**provider) {
            None | Some(Provider::Identity) => Ok(body.clone()),
            Some(Provider::Keys(keys)) => Ok(keys.encrypt(place, body).into()),
            Some(Provider::Kms(kms)) => kms.encrypt(place, body),
        }
    }

    /// Decrypts a value with the first provider that can. Several may have the same prefix with different keys.
    pub(super) fn decrypt(&self, place: &str, data: &Bytes) -> Decryption {
        let mut errors = Vec::new();
        for (at, provider) in self.0.iter().enumerate() {
            match &**provider {
                // An encrypted value is for another provider.
                Provider::Identity if data.starts_with(ENCRYPTED) => {}
                Provider::Identity => {
                    return Decryption::Done(Ok(Decrypted { body: data.clone(), is_stale: at != 0 }));
                }
                Provider::Keys(keys) => {
                    let Some(rest) = data.strip_prefix(keys.prefix.as_bytes()) else { continue };
                    match keys.decrypt(place, rest) {
                        Ok(Decrypted { body, is_stale }) => {
                            return Decryption::Done(Ok(Decrypted { body, is_stale: is_stale || at != 0 }));
                        }
                        Err(error) => errors.push(error),
                    }
                }
                // Their names are unique, so no other provider has the prefix.
                Provider::Kms(kms) if data.starts_with(kms.prefix().as_bytes()) => {
                    let decryption = kms.decrypt(place, data.slice(kms.prefix().len()..));
                    return decryption.map(move |decrypted| {
                        let Decrypted { body, is_stale } = decrypted.map_err(DecryptError::Kms)?;
                        Ok(Decrypted { body, is_stale: is_stale || at != 0 })
                    });
                }
                Provider::Kms(_) => {}
            }
        }
        Decryption::Done(Err(DecryptError::all(errors, DecryptError::NoProvider)))
    }
}

impl<E: Send + 'static> Decryption<E> {
    /// Converts the result.
    pub(super) fn map<F: 'static>(
        self,
        convert: impl FnOnce(Result<Decrypted, E>) -> Result<Decrypted, F> + Send + 'static,
    ) -> Decryption<F> {
        match self {
            Self::Done(decrypted) => Decryption::Done(convert(decrypted)),
            Self::Pending(decrypting) => Decryption::Pending(decrypting.map(convert).boxed()),
        }
    }
}

impl DecryptError {
    /// Combines errors. Without any, it is the other one.
    fn all(mut errors: Vec<Self>, none: Self) -> Self {
        match errors.len() {
            0 => none,
            1 => errors.remove(0),
            _ => Self::Several(errors),
        }
    }

    /// Returns the messages of all errors.
    fn messages(&self) -> Vec<String> {
        match self {
            Self::Several(errors) => errors.iter().flat_map(Self::messages).collect(),
            Self::NoProvider => vec!["no matching prefix found".to_owned()],
            Self::NoKey(Kind::AesGcm | Kind::AesCbc) => {
                vec!["no matching key was found for the provided AES transformer".to_owned()]
            }
            Self::NoKey(Kind::Secretbox) => {
                vec!["no matching key was found for the provided Secretbox transformer".to_owned()]
            }
            Self::Cipher(error) => vec![error.to_string()],
            Self::Kms(error) => vec![error.to_string()],
        }
    }
}

impl fmt::Display for DecryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        aggregate(&self.messages(), f)
    }
}

impl std::error::Error for DecryptError {}

/// Writes several messages as Go does: each one once, in brackets if there are others.
pub(super) fn aggregate(messages: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut unique: Vec<&str> = Vec::new();
    for message in messages {
        if !unique.contains(&&**message) {
            unique.push(message);
        }
    }
    match unique[..] {
        [only] => f.write_str(only),
        _ => write!(f, "[{}]", unique.join(", ")),
    }
}
