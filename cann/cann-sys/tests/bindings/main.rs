//! Tests of the bindings, of loading, and of the comparison with a toolkit's headers.

mod bindings;
mod comparer;
#[cfg(target_os = "linux")]
mod load;
mod support;
#[cfg(feature = "toolkit-headers")]
mod toolkit_headers;
