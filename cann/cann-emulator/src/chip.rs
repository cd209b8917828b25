//! Figures of the processors, from CANN's public documentation.

/// The figures of a processor that programs can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chip {
    pub(crate) cube_cores: i64,
    pub(crate) vector_cores: i64,
    pub(crate) l2_bytes: i64,
}

const fn chip(cube_cores: i64, vector_cores: i64, l2_mebibytes: i64) -> Chip {
    Chip {
        cube_cores,
        vector_cores,
        l2_bytes: l2_mebibytes << 20,
    }
}

/// The figures by the start of the processor's name. The first match counts.
const CHIPS: [(&str, Chip); 5] = [
    ("Ascend910B4", chip(20, 40, 96)),
    ("Ascend910B3", chip(20, 40, 192)),
    ("Ascend910B", chip(24, 48, 192)),
    ("Ascend910_936", chip(20, 40, 192)),
    ("Ascend910_93", chip(24, 48, 192)),
];

impl Chip {
    /// Returns the figures of a processor, or none if it is not known.
    pub(crate) fn of(soc: &str) -> Option<Self> {
        CHIPS
            .iter()
            .find(|(name, _)| soc.starts_with(name))
            .map(|(_, chip)| *chip)
    }
}
