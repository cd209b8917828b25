use crate::common::{assert_same, assert_site, device};
use burn::tensor::activation::{relu, silu};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm", gating = after_norm, groups = many, eps = tiny)]
fn norm(
    z: Tensor<2>,
    hidden: Tensor<2>,
    weight: &Tensor<1>,
    group_size: usize,
    tiny: &f64,
) -> Tensor<2> {
    let [rows, columns] = hidden.dims();
    let groups = hidden.reshape([rows, columns / group_size, group_size]);
    let mean = groups.clone().square().mean_dim(2);
    let normed = (groups / (mean + *tiny).sqrt()).reshape([rows, columns]);
    normed * weight.clone().unsqueeze() * silu(z)
}

#[fused_kernel("npu_fused_swiglu", projections = chunked, activation = relu2, gate_up = h)]
fn squared(h: Tensor<2>) -> Tensor<2> {
    let half = h.dims()[1] / 2;
    relu(h.clone().narrow(1, 0, half)).square() * h.narrow(1, half, half)
}

#[fused_kernel("npu_fused_swiglu", clamp = limit)]
fn clamped(up: Tensor<2>, gate: Tensor<2>, limit: f32) -> Tensor<2> {
    silu(gate.clamp_max(limit)) * up.clamp(-limit, limit)
}

// GLM-4: neighbours are rotated, over a part of the head; of the table it reads the first half.
#[fused_kernel("npu_fused_rope", style = interleaved, width = partial)]
fn rotate(
    query: Tensor<4>,
    key: Tensor<4>,
    cos: &Tensor<2>,
    sin: Tensor<2>,
) -> (Tensor<4>, Tensor<4>) {
    let [seq, width] = cos.dims();
    let table = |table: Tensor<2>| {
        table
            .narrow(1, 0, width / 2)
            .reshape([1, 1, seq, width / 2, 1])
    };
    let turn = |x: Tensor<4>| {
        let [batch, heads, seq, dim] = x.dims();
        let pairs = x
            .clone()
            .narrow(3, 0, width)
            .reshape([batch, heads, seq, width / 2, 2]);
        let (a, b) = (pairs.clone().narrow(4, 0, 1), pairs.narrow(4, 1, 1));
        let (cos, sin) = (table(cos.clone()), table(sin.clone()));
        let first = a.clone() * cos.clone() - b.clone() * sin.clone();
        let turned = Tensor::cat(vec![first, b * cos + a * sin], 4);
        let rest = x.narrow(3, width, dim - width);
        Tensor::cat(vec![turned.reshape([batch, heads, seq, width]), rest], 3)
    };
    (turn(query), turn(key))
}

pub fn main() {
    let random = |shape| Tensor::<2>::random(shape, Distribution::Default, &device());
    let (x, z, weight) = (random([3, 4]), random([3, 4]), random([1, 4]).reshape([4]));
    let y = norm(z.clone(), x.clone(), &weight, 2, &1e-6);
    assert_same(y, norm_reference(z.clone(), x.clone(), &weight, 2, &1e-6));
    assert_same(squared(x.clone()), squared_reference(x.clone()));
    let y = clamped(x.clone(), z.clone(), 0.5);
    assert_same(y, clamped_reference(x, z, 0.5));

    let heads = |shape| Tensor::<4>::random(shape, Distribution::Default, &device());
    let (q, k) = (heads([1, 2, 3, 6]), heads([1, 1, 3, 6]));
    let table = || random([3, 2]).repeat_dim(1, 2);
    let (cos, sin) = (table(), table());
    let (a, b) = rotate(q.clone(), k.clone(), &cos, sin.clone());
    let (c, d) = rotate_reference(q, k, &cos, sin);
    assert_same(a, c);
    assert_same(b, d);

    let key = "rms_norm(offset=0, rounding=llama, gating=after_norm, groups=many)";
    assert_site("function_variants::norm", key);
    let key = "glu(activation=relu2, projections=chunked)";
    assert_site("function_variants::squared", key);
    let key = "glu(activation=silu, clamp=limit)";
    assert_site("function_variants::clamped", key);
    let key = "rope(style=interleaved, width=partial)";
    assert_site("function_variants::rotate", key);
}
