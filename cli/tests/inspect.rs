//! `kernels inspect` on every format, with the records of this build.

mod common;

use common::{errors, kernels};
use object::write::pe::{NtHeaders, Writer};
use object::write::{Object, SectionKind};
use object::{Architecture, BinaryFormat, Endianness, Object as _, ObjectSection as _};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The metadata of the program, as its own file holds it.
fn records() -> Vec<u8> {
    let program = fs::read(env!("CARGO_BIN_EXE_kernels")).unwrap();
    let file = object::File::parse(&*program).unwrap();
    let names = ["burn_kernels", "__burn_kernels", ".bkmeta"];
    let ours = file
        .sections()
        .find(|s| s.name().is_ok_and(|name| names.contains(&name)));
    ours.expect("a section").data().unwrap().to_vec()
}

/// What `inspect --json` says of a file, without the file's name.
fn inspected(file: &Path) -> Value {
    let result = kernels(["inspect".as_ref(), "--json".as_ref(), file.as_os_str()]);
    assert!(result.status.success(), "{}", errors(&result));
    let mut json: Value = serde_json::from_slice(&result.stdout).unwrap();
    json.as_object_mut().unwrap().remove("file");
    json
}

fn refused(file: &Path, words: &str) {
    let result = kernels(["inspect".as_ref(), file.as_os_str()]);
    let said = errors(&result);
    assert_eq!(result.status.code(), Some(1), "{said}");
    assert!(said.contains(words), "`{words}` is not in: {said}");
    assert!(
        said.contains(&file.display().to_string()) && result.stdout.is_empty(),
        "{said}"
    );
}

/// A file in a folder that lives as long as it.
struct Made(TempDir);

impl Made {
    fn new(bytes: &[u8]) -> Self {
        let made = Self(TempDir::new().unwrap());
        fs::write(made.path(), bytes).unwrap();
        made
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("file")
    }
}

fn object_file(
    format: BinaryFormat,
    arch: Architecture,
    section: [&str; 2],
    data: &[u8],
) -> Vec<u8> {
    let mut object = Object::new(format, arch, Endianness::Little);
    let [segment, name] = section.map(|name| name.as_bytes().to_vec());
    let section = object.add_section(segment, name, SectionKind::Data);
    object.append_section_data(section, data, 8);
    object.write().unwrap()
}

fn mach_o(arch: Architecture, data: &[u8]) -> Vec<u8> {
    object_file(
        BinaryFormat::MachO,
        arch,
        ["__DATA", "__burn_kernels"],
        data,
    )
}

/// A Windows program: headers and one section, padded as linkers do.
fn windows_program(name: [u8; 8], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(true, 0x1000, 0x200, &mut bytes);
    writer.reserve_dos_header_and_stub();
    writer.reserve_nt_headers(16);
    writer.reserve_section_headers(1);
    let characteristics =
        object::pe::IMAGE_SCN_CNT_INITIALIZED_DATA | object::pe::IMAGE_SCN_MEM_READ;
    let length = u32::try_from(data.len()).unwrap();
    let range = writer.reserve_section(name, characteristics, length, length);
    writer.write_dos_header_and_stub().unwrap();
    writer.write_nt_headers(NtHeaders {
        machine: object::pe::IMAGE_FILE_MACHINE_AMD64,
        time_date_stamp: 0,
        characteristics: object::pe::IMAGE_FILE_EXECUTABLE_IMAGE,
        major_linker_version: 0,
        minor_linker_version: 0,
        address_of_entry_point: 0,
        image_base: 0x1_4000_0000,
        major_operating_system_version: 6,
        minor_operating_system_version: 0,
        major_image_version: 0,
        minor_image_version: 0,
        major_subsystem_version: 6,
        minor_subsystem_version: 0,
        subsystem: object::pe::IMAGE_SUBSYSTEM_WINDOWS_CUI,
        dll_characteristics: Default::default(),
        size_of_stack_reserve: 0,
        size_of_stack_commit: 0,
        size_of_heap_reserve: 0,
        size_of_heap_commit: 0,
    });
    writer.write_section_headers();
    writer.write_section(range.file_offset, data);
    bytes
}

/// A universal file of these parts.
fn universal(parts: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut header = vec![0xca_fe_ba_be_u32, u32::try_from(parts.len()).unwrap()];
    let mut at = 4096;
    for (processor, part) in parts {
        let length = u32::try_from(part.len()).unwrap();
        header.extend([*processor, 0, at, length, 12]);
        at += length.next_multiple_of(4096);
    }
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_be_bytes).collect();
    for (_, part) in parts {
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.extend(part);
    }
    bytes
}

