//! The table of an area, with one entry per function, each resolved separately.

/// Declares the table of an area for the aliases beside it.
macro_rules! function_table {
    ($(#[$meta:meta])* $table:ident { $($name:ident),* $(,)? }) => {
        $(#[$meta])*
        #[allow(non_snake_case, missing_docs)]
        #[derive(Debug, Clone)]
        pub struct $table {
            $(pub $name: $crate::Symbol<$name>,)*
        }

        impl $table {
            /// The functions of this area.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            pub(crate) fn resolve(libraries: &$crate::open::Libraries) -> Self {
                Self {
                    // SAFETY: the alias is the prototype that CANN documents for the symbol.
                    $($name: unsafe { libraries.symbol(stringify!($name)) },)*
                }
            }

            /// Returns the functions that no library has.
            pub fn missing(&self) -> Vec<$crate::MissingSymbol> {
                [$(self.$name.error()),*].into_iter().flatten().collect()
            }
        }
    };
}

pub(crate) use function_table;
