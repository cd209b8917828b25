//! Right bodies on inputs whose results cancel, in every dtype: never a false alarm.

use crate::declared::sites;
use burn::tensor::activation::{gelu, log_softmax, sigmoid, silu, softmax};
use burn::tensor::{Bool, DType, Device, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::__private::{
    self as private, At, Block, DivergenceNumbers, LinearParameters, LossNumbers, NormParameters,
    QkWeights, StackedExperts, once,
};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::adam_w;
use kernels_runtime::registry::Site;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};

sites! {
    NORM: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    SUM_NORM: "npu_fused_add_rmsnorm", SemanticsKey::AddRmsNorm(AddRmsNormKey::GEMMA);
    LAYER_NORM: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::GPT2);
    LINEAR: "npu_fused_linear", SemanticsKey::Linear(LinearKey::BURN);
    SOFTCAP: "npu_fused_softcap", SemanticsKey::Softcap(SoftcapKey {});
    CONVOLUTION: "npu_fused_causal_conv1d", SemanticsKey::CausalConv1d(CausalConv1dKey::GATED_DELTA_NET);
    DELTA_RULE: "npu_fused_gated_delta_rule", SemanticsKey::GatedDeltaRule(GatedDeltaRuleKey::GATED_DELTA_NET);
    CHANNEL_RULE: "npu_fused_gated_delta_rule", SemanticsKey::GatedDeltaRule(GatedDeltaRuleKey {
        norm: KeyNorm::None,
        ..GatedDeltaRuleKey::KIMI
    });
    SWIGLU: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GEGLU: "npu_fused_swiglu", SemanticsKey::Glu(GluKey {
        activation: Activation::Gelu,
        ..GluKey::SWIGLU
    });
    MLP: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    ROPE: "npu_fused_rope", SemanticsKey::Rope(RopeKey::LLAMA);
    QK_NORM_ROPE: "npu_fused_qk_norm_rope", SemanticsKey::QkNormRope(QkNormRopeKey::QWEN3);
    ATTENTION: "npu_fused_attention", SemanticsKey::Attention(AttentionKey::CAUSAL);
    LOSS: "npu_fused_cross_entropy", SemanticsKey::CrossEntropy(CrossEntropyKey::MEAN);
    LINEAR_LOSS: "npu_fused_linear_cross_entropy", SemanticsKey::LinearCrossEntropy(LinearCrossEntropyKey::MEAN);
    DIVERGENCE: "npu_fused_linear_divergence", SemanticsKey::LinearDivergence(LinearDivergenceKey::PLAIN);
    ADAM_W: "npu_fused_adam_w", SemanticsKey::AdamW(AdamWKey);
    EXPERTS: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
    BLOCK: "npu_fused_moe", SemanticsKey::MoeBlock(MoeBlockKey::MIXTRAL);
    ATTENTION_CUT_OFF: "npu_fused_attention", SemanticsKey::Attention(AttentionKey::CAUSAL);
    LAYER_NORM_OF_MEAN: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::GPT2);
}

/// The numbers of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Numbers {
    Ones,
    Zeros,
    Normal,
    /// Normal numbers, many times as large.
    Large,
    Tiny,
    /// One row, repeated: the same token at every position.
    Repeated,
    /// Rows of equal elements.
    ConstantRows,
    /// One token of normal numbers.
    Single,
}

use Numbers::*;

const ALL: [Numbers; 8] = [
    Ones,
    Zeros,
    Normal,
    Large,
    Tiny,
    Repeated,
    ConstantRows,
    Single,
];

const DTYPES: [FloatDType; 4] = [
    FloatDType::F32,
    FloatDType::F64,
    FloatDType::BF16,
    FloatDType::F16,
];

#[derive(Clone, Copy, Debug)]
struct Case {
    numbers: Numbers,
    dtype: FloatDType,
}

/// Returns fixed numbers, roughly normal.
fn normal(seed: usize, count: usize) -> Vec<f64> {
    let mut state = 0x9e37_79b9_u64.wrapping_mul(seed as u64 + 1);
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / (1 << 24) as f64
    };
    (0..count)
        .map(|_| (0..6).map(|_| next()).sum::<f64>() * 1.4 - 4.2)
        .collect()
}

