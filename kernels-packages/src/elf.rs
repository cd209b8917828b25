//! Checks of a library before any byte of it runs.
//!
//! They read what the dynamic linker reads: the program headers and the dynamic table, at their addresses. Sections,
//! which it ignores, may say anything.

use crate::variant::Backend;
use object::elf::{
    DF_1_PIE, DT_AUDIT, DT_AUXILIARY, DT_DEPAUDIT, DT_FILTER, DT_FLAGS_1, DT_GNU_HASH, DT_HASH,
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_SYMTAB, Dyn64,
    DynamicTag, EM_AARCH64, EM_X86_64, ET_DYN, FileHeader64, PF_W, PF_X, PN_XNUM, PT_DYNAMIC,
    PT_GNU_STACK, PT_LOAD, ProgramHeader64, SHN_UNDEF, STB_GLOBAL, STB_WEAK, Sym64,
};
use object::read::elf::{FileHeader as _, GnuHashTable, HashTable, ProgramHeader as _, Sym as _};
use object::{LittleEndian, pod};

type Header = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;

/// The library that functions of tvm-ffi's C++ headers need.
pub(crate) const RUNTIME: &str = "libtvm_ffi.so";

/// The libraries that any kernel may need, without their versions.
const NEEDED: &[&str] = &[
    "libc.so",
    "libm.so",
    "libgcc_s.so",
    "libstdc++.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    RUNTIME,
    "ld-linux-x86-64.so",
    "ld-linux-aarch64.so",
];

/// The libraries of CANN that kernels for NPUs may need.
const CANN: &[&str] = &[
    "libascendcl.so",
    "libacl_rt.so",
    "libruntime.so",
    "libnnopbase.so",
    "libopapi.so",
    "libregister.so",
    "libplatform.so",
    "libtiling_api.so",
    "libprofapi.so",
    "libascendalog.so",
    "libunified_dlog.so",
    "liberror_manager.so",
    "libmmpa.so",
    "libc_sec.so",
    "libascend_dump.so",
];

/// The memory that the segments of a library may take.
const MOST_MEMORY: u64 = 1 << 30;

/// The smallest pages of memory.
const PAGE: u64 = 4096;

/// The most entries of a dynamic table, and the most symbols.
const MOST_ENTRIES: usize = 1 << 12;
const MOST_SYMBOLS: usize = 1 << 20;

/// The facts that the headers of a library state.
#[derive(Debug, PartialEq)]
pub(crate) struct Facts {
    /// Whether it needs `libtvm_ffi.so`.
    pub(crate) needs_runtime: bool,
    /// The symbols that it exports, in order.
    pub(crate) symbols: Vec<String>,
}

/// Checks a library for a processor and a backend.
///
/// # Errors
/// Returns the reason why the library is not loaded.
pub(crate) fn check(bytes: &[u8], cpu: &str, backend: Backend) -> Result<Facts, String> {
    match bytes {
        [0x7f, b'E', b'L', b'F', 2, 1, ..] => {}
        [0x7f, b'E', b'L', b'F', ..] => {
            return Err("the library must be one of 64 bits with the low byte first".into());
        }
        _ => return Err("this is not an ELF library".into()),
    }
    let header = Header::parse(bytes).map_err(|error| error.to_string())?;
    let endian = header.endian().map_err(|error| error.to_string())?;
    let machine = match cpu {
        "x86_64" => EM_X86_64,
        "aarch64" => EM_AARCH64,
        other => {
            return Err(format!(
                "libraries for processors of {other} are not supported"
            ));
        }
    };
    if header.e_machine(endian) != machine {
        return Err(format!(
            "the library is for the machine {} of ELF, and not for {cpu}, as its variant says",
            header.e_machine(endian).0
        ));
    }
    if header.e_type(endian) != ET_DYN {
        return Err("the file must be a shared library".into());
    }
    // The dynamic linker takes this number as it is, and `object` takes the one of section 0.
    if header.e_phnum(endian) == PN_XNUM {
        return Err(format!(
            "the library has {PN_XNUM} program headers or more, which is not supported"
        ));
    }
    let segments = header
        .program_headers(endian, bytes)
        .map_err(|error| error.to_string())?;
    let image = Image::of(bytes, segments)?;
    let dynamic = image.dynamic()?;
    refuse(&dynamic)?;
    let strings = image.strings(&dynamic)?;
    let mut needs_runtime = false;
    for entry in &dynamic {
        if entry.tag == DT_NEEDED {
            let name = text(strings, entry.value)?;
            if !is_known(name, backend) {
                return Err(format!(
                    "the library needs `{name}`, and may need only the libraries of C and C++, \
                     {RUNTIME} and, for NPUs, CANN's"
                ));
            }
            needs_runtime |= name.starts_with(RUNTIME);
        }
        if entry.tag == DT_SONAME {
            let name = text(strings, entry.value)?;
            if is_known(name, backend) {
                return Err(format!(
                    "the library calls itself `{name}`, which others would then get for it"
                ));
            }
        }
    }
    let symbols = image.symbols(&dynamic, strings)?;
    Ok(Facts {
        needs_runtime,
        symbols,
    })
}

