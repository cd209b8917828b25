//! Digests of the files of a variant, as the validator of Hugging Face's `kernels` computes them, and the id of the
//! contents.
//!
//! The digest covers each file of the folder and of the folders in it, but not `metadata.json` of the folder itself,
//! `*.pyc` files and `__pycache__` folders. Names have `/` between folders.

use data_encoding::{BASE64, HEXLOWER};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha512};
use std::collections::BTreeMap;

/// A SHA-256.
pub type Sum = [u8; 32];

/// Returns the SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

/// Returns the digits of a SHA-256, 64 of them.
pub(crate) fn hex(sum: &Sum) -> String {
    HEXLOWER.encode(sum)
}

/// How digests are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// Returns the digest of bytes in base64.
    pub fn of(self, bytes: &[u8]) -> String {
        match self {
            Self::Sha256 => BASE64.encode(&Sha256::digest(bytes)),
            Self::Sha512 => BASE64.encode(&Sha512::digest(bytes)),
        }
    }

    fn size(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// The digests of all files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// How they are computed.
    pub algorithm: Algorithm,
    /// The digest of each file by its name, in base64.
    pub files: BTreeMap<String, String>,
}

impl Digest {
    /// Checks that each digest can be one.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, digest) in &self.files {
            let decoded = BASE64.decode(digest.as_bytes());
            if decoded.map_or(0, |bytes| bytes.len()) != self.algorithm.size() {
                return Err(format!(
                    "digest: `{}` of {name} is not {} bytes in base64",
                    crate::metadata::short(digest),
                    self.algorithm.size()
                ));
            }
        }
        Ok(())
    }

    /// Compares the digests that were found with these.
    ///
    /// # Errors
    /// Returns the first file that is changed, missing or too many.
    pub fn validate(&self, found: &BTreeMap<String, String>) -> Result<(), String> {
        for (name, expected) in &self.files {
            match found.get(name) {
                Some(digest) if digest == expected => {}
                Some(_) => {
                    return Err(format!(
                        "{name} is not the file whose digest metadata.json has; get the package again"
                    ));
                }
                None => {
                    return Err(format!(
                        "{name}, whose digest metadata.json has, is missing"
                    ));
                }
            }
        }
        match found.keys().find(|name| !self.files.contains_key(*name)) {
            Some(name) => Err(format!("metadata.json has no digest of {name}")),
            None => Ok(()),
        }
    }
}

/// Returns the id of the contents of a variant: the SHA-256 of its name and, in the order of their names, of each
/// file's name and SHA-256.
///
/// The length of each name, in 8 bytes with the low one first, comes before the name, so that no other names and sums
/// are the same bytes. It is not the hash that old locks of Hugging Face's `kernels` have.
pub fn content_id<'a>(variant: &str, files: impl IntoIterator<Item = (&'a str, &'a Sum)>) -> Sum {
    let mut all = Sha256::new();
    let name = |all: &mut Sha256, name: &str| {
        all.update((name.len() as u64).to_le_bytes());
        all.update(name);
    };
    name(&mut all, variant);
    for (file, sum) in files {
        name(&mut all, file);
        all.update(sum);
    }
    all.finalize().into()
}