impl Case {
    fn tokens(self) -> usize {
        match self.numbers {
            Single => 1,
            _ => 6,
        }
    }

    fn tensor<const D: usize>(self, numbers: Vec<f64>, shape: [usize; D]) -> Tensor<D> {
        let dtype: DType = self.dtype.into();
        let data = TensorData::new(numbers, shape).convert_dtype(dtype);
        Tensor::from_data(data, (&Device::flex().autodiff(), dtype)).require_grad()
    }

    /// Returns a parameter: normal numbers.
    fn parameter<const D: usize>(self, seed: usize, shape: [usize; D]) -> Tensor<D> {
        self.tensor(normal(seed, shape.iter().product()), shape)
    }

    /// Returns an input, whose last axis has the elements of a row.
    fn input<const D: usize>(self, seed: usize, shape: [usize; D]) -> Tensor<D> {
        let (count, row) = (shape.iter().product::<usize>(), shape[D - 1]);
        let random = normal(seed, count);
        let scaled = |factor: f64| random.iter().map(|x| x * factor).collect();
        let numbers = match (self.numbers, self.dtype) {
            (Ones, _) => vec![1.0; count],
            (Zeros, _) => vec![0.0; count],
            (Normal | Single, _) => random,
            // With larger or smaller numbers, squares and inverses overflow in f16.
            (Large, FloatDType::F16) => scaled(4.0),
            (Tiny, FloatDType::F16) => scaled(0.03),
            (Large, _) => scaled(1e4),
            (Tiny, _) => scaled(1e-20),
            (Repeated, _) => (0..count).map(|place| random[place % row]).collect(),
            (ConstantRows, _) => (0..count).map(|place| random[place / row]).collect(),
        };
        self.tensor(numbers, shape)
    }
}

const EPS: f64 = 1e-6;
const WIDTH: usize = 48;

fn normed<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let mean_square = x.clone().square().mean_dim(D - 1);
    x / mean_square.add_scalar(EPS).sqrt()
}

fn norm(case: Case) {
    let weight = case.parameter(1, [WIDTH]);
    let x = case.input(2, [2, case.tokens(), WIDTH]);
    let body = |x| normed(x) * weight.clone().unsqueeze();
    let read = || Some(weight.clone());
    private::rms_norm(At::new(&NORM), x, &read, EPS, None, &mut once(body));
}

fn sum_norm(case: Case) {
    let weight = case.parameter(1, [WIDTH]);
    let [x, residual] = [2, 3].map(|seed| case.input(seed, [2, case.tokens(), WIDTH]));
    // The terms of these sums cancel.
    let residual = match case.numbers {
        Repeated => residual - x.clone() * 0.998,
        _ => residual,
    };
    let body = |(x, residual)| {
        let sum: Tensor<3> = x + residual;
        let gain = weight.clone().add_scalar(1.0).unsqueeze();
        (normed(sum.clone()) * gain, sum)
    };
    let read = || Some(weight.clone());
    private::add_rms_norm(
        At::new(&SUM_NORM),
        x,
        residual,
        &read,
        EPS,
        None,
        &mut once(body),
    );
}

fn layer_norm(case: Case) {
    let [weight, bias] = [1, 2].map(|seed| case.parameter(seed, [WIDTH]));
    let x = case.input(3, [2, case.tokens(), WIDTH]);
    let body = |x: Tensor<3>| {
        let centred = x.clone() - x.mean_dim(2);
        let variance = centred.clone().square().mean_dim(2);
        let normal = centred / variance.add_scalar(1e-5).sqrt();
        normal * weight.clone().unsqueeze() + bias.clone().unsqueeze()
    };
    let parameters = NormParameters::new(&weight).bias(&bias);
    private::layer_norm(At::new(&LAYER_NORM), x, parameters, 1e-5, &mut once(body));
}

fn linear(case: Case) {
    // The columns of the weight add up to about zero.
    let half = case.parameter(1, [WIDTH / 2, 20]);
    let weight = Tensor::cat(vec![half.clone(), -half], 0)
        .detach()
        .require_grad();
    let bias = case.parameter(2, [20]);
    let x = case.input(3, [2, case.tokens(), WIDTH]);
    let body = |x: Tensor<3>| x.matmul(weight.clone().unsqueeze()) + bias.clone().unsqueeze();
    let parameters = LinearParameters::new(&weight).bias(&bias);
    private::linear(At::new(&LINEAR), x, parameters, &mut once(body));
}

