//! A language model of one layer: trained on a few words, then continued with a cache of keys and values.

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, LinearConfig, RotaryEncodingConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::{CrossEntropyLoss, KvCache, Linear, RmsNorm, RotaryEncoding};
use burn_kernels::optim::InitFused;
use burn_kernels::semantics::HeadLayout;

const WIDTH: usize = 64;
const HEADS: usize = 4;
const TEXT: &str = "the cache keeps keys and values, so that a step reads each weight once. ";
const LONGEST: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let device = Device::flex().autodiff();
    device.seed(7);
    let model = trained(Model::new(&device), &device);

    // Without autodiff, a cache is written in place.
    let model = model.valid();
    let device = Device::flex();
    let prompt = tokens(&TEXT[..8], &device);
    let cached = continued(&model, prompt.clone(), 64)?;
    println!("{}{cached}", &TEXT[..8]);
    assert_eq!(
        cached,
        recomputed(&model, prompt, 64),
        "the cache changes nothing"
    );
    println!("{}", burn_kernels::report::report());
    Ok(())
}

/// Returns the causal attention of queries `[b, heads, s, d]` to keys and values of the same and earlier positions.
#[fused_kernel("npu_fused_attention")]
fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let [_, _, queries, width] = q.dims();
    let keys = k.dims()[2];
    let scores = q.matmul(k.swap_dims(2, 3)) * (width as f64).powf(-0.5);
    // The last query is at the last key.
    let later = keys as i64 - queries as i64;
    let later = Tensor::<2, Bool>::tril_mask([queries, keys], later, &scores.device());
    softmax(scores.mask_fill(later.unsqueeze(), f32::NEG_INFINITY), 3).matmul(v)
}

#[derive(Module, Debug)]
struct Model {
    embedding: Embedding,
    norm: RmsNorm,
    qkv: Linear,
    rotary: RotaryEncoding,
    output: Linear,
    last_norm: RmsNorm,
    head: Linear,
}

impl Model {
    fn new(device: &Device) -> Self {
        let linear = |inputs, outputs| {
            LinearConfig::new(inputs, outputs)
                .with_bias(false)
                .init(device)
                .into()
        };
        let norm = || burn::nn::RmsNormConfig::new(WIDTH).init(device).into();
        Self {
            embedding: EmbeddingConfig::new(128, WIDTH).init(device),
            norm: norm(),
            qkv: linear(WIDTH, 3 * WIDTH),
            rotary: RotaryEncodingConfig::new(LONGEST, WIDTH / HEADS)
                .init(device)
                .into(),
            output: linear(WIDTH, WIDTH),
            last_norm: norm(),
            head: linear(WIDTH, 128),
        }
    }

    /// Returns the logits `[b, s, 128]` of tokens `[b, s]`, the first of them at the position `start`. `keep` keeps keys
    /// and values, and returns those that the tokens see.
    fn forward<E>(
        &self,
        tokens: Tensor<2, Int>,
        start: usize,
        keep: impl FnOnce(Tensor<4>, Tensor<4>) -> Result<(Tensor<4>, Tensor<4>), E>,
    ) -> Result<Tensor<3>, E> {
        let [batch, seq] = tokens.dims();
        let x = self.embedding.forward(tokens);
        let heads = self.qkv.forward(self.norm.forward(x.clone()));
        let heads = heads
            .reshape([batch, seq, 3 * HEADS, WIDTH / HEADS])
            .swap_dims(1, 2);
        let [q, k, v] = heads.chunk(3, 1).try_into().expect("three of three");
        let (q, k) = self.rotary.apply(q, k, start);
        let (k, v) = keep(k, v)?;
        let mixed = attend(q, k, v).swap_dims(1, 2).reshape([batch, seq, WIDTH]);
        let x = x + self.output.forward(mixed);
        Ok(self.head.forward(self.last_norm.forward(x)))
    }

    /// Returns the logits of whole sequences.
    fn logits(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let all = |k, v| Ok::<_, std::convert::Infallible>((k, v));
        let Ok(logits) = self.forward(tokens, 0, all);
        logits
    }
}

fn trained(mut model: Model, device: &Device) -> Model {
    let mut optimiser = AdamWConfig::new().init_fused();
    let loss_of =
        CrossEntropyLoss::from(burn::nn::loss::CrossEntropyLossConfig::new().init(device));
    let text = tokens(&TEXT.repeat(3), device);
    let [_, length] = text.dims();
    for step in 0..150 {
        let logits = model.logits(text.clone().narrow(1, 0, length - 1));
        let targets = text.clone().narrow(1, 1, length - 1).reshape([length - 1]);
        let loss = loss_of.forward(logits.reshape([length - 1, 128]), targets);
        if step % 50 == 0 {
            println!("step {step}: loss {:.4}", loss.clone().into_scalar::<f32>());
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(1e-2, model, gradients);
    }
    model
}

/// Continues a prompt by the likeliest tokens. Each step after the first computes one token.
fn continued(
    model: &Model,
    prompt: Tensor<2, Int>,
    count: usize,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut cache = KvCache::new(HeadLayout::Bnsd).with_limit(LONGEST);
    let (mut next, mut text) = (prompt, String::new());
    for _ in 0..count {
        let start = cache.positions();
        let logits = model.forward(next, start, |k, v| cache.append(k, v))?;
        next = likeliest(logits);
        text.push(character(&next));
    }
    Ok(text)
}

/// Continues a prompt without a cache: each step computes all tokens.
fn recomputed(model: &Model, prompt: Tensor<2, Int>, count: usize) -> String {
    let (mut all, mut text) = (prompt, String::new());
    for _ in 0..count {
        let next = likeliest(model.logits(all.clone()));
        text.push(character(&next));
        all = Tensor::cat(vec![all, next], 1);
    }
    text
}

/// Returns the likeliest next token `[1, 1]`.
fn likeliest(logits: Tensor<3>) -> Tensor<2, Int> {
    let [_, seq, _] = logits.dims();
    logits.narrow(1, seq - 1, 1).argmax(2).squeeze_dim(2)
}

fn character(token: &Tensor<2, Int>) -> char {
    let code: i64 = token.clone().into_scalar();
    u8::try_from(code).map_or('?', char::from)
}

/// Returns the bytes of a text as tokens, `[1, length]`.
fn tokens(text: &str, device: &Device) -> Tensor<2, Int> {
    let bytes: Vec<i64> = text.bytes().map(i64::from).collect();
    Tensor::<1, Int>::from_data(bytes.as_slice(), device).unsqueeze()
}
