//! Tests of `kernels inspect` on every format, with the records of this build.

use crate::common::{self, elf, errors, kernels, object_file, record};
use kernels_cli::object_file::{self, Contents};
use object::write::pe::{NtHeaders, Writer};
use object::{Architecture, BinaryFormat, Object as _, ObjectSection as _};
use serde_json::Value;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Returns the metadata in the program's own file.
fn records() -> Vec<u8> {
    let program = fs::read(env!("CARGO_BIN_EXE_kernels")).unwrap();
    let file = object::File::parse(&*program).unwrap();
    let names = ["burn_kernels", "__burn_kernels", ".bkmeta"];
    let ours = file
        .sections()
        .find(|s| s.name().is_ok_and(|name| names.contains(&name)));
    ours.expect("a section").data().unwrap().to_vec()
}

/// Returns the output of `inspect --json` for a file, without the file's name.
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

/// A file in a temporary folder that is removed with it.
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

fn mach_o(arch: Architecture, data: &[u8]) -> Vec<u8> {
    object_file(
        BinaryFormat::MachO,
        arch,
        ["__DATA", "__burn_kernels"],
        data,
    )
}

/// Returns a Windows program of headers and one section, padded as linkers do.
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

/// Returns a universal file of these parts.
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
        // The section has the name of another format.
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