/// The terms of the slope, `1 − tanh²`, cancel where the input is large.
fn softcap(case: Case) {
    let x = case.input(1, [2, case.tokens(), WIDTH]);
    let body = |x: Tensor<3>| (x * 0.5).tanh() * 2.0;
    private::softcap(At::new(&SOFTCAP), x, 2.0, &mut once(body));
}

/// The weights of a channel add up to about zero.
fn convolution(case: Case) {
    let weight = case.parameter(1, [WIDTH, 4]);
    let weight = (weight.clone() - weight.mean_dim(1))
        .detach()
        .require_grad();
    let x = case.input(2, [2, case.tokens(), WIDTH]);
    let body = |x: Tensor<3>| {
        let [batch, tokens, channels] = x.dims();
        let zeros = Tensor::zeros([batch, 3, channels], (&x.device(), x.dtype()));
        let all = Tensor::cat(vec![zeros, x], 1);
        let tap = |tap: usize| {
            let weight = weight.clone().narrow(1, tap, 1).reshape([1, 1, channels]);
            all.clone().narrow(1, tap, tokens) * weight
        };
        silu(tap(0) + tap(1) + tap(2) + tap(3))
    };
    let parameters = LinearParameters::new(&weight);
    private::causal_conv1d(At::new(&CONVOLUTION), x, parameters, None, &mut once(body));
}

/// What a key recalls may be nearly the value, and what a query reads nearly zero.
fn delta_rules(case: Case) {
    let (tokens, heads) = (case.tokens(), 2);
    let [q, k, v] = [1, 2, 3].map(|seed| case.input(seed, [1, tokens, heads, 8]));
    let wide = match case.dtype {
        FloatDType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    };
    let wide = Case {
        dtype: wide,
        ..case
    };
    let beta = sigmoid(case.parameter(4, [1, tokens, heads]))
        .detach()
        .require_grad();
    let g = (-wide.parameter(5, [1, tokens, heads]).abs())
        .detach()
        .require_grad();
    let flowing = (q.clone(), k.clone(), v.clone(), g.clone(), beta.clone());
    type Flowing = (Tensor<4>, Tensor<4>, Tensor<4>, Tensor<3>, Tensor<3>);
    let body = |(q, k, v, g, beta): Flowing| {
        let g: Tensor<4> = g.unsqueeze_dim(3);
        recurrence([unit(q), unit(k), v], g, beta)
    };
    private::gated_delta_rule(At::new(&DELTA_RULE), flowing, None, None, &mut once(body));
    // Without a norm, large keys let states grow beyond all numbers.
    if matches!(
        case.numbers,
        Large | Normal | Single | Repeated | ConstantRows | Ones
    ) {
        return;
    }
    let g = (-wide.parameter(6, [1, tokens, heads, 8]).abs())
        .detach()
        .require_grad();
    type Channels = (Tensor<4>, Tensor<4>, Tensor<4>, Tensor<4>, Tensor<3>);
    let body = |(q, k, v, g, beta): Channels| recurrence([wide_of(q), wide_of(k), v], g, beta);
    let flowing = (q, k, v, g, beta);
    private::gated_delta_rule(At::new(&CHANNEL_RULE), flowing, None, None, &mut once(body));
}

/// Returns the tensor in f32 (f64 for f64), as models compute the rule.
fn wide_of<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match x.dtype() {
        DType::F64 => x,
        _ => x.cast(FloatDType::F32),
    }
}

fn unit(x: Tensor<4>) -> Tensor<4> {
    let x = wide_of(x);
    x.clone() / x.square().sum_dim(3).add_scalar(1e-6).sqrt()
}

