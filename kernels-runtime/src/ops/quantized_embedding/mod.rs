//! A table of embeddings that stays in quantised form: the rows of a weight `[rows, width]` that token ids ask for.
//!
//! Only these rows are decoded, to the numbers that the encoding decodes to in f32, and rounded once to the dtype. The
//! table is frozen: there is no gradient.
//!
//! It is declared as kernels of other crates are, with operands that are not all tensors: servers have no message for
//! it, and a device other than the CPU gets the rows of the reference.

#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod live;
mod reference;

pub use kernels_quant::OwnedWeight;
pub use live::Operands;
pub use reference::reference;

use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::CustomKey;
use burn::tensor::{Int, Tensor};

/// The id of the kernel in policies and reports.
pub const ID: &str = "npu_fused_quantized_embedding";

/// The semantics key. The encoding decides the table's numbers, not what is computed of them.
pub const KEY: CustomKey = CustomKey::new("quantized_embedding", &[("rounding", "once")]);

declare_kernel! {
    /// The kernel `npu_fused_quantized_embedding`.
    pub static KERNEL = KernelSpec {
        id: ID,
        op: KEY.op(),
        version: 1,
        summary: "Rows of a table of embeddings that stays in quantised form",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// Returns ids as the rows of a table that they are.
///
/// # Panics
/// Panics if one is not a row of the table.
#[track_caller]
fn rows(ids: &Tensor<1, Int>, weight: &OwnedWeight) -> Vec<usize> {
    let [height, _] = weight.shape();
    let row = |(place, id): (usize, i64)| {
        let row = usize::try_from(id).ok().filter(|row| *row < height);
        row.unwrap_or_else(|| {
            panic!(
                "QuantizedEmbedding: id {id} at place {place} is not a row of the table, which has {height}"
            )
        })
    };
    ids.to_data().iter::<i64>().enumerate().map(row).collect()
}
