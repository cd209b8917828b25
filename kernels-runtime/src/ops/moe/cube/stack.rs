//! The tensors of all experts as one.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Shape, Slice, TensorMetadata};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

/// Returns one tensor of `rank` axes, the first of which is the experts'. Copies the tensors of a list.
pub(in crate::ops::moe) fn stacked(tensors: &[CubeTensor], rank: usize) -> CubeTensor {
    if let [one] = tensors
        && one.shape().num_dims() == rank
    {
        return one.clone();
    }
    let of_one = |tensor: &CubeTensor| {
        let sizes = tensor.shape();
        let shape: Vec<usize> = std::iter::once(1).chain(sizes.iter().copied()).collect();
        CubeBackend::float_reshape(tensor.clone(), Shape::from(shape))
    };
    CubeBackend::float_cat(tensors.iter().map(of_one).collect(), 0)
}

/// Returns the part of each tensor in what has the shape of them [stacked](stacked), such as their gradient.
pub(in crate::ops::moe) fn apart(
    all: CubeTensor,
    tensors: &[CubeTensor],
) -> Vec<Option<CubeTensor>> {
    if let [one] = tensors
        && one.shape() == all.shape()
    {
        return vec![Some(all)];
    }
    let part = |(expert, tensor): (usize, &CubeTensor)| {
        let slices: Vec<Slice> = std::iter::once(expert..expert + 1)
            .chain(tensor.shape().iter().map(|size| 0..*size))
            .map(Slice::from)
            .collect();
        let part = CubeBackend::float_slice(all.clone(), &slices);
        Some(CubeBackend::float_reshape(part, tensor.shape()))
    };
    tensors.iter().enumerate().map(part).collect()
}
