use crate::common::{assert_near, assert_same, assert_site, device, vector};
use burn::module::{Module, Param};
use burn::nn::Dropout;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

const EPS: f64 = 1.0;

/// The number is the attribute's, and a field has no part in `forward`.
#[fused_kernel("npu_fused_rmsnorm", eps = 1.0, ignore(dropout))]
#[derive(Module, Debug)]
struct Written {
    weight: Param<Tensor<1>>,
    dropout: Dropout,
}

/// A constant of the module, and a field that Burn skips.
#[fused_kernel("npu_fused_rmsnorm", eps = EPS)]
#[derive(Module, Debug)]
struct Named {
    weight: Param<Tensor<1>>,
    #[module(skip)]
    name: String,
}

struct Own {
    weight: Tensor<1>,
}

/// A constant of the type, in the form with a body.
#[fused_kernel("npu_fused_rmsnorm", eps = Self::EPS)]
impl Own {
    const EPS: f64 = 1.0;

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let mean = x.clone().square().mean_dim(1);
        x / (mean + Self::EPS).sqrt() * self.weight.clone().unsqueeze()
    }
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[1.0, -7.0]], &device());
    // √(25 + 1), not √25: the constant is what runs.
    let expected = [1.0 / 26f32.sqrt(), -14.0 / 26f32.sqrt()];
    let weight = || vector(&[1.0, 2.0]);

    let written = Written {
        weight: Param::from_tensor(weight()),
        dropout: burn::nn::DropoutConfig::new(0.5).init(),
    };
    assert_near(written.forward(x.clone()), &expected);
    assert_same(
        written.forward(x.clone()),
        written.forward_reference(x.clone()),
    );
    let named = Named {
        weight: Param::from_tensor(weight()),
        name: "norm".to_owned(),
    };
    assert_near(named.forward(x.clone()), &expected);
    assert_eq!(named.name, "norm");
    let own = Own { weight: weight() };
    assert_near(own.forward(x), &expected);
    assert_site(
        "struct_constants::Written::forward",
        "rms_norm(offset=0, rounding=llama)",
    );
}
