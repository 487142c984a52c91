//! The ciphers, and the form of encrypted values: a prefix that names cipher and key, a random nonce, and the ciphertext.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{
    AesGcm,
    aead::{Aead, KeyInit, OsRng, Payload, consts::U12, generic_array::GenericArray, rand_core::RngCore as _},
};
use bytes::Bytes;
use cbc::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit, block_padding::Pkcs7};
use crypto_secretbox::XSalsa20Poly1305;

/// The prefix of all encrypted values. JSON and protobuf values begin differently.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The size of a nonce of AES-GCM, of an initialization vector of AES-CBC, and of a nonce of secretbox.
const GCM_NONCE: usize = 12;
const CBC_VECTOR: usize = 16;
const SECRETBOX_NONCE: usize = 24;

/// A cipher with its key, or no encryption.
pub(super) struct Provider {
    /// The prefix of the values; empty without encryption.
    prefix: String,
    cipher: Cipher,
}

/// The names of the ciphers in prefixes and in configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AesGcm,
    AesCbc,
    Secretbox,
}

enum Cipher {
    Identity,
    Gcm128(Box<AesGcm<Aes128, U12>>),
    Gcm192(Box<AesGcm<Aes192, U12>>),
    Gcm256(Box<AesGcm<Aes256, U12>>),
    Cbc(Box<[u8]>),
    Secretbox(Box<XSalsa20Poly1305>),
}

/// The reason why a value cannot be decrypted, in the words of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecryptError {
    #[error("no matching prefix found")]
    Prefix,
    #[error("the stored data was shorter than the required size")]
    Short,
    #[error("cipher: message authentication failed")]
    Authentication,
    #[error("the stored data is not a multiple of the block size")]
    Blocks,
    #[error("invalid padding on input")]
    Padding,
    #[error("output array was not large enough for encryption")]
    Secretbox,
}

/// A decrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decrypted {
    pub(super) body: Bytes,
    /// `true` if the first provider would encrypt the value differently.
    pub(super) is_stale: bool,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AesGcm => "aesgcm",
            Self::AesCbc => "aescbc",
            Self::Secretbox => "secretbox",
        }
    }

    /// The permitted sizes of keys in bytes.
    pub(super) const fn key_sizes(self) -> &'static [usize] {
        match self {
            Self::AesGcm | Self::AesCbc => &[16, 24, 32],
            Self::Secretbox => &[32],
        }
    }
}

impl Provider {
    pub(super) fn identity() -> Self {
        Self { prefix: String::new(), cipher: Cipher::Identity }
    }

    /// Returns `None` if the key has another size.
    pub(super) fn new(kind: Kind, name: &str, key: &[u8]) -> Option<Self> {
        let cipher = match (kind, key.len()) {
            (Kind::AesGcm, 16) => Cipher::Gcm128(Box::new(AesGcm::new_from_slice(key).ok()?)),
            (Kind::AesGcm, 24) => Cipher::Gcm192(Box::new(AesGcm::new_from_slice(key).ok()?)),
            (Kind::AesGcm, 32) => Cipher::Gcm256(Box::new(AesGcm::new_from_slice(key).ok()?)),
            (Kind::AesCbc, 16 | 24 | 32) => Cipher::Cbc(key.into()),
            (Kind::Secretbox, 32) => Cipher::Secretbox(Box::new(XSalsa20Poly1305::new_from_slice(key).ok()?)),
            _ => return None,
        };
        Some(Self { prefix: format!("k8s:enc:{}:v1:{name}:", kind.name()), cipher })
    }

    /// Encrypts a value. `place` is its key in the storage.
    fn encrypt(&self, place: &str, body: &[u8]) -> Bytes {
        let mut output = self.prefix.clone().into_bytes();
        match &self.cipher {
            Cipher::Identity => return Bytes::copy_from_slice(body),
            Cipher::Gcm128(cipher) => seal(&**cipher, GCM_NONCE, place, body, &mut output),
            Cipher::Gcm192(cipher) => seal(&**cipher, GCM_NONCE, place, body, &mut output),
            Cipher::Gcm256(cipher) => seal(&**cipher, GCM_NONCE, place, body, &mut output),
            // Secretbox has no additional data.
            Cipher::Secretbox(cipher) => seal(&**cipher, SECRETBOX_NONCE, "", body, &mut output),
            Cipher::Cbc(key) => {
                let mut vector = [0; CBC_VECTOR];
                OsRng.fill_bytes(&mut vector);
                output.extend(vector);
                output.extend(match key.len() {
                    16 => cbc_encrypt::<Aes128>(key, &vector, body),
                    24 => cbc_encrypt::<Aes192>(key, &vector, body),
                    _ => cbc_encrypt::<Aes256>(key, &vector, body),
                });
            }
        }
        output.into()
    }

