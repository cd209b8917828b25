//! `Debug` of this crate's errors, which prints what `Display` prints.

cann_sys::__debug_as_display!(crate::Error, crate::LayoutError, crate::ops::Refusal);

#[cfg(feature = "backend")]
cann_sys::__debug_as_display!(crate::backend::Error);
