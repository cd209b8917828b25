//! Records, written at compile time.

use super::MAGIC;
use crate::registry::{KernelSpec, SiteSpec};
use crate::semantics::{CustomKey, SemanticsKey};

/// The record of a site and its length; a first pass with `N = 0` measures it.
#[doc(hidden)]
pub const fn site_record<const N: usize>(spec: &SiteSpec, key_json: &str) -> ([u8; N], usize) {
    let mut out = Writer::<N>::begin();
    out.raw("{\"schema\":2,\"record\":\"site\",\"kernel\":");
    out.text(spec.kernel);
    out.raw(",\"item\":");
    out.text(spec.item);
    out.raw(",\"module\":");
    out.text(spec.module);
    out.raw(",\"crate\":");
    out.text(spec.krate);
    out.raw(",\"crate_version\":");
    out.text(spec.crate_version);
    out.raw(",\"file\":");
    out.text(spec.file);
    out.raw(",\"line\":");
    out.number(spec.line);
    out.raw(",\"form\":");
    out.text(spec.form.name());
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

/// Writes a record at compile time. Bytes beyond `N` are counted but not kept.
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

    const fn byte(&mut self, byte: u8) {
        if self.len < N {
            self.bytes[self.len] = byte;
        }
        self.len += 1;
    }

    const fn raw(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            self.byte(bytes[i]);
            i += 1;
        }
    }

    /// A JSON string. Control characters become blanks: no name or path means them.
    const fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        self.byte(b'"');
        let mut i = 0;
        while i < bytes.len() {
            match bytes[i] {
                b'"' | b'\\' => {
                    self.byte(b'\\');
                    self.byte(bytes[i]);
                }
                0..=0x1f => self.byte(b' '),
                byte => self.byte(byte),
            }
            i += 1;
        }
        self.byte(b'"');
    }

    const fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.raw("null"),
        }
    }

    const fn custom_key(&mut self, key: &CustomKey) {
        self.raw("{\"op\":");
        self.text(key.op());
        let settings = key.settings();
        let mut i = 0;
        while i < settings.len() {
            self.byte(b',');
            self.text(settings[i].0);
            self.byte(b':');
            self.text(settings[i].1);
            i += 1;
        }
        self.byte(b'}');
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
            self.byte(b'0' + (number / divisor % 10) as u8);
            divisor /= 10;
        }
    }

    const fn end(mut self) -> ([u8; N], usize) {
        let length = ((self.len - Self::HEADER) as u32).to_le_bytes();
        let mut i = 0;
        while i < Self::HEADER && i < N {
            self.bytes[i] = if i < MAGIC.len() {
                MAGIC[i]
            } else {
                length[i - MAGIC.len()]
            };
            i += 1;
        }
        (self.bytes, self.len)
    }
}
