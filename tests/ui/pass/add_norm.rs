use crate::common::{assert_near, assert_paths, assert_same, assert_site, device, vector};
use burn::module::{Module, Param};
use burn::tensor::activation::silu;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

#[fused_kernel("npu_fused_add_rmsnorm", offset = 1, rounding = gemma)]
#[derive(Module, Debug)]
struct Whole {
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_add_rmsnorm", scale = none, gating = before_norm, groups = many)]
#[derive(Module, Debug)]
struct Gated {
    group_size: usize,
    eps: f64,
}

// A norm that is called with a residual and without: the sum's body calls the other site, so that one kernel can
// be off while the other is on.
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm", method = forward)]
#[fused_kernel("npu_fused_add_rmsnorm", method = forward_sum, weight = weight, eps = eps)]
impl Norm {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean_square = x.clone().square().mean_dim(D - 1);
        x / (mean_square + self.eps).sqrt() * self.weight.val().unsqueeze()
    }

    fn forward_sum<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        let sum = x + residual;
        (self.forward(sum.clone()), sum)
    }
}

#[fused_kernel("npu_fused_add_rmsnorm", residual = added, gating = after_norm)]
fn of_tensors(
    z: Tensor<3>,
    added: Tensor<3>,
    hidden: Tensor<3>,
    weight: &Tensor<1>,
    eps: f32,
) -> (Tensor<3>, Tensor<3>) {
    let sum = hidden + added;
    let mean_square = sum.clone().square().mean_dim(2);
    let y = sum.clone() / (mean_square + eps).sqrt() * weight.clone().unsqueeze();
    (y * silu(z), sum)
}

trait Layer {
    fn add(&self, x: Tensor<2>, skip: Tensor<2>) -> (Tensor<2>, Tensor<2>);
}

#[fused_kernel("npu_fused_add_rmsnorm", method = add)]
impl Layer for Norm {
    fn add(&self, x: Tensor<2>, skip: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let sum = x + skip;
        let mean_square = sum.clone().square().mean_dim(1);
        let y = sum.clone() / (mean_square + self.eps).sqrt() * self.weight.val().unsqueeze();
        (y, sum)
    }
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[1.0, -1.0, 0.0, 5.0]], &device());
    let residual = Tensor::<2>::from_floats([[2.0, 5.0, 0.0, -5.0]], &device());

    // The sum is 3, 4, 0, 0, its root mean square 2.5.
    let whole = Whole {
        weight: Param::from_tensor(vector(&[0.0, 1.0, 0.0, 0.0])),
        eps: 0.0,
    };
    let (y, sum) = whole.forward(x.clone(), residual.clone());
    assert_near(y.clone(), &[1.2, 3.2, 0.0, 0.0]);
    assert_near(sum.clone(), &[3.0, 4.0, 0.0, 0.0]);
    let plain = whole.forward_reference(x.clone(), residual.clone());
    assert_same(y, plain.0);
    assert_same(sum, plain.1);
    assert_site(
        "add_norm::Whole::forward",
        "add_rms_norm(offset=1, rounding=gemma)",
    );

    let gated = Gated {
        group_size: 2,
        eps: 1e-6,
    };
    let gate = Tensor::<2>::from_floats([[1.0, 2.0, -1.0, 0.5]], &device());
    let (y, sum) = gated.forward(x.clone(), residual.clone(), gate.clone());
    let plain = gated.forward_reference(x.clone(), residual.clone(), gate);
    assert_same(y, plain.0);
    assert_same(sum, plain.1);
    assert_site(
        "add_norm::Gated::forward",
        "add_rms_norm(offset=0, rounding=llama, scale=none, gating=before_norm, groups=many)",
    );
    for name in ["Whole", "Gated"] {
        assert_paths(&format!("add_norm::{name}::forward"), &["fused"]);
    }

    let norm = Norm {
        weight: Param::from_tensor(vector(&[0.5, 1.0, 2.0, 1.0])),
        eps: 1e-6,
    };
    let random = || Tensor::<3>::random([2, 3, 4], Distribution::Default, &device());
    let (hidden, added, z) = (random(), random(), random());
    let weight = vector(&[0.5, 1.0, 2.0, 1.0]);
    let all = || {
        let of_tensors = of_tensors(z.clone(), added.clone(), hidden.clone(), &weight, 1e-6);
        let summed = norm.forward_sum(hidden.clone(), added.clone());
        let layer = Layer::add(&norm, x.clone(), residual.clone());
        (of_tensors, summed, layer)
    };
    let paths = ["fused", "reference: switched off by the policy"];
    let fused = all();
    let plain = {
        let _off = scope(Policy::reference());
        all()
    };
    for (a, b) in [(fused.0, plain.0), (fused.1.clone(), plain.1)] {
        assert_same(a.0, b.0);
        assert_same(a.1, b.1);
    }
    assert_same(fused.2.0, plain.2.0);
    assert_same(fused.2.1, plain.2.1);
    // Without a kernel for the sum the body's own site runs the norm's.
    assert_paths("add_norm::Norm::forward", &[paths[1]]);
    let nested = {
        let policy: Policy = "all,-npu_fused_add_rmsnorm".parse().unwrap();
        let _off = scope(policy);
        norm.forward_sum(hidden.clone(), added.clone())
    };
    assert_same(nested.0, fused.1.0);
    assert_same(nested.1, fused.1.1);
    for name in ["of_tensors", "Norm::forward_sum", "Norm::add"] {
        assert_paths(&format!("add_norm::{name}"), &paths);
    }
    assert_paths("add_norm::Norm::forward", &paths);
}
