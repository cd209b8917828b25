use burn::tensor::Tensor;

/// How the inputs that flow through lie in memory.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    Contiguous,
    /// Axes 1 and 2 were swapped, as attention does with heads: rows are apart.
    Swapped,
    /// The last two axes were swapped: elements of a row are apart.
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

    /// A tensor from which [`Layout::view`] makes the layout; its gradient is compared as it lies.
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

    /// The tensor again, whose last axis has `width` elements.
    pub(crate) fn view<const D: usize>(self, x: &Tensor<D>, width: usize) -> Tensor<D> {
        match self {
            Self::Contiguous => x.clone(),
            Self::Swapped => x.clone().swap_dims(1, 2),
            Self::Transposed => x.clone().swap_dims(D - 2, D - 1),
            Self::Sliced => x.clone().narrow(D - 1, width, width),
        }
    }
}
