use crate::common::{assert_near, assert_paths, assert_same, assert_site, device, vector};
use burn::module::{Module, Param};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

#[fused_kernel("npu_fused_layernorm")]
#[derive(Module, Debug)]
struct Shifted {
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    layer_norm_epsilon: f32,
}

#[fused_kernel("npu_fused_layernorm", shift = none, eps = 1e-5)]
#[derive(Module, Debug)]
struct Bare {
    weight: Param<Tensor<1>>,
}

/// Parameters may be any type that holds a vector.
#[fused_kernel("npu_fused_layernorm", weight = w, bias = b, eps = e)]
#[derive(Module, Debug)]
struct Named {
    b: Tensor<1>,
    w: Tensor<1>,
    e: f64,
}

fn plain<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<D> {
    let (variance, mean) = x.clone().var_mean_bias(D - 1);
    let y = (x - mean) / (variance + eps).sqrt() * weight.unsqueeze();
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}

#[derive(Module, Debug)]
struct Layer {
    weight: Param<Tensor<1>>,
    bias: Option<Param<Tensor<1>>>,
    eps: f64,
}

/// A layer whose bias may not be there calls one of two functions.
impl Layer {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match &self.bias {
            Some(bias) => of_tensors(x, self.weight.val(), bias.val(), self.eps),
            None => self.scaled(x),
        }
    }

    #[fused_kernel("npu_fused_layernorm", shift = none, weight = weight, eps = eps)]
    fn scaled<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        plain(x, self.weight.val(), None, self.eps)
    }
}

#[fused_kernel("npu_fused_layernorm")]
fn of_tensors<const D: usize>(
    hidden: Tensor<D>,
    weight: Tensor<1>,
    bias: Tensor<1>,
    eps: f64,
) -> Tensor<D> {
    plain(hidden, weight, Some(bias), eps)
}

#[fused_kernel("npu_fused_layernorm")]
fn of_references(x: Tensor<2>, weight: &Tensor<1>, bias: &Param<Tensor<1>>, eps: f32) -> Tensor<2> {
    plain(x, weight.clone(), Some(bias.val()), f64::from(eps))
}

struct Norm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
}

trait Normalise {
    fn normalise(&self, x: Tensor<3>) -> Tensor<3>;
}

#[fused_kernel("npu_fused_layernorm", method = normalise, eps = Self::EPS)]
impl Normalise for Norm {
    fn normalise(&self, x: Tensor<3>) -> Tensor<3> {
        let bias = self.bias.val();
        plain(x, self.weight.val(), Some(bias), Self::EPS)
    }
}

impl Norm {
    const EPS: f64 = 1e-6;
}

pub fn main() {
    // The mean is 3, the deviation 2.
    let x = Tensor::<2>::from_floats([[1.0, 5.0, 1.0, 5.0]], &device());
    let (weight, bias) = (
        vector(&[1.0, 2.0, -1.0, 0.5]),
        vector(&[0.0, 1.0, 2.0, -1.0]),
    );
    let param = |vector: &Tensor<1>| Param::from_tensor(vector.clone());
    let shifted = Shifted {
        gamma: param(&weight),
        beta: param(&bias),
        layer_norm_epsilon: 0.0,
    };
    let y = shifted.forward(x.clone());
    assert_near(y.clone(), &[-1.0, 3.0, 3.0, -0.5]);
    assert_same(y.clone(), shifted.forward_reference(x.clone()));
    assert_site("layer_norm::Shifted::forward", "layer_norm(shift=bias)");

    let named = Named {
        b: bias.clone(),
        w: weight.clone(),
        e: 0.0,
    };
    assert_same(named.forward(x.clone()), y);
    assert_same(named.forward(x.clone()), named.forward_reference(x.clone()));

    let bare = Bare {
        weight: param(&weight),
    };
    let y = bare.forward(x.clone());
    assert_near(y.clone(), &[-1.0, 2.0, 1.0, 0.5]);
    assert_same(y, bare.forward_reference(x.clone()));
    assert_site("layer_norm::Bare::forward", "layer_norm(shift=none)");
    for name in ["Shifted", "Named", "Bare"] {
        assert_paths(&format!("layer_norm::{name}::forward"), &["fused"]);
    }

    let layer = |bias: Option<&Tensor<1>>| Layer {
        weight: param(&weight),
        bias: bias.map(param),
        eps: 1e-6,
    };
    let norm = Norm {
        weight: param(&weight),
        bias: param(&bias),
    };
    let hidden = Tensor::<3>::random([2, 3, 4], Distribution::Default, &device());
    let all = || {
        [
            layer(Some(&bias)).forward(hidden.clone()),
            layer(None).forward(hidden.clone()),
            norm.normalise(hidden.clone()),
            of_references(hidden.clone().reshape([6, 4]), &weight, &norm.bias, 1e-6)
                .reshape([2, 3, 4]),
        ]
    };
    let fused = all();
    let plain = {
        let _off = scope(Policy::reference());
        all()
    };
    for (fused, plain) in fused.into_iter().zip(plain) {
        assert_same(fused, plain);
    }
    let paths = ["fused", "reference: switched off by the policy"];
    for name in [
        "of_tensors",
        "of_references",
        "Layer::scaled",
        "Norm::normalise",
    ] {
        assert_paths(&format!("layer_norm::{name}"), &paths);
    }
}
