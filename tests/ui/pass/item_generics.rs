use crate::common::{assert_same, device, linear, vector};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

trait Project {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>;
}

impl Project for Linear {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        Self::forward(self, x)
    }
}

/// Type and constant parameters with defaults, bounds, a `where` clause, a taken `D`, a lifetime.
#[fused_kernel("npu_fused_swiglu")]
struct Mlp<'a, D: Project, L = Linear, const N: usize = 8>
where
    L: Project,
{
    gate_proj: &'a D,
    up_proj: &'a D,
    down_proj: L,
    widths: [usize; N],
}

struct Norm<'a, W> {
    weight: &'a W,
    eps: &'a f64,
}

#[fused_kernel("npu_fused_rmsnorm", method = apply)]
impl<'a, W> Norm<'a, W>
where
    W: burn_kernels::__private::NormWeight + 'a,
{
    fn apply<'b, T: Into<f64>, const D: usize>(&'b self, x: Tensor<D>) -> Tensor<D>
    where
        'a: 'b,
        f64: From<T>,
    {
        let mean = x.clone().square().mean_dim(D - 1);
        x / (mean + *self.eps).sqrt() * self.weight.norm_weight().unsqueeze()
    }
}

#[fused_kernel("npu_fused_rmsnorm", eps = tiny)]
fn norm<const D: usize>(
    x: Tensor<D>,
    weight: &Param<Tensor<1>>,
    tiny: impl Into<f64> + Copy + burn_kernels::__private::Epsilon,
) -> Tensor<D> {
    let mean = x.clone().square().mean_dim(D - 1);
    x / (mean + tiny.into()).sqrt() * weight.val().unsqueeze()
}

pub fn main() {
    use burn_kernels::__private::NormWeight;

    let (gate, up) = (linear(4, 8), linear(4, 8));
    let mlp = Mlp::<_, Linear, 1> {
        gate_proj: &gate,
        up_proj: &up,
        down_proj: linear(8, 4),
        widths: [8],
    };
    assert_eq!(mlp.widths, [8]);
    let x = Tensor::<3>::random([2, 3, 4], Distribution::Default, &device());
    assert_same(mlp.forward(x.clone()), mlp.forward_reference(x.clone()));

    let weight = Param::from_tensor(vector(&[1.0, 2.0, 3.0, 4.0]));
    let layer = Norm {
        weight: &weight,
        eps: &1e-6,
    };
    let y = layer.apply::<f64, 3>(x.clone());
    assert_same(y.clone(), layer.apply_reference::<f64, 3>(x.clone()));
    assert_same(y, norm(x.clone(), &weight, 1e-6));
    assert_same(
        norm(x.clone(), &weight, 1e-6_f32),
        norm_reference(x, &weight, 1e-6_f32),
    );
    assert_eq!(weight.norm_weight().dims(), [4]);
}