/// Returns an ELF file with one metadata section of `length` bytes and `count` section headers of its name. Each header
/// covers the bytes that `range` returns.
fn overlapping(count: u64, length: usize, range: impl Fn(u64) -> (u64, u64)) -> Vec<u8> {
    const HEADER: usize = 64;
    let names = b"\0burn_kernels\0.names\0";
    let mut bytes = vec![0; HEADER];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes.extend(names);
    // Valid metadata: one record and padding.
    let start = bytes.len() as u64;
    bytes.extend(record(r#"{"schema":2,"record":"kernel","id":"a"}"#));
    bytes.resize(start as usize + length, 0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let table = bytes.len() as u64;
    let mut header = |name: u32, kind: u32, offset: u64, size: u64| {
        bytes.extend(name.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        for word in [0, 0, offset, size] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 8]);
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend([0; 8]);
    };
    header(0, 0, 0, count + 2);
    header(14, 3, HEADER as u64, names.len() as u64);
    for index in 0..count {
        let (offset, size) = range(index);
        header(1, 1, start + offset, size);
    }
    bytes[16..20].copy_from_slice(&[1, 0, 62, 0]); // relocatable, x86-64
    bytes[20] = 1;
    bytes[40..48].copy_from_slice(&table.to_le_bytes());
    bytes[52..54].copy_from_slice(&64_u16.to_le_bytes());
    bytes[58..60].copy_from_slice(&64_u16.to_le_bytes());
    bytes[62..64].copy_from_slice(&1_u16.to_le_bytes());
    bytes
}

fn read(bytes: &[u8]) -> anyhow::Result<Contents> {
    object_file::read(Cursor::new(bytes))
}

#[test]
fn what_is_looked_at_grows_as_the_file_does() {
    let data = records();
    for bytes in [elf(&data), mach_o(Architecture::Aarch64, &data)] {
        let contents = read(&bytes).unwrap();
        assert_eq!(contents.decoded, data.len() as u64);
        let (looked_at, length) = (contents.looked_at, bytes.len() as u64);
        assert!(
            looked_at >= contents.decoded && looked_at < 3 * length,
            "{looked_at} of {length}"
        );
    }
    // Most of a program is not about kernels.
    let program = fs::File::open(env!("CARGO_BIN_EXE_kernels")).unwrap();
    let length = program.metadata().unwrap().len();
    let looked_at = object_file::read(program).unwrap().looked_at;
    assert!(looked_at < length / 2, "{looked_at} of {length}");
}

#[test]
fn one_section_named_many_times_is_read_once() {
    let bytes = overlapping(20_000, 1000, |_| (0, 1000));
    let contents = read(&bytes).unwrap();
    assert_eq!((contents.records.len(), contents.decoded), (1, 1000));
}

#[test]
fn sections_that_overlap_are_refused_before_they_are_all_read() {
    // Every section has a different range of zeros with the same end, so that each is valid by itself.
    let bytes = overlapping(20_000, 1_000_000, |index| (100 + index, 900_000 - index));
    let message = format!("{:#}", read(&bytes).unwrap_err());
    assert!(message.contains("overlap"), "{message}");
    refused(&Made::new(&bytes).path(), "overlap");
}

#[test]
fn parts_that_overlap_are_refused() {
    let part = mach_o(Architecture::Aarch64, &records());
    let length = u32::try_from(part.len()).unwrap();
    let arches = 1000_u32;
    let mut bytes: Vec<u8> = [0xca_fe_ba_be, arches]
        .into_iter()
        .chain((0..arches).flat_map(|_| [ARM64, 0, 32768, length, 12]))
        .flat_map(u32::to_be_bytes)
        .collect();
    bytes.resize(32768, 0);
    bytes.extend(part);
    refused(&Made::new(&bytes).path(), "overlap");
}

#[test]
fn a_section_larger_than_any_file_is_refused_without_memory_for_it() {
    let bytes = overlapping(1, 1000, |_| (0, 1 << 40));
    let file = Made::new(&bytes);
    // A sparse file takes no space on disk.
    let sparse = fs::OpenOptions::new()
        .write(true)
        .open(file.path())
        .unwrap();
    sparse.set_len(1 << 41).unwrap();
    refused(&file.path(), "more than 64 MiB of kernel metadata");
}

#[test]
fn many_records_are_read_and_each_is_told_once() {
    let json = |index: usize| {
        format!(r#"{{"schema":2,"record":"site","module":"m","item":"f{index}","line":{index}}}"#)
    };
    let one: Vec<u8> = (0..60_000).flat_map(|index| record(&json(index))).collect();
    let contents = read(&elf(&[one.clone(), one].concat())).unwrap();
    assert_eq!(contents.records.len(), 60_000);
}

#[test]
fn a_thin_archive_says_that_it_holds_no_members() {
    let mut archive = b"!<thin>\n".to_vec();
    let header = [
        ("member.o/", 16),
        ("0", 12),
        ("0", 6),
        ("0", 6),
        ("644", 8),
        ("100", 10),
    ];
    for (text, width) in header {
        archive.extend(format!("{text:<width$}").bytes());
    }
    archive.extend(b"`\n");
    refused(&Made::new(&archive).path(), "inspect those");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_file_is_refused() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    refused(&pipe, "is a named pipe");
}

#[test]
fn what_a_terminal_obeys_is_escaped() {
    let evil = r"x\u001b]0;owned\u0007\n\u202efake\u009b";
    let json = [
        format!(r#"{{"schema":2,"record":"kernel","id":"{evil}","summary":"{evil}"}}"#),
        format!(
            r#"{{"schema":2,"record":"site","module":"{evil}","item":"f","file":"{evil}","key":{{"op":"{evil}","{evil}":1}}}}"#
        ),
    ];
    let bytes = elf(&[record(&json[0]), record(&json[1])].concat());
    let file = Made::new(&bytes);
    let is_plain = |text: &str| {
        let plain = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        text.chars().all(plain)
    };
    let text = common::stdout([
        "inspect".as_ref(),
        "--wide".as_ref(),
        file.path().as_os_str(),
    ]);
    assert!(is_plain(&text), "{text:?}");
    // A heading, a row, a blank line, a heading and a row.
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(
        text.contains(r"x\u{1b}]0;owned\u{7}\n\u{202e}fake\u{9b}"),
        "{text}"
    );

    let text = common::stdout([
        "inspect".as_ref(),
        "--json".as_ref(),
        file.path().as_os_str(),
    ]);
    assert!(is_plain(&text), "{text:?}");
    let told: Value = serde_json::from_str(&text).unwrap();
    let id: Value = serde_json::from_str(&format!("\"{evil}\"")).unwrap();
    assert_eq!(told["kernels"][0]["id"], id);

    // Errors are escaped as well: of a record, of a member of an archive, and of the file itself.
    let newer = format!(r#"{{"schema":"{evil}","record":"{evil}"}}"#);
    let mut archive = b"!<arch>\n".to_vec();
    let member = &elf(&record(&newer));
    archive.extend(
        format!(
            "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            "a\x1b[2J/",
            0,
            0,
            0,
            644,
            member.len()
        )
        .bytes(),
    );
    archive.extend(&member[..member.len() / 2]);
    for bytes in [elf(&record(&newer)), archive, vec![0]] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a\x1b[2J\nb");
        fs::write(&path, bytes).unwrap();
        let said = errors(&kernels(["inspect".as_ref(), path.as_os_str()]));
        assert!(is_plain(&said) && said.lines().count() == 1, "{said:?}");
        assert!(said.contains(r"a\u{1b}[2J\nb"), "{said}");
    }
}

#[test]
fn semantics_are_shown_as_attributes_write_them() {
    let norm = r#"{"op":"rms_norm","offset":"zero","rounding":"llama","scale":"weight",
        "gating":"none","groups":"one","shift":"none"}"#;
    let newer = r#"{"op":"rms_norm","offset":"one","tilt":"left"}"#;
    let site = |item: &str, key: &str| {
        record(&format!(
            r#"{{"schema":2,"record":"site","module":"m","item":"{item}","line":1,"key":{key}}}"#
        ))
    };
    let bytes = elf(&[site("known", norm), site("newer", newer)].concat());
    let text = common::stdout(["inspect".as_ref(), Made::new(&bytes).path().as_os_str()]);
    assert!(
        text.contains("rms_norm(offset = 0, rounding = llama)"),
        "{text}"
    );
    assert!(text.contains("rms_norm(offset = 1, tilt = left)"), "{text}");
    // The JSON output keeps the record unchanged.
    let json = inspected(&Made::new(&bytes).path());
    assert_eq!(json["sites"][0]["key"]["offset"], "zero");
}
