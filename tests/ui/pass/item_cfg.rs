#![allow(unexpected_cfgs)]

use crate::common::{assert_same, device, sites, vector};
use burn::module::Param;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// One operand under two conditions, and a field that the kernel does not read.
#[fused_kernel("npu_fused_rmsnorm", ignore(missing))]
struct Norm {
    #[cfg(not(a_cfg_that_is_not_set))]
    weight: Param<Tensor<1>>,
    #[cfg(a_cfg_that_is_not_set)]
    weight: Tensor<1>,
    eps: f64,
    #[cfg(a_cfg_that_is_not_set)]
    missing: Missing,
}

/// The attribute goes where the item goes.
#[cfg(a_cfg_that_is_not_set)]
#[fused_kernel("npu_fused_rmsnorm")]
struct Gone {
    weight: Missing,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm")]
#[cfg(a_cfg_that_is_not_set)]
struct GoneToo {
    weight: Missing,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm", method = apply)]
impl Norm {
    #[cfg(a_cfg_that_is_not_set)]
    fn apply(&self, x: Missing) -> Missing {
        x * self.weight + self.eps
    }

    #[cfg(not(a_cfg_that_is_not_set))]
    fn apply(&self, x: Tensor<2>) -> Tensor<2> {
        let mean = x.clone().square().mean_dim(1);
        x / (mean + self.eps).sqrt() * self.weight.val().unsqueeze()
    }

    #[cfg(a_cfg_that_is_not_set)]
    fn other(&self) -> Missing {}
}

pub fn main() {
    let norm = Norm {
        weight: Param::from_tensor(vector(&[1.0, 2.0])),
        eps: 1e-6,
    };
    let x = Tensor::<2>::from_floats([[1.0, -2.0]], &device());
    assert_same(norm.forward(x.clone()), norm.apply(x.clone()));
    assert_same(norm.forward_reference(x.clone()), norm.apply_reference(x));
    assert_eq!(sites("item_cfg::").len(), 2);
}
