use crate::common::{assert_paths, assert_same, device, vector};
use burn::module::Param;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

trait Layer {
    type Output;
    const RANK: usize;
    fn forward(&self, x: Tensor<2>) -> Self::Output;
    fn rotate(q: Tensor<4>, k: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>)
    -> (Tensor<4>, Tensor<4>);
}

struct Norm<T> {
    weight: Param<Tensor<1>>,
    eps: T,
}

// The plain body stays inside the method: a trait has no room for `forward_reference`. A policy
// runs it.
#[fused_kernel("npu_fused_rmsnorm")]
#[fused_kernel("npu_fused_rope", method = rotate)]
impl<T> Layer for Norm<T>
where
    T: Copy + Into<f64> + burn_kernels::__private::Epsilon,
{
    type Output = Tensor<2>;
    const RANK: usize = 2;

    fn forward(&self, mut x: Tensor<2>) -> Self::Output {
        if Self::RANK != 2 {
            return x;
        }
        let mean = x.clone().square().mean_dim(1);
        x = x / (mean + self.eps.into()).sqrt();
        x * self.weight.val().unsqueeze()
    }

    fn rotate(
        q: Tensor<4>,
        k: Tensor<4>,
        mut cos: Tensor<2>,
        sin: Tensor<2>,
    ) -> (Tensor<4>, Tensor<4>) {
        cos = cos * 1.0;
        let half = q.dims()[3] / 2;
        let turn = |x: Tensor<4>| {
            let (a, b) = (
                x.clone().narrow(3, 0, half),
                x.clone().narrow(3, half, half),
            );
            let turned = Tensor::cat(vec![-b, a], 3);
            x * cos.clone().unsqueeze() + turned * sin.clone().unsqueeze()
        };
        (turn(q), turn(k))
    }
}

pub fn main() {
    let norm = Norm {
        weight: Param::from_tensor(vector(&[0.5, 1.0, 2.0])),
        eps: 1e-6_f32,
    };
    let random = |shape| Tensor::<4>::random(shape, Distribution::Default, &device());
    let x = random([1, 1, 4, 3]).reshape([4, 3]);
    let (q, k) = (random([1, 2, 3, 4]), random([1, 1, 3, 4]));
    let table = || Tensor::<2>::random([3, 2], Distribution::Default, &device()).repeat_dim(1, 2);
    let (cos, sin) = (table(), table());
    let both = || {
        let (q, k) = Norm::<f32>::rotate(q.clone(), k.clone(), cos.clone(), sin.clone());
        (norm.forward(x.clone()), q, k)
    };
    let fused = both();
    let plain = {
        let _off = scope(Policy::reference());
        both()
    };
    assert_same(fused.0, plain.0);
    assert_same(fused.1, plain.1);
    assert_same(fused.2, plain.2);
    let paths = ["fused", "reference: switched off by the policy"];
    assert_paths("impl_of_a_trait::Norm::forward", &paths);
    assert_paths("impl_of_a_trait::Norm::rotate", &paths);
}
