use burn::tensor::Tensor;

/// The memory layout of the inputs that flow through the computation.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    Contiguous,
    /// Axes 1 and 2 are swapped, as attention does with heads. Rows are not adjacent.
    Swapped,
    /// The last two axes are swapped. Elements of a row are not adjacent.
    Transposed,
    /// A part of a wider tensor.
    Sliced,
}

impl Layout {
    pub(crate) const STRIDED: [Self; 3] = [Self::Swapped, Self::Transposed, Self::Sliced];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Contiguous => "",
            Self::Swapped => " swapped",
            Self::Transposed => " transposed",
            Self::Sliced => " sliced",
        }
    }

    /// Returns a tensor from which [`Layout::view`] makes the layout. Its gradient is compared in its own layout.
    pub(crate) fn lay_out<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Contiguous => x,
            Self::Swapped => x.swap_dims(1, 2) * 1,
            Self::Transposed => x.swap_dims(D - 2, D - 1) * 1,
            Self::Sliced => {
                let edge = Tensor::zeros_like(&x);
                Tensor::cat(vec![edge.clone(), x, edge], D - 1)
            }
        }
        .detach()
    }

    /// Returns the original tensor, whose last axis has `width` elements.
    pub(crate) fn view<const D: usize>(self, x: &Tensor<D>, width: usize) -> Tensor<D> {
        match self {
            Self::Contiguous => x.clone(),
            Self::Swapped => x.clone().swap_dims(1, 2),
            Self::Transposed => x.clone().swap_dims(D - 2, D - 1),
            Self::Sliced => x.clone().narrow(D - 1, width, width),
        }
    }
}
