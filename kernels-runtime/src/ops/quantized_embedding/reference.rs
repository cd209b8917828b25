use super::{OwnedWeight, rows};
use burn::tensor::{Int, Tensor, TensorData};

/// Returns the rows `[ids, width]` of a table by plain decoding on the host, for a device that may be any: the
/// definition that the kernel is verified against. They have the device and the dtype of `like`, whose number has no
/// effect.
///
/// # Panics
/// Panics if an id is not a row of the table.
#[track_caller]
pub fn reference(ids: &Tensor<1, Int>, weight: &OwnedWeight, like: &Tensor<1>) -> Tensor<2> {
    let rows = rows(ids, weight);
    let [_, width] = weight.shape();
    let mut numbers = vec![0.0_f32; rows.len() * width];
    let table = weight.view();
    // Not by the kernels' decoding, which this is compared with.
    for (row, numbers) in rows.iter().zip(numbers.chunks_exact_mut(width)) {
        table.decode_rows(*row..*row + 1, numbers);
    }
    let data = TensorData::new(numbers, [rows.len(), width]);
    Tensor::from_data(data, (&like.device(), like.dtype()))
}
