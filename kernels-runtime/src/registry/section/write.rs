//! Records, which are written at compile time.

use super::MAGIC;
use crate::device::DeviceKind;
use crate::registry::{KernelSpec, SiteSpec};
use crate::semantics::{CustomKey, SemanticsKey};

/// Returns the length of the record of some JSON.
#[doc(hidden)]
pub const fn record_len(json: &str) -> usize {
    HEADER + json.len()
}

/// Returns the record of some JSON. `N` is its [`record_len`].
#[doc(hidden)]
pub const fn record<const N: usize>(json: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let (magic, rest) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    let (length, text) = rest.split_at_mut(HEADER - MAGIC.len());
    length.copy_from_slice(&(json.len() as u32).to_le_bytes());
    text.copy_from_slice(json.as_bytes());
    bytes
}

/// The number of bytes before the JSON: [`MAGIC`] and the length.
const HEADER: usize = MAGIC.len() + 4;

/// Returns the record of a site and its length. A first pass with `N = 0` measures it.
#[doc(hidden)]
pub const fn site_record<const N: usize>(spec: &SiteSpec, key_json: &str) -> ([u8; N], usize) {
    let mut out = Writer::<N>::begin();
    // Names in Rust, packages and versions need no escapes.
    out.raw("{\"schema\":3,\"record\":\"site\",\"kernel\":\"");
    out.raw(spec.kernel);
    out.raw("\",\"module\":\"");
    out.raw(spec.module);
    out.raw("\",\"crate\":\"");
    out.raw(spec.krate);
    out.raw("\",\"crate_version\":\"");
    out.raw(spec.crate_version);
    out.raw("\",\"form\":\"");
    out.raw(spec.form.name());
    out.raw("\",\"item\":");
    out.text(spec.item);
    out.raw(",\"file\":");
    out.text(spec.file);
    out.raw(",\"line\":");
    out.number(spec.line);
    out.raw(",\"key\":");
    match spec.key {
        SemanticsKey::Custom(key) => out.custom_key(&key),
        _ => out.raw(key_json),
    }
    out.raw(",\"layer\":");
    out.optional(spec.layer);
    out.raw(",\"condition\":");
    out.optional(spec.condition);
    out.raw("}");
    out.end()
}

/// Returns the record of a kernel and its length. A first pass with `N = 0` measures it.
#[doc(hidden)]
pub const fn kernel_record<const N: usize>(spec: &KernelSpec) -> ([u8; N], usize) {
    let mut out = Writer::<N>::begin();
    out.raw("{\"schema\":3,\"record\":\"kernel\",\"id\":");
    out.text(spec.id);
    out.raw(",\"op\":");
    out.text(spec.op);
    out.raw(",\"version\":");
    out.number(spec.version);
    out.raw(",\"summary\":");
    out.text(spec.summary);
    out.raw(",\"crate\":");
    out.text(spec.krate);
    out.raw(",\"crate_version\":");
    out.text(spec.crate_version);
    out.raw(",\"replaces\":");
    out.optional(spec.replaces);
    out.raw(",\"implementations\":[");
    let mut i = 0;
    while i < spec.implementations.len() {
        let implementation = &spec.implementations[i];
        out.raw(if i == 0 {
            "{\"device\":"
        } else {
            ",{\"device\":"
        });
        out.raw("\"");
        let mut k = 0;
        let mut first = true;
        while k < DeviceKind::ALL.len() {
            let kind = DeviceKind::ALL[k];
            if implementation.device.contains(kind) {
                out.raw(if first { "" } else { " " });
                out.raw(kind.name());
                first = false;
            }
            k += 1;
        }
        out.raw("\"");
        out.raw(",\"name\":");
        out.text(implementation.name);
        out.raw(",\"dtypes\":[");
        let mut d = 0;
        while d < implementation.dtypes.len() {
            out.raw(if d == 0 { "" } else { "," });
            out.text(implementation.dtypes[d].name());
            d += 1;
        }
        out.raw("],\"gradient\":");
        out.raw(implementation.gradient.json());
        out.raw(",\"deterministic\":");
        out.flag(implementation.deterministic);
        out.raw(",\"fusion_barrier\":");
        out.flag(implementation.fusion_barrier);
        out.raw(",\"capability\":{\"min\":");
        out.number(implementation.capability.min as u32);
        out.raw(",\"max\":");
        out.number(implementation.capability.max as u32);
        out.raw("}}");
        i += 1;
    }
    out.raw("]}");
    out.end()
}

/// A writer of a record at compile time. It only counts the bytes if `N` is 0. Texts that need no escapes are copied as
/// a whole, because the compiler interprets this code for every site.
struct Writer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Writer<N> {
    const fn begin() -> Self {
        Self {
            bytes: [0; N],
            len: HEADER,
        }
    }

    const fn put(&mut self, bytes: &[u8]) {
        if N > 0 {
            assert!(self.len + bytes.len() <= N, "the first pass measured less");
            // SAFETY: the assertion keeps the access in bounds, and a `const fn` that accessed memory out of bounds
            // would not compile. The methods of slices do the same, but take the compiler six times as long.
            unsafe {
                let place = self.bytes.as_mut_ptr().add(self.len);
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
            }
        }
        self.len += bytes.len();
    }

    const fn raw(&mut self, text: &str) {
        self.put(text.as_bytes());
    }

    /// Writes a JSON string that needs no escapes, such as a name in Rust.
    const fn word(&mut self, word: &str) {
        self.put(b"\"");
        self.put(word.as_bytes());
        self.put(b"\"");
    }

    /// Writes any JSON string. Control characters become blanks, because no name or path needs them.
    const fn text(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        self.put(b"\"");
        loop {
            let (plain, special) = rest.split_at(first_special(rest));
            self.put(plain);
            match special {
                [] => break,
                [special, after @ ..] => {
                    match special {
                        b'"' => self.put(b"\\\""),
                        b'\\' => self.put(b"\\\\"),
                        _ => self.put(b" "),
                    }
                    rest = after;
                }
            }
        }
        self.put(b"\"");
    }

    const fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.raw("null"),
        }
    }

    const fn custom_key(&mut self, key: &CustomKey) {
        self.raw("{\"op\":");
        self.word(key.op());
        let settings = key.settings();
        let mut i = 0;
        while i < settings.len() {
            self.raw(",");
            self.word(settings[i].0);
            self.raw(":");
            self.word(settings[i].1);
            i += 1;
        }
        self.raw("}");
    }

    const fn flag(&mut self, flag: bool) {
        self.raw(if flag { "true" } else { "false" });
    }

    const fn number(&mut self, mut number: u32) {
        let mut digits = [0; 10];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.put(digits.split_at(start).1);
    }

    const fn end(mut self) -> ([u8; N], usize) {
        let length = ((self.len - HEADER) as u32).to_le_bytes();
        let end = self.len;
        self.len = 0;
        self.put(&MAGIC);
        self.put(&length);
        (self.bytes, end)
    }
}

/// Returns the number of bytes before the first one that JSON escapes.
const fn first_special(bytes: &[u8]) -> usize {
    let mut i = 0;
    while i < bytes.len() {
        if matches!(bytes[i], b'"' | b'\\' | 0..=0x1f) {
            break;
        }
        i += 1;
    }
    i
}
