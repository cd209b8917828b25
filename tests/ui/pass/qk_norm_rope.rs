use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::module::{Module, Param};
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

fn normalise(x: Tensor<4>, weight: Tensor<1>, eps: f64) -> Tensor<4> {
    let mean_square = x.clone().square().mean_dim(3);
    x / (mean_square + eps).sqrt() * weight.unsqueeze()
}

fn rotate(x: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>) -> Tensor<4> {
    let [x1, x2]: [Tensor<4>; 2] = x.clone().chunk(2, 3).try_into().unwrap();
    let turned = Tensor::cat(vec![x2.neg(), x1], 3);
    x * cos.unsqueeze() + turned * sin.unsqueeze()
}

// A method of an impl block: Qwen3's, with names of its own.
#[derive(Module, Debug)]
struct Prepare {
    q_norm: Param<Tensor<1>>,
    keys_weight: Param<Tensor<1>>,
    norm_eps: f64,
}

#[fused_kernel("npu_fused_qk_norm_rope", method = queries_and_keys, k_weight = keys_weight)]
impl Prepare {
    fn queries_and_keys(
        &self,
        query: Tensor<4>,
        key: Tensor<4>,
        cos: Tensor<2>,
        sin: Tensor<2>,
    ) -> (Tensor<4>, Tensor<4>) {
        let query = normalise(query, self.q_norm.val(), self.norm_eps).swap_dims(1, 2);
        let key = normalise(key, self.keys_weight.val(), self.norm_eps).swap_dims(1, 2);
        (
            rotate(query, cos.clone(), sin.clone()),
            rotate(key, cos, sin),
        )
    }
}

// A function of its tensors, without a norm.
#[fused_kernel("npu_fused_qk_norm_rope", norm = none)]
fn rotated(q: Tensor<4>, k: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>) -> (Tensor<4>, Tensor<4>) {
    let (q, k) = (q.swap_dims(1, 2), k.swap_dims(1, 2));
    (rotate(q, cos.clone(), sin.clone()), rotate(k, cos, sin))
}

// A struct of the parameters: the macro writes the rest. OLMo 2's norm.
#[fused_kernel("npu_fused_qk_norm_rope", norm = row, rounding = gemma, layout = bsnd)]
#[derive(Module, Debug)]
struct OfRows {
    q_weight: Param<Tensor<1>>,
    k_weight: Param<Tensor<1>>,
    cos: Tensor<2>,
    sin: Tensor<2>,
    eps: f64,
}

// Three positions a token.
#[fused_kernel("npu_fused_qk_norm_rope", sections = interleaved)]
#[derive(Module, Debug)]
struct OfThree {
    q_weight: Param<Tensor<1>>,
    k_weight: Param<Tensor<1>>,
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
    eps: f64,
}

pub fn main() {
    let random =
        |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Uniform(-1.0, 1.0), &device());
    let vector = |elements: usize| {
        let shape = [elements];
        Tensor::<1>::random(shape, Distribution::Uniform(0.5, 1.5), &device())
    };
    let (q, k) = (random([2, 5, 4, 8]), random([2, 5, 2, 8]));
    let table =
        || -> Tensor<2> { Tensor::random([5, 8], Distribution::Uniform(-1.0, 1.0), &device()) };
    let (cos, sin) = (table(), table());
    let prepare = Prepare {
        q_norm: Param::from_tensor(vector(8)),
        keys_weight: Param::from_tensor(vector(8)),
        norm_eps: 1e-6,
    };
    let of_rows = OfRows {
        q_weight: Param::from_tensor(vector(32)),
        k_weight: Param::from_tensor(vector(16)),
        cos: cos.clone(),
        sin: sin.clone(),
        eps: 1e-6,
    };
    // Every angle twice.
    let of_positions = || random([3, 1, 5, 4]).repeat_dim(3, 2);
    let of_three = OfThree {
        q_weight: Param::from_tensor(vector(8)),
        k_weight: Param::from_tensor(vector(8)),
        cos: of_positions(),
        sin: of_positions(),
        mrope_section: [2, 1, 1],
        eps: 1e-6,
    };
    let all = || {
        let (a, b) = prepare.queries_and_keys(q.clone(), k.clone(), cos.clone(), sin.clone());
        let (c, d) = rotated(q.clone(), k.clone(), cos.clone(), sin.clone());
        let (e, f) = of_rows.forward(q.clone(), k.clone());
        let (g, h) = of_three.forward(q.clone(), k.clone());
        [a, b, c, d, e, f, g, h]
    };
    let fused = all();
    let plain = {
        let _off = scope(Policy::reference());
        all()
    };
    for (fused, plain) in fused.into_iter().zip(plain) {
        assert_same(fused, plain);
    }
    for (name, key) in [
        (
            "qk_norm_rope::Prepare::queries_and_keys",
            "qk_norm_rope(norm=head, offset=0, rounding=llama, style=half)",
        ),
        (
            "qk_norm_rope::rotated",
            "qk_norm_rope(norm=none, style=half)",
        ),
        (
            "qk_norm_rope::OfRows::forward",
            "qk_norm_rope(norm=row, offset=0, rounding=gemma, style=half, layout=bsnd)",
        ),
        (
            "qk_norm_rope::OfThree::forward",
            "qk_norm_rope(norm=head, offset=0, rounding=llama, style=half, sections=interleaved)",
        ),
    ] {
        assert_site(name, key);
        assert_paths(name, &["fused", "reference: switched off by the policy"]);
    }
}
