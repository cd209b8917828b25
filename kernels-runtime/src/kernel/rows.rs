use super::any_rank::{cat, flat, narrow};
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::kind::Numeric;
use burn::tensor::{Int, Tensor};
use std::num::NonZeroU32;

/// The rows of a call that [live verification](crate::live) compares: the first and the last along every axis of rows,
/// and others evenly spaced between them.
///
/// An implementation of [`Operands::sample`](super::Operands::sample) takes these rows of its tensors. The choice
/// depends only on the shape, so tensors of the same shape give the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows(NonZeroU32);

impl Rows {
    /// Selects about this many rows of a call. It selects more if the first and the last row along each axis are
    /// already more.
    pub const fn about(count: NonZeroU32) -> Self {
        Self(count)
    }

    /// Returns the number that was passed to [`Rows::about`].
    pub const fn count(self) -> NonZeroU32 {
        self.0
    }

    /// Selects four times as many rows, for cases in which some of them may not be comparable.
    pub(crate) const fn more(self) -> Self {
        Self(self.0.saturating_mul(NonZeroU32::new(4).expect("four")))
    }

    /// Returns these rows of a tensor `[.., n]`, whose last axis is one row. The result has the shape `[.., n]`. It is
    /// detached from the tensor's graph, unless it is the whole tensor.
    pub fn of<const D: usize>(self, tensor: &Tensor<D>) -> Tensor<D> {
        Tensor::from_dispatch(self.of_erased(tensor.clone().into_dispatch()))
    }

    /// Does what [`of`](Self::of) does with a tensor of any rank.
    pub(crate) fn of_erased(self, tensor: DispatchTensor) -> DispatchTensor {
        let shape = tensor.shape();
        let axes = 0..shape.as_slice().len().saturating_sub(1);
        let long = axes.clone().filter(|axis| shape[*axis] > 1).count() as u32;
        let each = self.along_each(long);
        axes.fold(tensor, |tensor, axis| picked_of(tensor, axis, each))
    }

    /// Returns the indices of these rows of a result `[indices, n]`, of which each index asks for one.
    pub(crate) fn of_indices(self, indices: &Tensor<1, Int>) -> Tensor<1, Int> {
        picked(indices.clone(), 0, self.along_each(1))
    }

    /// Returns the first and the last slice along one axis. The other axes keep their lengths. The result is detached
    /// from the tensor's graph, unless it is the whole tensor.
    pub fn ends<const D: usize>(self, tensor: &Tensor<D>, axis: usize) -> Tensor<D> {
        Tensor::from_dispatch(picked_of(tensor.clone().into_dispatch(), axis, 2))
    }

    /// Returns the number of rows to take along each of `axes` axes.
    fn along_each(self, axes: u32) -> usize {
        let enough = |each: &u64| each.saturating_pow(axes) >= u64::from(self.0.get());
        match axes {
            0 => 1,
            _ => (2..).find(enough).unwrap_or(2) as usize,
        }
    }
}

fn picked_of(tensor: DispatchTensor, axis: usize, count: usize) -> DispatchTensor {
    match tensor.shape()[axis] > count {
        true => picked_erased(flat(&tensor).detach().into_dispatch(), axis, count),
        false => tensor,
    }
}

/// Returns `count` slices along an axis, including the first and the last.
pub(crate) fn picked<const D: usize, K: Numeric>(
    tensor: Tensor<D, K>,
    axis: usize,
    count: usize,
) -> Tensor<D, K> {
    Tensor::from_dispatch(picked_erased(tensor.into_dispatch(), axis, count))
}

/// Does what [`picked`] does with a tensor of any rank.
pub(crate) fn picked_erased(tensor: DispatchTensor, axis: usize, count: usize) -> DispatchTensor {
    let length = tensor.shape()[axis];
    if length <= count {
        return tensor;
    }
    let slices = spread(length, count).map(|index| narrow(tensor.clone(), axis, index, 1));
    cat(slices.collect(), axis)
}

/// Returns the first `count` slices along an axis, or the tensor if it has no more.
pub(crate) fn prefix<const D: usize>(tensor: Tensor<D>, axis: usize, count: usize) -> Tensor<D> {
    Tensor::from_dispatch(prefix_erased(tensor.into_dispatch(), axis, count))
}

/// Does what [`prefix`] does with a tensor of any rank.
pub(crate) fn prefix_erased(tensor: DispatchTensor, axis: usize, count: usize) -> DispatchTensor {
    match tensor.shape()[axis] > count {
        true => narrow(tensor, axis, 0, count),
        false => tensor,
    }
}

/// Returns `count` of `length` indices, including the first and the last.
pub(crate) fn spread(length: usize, count: usize) -> impl Iterator<Item = usize> {
    let steps = count.saturating_sub(1).max(1);
    (0..count).map(move |index| index * (length - 1) / steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_spread_from_the_first_to_the_last() {
        let of = |length, count| spread(length, count).collect::<Vec<_>>();
        assert_eq!(of(5, 4), [0, 1, 2, 4]);
        assert_eq!(of(1024, 4), [0, 341, 682, 1023]);
        assert_eq!(of(9, 2), [0, 8]);
        assert_eq!(of(9, 1), [0]);
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn rows_are_the_ends_of_every_axis() {
        use burn::tensor::Device;
        let numbers = |shape: [usize; 3]| {
            let count = shape.iter().product::<usize>() as i64;
            Tensor::<1, Int>::arange(0..count, &Device::flex())
                .float()
                .reshape(shape)
        };
        let four = Rows::about(NonZeroU32::new(4).unwrap());
        let values = |tensor: Tensor<3>| tensor.into_data().iter::<f32>().collect::<Vec<_>>();
        let taken = four.of(&numbers([3, 5, 1]));
        assert_eq!(taken.dims(), [2, 2, 1]);
        assert_eq!(values(taken), [0.0, 4.0, 10.0, 14.0]);
        let taken = four.of(&numbers([1, 9, 2]));
        assert_eq!(taken.dims(), [1, 4, 2]);
        assert_eq!(values(taken), [0.0, 1.0, 4.0, 5.0, 10.0, 11.0, 16.0, 17.0]);
        assert_eq!(four.of(&numbers([2, 2, 7])).dims(), [2, 2, 7]);
        assert_eq!(four.of(&numbers([0, 9, 2])).dims(), [0, 4, 2]);
        assert_eq!(four.ends(&numbers([1, 9, 2]), 1).dims(), [1, 2, 2]);
        let deep = Tensor::<4>::zeros([7, 6, 5, 4], &Device::flex());
        assert_eq!(four.of(&deep).dims(), [2, 2, 2, 4]);
        assert_eq!(four.more().of(&deep).dims(), [3, 3, 3, 4]);
    }
}
