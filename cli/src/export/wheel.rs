//! Wheels: archives in zip's format, whose files are stored as they are (PyPA's binary distribution format 1.0, and PKWARE's
//! APPNOTE 6.3).

use super::{Library, files, put};
use anyhow::Context;
use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Writes the wheel of a library.
pub(super) fn write(dist: &Path, library: &Library) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("burn_kernels-{version}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.1\nName: burn-kernels\nVersion: {version}\nSummary: CPU kernels for torch and transformers\n\
         License: {}\nRequires-Python: >=3.9\nRequires-Dist: torch>=2.4\n",
        env!("CARGO_PKG_LICENSE")
    );
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: kernels {version}\nRoot-Is-Purelib: false\nTag: py3-none-{}\n",
        platform(library)
    );
    let mut archive = Archive::default();
    let mut record = String::new();
    let mut add = |name: String, bytes: &[u8]| -> anyhow::Result<()> {
        let digest = BASE64URL_NOPAD.encode(&Sha256::digest(bytes));
        record += &format!("{name},sha256={digest},{}\n", bytes.len());
        archive.add(&name, bytes)
    };
    for (name, bytes) in files(std::slice::from_ref(library)) {
        add(format!("burn_kernels/{name}"), bytes)?;
    }
    add(format!("{info}/METADATA"), metadata.as_bytes())?;
    add(format!("{info}/WHEEL"), wheel.as_bytes())?;
    record += &format!("{info}/RECORD,,\n");
    archive.add(&format!("{info}/RECORD"), record.as_bytes())?;
    put(dist, &name(library), &archive.finish()?)
}

/// Returns the name of the wheel.
pub(super) fn name(library: &Library) -> String {
    format!(
        "burn_kernels-{}-py3-none-{}.whl",
        env!("CARGO_PKG_VERSION"),
        platform(library)
    )
}

/// Returns the platforms that the wheel is for. On Linux, they are those with the glibc that the library needs.
fn platform(library: &Library) -> String {
    let machine = library.machine;
    match library.system.name {
        "linux" => format!("manylinux_2_{}_{machine}", glibc(&library.bytes)),
        "darwin" if machine == "aarch64" => "macosx_11_0_arm64".into(),
        "darwin" => "macosx_10_12_x86_64".into(),
        _ if machine == "aarch64" => "win_arm64".into(),
        _ => "win_amd64".into(),
    }
}

/// Returns the highest minor version of glibc 2 that a library names, 17 at least.
fn glibc(library: &[u8]) -> u32 {
    let name = b"GLIBC_2.";
    let places = library
        .windows(name.len())
        .enumerate()
        .filter(|(_, window)| window == name);
    let minors = places.filter_map(|(at, _)| {
        let digits = &library[at + name.len()..];
        let count = digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        str::from_utf8(&digits[..count.min(3)]).ok()?.parse().ok()
    });
    minors.fold(17, u32::max)
}

/// An archive as it is written.
#[derive(Default)]
struct Archive {
    files: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Archive {
    /// Adds a file, with the first date that the format has.
    fn add(&mut self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let size = u32::try_from(bytes.len()).context("a wheel holds no file of 4 GiB")?;
        let place = u32::try_from(self.files.len()).context("a wheel has less than 4 GiB")?;
        let mut common = Vec::new();
        for number in [20_u16, 1 << 11, 0, 0, (1 << 5) | 1] {
            common.extend(number.to_le_bytes());
        }
        for number in [crc32fast::hash(bytes), size, size] {
            common.extend(number.to_le_bytes());
        }
        common.extend(u16::try_from(name.len())?.to_le_bytes());
        common.extend(0_u16.to_le_bytes());

        self.files.extend(b"PK\x03\x04");
        self.files.extend(&common);
        self.files.extend(name.as_bytes());
        self.files.extend(bytes);

        // Made on Unix, with a plain file's permissions.
        self.directory.extend(b"PK\x01\x02\x14\x03");
        self.directory.extend(&common);
        self.directory.extend([0; 6]);
        self.directory.extend((0o100_644_u32 << 16).to_le_bytes());
        self.directory.extend(place.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count += 1;
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<Vec<u8>> {
        let [size, place] = [self.directory.len(), self.files.len()].map(u32::try_from);
        let mut end = Vec::from(b"PK\x05\x06\0\0\0\0");
        for number in [self.count, self.count] {
            end.extend(number.to_le_bytes());
        }
        for number in [size?, place?] {
            end.extend(number.to_le_bytes());
        }
        end.extend([0; 2]);
        self.files.append(&mut self.directory);
        self.files.append(&mut end);
        Ok(self.files)
    }
}
