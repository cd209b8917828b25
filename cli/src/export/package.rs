//! Variants of a package of Hugging Face's library `kernels`.

use super::{Library, files, put};
use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Writes a variant: the modules, the libraries, and metadata.json with the digest of each file.
///
/// The id is made of the contents, because Python keeps loaded packages by it: two versions in one process stay apart.
pub(super) fn write(build: &Path, variant: &str, libraries: &[Library]) -> anyhow::Result<()> {
    let folder = build.join(variant);
    let mut digests = Map::new();
    let mut all = Sha256::new_with_prefix(variant);
    for (name, bytes) in files(libraries) {
        put(&folder, &name, bytes)?;
        let digest = Sha256::digest(bytes);
        all.update(&name);
        all.update(digest);
        digests.insert(name, Value::String(BASE64.encode(&digest)));
    }
    let id = HEXLOWER.encode(&all.finalize()[..8]);
    let metadata = json!({
        "name": "burn-kernels",
        "id": format!("_burn_kernels_{id}"),
        "version": 1,
        "license": env!("CARGO_PKG_LICENSE"),
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": digests},
    });
    put(
        &folder,
        "metadata.json",
        format!("{metadata:#}\n").as_bytes(),
    )
}
