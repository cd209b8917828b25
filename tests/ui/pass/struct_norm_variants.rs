use crate::common::{assert_near, assert_paths, assert_same, assert_site, device, vector};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm", scale = none)]
#[derive(Module, Debug)]
struct Bare {
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm", groups = many, offset = 1)]
#[derive(Module, Debug)]
struct Grouped {
    weight: Param<Tensor<1>>,
    group_size: usize,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm", shift = bias)]
#[derive(Module, Debug)]
struct Shifted {
    beta: Param<Tensor<1>>,
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm", shift = bias, scale = none, groups = many, group_size = 2)]
fn shifted(x: Tensor<2>, bias: Tensor<1>, eps: f64) -> Tensor<2> {
    let groups = x.reshape([-1, 2]);
    let mean_square = groups.clone().square().mean_dim(1);
    let normal = groups / mean_square.add_scalar(eps).sqrt();
    normal.reshape([-1, 4]) + bias.unsqueeze()
}

/// The weight may be any type that holds one, here a plain tensor.
#[fused_kernel("npu_fused_rmsnorm", weight = w, eps = e)]
#[derive(Module, Debug)]
struct Plain {
    w: Tensor<1>,
    e: f32,
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[3.0, 4.0, 0.0, 0.0], [1.0, 1.0, 1.0, -1.0]], &device());

    let bare = Bare { eps: 0.0 };
    let y = bare.forward(x.clone());
    assert_near(y.clone(), &[1.2, 1.6, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0]);
    assert_same(y, bare.forward_reference(x.clone()));
    assert_site(
        "struct_norm_variants::Bare::forward",
        "rms_norm(offset=0, rounding=llama, scale=none)",
    );

    // Two elements a group, and weights of one added to one.
    let grouped = Grouped {
        weight: Param::from_tensor(vector(&[1.0; 4])),
        group_size: 2,
        eps: 0.0,
    };
    let y = grouped.forward(x.clone().narrow(0, 1, 1) * 5.0);
    assert_near(y.clone(), &[2.0, 2.0, 2.0, -2.0]);
    assert_same(
        y,
        grouped.forward_reference(x.clone().narrow(0, 1, 1) * 5.0),
    );
    assert_site(
        "struct_norm_variants::Grouped::forward",
        "rms_norm(offset=1, rounding=llama, groups=many)",
    );

    let bias = vector(&[0.5, 0.0, -1.0, 2.0]);
    let shifted_norm = Shifted {
        beta: Param::from_tensor(bias.clone()),
        weight: Param::from_tensor(vector(&[2.0; 4])),
        eps: 0.0,
    };
    let y = shifted_norm.forward(x.clone());
    assert_near(y.clone(), &[2.9, 3.2, -1.0, 2.0, 2.5, 2.0, 1.0, 0.0]);
    assert_same(y, shifted_norm.forward_reference(x.clone()));
    assert_site(
        "struct_norm_variants::Shifted::forward",
        "rms_norm(offset=0, rounding=llama, shift=bias)",
    );
    let y = shifted(x.clone().narrow(0, 1, 1) * 5.0, bias, 0.0);
    assert_near(y, &[1.5, 1.0, 0.0, 1.0]);
    assert_paths("struct_norm_variants::shifted", &["fused"]);

    let plain = Plain {
        w: vector(&[2.0; 4]),
        e: 0.0,
    };
    assert_near(plain.forward(x).narrow(0, 0, 1), &[2.4, 3.2, 0.0, 0.0]);
}
