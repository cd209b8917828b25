//! A library by hand. Tests of the program use it, too.

/// A small library by hand, which nothing can run.
pub struct ByHand<'a> {
    pub needed: &'a [&'a str],
    pub soname: Option<&'a str>,
    pub functions: &'a [&'a str],
    /// Entries of the dynamic table.
    pub entries: &'a [(i64, u64)],
    pub machine: u16,
    pub kind: u16,
    pub segment: u32,
    pub stack: u32,
}

impl Default for ByHand<'_> {
    fn default() -> Self {
        let machine = match std::env::consts::ARCH {
            "aarch64" => 183,
            _ => 62,
        };
        Self {
            needed: &["libc.so.6"],
            soname: None,
            functions: &["f"],
            entries: &[],
            machine,
            kind: 3,
            segment: 6,
            stack: 6,
        }
    }
}

impl ByHand<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut name = |text: &str| {
            let at = strings.len() as u64;
            strings.extend(text.bytes().chain([0]));
            at
        };
        let mut dynamic: Vec<(i64, u64)> =
            self.needed.iter().map(|needed| (1, name(needed))).collect();
        dynamic.extend(self.soname.map(|soname| (14, name(soname))));
        let mut symbols = vec![0; 24];
        for function in self.functions {
            let at = name(&format!("__tvm_ffi_{function}")) as u32;
            symbols.extend(at.to_le_bytes());
            symbols.extend([0x12, 0, 1, 0]); // a global function of the first section
            symbols.extend([0; 16]);
        }
        let count = 1 + self.functions.len() as u32;
        let mut hash = [1, count, 1].map(u32::to_le_bytes).concat();
        hash.resize(hash.len() + 4 * count as usize, 0);
        hash.resize(hash.len().next_multiple_of(8), 0);
        strings.resize(strings.len().next_multiple_of(8), 0);

        let start = 64 + 3 * 56;
        let at_hash = start + symbols.len() as u64;
        let at_strings = at_hash + hash.len() as u64;
        let at_dynamic = at_strings + strings.len() as u64;
        dynamic.extend([
            (4, at_hash),
            (5, at_strings),
            (6, start),
            (10, strings.len() as u64),
        ]);
        dynamic.extend(self.entries);
        dynamic.push((0, 0));
        let size = at_dynamic + 16 * dynamic.len() as u64;

        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend([self.kind, self.machine].map(u16::to_le_bytes).concat());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0_u64, 64, 0].map(u64::to_le_bytes).concat());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend([64_u16, 56, 3, 64, 0, 0].map(u16::to_le_bytes).concat());
        for (kind, flags, offset, size) in [
            (1_u32, self.segment, 0, size),
            (2, 6, at_dynamic, 16 * dynamic.len() as u64),
            (0x6474_e551, self.stack, 0, 0),
        ] {
            bytes.extend([kind, flags].map(u32::to_le_bytes).concat());
            bytes.extend(
                [offset, offset, offset, size, size, 8]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
        }
        bytes.extend(symbols);
        bytes.extend(hash);
        bytes.extend(strings);
        for (tag, value) in dynamic {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        assert_eq!(bytes.len() as u64, size);
        bytes
    }
}
