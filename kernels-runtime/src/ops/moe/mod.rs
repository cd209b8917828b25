//! Mixture of experts: the operations around the experts' matrices.
//!
//! * [`router`]: which experts a token goes to, and with which weights.
//! * [`permute`] and [`unpermute`]: tokens into rows sorted by expert, and back.
//! * [`load_balancing_loss`]: the auxiliary loss that keeps experts evenly used.

pub mod permute;
pub mod router;
pub mod unpermute;

#[cfg(feature = "cpu")]
mod integers;
mod load_balancing;
mod top_k;

pub use load_balancing::load_balancing_loss;
pub use permute::{Permuted, moe_permute};
pub use router::{Routed, Routing, route};
pub use unpermute::moe_unpermute;

use crate::dispatch::{DeviceKind, Query, Reason, TensorType};

/// The reason against the CPU kernels of this module, which take every float type.
fn refuse_unless_cpu(query: Query) -> Result<(), Reason> {
    match query.tensors {
        _ if !cfg!(feature = "cpu") || query.device != DeviceKind::Cpu => {
            Err(Reason::NoImplementation)
        }
        TensorType::Float(_) => Ok(()),
        TensorType::Mixed => Err(Reason::MixedDtypes),
        TensorType::Unsupported => Err(Reason::Dtype),
    }
}
