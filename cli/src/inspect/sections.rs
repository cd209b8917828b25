//! The metadata sections of object files of every format.

use anyhow::{Context, bail};
use burn_kernels::registry::section::{ELF_SECTION, MACHO_SECTION, PE_SECTION};
use object::read::archive::ArchiveFile;
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};
use object::{BinaryFormat, File, FileKind, Object, ObjectSection};

/// Appends the contents of every metadata section in a file.
///
/// # Errors
/// It is no object file, or a damaged one.
pub fn collect(bytes: &[u8], found: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let Ok(kind) = FileKind::parse(bytes) else {
        bail!("not an ELF, Mach-O or PE file, nor an archive of such");
    };
    match kind {
        FileKind::Archive => of_archive(bytes, found),
        FileKind::MachOFat32 => {
            let file = MachOFatFile32::parse(bytes).context("a damaged universal file")?;
            of_parts(file.arches(), bytes, found)
        }
        FileKind::MachOFat64 => {
            let file = MachOFatFile64::parse(bytes).context("a damaged universal file")?;
            of_parts(file.arches(), bytes, found)
        }
        _ => of_object(bytes, found),
    }
}

fn of_object(bytes: &[u8], found: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let file = File::parse(bytes).context("a damaged object file")?;
    for section in file
        .sections()
        .filter(|section| is_ours(section, file.format()))
    {
        let contents = section.data().context("its section cannot be read")?;
        found.push(contents.to_vec());
    }
    Ok(())
}

/// Whether a section has the name that the format gives ours. PE cuts longer names to eight
/// characters, so ours there is short.
fn is_ours<'a>(section: &impl ObjectSection<'a>, format: BinaryFormat) -> bool {
    let name = match format {
        BinaryFormat::MachO => MACHO_SECTION,
        BinaryFormat::Pe | BinaryFormat::Coff => PE_SECTION,
        _ => ELF_SECTION,
    };
    section
        .name_bytes()
        .is_ok_and(|ours| ours == name.as_bytes())
}

/// The parts of a universal file, one for each processor.
fn of_parts(parts: &[impl FatArch], bytes: &[u8], found: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    for part in parts {
        let name = format!("its part for {:?}", part.architecture());
        let part = part
            .data(bytes)
            .with_context(|| format!("{name} is cut off"))?;
        of_object(part, found).context(name)?;
    }
    Ok(())
}

/// The members of a static library. Others than object files, such as Rust's own metadata, say
/// nothing.
fn of_archive(bytes: &[u8], found: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let archive = ArchiveFile::parse(bytes).context("a damaged archive")?;
    for member in archive.members() {
        let member = member.context("a damaged archive")?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let data = member
            .data(bytes)
            .with_context(|| format!("its member {name} is cut off"))?;
        if FileKind::parse(data).is_ok() {
            of_object(data, found).with_context(|| format!("its member {name}"))?;
        }
    }
    Ok(())
}
