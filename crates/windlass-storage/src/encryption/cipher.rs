//! The ciphers: a random nonce, and the ciphertext.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{
    AesGcm,
    aead::{Aead, KeyInit, OsRng, Payload, consts::U12, generic_array::GenericArray, rand_core::RngCore as _},
};
use cbc::cipher::{
    BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit,
    block_padding::{NoPadding, Pkcs7},
};
use crypto_secretbox::XSalsa20Poly1305;

/// The size of a nonce of AES-GCM, of an initialization vector of AES-CBC, and of a nonce of secretbox.
const GCM_NONCE: usize = 12;
const CBC_VECTOR: usize = 16;
const SECRETBOX_NONCE: usize = 24;

/// The names of the ciphers in prefixes and in configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AesGcm,
    AesCbc,
    Secretbox,
}

/// A cipher with its key.
pub(super) enum Cipher {
    Gcm(Gcm),
    Cbc(Box<[u8]>),
    Secretbox(Box<XSalsa20Poly1305>),
}

/// AES-GCM with a key of one of three sizes.
pub(super) enum Gcm {
    Bits128(Box<AesGcm<Aes128, U12>>),
    Bits192(Box<AesGcm<Aes192, U12>>),
    Bits256(Box<AesGcm<Aes256, U12>>),
}

/// The reason why data cannot be decrypted, in the words of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecryptError {
    #[error("the stored data was shorter than the required size")]
    Short,
    #[error("cipher: message authentication failed")]
    Authentication,
    #[error("the stored data is not a multiple of the block size")]
    Blocks,
    #[error("invalid PKCS7 data (empty or not padded)")]
    NoPadding,
    #[error("invalid padding on input")]
    Padding,
    #[error("output array was not large enough for encryption")]
    Secretbox,
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

impl Gcm {
    /// Returns `None` if the key has another size.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        Some(match key.len() {
            16 => Self::Bits128(Box::new(AesGcm::new_from_slice(key).ok()?)),
            24 => Self::Bits192(Box::new(AesGcm::new_from_slice(key).ok()?)),
            32 => Self::Bits256(Box::new(AesGcm::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }

    /// Appends the encrypted body. `place` is authenticated, too.
    pub(super) fn seal(&self, place: &str, body: &[u8], output: &mut Vec<u8>) {
        match self {
            Self::Bits128(cipher) => seal(&**cipher, GCM_NONCE, place, body, output),
            Self::Bits192(cipher) => seal(&**cipher, GCM_NONCE, place, body, output),
            Self::Bits256(cipher) => seal(&**cipher, GCM_NONCE, place, body, output),
        }
    }

    pub(super) fn open(&self, place: &str, data: &[u8]) -> Result<Vec<u8>, DecryptError> {
        match self {
            Self::Bits128(cipher) => open(&**cipher, GCM_NONCE, place, data),
            Self::Bits192(cipher) => open(&**cipher, GCM_NONCE, place, data),
            Self::Bits256(cipher) => open(&**cipher, GCM_NONCE, place, data),
        }
    }
}

impl Cipher {
    /// Returns `None` if the key has another size.
    pub(super) fn new(kind: Kind, key: &[u8]) -> Option<Self> {
        match kind {
            Kind::AesGcm => Gcm::new(key).map(Self::Gcm),
            Kind::AesCbc => kind.key_sizes().contains(&key.len()).then(|| Self::Cbc(key.into())),
            Kind::Secretbox => {
                XSalsa20Poly1305::new_from_slice(key).ok().map(|cipher| Self::Secretbox(Box::new(cipher)))
            }
        }
    }

    /// Appends the encrypted body. AES-GCM authenticates its place, too.
    pub(super) fn seal(&self, place: &str, body: &[u8], output: &mut Vec<u8>) {
        match self {
            Self::Gcm(cipher) => cipher.seal(place, body, output),
            // Secretbox has no additional data.
            Self::Secretbox(cipher) => seal(&**cipher, SECRETBOX_NONCE, "", body, output),
            Self::Cbc(key) => {
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
    }

    pub(super) fn open(&self, place: &str, data: &[u8]) -> Result<Vec<u8>, DecryptError> {
        match self {
            Self::Gcm(cipher) => cipher.open(place, data),
            Self::Secretbox(cipher) => open(&**cipher, SECRETBOX_NONCE, "", data).map_err(|error| match error {
                DecryptError::Authentication => DecryptError::Secretbox,
                other => other,
            }),
            Self::Cbc(key) => {
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
    let mut body = decryptor.decrypt_padded_vec_mut::<NoPadding>(blocks).map_err(|_| DecryptError::Blocks)?;
    let padding = body.last().copied().unwrap_or_default();
    let size = body.len().checked_sub(usize::from(padding)).filter(|_| padding != 0).ok_or(DecryptError::NoPadding)?;
    if body[size..].iter().any(|byte| *byte != padding) {
        return Err(DecryptError::Padding);
    }
    body.truncate(size);
    Ok(body)
}
