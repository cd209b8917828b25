//! The parts of this crate that `kernels-serving` uses. This is not a public interface: it changes with that crate.

pub use crate::device::{cpu_capability, processor};
pub use crate::remote::call::{Call, Handled, Handler, Made, Tensors, elements, run};
pub use crate::remote::connect::connect_to;
pub use crate::remote::credential::{token, unique};
pub use crate::remote::declaration::{Declaration, WORDS, to_words};
pub use crate::remote::endpoint::builder;
pub use crate::remote::offer::{Answer, DECLARE, ENDING, LOAD, LOOK};
pub use crate::remote::sessions::{ending, message, open};
pub use crate::remote::wire::Malformed;
pub use crate::verify::case::cases;

/// True if the kernels of the CPU compute in f64 too.
pub const F64_KERNELS: bool = cfg!(feature = "f64-kernels");

#[cfg(feature = "npu")]
pub use crate::context::{is_deterministic, on_deterministic};
/// The invalid numbers of a session, which it reads after its waits.
#[cfg(feature = "npu")]
pub mod mistakes {
    pub use crate::npu::mistakes::{begin, end, found};
}
#[cfg(feature = "npu")]
pub use crate::remote::platform::facts;
