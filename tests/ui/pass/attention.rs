use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Distribution, Tensor, TensorData};
use burn_kernels::fused_kernel;
use burn_kernels::policy::{Policy, scope};

// A function of its tensors: Llama's attention, with every head its own keys.
#[fused_kernel("npu_fused_attention")]
fn causal(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let (queries, keys, width) = (q.dims()[2], k.dims()[2], q.dims()[3]);
    let scores = q.matmul(k.swap_dims(2, 3)) / (width as f64).sqrt();
    let visible = Tensor::<2, Bool>::tril_mask([queries, keys], (keys - queries) as i64, &device());
    let shape = scores.shape();
    let scores = scores.mask_fill(visible.unsqueeze::<4>().expand(shape), f32::NEG_INFINITY);
    softmax(scores, 3).matmul(v)
}

// An impl block with a bias, a limit, and names of its own.
#[derive(Module, Debug)]
struct Capped {
    scaling: f64,
    limit: f64,
}

#[fused_kernel("npu_fused_attention", mask = none, bias = additive, cap = tanh, softcap = limit)]
impl Capped {
    fn forward(
        &self,
        query: Tensor<4>,
        key: Tensor<4>,
        value: Tensor<4>,
        attention_mask: Tensor<4>,
    ) -> Tensor<4> {
        let scores = query.matmul(key.swap_dims(2, 3)) * self.scaling;
        let scores = (scores / self.limit).tanh() * self.limit + attention_mask;
        softmax(scores, 3).matmul(value)
    }
}

// A struct of what belongs to attention itself: the macro writes the rest.
#[fused_kernel("npu_fused_attention", window = sliding, sink = learned, layout = bsnd, scale = 0.25)]
#[derive(Module, Debug)]
struct WithSinks {
    sinks: Param<Tensor<1>>,
    sliding_window: usize,
}

// A layer with its projections, and a condition.
#[fused_kernel("npu_fused_attention", part = layer, cap = tanh, softcap = 20.0, when = self.num_heads > 1)]
#[derive(Module, Debug)]
struct Layer {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    num_heads: usize,
}

// A function of padded sequences.
#[fused_kernel("npu_fused_attention", mask = none, lengths = padded)]
fn padded(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, lengths: &[usize]) -> Tensor<4> {
    let keys = k.dims()[2];
    let scores = q.clone().matmul(k.swap_dims(2, 3)) / (q.dims()[3] as f64).sqrt();
    let of_row = |length: &usize| (0..keys).map(|key| key >= *length).collect::<Vec<_>>();
    let hidden: Vec<bool> = lengths.iter().flat_map(of_row).collect();
    let hidden = TensorData::new(hidden, [lengths.len(), 1, 1, keys]);
    let hidden = Tensor::<4, Bool>::from_data(hidden, &device()).expand(scores.dims());
    softmax(scores.mask_fill(hidden, f32::NEG_INFINITY), 3).matmul(v)
}

// A function of sequences that begin with a prefix, such as the tokens of a picture.
#[fused_kernel("npu_fused_attention", mask = prefix)]
fn after_a_picture(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, prefix: usize) -> Tensor<4> {
    let (queries, keys, width) = (q.dims()[2], k.dims()[2], q.dims()[3]);
    let scores = q.matmul(k.swap_dims(2, 3)) / (width as f64).sqrt();
    let hidden = Tensor::<2, Bool>::tril_mask([queries, keys], (keys - queries) as i64, &device());
    let seen = Tensor::<2, Bool>::full([queries, prefix], false, &device());
    let hidden = hidden.slice_assign([0..queries, 0..prefix], seen);
    let hidden = hidden.unsqueeze::<4>().expand(scores.dims());
    softmax(scores.mask_fill(hidden, f32::NEG_INFINITY), 3).matmul(v)
}

pub fn main() {
    let random =
        |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Uniform(-1.0, 1.0), &device());
    let (q, k, v) = (
        random([2, 3, 4, 8]),
        random([2, 3, 6, 8]),
        random([2, 3, 6, 8]),
    );
    let bias = random([1, 3, 4, 6]);
    let capped = Capped {
        scaling: 0.5,
        limit: 2.0,
    };
    let with_sinks = WithSinks {
        sinks: Param::from_tensor(Tensor::from_floats([0.5, -0.5, 1.0, 0.0], &device())),
        sliding_window: 3,
    };
    let [bsnd, shared] = [random([2, 9, 4, 8]), random([2, 9, 2, 8])];
    let linear = || LinearConfig::new(8, 8).init(&device());
    let layer = Layer {
        q_proj: linear(),
        k_proj: linear(),
        v_proj: linear(),
        o_proj: linear(),
        num_heads: 2,
    };
    let all = || {
        let causal = causal(q.clone(), k.clone(), v.clone());
        let capped = capped.forward(q.clone(), k.clone(), v.clone(), bias.clone());
        let with_sinks = with_sinks.forward(bsnd.clone(), shared.clone(), shared.clone());
        let padded = padded(q.clone(), k.clone(), v.clone(), &[6, 4]);
        let prefix = after_a_picture(q.clone(), k.clone(), v.clone(), 5);
        // Three sequences for each of two batches.
        let layer = layer.forward(q.clone());
        [causal, capped, with_sinks, padded, prefix, layer]
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
        ("attention::causal", "attention(mask=causal)"),
        (
            "attention::Capped::forward",
            "attention(mask=none, bias=additive, cap=tanh)",
        ),
        (
            "attention::WithSinks::forward",
            "attention(mask=causal, window=sliding, sink=learned, layout=bsnd)",
        ),
        (
            "attention::Layer::forward",
            "attention(mask=causal, cap=tanh, layout=bsnd)",
        ),
        ("attention::padded", "attention(mask=none, lengths=padded)"),
        ("attention::after_a_picture", "attention(mask=prefix)"),
    ] {
        assert_site(name, key);
        assert_paths(name, &["fused", "reference: switched off by the policy"]);
    }
    let plain = with_sinks.forward_reference(bsnd.clone(), shared.clone(), shared.clone());
    assert_same(with_sinks.forward(bsnd, shared.clone(), shared), plain);
}
