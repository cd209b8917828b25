//! Tests attention with its projections: against Burn's own layer, against bodies by hand, and its mistakes.

use crate::comparison::relative;
use burn::module::{Module, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::{Linear, LinearConfig, RmsNormConfig, RotaryEncodingConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Distribution, Gradients, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::live;
use burn_kernels::nn::{RmsNorm, RotaryEncoding};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::report::{ReportRow, report};
use std::panic::{AssertUnwindSafe, catch_unwind};

const WIDTH: usize = 24;

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Returns the largest difference, relative to the largest element.
fn difference<const D: usize>(ours: Tensor<D>, theirs: Tensor<D>) -> f32 {
    assert_eq!(ours.dims(), theirs.dims());
    let [ours, theirs] = [ours, theirs].map(|tensor| {
        let numbers = tensor.into_data();
        numbers.iter::<f64>().collect::<Vec<_>>()
    });
    relative(&ours, &theirs) as f32
}

/// The tolerance of f32 results that pass two matrix products and a softmax.
const CLOSE: f32 = 1e-5;

#[track_caller]
fn assert_close(ours: Vec<Tensor<1>>, theirs: Vec<Tensor<1>>) {
    assert_eq!(ours.len(), theirs.len());
    for (i, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
        let difference = difference(ours, theirs);
        assert!(difference < CLOSE, "tensor {i}: {difference}");
    }
}

/// Runs a layer on `x`, and returns the result and the gradients of `x` and of what `weights` lists.
fn run(
    x: &Tensor<3>,
    forward: impl Fn(Tensor<3>) -> Tensor<3>,
    weights: impl Fn(&Gradients) -> Vec<Tensor<1>>,
) -> Vec<Tensor<1>> {
    let x = x.clone().require_grad();
    let y = forward(x.clone());
    let dy = Tensor::<1>::from_floats([0.5, -1.0, 0.25], &y.device());
    let shape = y.dims();
    let dy = dy.repeat(&[y.shape().num_elements().div_ceil(3)]);
    let dy = dy.narrow(0, 0, y.shape().num_elements()).reshape(shape);
    let gradients = (y.clone() * dy).sum().backward();
    let dx = x.grad(&gradients).expect("x is tracked");
    let mut all = vec![y.inner().flatten(0, 2), dx.flatten(0, 2)];
    all.extend(weights(&gradients));
    all
}

fn of_linear(linear: &Linear, gradients: &Gradients) -> Vec<Tensor<1>> {
    let weight = linear.weight.val().grad(gradients);
    let bias = linear.bias.as_ref().map(|bias| bias.val().grad(gradients));
    let weight = weight.expect("a gradient of the weight").flatten(0, 1);
    let bias = bias.map(|bias| bias.expect("a gradient of the bias"));
    std::iter::once(weight).chain(bias).collect()
}

/// Returns the calls of a site by kernel, and by the reference.
fn calls(site: &str) -> [u64; 2] {
    let rows = report().rows;
    let of = |fused: bool| {
        let is_it = |row: &&ReportRow| {
            let call = row.call.as_ref();
            row.site.ends_with(site)
                && call.is_some_and(|call| call.implementation.is_some() == fused)
        };
        rows.iter().filter(is_it).map(|row| row.calls).sum()
    };
    [of(true), of(false)]
}

/// The fields of Burn's layer, under its names.
#[fused_kernel("npu_fused_attention", part = layer, mask = none)]
#[derive(Module, Debug)]
struct Burns {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    n_heads: usize,
}

#[test]
fn a_struct_computes_what_burns_layer_does() {
    let device = Device::flex().autodiff();
    let config = MultiHeadAttentionConfig::new(WIDTH, 3).with_dropout(0.0);
    let theirs: MultiHeadAttention = config.init(&device);
    let ours = Burns {
        query: theirs.query.clone(),
        key: theirs.key.clone(),
        value: theirs.value.clone(),
        output: theirs.output.clone(),
        n_heads: 3,
    };
    let x = random([2, 37, WIDTH], &device);
    let expected = run(
        &x,
        |x| theirs.forward(MhaInput::self_attn(x)).context,
        |gradients| {
            let layers = [&theirs.query, &theirs.key, &theirs.value, &theirs.output];
            layers.map(|layer| of_linear(layer, gradients)).concat()
        },
    );
    let weights = |gradients: &Gradients| {
        let layers = [&ours.query, &ours.key, &ours.value, &ours.output];
        layers.map(|layer| of_linear(layer, gradients)).concat()
    };
    // A bias of the keys shifts all scores of a query alike, so its gradient is rounding alone.
    let without_key_bias = |mut all: Vec<Tensor<1>>| {
        all.remove(5);
        all
    };
    let fused = run(&x, |x| ours.forward(x), weights);
    assert_close(without_key_bias(fused), without_key_bias(expected.clone()));
    let plain = run(&x, |x| ours.forward_reference(x), weights);
    assert_close(without_key_bias(plain), without_key_bias(expected));
    assert_eq!(calls("Burns::forward"), [1, 0]);
    let _off = scope(Policy::reference());
    let _ = ours.forward(x);
    assert_eq!(calls("Burns::forward"), [1, 1]);
}

/// Llama's layer with Qwen3's norms: every part that a layer may have.
#[fused_kernel("npu_fused_attention", part = layer, window = sliding)]
#[derive(Module, Debug)]
struct Decoder {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    q_norm: RmsNorm,
    k_norm: RmsNorm,
    rotary: RotaryEncoding,
    num_heads: usize,
    num_key_value_heads: usize,
    sliding_window: usize,
}

const HEAD: usize = 8;

impl Decoder {
    fn new(device: &Device) -> Self {
        let linear = |inputs, outputs| {
            let config = LinearConfig::new(inputs, outputs).with_bias(false);
            config.init(device)
        };
        let norm = || {
            let mut norm = RmsNormConfig::new(HEAD).init(device);
            norm.gamma = Param::from_tensor(random([HEAD], device));
            norm.into()
        };
        Self {
            q_proj: linear(WIDTH, 4 * HEAD),
            k_proj: linear(WIDTH, 2 * HEAD),
            v_proj: linear(WIDTH, 2 * HEAD),
            o_proj: linear(4 * HEAD, WIDTH),
            q_norm: norm(),
            k_norm: norm(),
            rotary: RotaryEncodingConfig::new(64, HEAD).init(device).into(),
            num_heads: 4,
            num_key_value_heads: 2,
            sliding_window: 5,
        }
    }

    /// Computes the layer by Burn's operations alone.
    fn by_hand(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, seq, _] = x.dims();
        let heads = |projected: Tensor<3>, heads| {
            projected.reshape([batch, seq, heads, HEAD]).swap_dims(1, 2)
        };
        let q = heads(self.q_proj.forward(x.clone()), 4);
        let k = heads(self.k_proj.forward(x.clone()), 2);
        let v = heads(self.v_proj.forward(x), 2);
        let norm = |x: Tensor<4>, norm: &RmsNorm| {
            let mean = x.clone().square().mean_dim(3);
            x / (mean + norm.epsilon).sqrt() * norm.gamma.val().unsqueeze()
        };
        let plain = RotaryEncodingConfig::new(64, HEAD).init(&q.device());
        let q = plain.forward(norm(q, &self.q_norm));
        let k = plain.forward(norm(k, &self.k_norm));
        // Head h of the queries reads head h / 2 of the keys.
        let repeated = |x: Tensor<4>| {
            let x: Tensor<5> = x.unsqueeze_dim(2);
            x.repeat(&[1, 1, 2, 1, 1]).reshape([batch, 4, seq, HEAD])
        };
        let scores = q.matmul(repeated(k).swap_dims(2, 3)) / (HEAD as f64).sqrt();
        let device = &scores.device();
        let later = Tensor::<2, Bool>::tril_mask([seq, seq], 0, device);
        let before = Tensor::<2, Bool>::triu_mask([seq, seq], -4, device);
        let hidden = later.bool_or(before).unsqueeze::<4>().expand(scores.dims());
        let mixed = softmax(scores.mask_fill(hidden, f32::NEG_INFINITY), 3).matmul(repeated(v));
        let mixed = mixed.swap_dims(1, 2).reshape([batch, seq, 4 * HEAD]);
        self.o_proj.forward(mixed)
    }
}

#[test]
fn norms_and_a_rotation_of_heads_are_layers() {
    let device = Device::flex().autodiff();
    let layer = Decoder::new(&device);
    let x = random([2, 19, WIDTH], &device);
    let weights = |gradients: &Gradients| {
        let layers = [&layer.q_proj, &layer.k_proj, &layer.v_proj, &layer.o_proj];
        let mut all = layers.map(|layer| of_linear(layer, gradients)).concat();
        for norm in [&layer.q_norm, &layer.k_norm] {
            all.push(norm.gamma.val().grad(gradients).expect("a gradient"));
        }
        all
    };
    let fused = run(&x, |x| layer.forward(x), weights);
    assert_close(fused, run(&x, |x| layer.by_hand(x), weights));
    // Other tests call it too.
    assert!(matches!(calls("Decoder::forward"), [1..=u64::MAX, 0]));
}

#[test]
fn leading_axes_are_sequences() {
    let device = Device::flex();
    let layer = Decoder::new(&device);
    let x = random([6, 11, WIDTH], &device);
    let expected = layer.forward(x.clone());
    let y = layer.forward(x.clone().reshape([2, 3, 11, WIDTH]));
    assert_eq!(y.dims(), [2, 3, 11, WIDTH]);
    assert_eq!(difference(y.reshape([6, 11, WIDTH]), expected.clone()), 0.0);
    let first = layer.forward(x.narrow(0, 0, 1).reshape([11, WIDTH]));
    let expected = expected.narrow(0, 0, 1).reshape([11, WIDTH]);
    assert_eq!(difference(first, expected), 0.0);
}

/// A body of one's own, on padded sequences.
#[derive(Module, Debug)]
struct Encoder {
    wq: Linear,
    wk: Linear,
    wv: Linear,
    wo: Linear,
    heads: usize,
}

#[fused_kernel("npu_fused_attention", part = layer, mask = none, lengths = padded, num_heads = heads)]
impl Encoder {
    fn forward(&self, x: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        let [batch, seq, width] = x.dims();
        let heads = |projected: Tensor<3>| {
            let heads = [batch, seq, self.heads, width / self.heads];
            projected.reshape(heads).swap_dims(1, 2)
        };
        let q = heads(self.wq.forward(x.clone()));
        let k = heads(self.wk.forward(x.clone()));
        let v = heads(self.wv.forward(x));
        let scores = q.matmul(k.swap_dims(2, 3)) / ((width / self.heads) as f64).sqrt();
        let hidden: Vec<bool> = lengths
            .iter()
            .flat_map(|&length| (0..seq).map(move |key| key >= length))
            .collect();
        let hidden = Tensor::<1, Bool>::from_data(&hidden[..], &scores.device());
        let hidden = hidden.reshape([batch, 1, 1, seq]).expand(scores.dims());
        let mixed = softmax(scores.mask_fill(hidden, f32::NEG_INFINITY), 3).matmul(v);
        let mixed = mixed.swap_dims(1, 2).reshape([batch, seq, width]);
        self.wo.forward(mixed)
    }
}

impl Encoder {
    fn new(device: &Device) -> Self {
        let linear = || LinearConfig::new(WIDTH, WIDTH).init(device);
        Self {
            wq: linear(),
            wk: linear(),
            wv: linear(),
            wo: linear(),
            heads: 2,
        }
    }
}

#[test]
fn lengths_are_a_parameter_of_a_method() {
    let device = Device::flex().autodiff();
    let layer = Encoder::new(&device);
    let (x, lengths) = (random([3, 9, WIDTH], &device), [9, 4, 1]);
    let weights = |gradients: &Gradients| {
        let layers = [&layer.wq, &layer.wv, &layer.wo];
        layers.map(|layer| of_linear(layer, gradients)).concat()
    };
    let fused = run(&x, |x| layer.forward(x, &lengths), weights);
    let plain = run(&x, |x| layer.forward_reference(x, &lengths), weights);
    assert_close(fused, plain);
    assert_eq!(calls("Encoder::forward"), [1, 0]);
}

/// A body that is not the attribute's.
#[derive(Module, Debug)]
struct Unscaled {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    num_heads: usize,
}

#[fused_kernel("npu_fused_attention", part = layer, mask = none)]
impl Unscaled {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, seq, width] = x.dims();
        let heads = |projected: Tensor<3>| {
            let heads = [batch, seq, self.num_heads, width / self.num_heads];
            projected.reshape(heads).swap_dims(1, 2)
        };
        let q = heads(self.q_proj.forward(x.clone()));
        let k = heads(self.k_proj.forward(x.clone()));
        let v = heads(self.v_proj.forward(x));
        let mixed = softmax(q.matmul(k.swap_dims(2, 3)), 3).matmul(v);
        let mixed = mixed.swap_dims(1, 2).reshape([batch, seq, width]);
        self.o_proj.forward(mixed)
    }
}