/// The rule token by token, from queries and keys in the dtype of the computation.
fn recurrence([q, k, v]: [Tensor<4>; 3], g: Tensor<4>, beta: Tensor<3>) -> (Tensor<4>, Tensor<4>) {
    let dtype = FloatDType::from(v.dtype());
    let (v, beta) = (wide_of(v), wide_of(beta));
    let [batch, tokens, heads, width] = v.dims();
    let [.., keys] = k.dims();
    let q = q * (keys as f64).powf(-0.5);
    let mut state = Tensor::zeros([batch, heads, keys, width], (&v.device(), v.dtype()));
    let mut all = Vec::new();
    for token in 0..tokens {
        let of = |x: &Tensor<4>| x.clone().narrow(1, token, 1).swap_dims(1, 2);
        let key = of(&k).swap_dims(2, 3);
        let beta: Tensor<4> = beta
            .clone()
            .narrow(1, token, 1)
            .swap_dims(1, 2)
            .unsqueeze_dim(3);
        state = state * of(&g).swap_dims(2, 3).exp();
        let recalled = (state.clone() * key.clone()).sum_dim(2);
        state = state + key * ((of(&v) - recalled) * beta);
        all.push((state.clone() * of(&q).swap_dims(2, 3)).sum_dim(2));
    }
    (Tensor::cat(all, 2).swap_dims(1, 2).cast(dtype), state)
}

fn glu(case: Case) {
    let [gate, up] = [1, 2].map(|seed| case.input(seed, [2, case.tokens(), WIDTH]));
    let call = |site, gate, up, activation: fn(Tensor<3>) -> Tensor<3>| {
        private::glu(At::new(site), gate, up, None, None, &mut |(gate, up)| {
            activation(gate) * up
        })
    };
    call(&SWIGLU, gate.clone(), up.clone(), silu);
    call(&GEGLU, gate.clone(), up.clone(), gelu);
    // Far below zero, GELU is the difference of numbers that are nearly equal.
    let shape = gate.dims();
    let below = case.tensor(vec![-3.0; shape.iter().product()], shape);
    call(&GEGLU, below, up, |x| {
        let error_function = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf();
        x * 0.5 * (error_function + 1.0)
    });
}

fn mlp(case: Case) {
    let [gate, up] = [1, 2].map(|seed| case.parameter(seed, [WIDTH, 20]));
    let down = case.parameter(3, [20, WIDTH]);
    let project = |x: Tensor<2>| (x.clone().matmul(gate.clone()), x.matmul(up.clone()));
    let out = |hidden: Tensor<2>| hidden.matmul(down.clone());
    private::glu_mlp(
        At::new(&MLP),
        case.input(4, [case.tokens(), WIDTH]),
        &project,
        &out,
        None,
        None,
        &mut |x| {
            let (gate, up) = project(x);
            out(gate.clone() * sigmoid(gate) * up)
        },
    );
}

fn tables(case: Case) -> [Tensor<3>; 2] {
    let angles = (0..case.tokens()).flat_map(|place| {
        (0..8).map(move |pair| place as f64 * 10.0_f64.powf(-f64::from(pair % 4)))
    });
    let angles: Vec<f64> = angles.collect();
    let of = |function: fn(f64) -> f64| {
        let numbers = angles.iter().map(|angle| function(*angle)).collect();
        case.tensor(numbers, [1, case.tokens(), 8]).detach()
    };
    [of(f64::cos), of(f64::sin)]
}

fn turned(x: Tensor<4>, [cos, sin]: &[Tensor<3>; 2]) -> Tensor<4> {
    let halves = x.clone().chunk(2, 3);
    let quarter_turn = Tensor::cat(vec![halves[1].clone().neg(), halves[0].clone()], 3);
    x * cos.clone().unsqueeze_dim(1) + quarter_turn * sin.clone().unsqueeze_dim(1)
}

fn rope(case: Case) {
    let tables = tables(case);
    let [q, k] = [1, 2].map(|seed| case.input(seed, [2, 3, case.tokens(), 8]));
    let [cos, sin] = &tables;
    private::rope(At::new(&ROPE), q, k, cos, sin, &mut |(q, k)| {
        (turned(q, &tables), turned(k, &tables))
    });
}

