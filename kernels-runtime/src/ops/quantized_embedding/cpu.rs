//! The rows on Flex: [`kernels_simd::quantized::rows_of`].

use super::{KEY, OwnedWeight};
use crate::cpu::{BASE, of_simd};
use crate::registry::Implementation;
use crate::semantics::SemanticsKey;
use burn::tensor::{DType, TensorData};
use kernels_simd::Values;
use kernels_simd::quantized::rows_of;

/// Nothing that it takes has a gradient, so that it runs in training, too.
pub(super) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Custom(key) if *key == KEY),
    ..BASE
};

/// Returns rows of a table, which has them.
pub(super) fn of_table(weight: &OwnedWeight, rows: &[usize], dtype: DType) -> TensorData {
    let [_, width] = weight.shape();
    let shape = [rows.len(), width];
    match rows_of(&weight.view(), rows, of_simd(dtype)) {
        Values::F64(values) => TensorData::new(values, shape),
        Values::F32(values) => TensorData::new(values, shape),
        Values::Bf16(values) => TensorData::new(values, shape),
        Values::F16(values) => TensorData::new(values, shape),
    }
}
