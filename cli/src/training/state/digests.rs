//! The checksums of a state's files. A bit that a disk or a copy changed would go on as a wrong number.

use anyhow::{Context, ensure};
use kernels_io::{Limit, escape, write_new};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// The file with the checksums of the others.
pub(super) const DIGESTS: &str = "digests.json";

/// The bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Writes the checksums of a folder's files into a file beside them.
///
/// # Errors
/// Returns an error if the system fails.
pub(super) fn write(folder: &Path, files: &[&str]) -> anyhow::Result<()> {
    let digests = files
        .iter()
        .map(|file| Ok((*file, digest(&folder.join(file))?)));
    let digests = digests.collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    let text = serde_json::to_vec_pretty(&digests)?;
    Ok(write_new(&folder.join(DIGESTS), &text)?)
}

/// Checks the files of a folder by their checksums. States of older programs have none, and pass.
///
/// # Errors
/// Returns an error that names the first file that is not as it was written.
pub(super) fn check(folder: &Path, files: &[&str]) -> anyhow::Result<()> {
    const LIMIT: Limit = Limit::mib("checksums of a state", 1);
    let path = folder.join(DIGESTS);
    if !kernels_io::is_there(&path) {
        return Ok(());
    }
    let text = kernels_io::read_text(&path, LIMIT)?;
    let mut digests: BTreeMap<String, String> = serde_json::from_str(&text).context(DIGESTS)?;
    for file in files {
        let written = digests.remove(*file);
        let written = written.with_context(|| format!("{DIGESTS} has no checksum of {file}"))?;
        let read = digest(&folder.join(file))?;
        ensure!(
            read == written,
            "{file} has changed since it was saved: its checksum is {read}, and was {}",
            escape(&written)
        );
    }
    Ok(())
}

/// Returns the CRC-32 of a file. It finds every change of up to 32 bits in a row.
fn digest(path: &Path) -> anyhow::Result<String> {
    let mut file = kernels_io::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece);
        match length.with_context(|| format!("cannot read {}", kernels_io::escape_path(path)))? {
            0 => return Ok(format!("crc32:{:08x}", hasher.finalize())),
            length => hasher.update(&piece[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_bit_of_every_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b"];
        let at = |file: &str| folder.path().join(file);
        let check = || check(folder.path(), &files).map_err(|error| format!("{error:#}"));
        fs::write(at("a"), "123456789").unwrap();
        fs::write(at("b"), vec![7; PIECE + 1]).unwrap();
        // A state of an older program.
        check().unwrap();
        write(folder.path(), &files).unwrap();
        check().unwrap();
        // The published value of this text.
        let digests = fs::read_to_string(at(DIGESTS)).unwrap();
        assert!(digests.contains("\"crc32:cbf43926\""), "{digests}");
        for (file, place) in [("a", 0), ("a", 8), ("b", 0), ("b", PIECE)] {
            let whole = fs::read(at(file)).unwrap();
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[place] ^= 1 << bit;
                fs::write(at(file), changed).unwrap();
                let said = check().unwrap_err();
                assert!(said.starts_with(&format!("{file} has changed")), "{said}");
            }
            fs::write(at(file), whole).unwrap();
        }
        fs::write(at(DIGESTS), "{\"a\": \"crc32:cbf43926\"}").unwrap();
        assert_eq!(check().unwrap_err(), "digests.json has no checksum of b");
        fs::write(at(DIGESTS), &digests[..9]).unwrap();
        assert!(check().unwrap_err().starts_with(DIGESTS));
        fs::remove_file(at("b")).unwrap();
        fs::write(at(DIGESTS), digests).unwrap();
        assert!(check().is_err());
    }
}