fn qk_norm_rope(case: Case) {
    let tables = tables(case);
    let [q, k] = [1, 2].map(|seed| case.input(seed, [2, case.tokens(), 3, 8]));
    let [of_q, of_k] = [3, 4].map(|seed| case.parameter(seed, [8]));
    let (read_q, read_k) = (|| Some(of_q.clone()), || Some(of_k.clone()));
    private::qk_norm_rope(
        At::new(&QK_NORM_ROPE),
        (q, k),
        QkWeights::queries_first(&read_q, &read_k),
        (&tables[0], &tables[1]),
        Some(EPS),
        &mut |(q, k)| {
            let prepare = |x: Tensor<4>, weight: &Tensor<1>| {
                let x = normed(x) * weight.clone().unsqueeze();
                turned(x.swap_dims(1, 2), &tables)
            };
            (prepare(q, &of_q), prepare(k, &of_k))
        },
    );
}

type Heads = (Tensor<4>, Tensor<4>, Tensor<4>);

fn scores(q: Tensor<4>, k: Tensor<4>) -> Tensor<4> {
    let [.., tokens, width] = q.dims();
    let future = Tensor::<2, Bool>::tril_mask([tokens, tokens], 0, &q.device());
    let scores = q.matmul(k.swap_dims(2, 3)) / (width as f64).sqrt();
    scores.mask_fill(future.unsqueeze::<4>(), f32::NEG_INFINITY)
}

fn attend(case: Case, site: &'static Site, body: impl FnOnce(Heads) -> Tensor<4>) {
    let heads = [1, 2, 3].map(|seed| case.input(seed, [2, 4, case.tokens(), 16]));
    let settings = private::AttentionSettings::default();
    private::attention(
        At::new(site),
        heads,
        &|| None,
        None,
        settings,
        &mut once(body),
    );
}

fn attention(case: Case) {
    attend(case, &ATTENTION, |(q, k, v)| {
        softmax(scores(q, k), 3).matmul(v)
    });
}

fn targets(case: Case) -> Tensor<1, Int> {
    let numbers: Vec<i64> = (0..case.tokens() as i64).map(|token| token % 5).collect();
    Tensor::from_data(TensorData::new(numbers, [case.tokens()]), &Device::flex())
}

/// Returns the mean loss, in the dtype of losses.
fn loss_of(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let dtype = match logits.dtype() {
        DType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    };
    let places = targets.unsqueeze_dim::<2>(1);
    let chosen: Tensor<2> = log_softmax(logits, 1).gather(1, places);
    chosen.cast(dtype).mean().neg()
}

fn losses(case: Case) {
    for classes in [1, 11] {
        let targets = targets(case).remainder_scalar(classes as i64);
        private::cross_entropy(
            At::new(&LOSS),
            case.input(1, [case.tokens(), classes]),
            targets.clone(),
            LossNumbers::default(),
            &mut |(logits, targets)| loss_of(logits, targets),
        );
        let hidden = case.input(1, [case.tokens(), WIDTH]);
        let weight = case.parameter(2, [classes, WIDTH]);
        private::linear_cross_entropy(
            At::new(&LINEAR_LOSS),
            (hidden, weight, targets),
            LossNumbers::default(),
            &mut |(hidden, weight, targets)| loss_of(hidden.matmul(weight.transpose()), targets),
        );
    }
}

/// A student that is its teacher, and one that is not.
fn divergences(case: Case) {
    let wide = match case.dtype {
        FloatDType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    };
    for (mixture, seed) in [(0.0, 2), (1.0, 2), (0.0, 3), (1.0, 3)] {
        let hidden = case.input(1, [case.tokens(), WIDTH]);
        let weight = case.parameter(2, [WIDTH, 11]);
        let teacher = case.parameter(seed, [WIDTH, 11]).detach();
        let factors = Tensor::<1>::ones([case.tokens()], &Device::flex()).cast(wide);
        let numbers = DivergenceNumbers {
            mixture,
            temperature: None,
            cap: None,
            teacher_cap: None,
        };
        type Flowing = (Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>, Tensor<1>);
        private::linear_divergence(
            At::new(&DIVERGENCE),
            (hidden.clone(), weight, hidden.detach(), teacher, factors),
            numbers,
            &mut |(hidden, weight, teacher, teacher_weight, factors): Flowing| {
                let log_probs = |hidden: Tensor<2>, weight: Tensor<2>| {
                    log_softmax(hidden.cast(wide).matmul(weight.cast(wide)), 1)
                };
                let student = log_probs(hidden, weight);
                let teacher = log_probs(teacher, teacher_weight).detach();
                let terms = match mixture == 0.0 {
                    true => teacher.clone().exp() * (teacher - student),
                    false => student.clone().exp() * (student - teacher),
                };
                (terms.sum_dim(1).squeeze_dim::<1>(1) * factors).sum()
            },
        );
    }
}

