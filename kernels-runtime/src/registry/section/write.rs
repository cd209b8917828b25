//! Records, written at compile time.

use super::MAGIC;
use crate::registry::{KernelSpec, SiteSpec};
use crate::semantics::{CustomKey, SemanticsKey};

/// The record of a site and its length; a first pass with `N = 0` measures it.
#[doc(hidden)]
pub const fn site_record<const N: usize>(spec: &SiteSpec, key_json: &str) -> ([u8; N], usize) {
    let mut out = Writer::<N>::begin();
    out.raw("{\"schema\":2,\"record\":\"site\",\"kernel\":");
    out.word(spec.kernel);
    out.raw(",\"item\":");
    out.text(spec.item);
    out.raw(",\"module\":");
    out.word(spec.module);
    out.raw(",\"crate\":");
    out.word(spec.krate);
    out.raw(",\"crate_version\":");
    out.word(spec.crate_version);
    out.raw(",\"file\":");
    out.text(spec.file);
    out.raw(",\"line\":");
    out.number(spec.line);
    out.raw(",\"form\":");
    out.word(spec.form.name());
    out.raw(",\"key\":");
    match spec.key {
        SemanticsKey::Custom(key) => out.custom_key(&key),
        _ => out.raw(key_json),
    }
    out.raw(",\"layer\":");
    out.optional(spec.layer);
    out.raw("}");
    out.end()
}

/// The record of a kernel and its length; a first pass with `N = 0` measures it.
#[doc(hidden)]
pub const fn kernel_record<const N: usize>(spec: &KernelSpec) -> ([u8; N], usize) {
    let mut out = Writer::<N>::begin();
    out.raw("{\"schema\":2,\"record\":\"kernel\",\"id\":");
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
        out.text(implementation.device.name());
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
        out.flag(implementation.gradient);
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

/// Writes a record at compile time, or only counts its bytes if `N` is 0. Whole texts are copied at
/// once where they need no escapes: the compiler interprets this for every site.
struct Writer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Writer<N> {
    const HEADER: usize = MAGIC.len() + 4;

    const fn begin() -> Self {
        Self {
            bytes: [0; N],
            len: Self::HEADER,
        }
    }

    const fn put(&mut self, bytes: &[u8]) {
        if N > 0 {
            let (_, rest) = self.bytes.split_at_mut(self.len);
            let (place, _) = rest.split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    const fn raw(&mut self, text: &str) {
        self.put(text.as_bytes());
    }

    /// A JSON string that needs no escapes, such as a name in Rust.
    const fn word(&mut self, word: &str) {
        self.put(b"\"");
        self.put(word.as_bytes());
        self.put(b"\"");
    }

    /// Any JSON string. Control characters become blanks: no name or path means them.
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

    const fn number(&mut self, number: u32) {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            self.put(&[b'0' + (number / divisor % 10) as u8]);
            divisor /= 10;
        }
    }

    const fn end(mut self) -> ([u8; N], usize) {
        let length = ((self.len - Self::HEADER) as u32).to_le_bytes();
        if N > 0 {
            let (magic, rest) = self.bytes.split_at_mut(MAGIC.len());
            magic.copy_from_slice(&MAGIC);
            rest.split_at_mut(length.len()).0.copy_from_slice(&length);
        }
        (self.bytes, self.len)
    }
}

/// How many bytes stand before the first that JSON escapes.
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
