//! The metadata sections of object files of every format.

use super::metered::{Meter, Part, Source};
use anyhow::{Context, bail, ensure};
use burn_kernels::registry::section::{ELF_SECTION, MACHO_SECTION, PE_SECTION};
use object::read::ReadCache;
use object::read::archive::ArchiveFile;
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};
use object::{BinaryFormat, File, FileKind, Object, ObjectSection};
use std::collections::HashSet;
use std::io::{Read, Seek};

/// The largest size of all metadata, in bytes, far above that of any program: a record has some hundred bytes.
const MOST_METADATA: u64 = 64 << 20;

/// Returns the contents of every metadata section in a file of `length` bytes.
///
/// # Errors
/// Returns an error if the file is not an object file, is damaged, or has parts that overlap.
pub fn collect<'a, F: Read + Seek>(
    cache: &'a ReadCache<Source<F>>,
    meter: &'a Meter,
    length: u64,
) -> anyhow::Result<Vec<&'a [u8]>> {
    let mut found = Found::new(length);
    let collected = of_file(Part::whole(cache, meter, length), &mut found);
    if let Some(limit) = meter.exceeded() {
        bail!(
            "its parts overlap, or are too large: more than {limit} bytes would be read of a file \
             of {length} bytes"
        );
    }
    collected?;
    Ok(found.sections)
}

/// The sections found so far, and the numbers of bytes that further sections and parts can have without overlap.
struct Found<'a> {
    sections: Vec<&'a [u8]>,
    /// The places of the sections in the file.
    places: HashSet<(u64, u64)>,
    metadata_left: u64,
    parts_left: u64,
}

impl<'a> Found<'a> {
    fn new(length: u64) -> Self {
        Self {
            sections: Vec::new(),
            places: HashSet::new(),
            metadata_left: length.min(MOST_METADATA),
            parts_left: length,
        }
    }

    /// Counts an object file inside the file.
    fn part(&mut self, length: u64) -> anyhow::Result<()> {
        let left = self.parts_left.checked_sub(length);
        self.parts_left = left.context("its parts overlap: together they are larger than it")?;
        Ok(())
    }

    /// Counts a section, before it is read.
    fn section(&mut self, length: u64) -> anyhow::Result<()> {
        let left = self.metadata_left.checked_sub(length);
        self.metadata_left = left.with_context(|| {
            format!(
                "its sections overlap, or hold more than {} MiB of kernel metadata",
                MOST_METADATA >> 20
            )
        })?;
        Ok(())
    }
}

fn of_file<'a, F: Read + Seek>(file: Part<'a, F>, found: &mut Found<'a>) -> anyhow::Result<()> {
    let Ok(kind) = FileKind::parse(file) else {
        bail!("not an ELF, Mach-O or PE file, nor an archive of such");
    };
    match kind {
        FileKind::Archive => of_archive(file, found),
        FileKind::MachOFat32 => {
            let parts = MachOFatFile32::parse(file).context("a damaged universal file")?;
            of_parts(parts.arches(), file, found)
        }
        FileKind::MachOFat64 => {
            let parts = MachOFatFile64::parse(file).context("a damaged universal file")?;
            of_parts(parts.arches(), file, found)
        }
        _ => of_object(file, found),
    }
}

fn of_object<'a, F: Read + Seek>(part: Part<'a, F>, found: &mut Found<'a>) -> anyhow::Result<()> {
    let file = File::parse(part).context("a damaged object file")?;
    for section in file
        .sections()
        .filter(|section| is_ours(section, file.format()))
    {
        let Some((start, length)) = section.file_range() else {
            continue;
        };
        let place = (part.start().saturating_add(start), length);
        if found.places.insert(place) {
            let unread = "its section cannot be read";
            part.part((start, length)).context(unread)?;
            found.section(length)?;
            let contents = section.data().context(unread)?;
            found.sections.push(contents);
        }
    }
    Ok(())
}

/// Returns `true` if a section has the name of metadata sections in this format. PE cuts longer names to eight
/// characters, so the name is short there.
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

/// Collects the sections of a universal file, which has one part for each processor.
fn of_parts<'a, F: Read + Seek>(
    parts: &[impl FatArch],
    file: Part<'a, F>,
    found: &mut Found<'a>,
) -> anyhow::Result<()> {
    for part in parts {
        let name = format!("its part for {:?}", part.architecture());
        let range: (u64, u64) = part.file_range();
        let part = file
            .part(range)
            .with_context(|| format!("{name} is cut off"))?;
        found.part(range.1)?;
        of_object(part, found).context(name)?;
    }
    Ok(())
}

/// Collects the sections of a static library. Members that are not object files, such as Rust's own metadata, are
/// skipped.
fn of_archive<'a, F: Read + Seek>(file: Part<'a, F>, found: &mut Found<'a>) -> anyhow::Result<()> {
    let archive = ArchiveFile::parse(file).context("a damaged archive")?;
    ensure!(
        !archive.is_thin(),
        "a thin archive holds only the names of its object files: inspect those"
    );
    for member in archive.members() {
        let member = member.context("a damaged archive")?;
        let name = || kernels_io::escape(&String::from_utf8_lossy(member.name())).into_owned();
        let range = member.file_range();
        let data = file
            .part(range)
            .with_context(|| format!("its member {} is cut off", name()))?;
        // The name counts as well, because many members may share one long name.
        found.part(range.1.saturating_add(member.name().len() as u64))?;
        if FileKind::parse(data).is_ok() {
            of_object(data, found).with_context(|| format!("its member {}", name()))?;
        }
    }
    Ok(())
}