/// Refuses what changes where code comes from.
fn refuse(dynamic: &[Entry]) -> Result<(), String> {
    for entry in dynamic {
        let wrong = match entry.tag {
            DT_RPATH | DT_RUNPATH => "a path to search libraries in (RPATH, RUNPATH)",
            DT_FILTER | DT_AUXILIARY => "a library that it filters",
            DT_AUDIT | DT_DEPAUDIT => "a library that audits",
            DT_FLAGS_1 if entry.value & DF_1_PIE.0 != 0 => {
                return Err("the file is a program, and not a library".into());
            }
            _ => continue,
        };
        return Err(format!("the library has {wrong}, which is not supported"));
    }
    Ok(())
}

/// Returns `true` for a library that kernels may need.
fn is_known(name: &str, backend: Backend) -> bool {
    let npu = matches!(backend, Backend::Cann { .. });
    let mut known = NEEDED.iter().chain(CANN.iter().filter(|_| npu));
    known.any(|known| {
        let version = name.strip_prefix(*known);
        version.is_some_and(|rest| rest.is_empty() || is_version(rest))
    })
}

/// Returns `true` for `.6` and the like.
fn is_version(rest: &str) -> bool {
    let digits = rest.strip_prefix('.');
    digits.is_some_and(|digits| {
        (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// An entry of the dynamic table.
struct Entry {
    tag: DynamicTag,
    value: u64,
}

/// A library as it lies in memory.
struct Image<'a> {
    bytes: &'a [u8],
    segments: &'a [Segment],
}

impl<'a> Image<'a> {
    /// Checks that all segments lie in the file, and that the stack is not executable.
    fn of(bytes: &'a [u8], segments: &'a [Segment]) -> Result<Self, String> {
        let (mut memory, mut next_page, mut has_stack) = (0_u64, 0, false);
        for segment in segments {
            let kind = segment.p_type(LittleEndian);
            if kind == PT_GNU_STACK {
                has_stack = true;
                if segment.p_flags(LittleEndian).0 & PF_X.0 != 0 {
                    return Err("the library wants a stack that can be executed".into());
                }
            }
            if kind != PT_LOAD {
                continue;
            }
            let (offset, size) = segment.file_range(LittleEndian);
            let end = offset
                .checked_add(size)
                .filter(|end| *end <= bytes.len() as u64);
            if end.is_none() || segment.p_memsz(LittleEndian) < size {
                return Err("the library is cut off: a segment ends behind the file".into());
            }
            // Where two segments lie in one page, the second is there, and not the first.
            let (first, size) = (segment.p_vaddr(LittleEndian), segment.p_memsz(LittleEndian));
            if first / PAGE < next_page || first.checked_add(size).is_none() {
                return Err("the segments of the library overlap or are not in order".into());
            }
            next_page = (first + size).div_ceil(PAGE);
            memory = memory.saturating_add(size);
        }
        // Without this header, the dynamic linker makes the stacks of the process executable.
        if !has_stack {
            return Err(
                "the library does not say that its stack is not executable (PT_GNU_STACK)".into(),
            );
        }
        match memory {
            0 => Err("the library has no segment to load".into()),
            size if size > MOST_MEMORY => Err(format!(
                "the library wants {size} bytes of memory, more than the {MOST_MEMORY} that are supported"
            )),
            _ => Ok(Self { bytes, segments }),
        }
    }

    /// Returns the bytes of the file from an address on to the end of its segment.
    fn at(&self, address: u64) -> Result<&'a [u8], String> {
        let found = self.segments.iter().find_map(|segment| {
            let (offset, size) = segment.file_range(LittleEndian);
            let inside = address.checked_sub(segment.p_vaddr(LittleEndian))?;
            let is_there = segment.p_type(LittleEndian) == PT_LOAD && inside < size;
            is_there.then(|| &self.bytes[(offset + inside) as usize..(offset + size) as usize])
        });
        found.ok_or_else(|| "the dynamic table names an address outside of the library".into())
    }

    /// Returns the entries of the dynamic table up to the last.
    fn dynamic(&self) -> Result<Vec<Entry>, String> {
        let mut tables = self
            .segments
            .iter()
            .filter(|segment| segment.p_type(LittleEndian) == PT_DYNAMIC);
        let (Some(table), None) = (tables.next(), tables.next()) else {
            return Err("the library must have one dynamic table".into());
        };
        // The dynamic linker writes to it, and the process would end if it can't.
        let address = table.p_vaddr(LittleEndian);
        let holds = |segment: &&Segment| {
            let inside = address.checked_sub(segment.p_vaddr(LittleEndian));
            segment.p_type(LittleEndian) == PT_LOAD
                && inside.is_some_and(|inside| inside < segment.p_memsz(LittleEndian))
        };
        let holder = self.segments.iter().find(holds);
        if holder.is_none_or(|segment| segment.p_flags(LittleEndian).0 & PF_W.0 == 0) {
            return Err("the dynamic table must lie in memory that can be written".into());
        }
        let bytes = self.at(address)?;
        let most = (bytes.len() / size_of::<Dyn64<LittleEndian>>()).min(MOST_ENTRIES);
        let (all, _) = pod::slice_from_bytes::<Dyn64<LittleEndian>>(bytes, most)
            .map_err(|()| "the dynamic table is cut off".to_owned())?;
        let mut entries = Vec::new();
        for entry in all {
            let (tag, value) = (entry.d_tag.get(LittleEndian), entry.d_val.get(LittleEndian));
            if tag == DT_NULL {
                return Ok(entries);
            }
            entries.push(Entry { tag, value });
        }
        Err("the dynamic table has no end".into())
    }

    fn strings(&self, dynamic: &[Entry]) -> Result<&'a [u8], String> {
        let (Some(address), Some(size)) = (value(dynamic, DT_STRTAB), value(dynamic, DT_STRSZ))
        else {
            return Err("the library has no table of names".into());
        };
        let bytes = self.at(address)?;
        let size = usize::try_from(size)
            .ok()
            .filter(|size| *size <= bytes.len());
        size.map(|size| &bytes[..size])
            .ok_or_else(|| "the table of names is cut off".into())
    }

    /// Returns the exported symbols, in order.
    fn symbols(&self, dynamic: &[Entry], strings: &[u8]) -> Result<Vec<String>, String> {
        let broken = || "the table of symbols is broken".to_owned();
        let count = match (value(dynamic, DT_GNU_HASH), value(dynamic, DT_HASH)) {
            (Some(address), _) => {
                let table = GnuHashTable::<Header>::parse(LittleEndian, self.at(address)?);
                let table = table.map_err(|_| broken())?;
                // A library that exports nothing has an empty table.
                table.symbol_table_length(LittleEndian).unwrap_or(0)
            }
            (None, Some(address)) => {
                let table = HashTable::<Header>::parse(LittleEndian, self.at(address)?);
                table.map_err(|_| broken())?.symbol_table_length()
            }
            (None, None) => 0,
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count == 0 {
            return Ok(Vec::new());
        }
        if count > MOST_SYMBOLS {
            return Err(format!(
                "the library has {count} symbols, more than are supported"
            ));
        }
        let table = self.at(value(dynamic, DT_SYMTAB).ok_or_else(broken)?)?;
        let (table, _) =
            pod::slice_from_bytes::<Sym64<LittleEndian>>(table, count).map_err(|()| broken())?;
        let exported = table.iter().filter(|symbol| {
            symbol.st_shndx(LittleEndian) != SHN_UNDEF
                && matches!(symbol.st_bind(), STB_GLOBAL | STB_WEAK)
        });
        // Other languages have names that are not UTF-8, and no function of TVM-FFI.
        let names =
            exported.filter_map(|symbol| text(strings, symbol.st_name(LittleEndian).into()).ok());
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }
}

fn value(dynamic: &[Entry], tag: DynamicTag) -> Option<u64> {
    // The dynamic linker takes the last one.
    dynamic
        .iter()
        .rfind(|entry| entry.tag == tag)
        .map(|entry| entry.value)
}

fn text(strings: &[u8], at: u64) -> Result<&str, String> {
    let found = usize::try_from(at)
        .ok()
        .and_then(|at| strings.get(at..))
        .and_then(|rest| {
            let end = rest.iter().position(|byte| *byte == 0)?;
            str::from_utf8(&rest[..end]).ok()
        });
    found.ok_or_else(|| "the library has a name that can't be read".into())
}