const X86_64: u32 = 0x0100_0007;
const ARM64: u32 = 0x0100_000c;

#[test]
fn every_format_says_what_the_program_says() {
    let expected = inspected(Path::new(env!("CARGO_BIN_EXE_kernels")));
    assert!(
        expected["sites"]
            .as_array()
            .is_some_and(|sites| sites.len() > 3)
    );
    let data = records();
    let apple = |arch| mach_o(arch, &data);
    let files = [
        ("Mach-O object", apple(Architecture::Aarch64)),
        (
            "universal file",
            universal(&[
                (X86_64, apple(Architecture::X86_64)),
                (ARM64, apple(Architecture::Aarch64)),
            ]),
        ),
        (
            "COFF object",
            object_file(
                BinaryFormat::Coff,
                Architecture::X86_64,
                ["", ".bkmeta"],
                &data,
            ),
        ),
        ("Windows program", windows_program(*b".bkmeta\0", &data)),
        (
            "ELF object of another processor",
            object_file(
                BinaryFormat::Elf,
                Architecture::Aarch64,
                ["", "burn_kernels"],
                &data,
            ),
        ),
    ];
    for (what, bytes) in files {
        assert_eq!(inspected(&Made::new(&bytes).path()), expected, "{what}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_stripped_program_keeps_its_metadata() {
    let stripped = Made(TempDir::new().unwrap());
    let done = Command::new("strip")
        .args(["--strip-all", "-o"])
        .arg(stripped.path())
        .arg(env!("CARGO_BIN_EXE_kernels"))
        .status()
        .expect("`strip` of binutils, which the C linker is part of");
    assert!(done.success());
    let program = Path::new(env!("CARGO_BIN_EXE_kernels"));
    assert_eq!(inspected(&stripped.path()), inspected(program));
}

#[cfg(target_os = "linux")]
#[test]
fn a_static_library_keeps_its_metadata() {
    let folder = TempDir::new().unwrap();
    let member = folder.path().join("member.o");
    let data = records();
    let bytes = object_file(
        BinaryFormat::Elf,
        Architecture::X86_64,
        ["", "burn_kernels"],
        &data,
    );
    fs::write(&member, bytes).unwrap();
    let other = folder.path().join("notes.txt");
    fs::write(&other, "no object file").unwrap();
    let archive = folder.path().join("libx.a");
    let done = Command::new("ar")
        .arg("rcs")
        .args([&archive, &member, &other])
        .status();
    assert!(done.expect("`ar` of binutils").success());
    assert_eq!(
        inspected(&archive),
        inspected(Path::new(env!("CARGO_BIN_EXE_kernels")))
    );
}

#[test]
fn what_cannot_be_read_is_an_error_that_says_why() {
    let data = records();
    let whole = mach_o(Architecture::Aarch64, &data);
    let cut_record = mach_o(Architecture::Aarch64, &data[..data.len() / 2 + 1]);
    let newer = {
        let mut data = data.clone();
        let at = data.windows(9).position(|w| w == b"\"schema\":").unwrap();
        data[at + 9] = b'9';
        windows_program(*b".bkmeta\0", &data)
    };
    let parts = [(ARM64, whole.clone())];
    let mut cut_part = universal(&parts);
    cut_part.truncate(cut_part.len() - 100);
    for (bytes, words) in [
        (b"no object file".to_vec(), "not an ELF, Mach-O or PE file"),
        (Vec::new(), "not an ELF, Mach-O or PE file"),
        (whole[..whole.len() - data.len()].to_vec(), "cannot be read"),
        (whole[..20].to_vec(), "a damaged object file"),
        (cut_record, "its kernel metadata is damaged"),
        (newer, "has schema 9"),
        (cut_part, "is cut off"),
        (windows_program(*b".rdata\0\0", &data), "no kernel metadata"),
        (mach_o(Architecture::X86_64, &[]), "metadata is empty"),
        (mach_o(Architecture::X86_64, &[0; 16]), "metadata is empty"),
        // The name that another format gives the section.
        (
            object_file(
                BinaryFormat::Elf,
                Architecture::X86_64,
                ["", ".bkmeta"],
                &data,
            ),
            "no kernel metadata",
        ),
    ] {
        refused(&Made::new(&bytes).path(), words);
    }
}