fn said<T>(call: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).err();
    let panic = panic.expect("the call is refused");
    let text = panic.downcast_ref::<String>().cloned();
    text.unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap().to_string())
}

#[test]
fn a_wrong_body_is_found_at_its_first_use() {
    let device = Device::flex();
    let linear = || LinearConfig::new(WIDTH, WIDTH).init(&device);
    let layer = Unscaled {
        q_proj: linear(),
        k_proj: linear(),
        v_proj: linear(),
        o_proj: linear(),
        num_heads: 3,
    };
    let _verified = live::scope("first".parse().unwrap());
    let x = random([4, 90, WIDTH], &device) * 3.0;
    let said = said(|| layer.forward(x));
    assert!(
        said.contains("Unscaled::forward failed: the annotated body"),
        "{said}"
    );
}

#[test]
fn heads_that_do_not_fit_are_an_error() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(WIDTH, 3).with_dropout(0.0);
    let theirs: MultiHeadAttention = config.init(&device);
    let layer = |n_heads| Burns {
        query: theirs.query.clone(),
        key: theirs.key.clone(),
        value: theirs.value.clone(),
        output: theirs.output.clone(),
        n_heads,
    };
    for heads in [0, 5] {
        let layer = layer(heads);
        let said = said(|| layer.forward(random([1, 4, WIDTH], &device)));
        let expected = format!(
            "npu_fused_attention: `q` gives 24 columns, which are not {heads} heads of one width\nin `main::attention_layer::Burns::forward`"
        );
        assert!(said.starts_with(&expected), "{said}");
    }
    let said = said(|| layer(3).forward(random([WIDTH], &device)));
    assert!(said.contains("not a tensor of one axis"), "{said}");
}