fn adam_w(case: Case) {
    let settings = adam_w::Settings {
        learning_rate: 1e-2,
        beta_1: 0.9,
        beta_2: 0.99,
        epsilon: 1e-8,
        weight_decay: 0.1,
        step: 3,
    };
    let input = |seed| case.input(seed, [case.tokens(), WIDTH]).inner();
    let gradient = input(1);
    // The new first moment is the difference of numbers that are nearly equal.
    let moments = [input(1) * -0.111, input(1).square() * 0.02];
    private::adam_w(
        At::new(&ADAM_W),
        input(2),
        gradient,
        Some(moments),
        settings,
        |parameter, gradient, moments| {
            let own = FloatDType::from(parameter.dtype());
            // The square of a small number is zero in f16.
            let dtype = match own {
                FloatDType::F16 => FloatDType::F32,
                other => other,
            };
            let [parameter, gradient] = [parameter, gradient].map(|x| x.cast(dtype));
            let [moment_1, moment_2] = moments.expect("moments").map(|x| x.cast(dtype));
            let moment_1 = moment_1 * 0.9 + gradient.clone() * 0.1;
            let moment_2 = moment_2 * 0.99 + gradient.square() * 0.01;
            let root = (moment_2.clone() / (1.0 - 0.99_f64.powi(3))).sqrt();
            let update = moment_1.clone() / (1.0 - 0.9_f64.powi(3)) / (root + 1e-8);
            let parameter = parameter.clone() - parameter * (1e-2 * 0.1) - update * 1e-2;
            adam_w::State {
                parameter: parameter.cast(own),
                moment_1: moment_1.cast(own),
                moment_2: moment_2.cast(own),
            }
        },
    );
}

/// Computes four experts.
fn each_expert(
    (x, indices, routing): (Tensor<2>, Tensor<2, Int>, Tensor<2>),
    gate_up: &Tensor<3>,
    down: &Tensor<3>,
) -> Tensor<2> {
    let one = |all: &Tensor<3>, e: usize| all.clone().narrow(0, e, 1).squeeze_dim::<2>(0);
    let dtype = FloatDType::from(x.dtype());
    let each = (0..4).map(|e| {
        let parts = x.clone().matmul(one(gate_up, e)).chunk(2, 1);
        let hidden = silu(parts[0].clone()) * parts[1].clone();
        let chosen = indices.clone().equal_elem(e as i64).float().cast(dtype);
        let share = (routing.clone() * chosen).sum_dim(1);
        hidden.matmul(one(down, e)) * share
    });
    each.reduce(|sum, part| sum + part).expect("experts")
}

fn experts(case: Case) {
    let (gate_up, down) = (
        case.parameter(1, [4, 12, 20]),
        case.parameter(2, [4, 10, 12]),
    );
    let x = case.input(3, [case.tokens(), 12]);
    let count = case.tokens() as i64;
    let indices: Vec<i64> = (0..count)
        .flat_map(|token| [token % 4, (token + 1) % 4])
        .collect();
    let indices = TensorData::new(indices, [case.tokens(), 2]);
    private::experts(
        At::new(&EXPERTS),
        x,
        Tensor::from_data(indices, &Device::flex().autodiff()),
        case.parameter(4, [case.tokens(), 2]),
        StackedExperts::packed(&gate_up, &down),
        None,
        &mut once(|flowing| each_expert(flowing, &gate_up, &down)),
    );
}

