use crate::common::{assert_near, assert_paths, assert_same, assert_site, device};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

/// Gemma 2 names its cap so.
#[fused_kernel("npu_fused_softcap")]
struct Cap {
    final_logit_softcapping: f64,
}

#[fused_kernel("npu_fused_softcap")]
fn capped<const D: usize>(logits: Tensor<D>, softcap: f64) -> Tensor<D> {
    (logits / softcap).tanh() * softcap
}

struct Head;

impl Head {
    const CAP: f32 = 30.0;

    #[fused_kernel("npu_fused_softcap", cap = Self::CAP)]
    fn logits(&self, x: Tensor<3>) -> Tensor<3> {
        (x / Self::CAP).tanh() * Self::CAP
    }
}

#[fused_kernel("npu_fused_softcap", cap = 2.0)]
fn twice(x: Tensor<2>) -> Tensor<2> {
    (x / 2.0).tanh() * 2.0
}

pub fn main() {
    let cap = Cap {
        final_logit_softcapping: 2.0,
    };
    let x = Tensor::<2>::from_floats([[0.0, 2.0, -4.0, 100.0]], &device());
    let y = cap.forward(x.clone());
    assert_near(y.clone(), &[0.0, 1.523_188_3, -1.928_055_2, 2.0]);
    assert_same(y.clone(), cap.forward_reference(x.clone()));
    assert_same(y.clone(), capped(x.clone(), 2.0));
    assert_same(y, twice(x));
    assert_site("softcap::Cap::forward", "softcap");
    assert_paths("softcap::Cap::forward", &["fused"]);

    let x = Tensor::<3>::random([2, 3, 5], Distribution::Normal(0.0, 60.0), &device());
    let y = Head.logits(x.clone());
    let _off = scope(Policy::reference());
    assert_same(y, Head.logits(x));
    let paths = ["fused", "reference: switched off by the policy"];
    assert_paths("softcap::Head::logits", &paths);
}
