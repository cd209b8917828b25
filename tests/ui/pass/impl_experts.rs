use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::silu;
use burn::tensor::{Distribution, Int, Tensor, TensorData};
use burn_kernels::fused_kernel;

/// Every expert for every token, and zeros as the weights of those that are not chosen.
fn dense(
    x: &Tensor<2>,
    indices: &Tensor<2, Int>,
    routing: &Tensor<2>,
    expert: impl Fn(usize, Tensor<2>) -> Tensor<2>,
    count: usize,
) -> Tensor<2> {
    let each = (0..count).map(|e| {
        let chosen = indices.clone().equal_elem(e as i64).float();
        let weight = (routing.clone() * chosen).sum_dim(1);
        expert(e, x.clone()) * weight
    });
    each.reduce(|sum, part| sum + part).expect("experts")
}

fn one(weights: &Tensor<3>, expert: usize) -> Tensor<2> {
    weights.clone().narrow(0, expert, 1).squeeze_dim(0)
}

#[derive(Module, Debug)]
struct Stacked {
    w13: Param<Tensor<3>>,
    out: Param<Tensor<3>>,
}

#[fused_kernel("npu_fused_moe", layout = matmul, x = h, down = out, method = run)]
impl Stacked {
    fn run(&self, h: Tensor<2>, routing: Tensor<2>, indices: Tensor<2, Int>) -> Tensor<2> {
        let (both, down) = (self.w13.val(), self.out.val());
        let expert = |e, x: Tensor<2>| {
            let parts = x.matmul(one(&both, e)).chunk(2, 1);
            (silu(parts[0].clone()) * parts[1].clone()).matmul(one(&down, e))
        };
        dense(&h, &indices, &routing, expert, down.dims()[0])
    }
}

impl Stacked {
    #[fused_kernel(
        "npu_fused_moe",
        layout = matmul,
        x = hidden,
        gate_up = w13,
        down = out
    )]
    fn apply(
        &self,
        hidden: Tensor<2>,
        selected_experts: Tensor<2, Int>,
        routing_weights: Tensor<2>,
    ) -> Tensor<2> {
        let (both, down) = (self.w13.val(), self.out.val());
        let expert = |e, x: Tensor<2>| {
            let parts = x.matmul(one(&both, e)).chunk(2, 1);
            (silu(parts[0].clone()) * parts[1].clone()).matmul(one(&down, e))
        };
        dense(
            &hidden,
            &selected_experts,
            &routing_weights,
            expert,
            down.dims()[0],
        )
    }
}

#[fused_kernel("npu_fused_moe", projections = separate, layout = matmul)]
fn experts(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    gate_proj: &Param<Tensor<3>>,
    up_proj: &Tensor<3>,
    down_proj: Tensor<3>,
) -> Tensor<2> {
    let gate = gate_proj.val();
    let expert = |e, x: Tensor<2>| {
        let hidden = silu(x.clone().matmul(one(&gate, e))) * x.matmul(one(up_proj, e));
        hidden.matmul(one(&down_proj, e))
    };
    dense(&x, &indices, &routing, expert, down_proj.dims()[0])
}

#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl Mlp {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let hidden = silu(self.gate_proj.forward(x.clone())) * self.up_proj.forward(x);
        self.down_proj.forward(hidden)
    }
}

#[derive(Module, Debug)]
struct List {
    experts: Vec<Mlp>,
    num_experts: usize,
}

#[fused_kernel("npu_fused_moe", experts = list, projections = separate, bias = all)]
impl List {
    fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        let expert = |e: usize, x| self.experts[e].forward(x);
        dense(&x, &indices, &routing, expert, self.num_experts)
    }
}

#[fused_kernel("npu_fused_moe", experts = list, projections = separate, bias = all)]
fn listed(x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>, experts: &[Mlp]) -> Tensor<2> {
    let expert = |e: usize, x| experts[e].forward(x);
    dense(&x, &indices, &routing, expert, experts.len())
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

pub fn main() {
    let indices = TensorData::new(vec![0_i64, 3, 3, 1, 1, 0], [3, 2]);
    let indices = Tensor::<2, Int>::from_data(indices, &device());
    let (x, routing) = (random([3, 6]), random([3, 2]));
    let run = || (x.clone(), indices.clone(), routing.clone());

    let stacked = Stacked {
        w13: Param::from_tensor(random([4, 6, 10])),
        out: Param::from_tensor(random([4, 5, 6])),
    };
    let (x, indices, routing) = run();
    let y = stacked.run(x, routing, indices);
    let (x, indices, routing) = run();
    assert_same(y.clone(), stacked.run_reference(x, routing, indices));
    let (x, indices, routing) = run();
    assert_same(y.clone(), stacked.apply(x, indices, routing));
    assert_site(
        "impl_experts::Stacked::run",
        "moe(activation=silu, projections=chunked, layout=matmul)",
    );
    assert_paths("impl_experts::Stacked::run", &["fused cpu-simd"]);
    assert_paths("impl_experts::Stacked::apply", &["fused cpu-simd"]);

    let (both, down) = (stacked.w13.val(), stacked.out.val());
    let gate = Param::from_tensor(both.clone().narrow(2, 0, 5));
    let up = both.narrow(2, 5, 5);
    let (x, indices, routing) = run();
    assert_same(y, experts(x, indices, routing, &gate, &up, down.clone()));
    let (x, indices, routing) = run();
    let z = experts_reference(x, indices, routing, &gate, &up, down.clone());
    let (x, indices, routing) = run();
    assert_same(z, experts(x, indices, routing, &gate, &up, down));
    assert_paths("impl_experts::experts", &["fused cpu-simd"]);

    let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&device());
    let expert = |_| Mlp {
        gate_proj: linear(6, 5),
        up_proj: linear(6, 5),
        down_proj: linear(5, 6),
    };
    let list = List {
        experts: (0..4).map(expert).collect(),
        num_experts: 4,
    };
    let (x, indices, routing) = run();
    let y = list.forward(x, indices, routing);
    let (x, indices, routing) = run();
    assert_same(y.clone(), list.forward_reference(x, indices, routing));
    let (x, indices, routing) = run();
    assert_same(y, listed(x, indices, routing, &list.experts));
    assert_paths("impl_experts::List::forward", &["fused cpu-simd"]);
    assert_paths("impl_experts::listed", &["fused cpu-simd"]);
}
