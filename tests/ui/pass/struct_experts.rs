use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::module::{Module, Param};
use burn::tensor::{Distribution, Int, Tensor, TensorData};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{self, Policy};

// Qwen3-MoE.
#[fused_kernel("npu_fused_moe", layer = "Qwen3MoeExperts")]
#[derive(Module, Debug)]
struct Chunked {
    num_experts: usize,
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
}

// gpt-oss.
#[fused_kernel(
    "npu_fused_moe",
    activation = quick_gelu,
    projections = interleaved,
    clamp = limit,
    up_offset = 1,
    layout = matmul,
    bias = all
)]
#[derive(Module, Debug)]
struct GptOss {
    gate_up_proj: Param<Tensor<3>>,
    gate_up_proj_bias: Param<Tensor<2>>,
    down_proj: Param<Tensor<3>>,
    down_proj_bias: Param<Tensor<2>>,
    limit: f64,
}

// Under names of the user's.
#[fused_kernel("npu_fused_moe", part = experts, projections = separate, down = out)]
#[derive(Debug)]
struct Apart {
    w1: Tensor<3>,
    w3: Tensor<3>,
    out: Tensor<3>,
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
}

/// Three tokens, two of four experts each; 4 is an expert elsewhere.
fn tokens() -> (Tensor<2>, Tensor<2, Int>, Tensor<2>) {
    let indices = TensorData::new(vec![0_i64, 3, 3, 1, 4, 0], [3, 2]);
    (
        random([3, 6]),
        Tensor::from_data(indices, &device()),
        random([3, 2]),
    )
}

pub fn main() {
    let (x, indices, routing) = tokens();
    let run = || (x.clone(), indices.clone(), routing.clone());

    let chunked = Chunked {
        num_experts: 4,
        gate_up_proj: Param::from_tensor(random([4, 10, 6])),
        down_proj: Param::from_tensor(random([4, 6, 5])),
    };
    let (a, b, c) = run();
    let y = chunked.forward(a, b, c);
    let (a, b, c) = run();
    assert_same(y.clone(), chunked.forward_reference(a, b, c));
    {
        let _off = policy::scope(Policy::reference());
        let (a, b, c) = run();
        assert_same(y, chunked.forward(a, b, c));
    }
    let name = "struct_experts::Chunked::forward";
    assert_site(
        name,
        "moe(activation=silu, projections=chunked, layout=linear)",
    );
    assert_paths(name, &["fused cpu-simd", "reference: switched off"]);

    let gpt_oss = GptOss {
        gate_up_proj: Param::from_tensor(random([4, 6, 10])),
        gate_up_proj_bias: Param::from_tensor(random([4, 10])),
        down_proj: Param::from_tensor(random([4, 5, 6])),
        down_proj_bias: Param::from_tensor(random([4, 6])),
        limit: 0.5,
    };
    let (a, b, c) = run();
    let y = gpt_oss.forward(a, b, c);
    let (a, b, c) = run();
    assert_same(y, gpt_oss.forward_reference(a, b, c));
    assert_site(
        "struct_experts::GptOss::forward",
        "moe(activation=quick_gelu, projections=interleaved, layout=matmul, clamp=limit, \
         up_offset=1, bias=all)",
    );

    let apart = Apart {
        w1: random([4, 5, 6]),
        w3: random([4, 5, 6]),
        out: random([4, 6, 5]),
    };
    let (a, b, c) = run();
    let y = apart.forward(a, b, c);
    let (a, b, c) = run();
    assert_same(y, apart.forward_reference(a, b, c));
}
