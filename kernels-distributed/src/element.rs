//! The types of numbers that groups carry.

/// A number that a group carries: `f32`, `f64`, `u64` or `u8`.
pub trait Element: Copy + Send + Sync + 'static + Carried {}

/// A number that a group adds: `f32`, `f64` or `u64`. Sums of `u64` wrap around, as those of MPI do.
pub trait Summed: Element {
    #[doc(hidden)]
    fn plus(self, other: Self) -> Self;
}

/// The values of a call, by type: engines are not generic.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    U64(Vec<u64>),
    U8(Vec<u8>),
}

/// Seals [`Element`] and converts slices to [`Values`].
pub trait Carried: Sized {
    fn wrap(values: Vec<Self>) -> Values;
    /// Returns the values of this type. Other types are a mistake of an engine.
    fn unwrap(values: Values) -> Vec<Self>;
    /// Returns the values of this type, borrowed.
    fn view(values: &Values) -> &[Self];
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::U8(values) => values.len(),
        }
    }

    /// Returns the number that names the type in headers.
    pub(crate) fn code(&self) -> u64 {
        match self {
            Self::F32(_) => 0,
            Self::F64(_) => 1,
            Self::U64(_) => 2,
            Self::U8(_) => 3,
        }
    }
}

/// Returns the name of a type by its code.
pub(crate) fn name_of_code(code: u64) -> &'static str {
    ["f32", "f64", "u64", "u8"]
        .get(code as usize)
        .copied()
        .unwrap_or("unknown values")
}

macro_rules! carried {
    ($($type:ty, $variant:ident;)*) => {$(
        impl Carried for $type {
            fn wrap(values: Vec<Self>) -> Values {
                Values::$variant(values)
            }

            fn unwrap(values: Values) -> Vec<Self> {
                match values {
                    Values::$variant(values) => values,
                    other => panic!("an engine answered {} with {}", stringify!($type), name_of_code(other.code())),
                }
            }

            fn view(values: &Values) -> &[Self] {
                match values {
                    Values::$variant(values) => values,
                    other => panic!("{} were taken for {}", name_of_code(other.code()), stringify!($type)),
                }
            }
        }

        impl Element for $type {}
    )*};
}
carried! {
    f32, F32;
    f64, F64;
    u64, U64;
    u8, U8;
}

impl Summed for f32 {
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl Summed for f64 {
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl Summed for u64 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}