    /// Decrypts a value without its prefix.
    fn decrypt(&self, place: &str, data: &[u8]) -> Result<Vec<u8>, DecryptError> {
        match &self.cipher {
            Cipher::Identity if data.starts_with(ENCRYPTED) => Err(DecryptError::Prefix),
            Cipher::Identity => Ok(data.to_vec()),
            Cipher::Gcm128(cipher) => open(&**cipher, GCM_NONCE, place, data),
            Cipher::Gcm192(cipher) => open(&**cipher, GCM_NONCE, place, data),
            Cipher::Gcm256(cipher) => open(&**cipher, GCM_NONCE, place, data),
            Cipher::Secretbox(cipher) => open(&**cipher, SECRETBOX_NONCE, "", data).map_err(|error| match error {
                DecryptError::Authentication => DecryptError::Secretbox,
                other => other,
            }),
            Cipher::Cbc(key) => {
                let (vector, blocks) = data.split_first_chunk::<CBC_VECTOR>().ok_or(DecryptError::Short)?;
                if blocks.len() % CBC_VECTOR != 0 {
                    return Err(DecryptError::Blocks);
                }
                match key.len() {
                    16 => cbc_decrypt::<Aes128>(key, vector, blocks),
                    24 => cbc_decrypt::<Aes192>(key, vector, blocks),
                    _ => cbc_decrypt::<Aes256>(key, vector, blocks),
                }
            }
        }
    }
}

/// The providers of a resource. The first one encrypts, and each can decrypt.
pub(super) struct Chain(pub(super) Vec<Provider>);

impl Chain {
    /// Encrypts a value. `place` is its key in the storage.
    pub(super) fn encrypt(&self, place: &str, body: &Bytes) -> Bytes {
        self.0.first().map_or_else(|| body.clone(), |provider| provider.encrypt(place, body))
    }

    /// Decrypts a value with the first provider that can. Several may have the same prefix with different keys.
    pub(super) fn decrypt(&self, place: &str, data: &Bytes) -> Result<Decrypted, DecryptError> {
        let mut failure = None;
        for (at, provider) in self.0.iter().enumerate() {
            let Some(rest) = data.strip_prefix(provider.prefix.as_bytes()) else { continue };
            match provider.decrypt(place, rest) {
                Ok(body) => return Ok(Decrypted { body: body.into(), is_stale: at != 0 }),
                // Without a prefix, an encrypted value is for another provider.
                Err(_) if provider.prefix.is_empty() => {}
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        Err(failure.unwrap_or(DecryptError::Prefix))
    }
}

/// Appends a random nonce and the ciphertext.
fn seal<C: Aead>(cipher: &C, nonce_size: usize, place: &str, body: &[u8], output: &mut Vec<u8>) {
    let start = output.len();
    output.resize(start + nonce_size, 0);
    OsRng.fill_bytes(&mut output[start..]);
    let nonce = GenericArray::clone_from_slice(&output[start..]);
    let sealed = cipher.encrypt(&nonce, Payload { msg: body, aad: place.as_bytes() });
    output.extend(sealed.expect("a value is shorter than the limit of the cipher, 64 GiB"));
}

fn open<C: Aead>(cipher: &C, nonce_size: usize, place: &str, data: &[u8]) -> Result<Vec<u8>, DecryptError> {
    let (nonce, sealed) = data.split_at_checked(nonce_size).ok_or(DecryptError::Short)?;
    let opened = cipher.decrypt(GenericArray::from_slice(nonce), Payload { msg: sealed, aad: place.as_bytes() });
    opened.map_err(|_| DecryptError::Authentication)
}

fn cbc_encrypt<C>(key: &[u8], vector: &[u8; CBC_VECTOR], body: &[u8]) -> Vec<u8>
where
    C: cbc::cipher::BlockEncryptMut + cbc::cipher::BlockCipher + KeyInit,
    cbc::Encryptor<C>: KeyIvInit,
{
    let encryptor = cbc::Encryptor::<C>::new_from_slices(key, vector).expect("the size of the key was checked");
    encryptor.encrypt_padded_vec_mut::<Pkcs7>(body)
}

fn cbc_decrypt<C>(key: &[u8], vector: &[u8; CBC_VECTOR], blocks: &[u8]) -> Result<Vec<u8>, DecryptError>
where
    C: cbc::cipher::BlockDecryptMut + cbc::cipher::BlockCipher + KeyInit,
    cbc::Decryptor<C>: KeyIvInit,
{
    let decryptor = cbc::Decryptor::<C>::new_from_slices(key, vector).expect("the size of the key was checked");
    decryptor.decrypt_padded_vec_mut::<Pkcs7>(blocks).map_err(|_| DecryptError::Padding)
}
