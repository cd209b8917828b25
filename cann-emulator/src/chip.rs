//! Figures of the processors, as CANN's public documents have them.

/// What a program can ask of a processor.
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

/// By the beginning of the name; the first that fits.
const CHIPS: [(&str, Chip); 5] = [
    ("Ascend910B4", chip(20, 40, 96)),
    ("Ascend910B3", chip(20, 40, 192)),
    ("Ascend910B", chip(24, 48, 192)),
    ("Ascend910_936", chip(20, 40, 192)),
    ("Ascend910_93", chip(24, 48, 192)),
];

impl Chip {
    /// The figures of a processor; none of one that is not known.
    pub(crate) fn of(soc: &str) -> Option<Self> {
        CHIPS
            .iter()
            .find(|(name, _)| soc.starts_with(name))
            .map(|(_, chip)| *chip)
    }
}
