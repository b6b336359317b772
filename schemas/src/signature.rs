//! Ed25519 signatures of controls (RFC 8032): who said it, proven by a key and not by the topic alone (S3, S4).
//!
//! What is signed is the record as it stands in the topic: its key, a line feed, its value. Nothing is parsed or written
//! anew before the signature is checked, so that there is no second form of a record to disagree about.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, ParsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::headers::SIGNATURE;
use crate::{DeadLetterCode, Inbound, Outbound, Rejection};

/// The longest ID of a key, in bytes.
const MAX_KEY_ID_BYTES: usize = 64;
/// RFC 8032, 5.1.
const SIGNATURE_BYTES: usize = 64;

/// What the signature's header says: `<key id>:<base64 of the 64 bytes>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub key_id: String,
    bytes: Vec<u8>,
}

impl Signature {
    /// The signature that a record carries.
    ///
    /// # Errors
    /// `signature_invalid` when there is a header that is none.
    pub fn of(record: &Inbound) -> Result<Option<Self>, Rejection> {
        let invalid = || invalid("must be `<key id>:<base64 of the 64 bytes of an Ed25519 signature>`");
        let Some((_, header)) = record.headers.iter().rev().find(|(name, _)| name == SIGNATURE) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(header).map_err(|_| invalid())?;
        let (key_id, bytes) = text.split_once(':').ok_or_else(invalid)?;
        let bytes = STANDARD.decode(bytes.trim_end()).map_err(|_| invalid())?;
        if !is_key_id(key_id) || bytes.len() != SIGNATURE_BYTES {
            return Err(invalid());
        }
        Ok(Some(Self { key_id: key_id.to_owned(), bytes }))
    }

    /// Checks it against the record and the key that it names.
    ///
    /// # Errors
    /// `signature_invalid` when the record was not signed with that key as it stands.
    pub fn verify(&self, record: &Inbound, key: &PublicKey) -> Result<(), Rejection> {
        let signed = signed(record.key.as_deref().unwrap_or_default(), record.value.as_deref().unwrap_or_default());
        let message = "is not that key's over `<record key>\\n<record value>`; sign the bytes exactly as they are sent";
        key.parsed.verify_sig(&signed, &self.bytes).map_err(|_| invalid(message))
    }
}

fn invalid(message: &str) -> Rejection {
    Rejection::new(DeadLetterCode::SignatureInvalid, SIGNATURE, message)
}

fn signed(key: &[u8], value: &[u8]) -> Vec<u8> {
    [key, b"\n", value].concat()
}

/// Whether a text can be the ID of a key: 1 to 64 letters, digits, `.`, `_` and `-`.
pub fn is_key_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_KEY_ID_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

/// A public key, as `openssl pkey -pubout` writes it: PEM (RFC 7468) of an X.509 `SubjectPublicKeyInfo` (RFC 8410).
#[derive(Debug, Clone)]
pub struct PublicKey {
    pem: String,
    parsed: ParsedPublicKey,
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pem = String::deserialize(deserializer)?;
        let wrong = "not the PEM of an Ed25519 public key; `openssl pkey -in KEY.pem -pubout` writes it";
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|_| D::Error::custom(wrong))?;
        let parsed = ParsedPublicKey::new(&ED25519, der.as_ref()).map_err(|_| D::Error::custom(wrong))?;
        Ok(Self { pem, parsed })
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.pem.serialize(serializer)
    }
}

/// A private key with its ID, for those who sign.
#[derive(Debug)]
pub struct SigningKey {
    key_id: String,
    pair: Ed25519KeyPair,
}

/// Why a private key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("not the PEM of an unencrypted Ed25519 private key (PKCS#8)")]
    NotAKey,
    #[error("a key's ID is 1 to {MAX_KEY_ID_BYTES} letters, digits, `.`, `_` and `-`")]
    NotAnId,
}

impl SigningKey {
    /// Reads a key as `openssl genpkey -algorithm ed25519` writes it: PEM of PKCS#8 (RFC 5958), unencrypted.
    ///
    /// # Errors
    /// When the text is no such key, or the ID none of a key.
    pub fn from_pem(key_id: &str, pem: &[u8]) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| KeyError::NotAKey)?;
        let pair = Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| KeyError::NotAKey)?;
        if !is_key_id(key_id) {
            return Err(KeyError::NotAnId);
        }
        Ok(Self { key_id: key_id.to_owned(), pair })
    }

    /// Signs a record, in place of the signature that it has.
    pub fn sign(&self, record: &mut Outbound) {
        let signature = STANDARD.encode(self.pair.sign(&signed(&record.key, &record.value)));
        record.headers.retain(|(name, _)| name != SIGNATURE);
        record.headers.push((SIGNATURE.to_owned(), format!("{}:{signature}", self.key_id).into_bytes()));
    }
}
