use crate::common::{assert_near, assert_paths, assert_same, assert_site, device, vector};
use burn::module::{Module, Param};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;
use burn_kernels::policy::{Policy, scope};

#[fused_kernel("npu_fused_linear", shift = bias)]
#[derive(Module, Debug)]
struct Biased {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

/// Parameters may be any type that holds a tensor, under any name.
#[fused_kernel("npu_fused_linear", layout = output_major, weight = table)]
#[derive(Module, Debug)]
struct Head {
    table: Tensor<2>,
}

#[fused_kernel("npu_fused_linear")]
fn of_tensors<const D: usize>(x: Tensor<D>, weight: Tensor<2>) -> Tensor<D> {
    x.matmul(weight.unsqueeze())
}

#[fused_kernel("npu_fused_linear", shift = bias)]
fn of_references(x: Tensor<2>, weight: &Tensor<2>, bias: &Param<Tensor<1>>) -> Tensor<2> {
    x.matmul(weight.clone()) + bias.val().unsqueeze()
}

struct Project {
    kernel: Param<Tensor<2>>,
}

trait Map {
    fn map(&self, x: Tensor<3>) -> Tensor<3>;
}

#[fused_kernel("npu_fused_linear", method = map, weight = kernel)]
impl Map for Project {
    fn map(&self, x: Tensor<3>) -> Tensor<3> {
        x.matmul(self.kernel.val().unsqueeze())
    }
}

/// A field of Burn's type needs no attribute.
#[derive(Module, Debug)]
struct Model {
    projection: Linear,
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[1.0, 2.0, 3.0]], &device());
    let weight = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]], &device());
    let bias = vector(&[0.5, -0.5]);
    let biased = Biased {
        weight: Param::from_tensor(weight.clone()),
        bias: Param::from_tensor(bias.clone()),
    };
    let y = biased.forward(x.clone());
    assert_near(y.clone(), &[7.5, -1.5]);
    assert_same(y, biased.forward_reference(x.clone()));
    let key = "linear(layout=input_major, shift=bias)";
    assert_site("linear::Biased::forward", key);

    let head = Head {
        table: weight.clone().swap_dims(0, 1),
    };
    let y = head.forward(x.clone());
    assert_near(y.clone(), &[7.0, -1.0]);
    assert_same(y, head.forward_reference(x.clone()));
    assert_site("linear::Head::forward", "linear(layout=output_major)");
    for name in ["Biased", "Head"] {
        assert_paths(&format!("linear::{name}::forward"), &["fused"]);
    }

    let project = Project {
        kernel: Param::from_tensor(weight.clone()),
    };
    let model = Model {
        projection: Linear {
            weight: Param::from_tensor(weight.clone()),
            bias: None,
        },
    };
    let hidden = Tensor::<3>::random([2, 6, 3], Distribution::Default, &device());
    let all = || {
        [
            of_tensors(hidden.clone(), weight.clone()),
            of_references(hidden.clone().reshape([12, 3]), &weight, &biased.bias)
                .reshape([2, 6, 2]),
            project.map(hidden.clone()),
            model.projection.forward(hidden.clone()),
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
    for name in ["of_tensors", "of_references", "Project::map"] {
        assert_paths(&format!("linear::{name}"), &paths);
    }
}
