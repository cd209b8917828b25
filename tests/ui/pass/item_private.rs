use crate::common::{assert_same, device};
use burn::tensor::Tensor;

/// Private all the way down, and as visible as the struct.
mod outer {
    pub(super) mod inner {
        use burn::tensor::Tensor;
        use burn_kernels::fused_kernel;

        #[fused_kernel("npu_fused_rmsnorm")]
        pub(in super::super) struct Norm {
            pub(in super::super) weight: Tensor<1>,
            pub(in super::super) eps: f64,
        }

        #[fused_kernel("npu_fused_rmsnorm")]
        struct Hidden {
            weight: Tensor<1>,
            eps: f64,
        }

        pub(in super::super) fn hidden(x: Tensor<2>) -> Tensor<2> {
            let weight = Tensor::ones([2], &x.device());
            let norm = Hidden { weight, eps: 1e-6 };
            norm.forward_reference(norm.forward(x))
        }
    }
}

pub fn main() {
    let norm = outer::inner::Norm {
        weight: Tensor::ones([2], &device()),
        eps: 1e-6,
    };
    let x = Tensor::<2>::from_floats([[1.0, -2.0]], &device());
    let y = norm.forward_reference(norm.forward(x.clone()));
    assert_same(outer::inner::hidden(x), y);
}