fn block(case: Case) {
    let gate = case.parameter(1, [12, 8]);
    let project = |x: Tensor<2>| x.matmul(gate.clone());
    let own = case.dtype;
    let experts = |x: Tensor<2>, indices: Tensor<2, Int>, weights: Tensor<2>| {
        let weights = weights.cast(own);
        x * ((indices.float().cast(own) + 1.0) * weights).sum_dim(1)
    };
    for top_k in [1, 3] {
        let block = Block::new(&project, &experts, top_k);
        let x = case.input(2, [case.tokens(), 12]);
        // The scores are in the dtype of the tokens.
        private::block(At::new(&BLOCK), x, block, &mut |x: Tensor<2>| {
            let logits = project(x.clone());
            let scores = softmax(logits.clone(), 1);
            let (best, indices) = scores.topk_with_indices(top_k, 1);
            let weights = best.clone() / best.sum_dim(1);
            (experts(x, indices, weights), logits)
        });
    }
}

type Call = (&'static str, fn(Case));

const CALLS: [Call; 18] = [
    ("norm", norm),
    ("sum_norm", sum_norm),
    ("layer_norm", layer_norm),
    ("linear", linear),
    ("softcap", softcap),
    ("convolution", convolution),
    ("delta rules", delta_rules),
    ("glu", glu),
    ("mlp", mlp),
    ("rope", rope),
    ("qk_norm_rope", qk_norm_rope),
    ("attention", attention),
    ("losses", losses),
    ("divergences", divergences),
    ("adam_w", adam_w),
    ("experts", experts),
    ("block", block),
    ("single element", |case| {
        let x = case.input(1, [case.tokens(), 1]);
        let weight = case.parameter(2, [1]);
        let body = |x| normed(x) * weight.clone().unsqueeze();
        let read = || Some(weight.clone());
        private::rms_norm(At::new(&NORM), x, &read, EPS, None, &mut once(body));
    }),
];

#[test]
fn right_bodies_are_no_mistake_though_their_results_cancel() {
    let _every = live::scope(Sampling::every(NonZeroU32::MIN));
    let mut alarms = Vec::new();
    for dtype in DTYPES {
        for numbers in ALL {
            for (name, call) in CALLS {
                let case = Case { numbers, dtype };
                let panic = catch_unwind(AssertUnwindSafe(|| call(case))).err();
                if let Some(panic) = panic {
                    let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    alarms.push(format!("{name} of {case:?}: {said}"));
                }
            }
        }
    }
    let count = alarms.len();
    assert!(alarms.is_empty(), "{count}: {}", alarms.join("\n"));
    let rows = live::report().rows.into_iter();
    for row in rows.filter(|row| row.site.contains("cancelling")) {
        assert!(row.checked > 0 && row.skipped == 0, "{row:?}");
    }
}

/// Returns the message of a call's check.
fn refusal(call: impl FnOnce()) -> String {
    let _every = live::scope(Sampling::every(NonZeroU32::MIN));
    let panic = catch_unwind(AssertUnwindSafe(call)).err();
    let panic = panic.expect("the check fails");
    *panic.downcast::<String>().expect("a message")
}

#[test]
fn mistakes_are_larger_than_the_roundings_of_terms_that_cancel() {
    for dtype in DTYPES {
        let numbers = Ones;
        // A gradient that does not cancel, in place of one that does.
        let said = refusal(|| {
            attend(Case { numbers, dtype }, &ATTENTION_CUT_OFF, |(q, k, v)| {
                let powers = scores(q, k).exp();
                let sum = powers.clone().sum_dim(3).detach();
                (powers / sum).matmul(v)
            });
        });
        assert!(said.contains("the annotated body: d_q"), "{said}");
    }
    for dtype in [FloatDType::F32, FloatDType::F64] {
        let numbers = ConstantRows;
        let case = Case { numbers, dtype };
        let [weight, bias] = [1, 2].map(|seed| case.parameter(seed, [WIDTH]));
        let parameters = NormParameters::new(&weight).bias(&bias);
        let body = |x| normed(x) * weight.clone().unsqueeze() + bias.clone().unsqueeze();
        let x: Tensor<2> = case.input(3, [case.tokens(), WIDTH]);
        let said = refusal(|| {
            let at = At::new(&LAYER_NORM_OF_MEAN);
            private::layer_norm(at, x, parameters, 1e-5, &mut once(body));
        });
        assert!(said.contains("the annotated body: y"), "{said}");
    }
}
