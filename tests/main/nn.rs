//! Compares Burn's own layers with their counterparts here: results and gradients.

mod attention;

use crate::comparison::relative;
use burn::module::{Lora, Module, ModuleMapper, Param, Quantizer, Reparameterizer};
use burn::nn::attention::MultiHeadAttentionConfig;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{LayerNormConfig, LinearConfig, RmsNormConfig, RotaryEncodingConfig, SwiGluConfig};
use burn::tensor::quantization::{Calibration, QuantScheme};
use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor};
use burn_kernels::nn::{
    CrossEntropyLoss, LayerNorm, Linear, LowRank, MhaInput, MultiHeadAttention, RmsNorm,
    RotaryEncoding, SwiGlu,
};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::report::report;

/// Returns the largest difference, relative to the largest element.
fn difference<const D: usize>(ours: Tensor<D>, theirs: Tensor<D>) -> f32 {
    assert_eq!(ours.dims(), theirs.dims());
    let [ours, theirs] = [ours, theirs].map(|tensor| {
        let numbers = tensor.into_data();
        numbers.iter::<f64>().collect::<Vec<_>>()
    });
    relative(&ours, &theirs) as f32
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// The tolerance of f32 results of at most a few dozen roundings.
const CLOSE: f32 = 2e-6;

#[test]
fn rms_norm_is_burns() {
    let device = Device::flex().autodiff();
    let theirs = RmsNormConfig::new(24).init(&device);
    let ours = RmsNorm::from(theirs.clone());
    let (x, dy) = (random([3, 5, 24], &device), random([3, 5, 24], &device));
    let run = |f: &dyn Fn(Tensor<3>) -> Tensor<3>, gamma: &Tensor<1>| {
        let x = x.clone().require_grad();
        let y = f(x.clone());
        let grads = (y.clone() * dy.clone()).sum().backward();
        let dx = x.grad(&grads).expect("x is tracked");
        let dg = gamma.grad(&grads).expect("the weight is tracked");
        (y.inner(), dx, dg)
    };
    let (y, dx, dg) = run(&|x| ours.forward(x), &ours.gamma.val());
    let (y2, dx2, dg2) = run(&|x| theirs.forward(x), &theirs.gamma.val());
    assert!(difference(y, y2) < CLOSE);
    assert!(difference(dx, dx2) < CLOSE);
    assert!(difference(dg, dg2) < CLOSE);
}

/// Burn's product of an empty batch may end the program. Neither a layer nor its check calls it.
#[test]
fn an_empty_batch_has_an_empty_result() {
    let device = Device::flex().autodiff();
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        for bias in [true, false] {
            let linear = LinearConfig::new(80, 96).with_bias(bias).init(&device);
            let layer = Linear::from(linear);
            let x = random([0, 50, 80], &device).require_grad();
            let y = layer.forward(x.clone());
            assert_eq!(y.dims(), [0, 50, 96]);
            let grads = y.sum().backward();
            assert_eq!(x.grad(&grads).expect("x is tracked").dims(), [0, 50, 80]);
            let d_weight = layer.weight.val().grad(&grads).expect("so is the weight");
            assert_eq!(d_weight.abs().sum().into_scalar::<f32>(), 0.0);
        }
        let unit = SwiGlu::from(SwiGluConfig::new(80, 96).init(&device));
        assert_eq!(
            unit.forward(random([0, 50, 80], &device)).dims(),
            [0, 50, 96]
        );
        let theirs = MultiHeadAttentionConfig::new(80, 4).with_dropout(0.0);
        let attention = MultiHeadAttention::from(theirs.init(&device));
        let x = random([0, 50, 80], &device);
        let y = attention.forward(MhaInput::self_attn(x));
        assert_eq!(y.dims(), [0, 50, 80]);
        let (query, none) = (random([2, 3, 80], &device), random([2, 0, 80], &device));
        let y = attention.forward(MhaInput::new(query, none.clone(), none));
        assert_eq!(y.dims(), [2, 3, 80]);
    }
}

/// Losses of every configuration. Those that the kernel does not compute run Burn's own operations.
#[test]
fn cross_entropy_is_burns() {
    let device = Device::flex().autodiff();
    let logits = random::<2>([6, 9], &device) * 2.0;
    let targets = || Tensor::<1, Int>::from_ints([0, 8, 3, 3, 5, 1], &device.clone().inner());
    let plain = CrossEntropyLossConfig::new();
    for config in [
        plain.clone(),
        plain.clone().with_smoothing(Some(0.1)),
        plain.clone().with_pad_tokens(Some(vec![3])),
        plain
            .clone()
            .with_pad_tokens(Some(vec![3]))
            .with_smoothing(Some(0.2)),
        plain.clone().with_pad_tokens(Some(vec![3, 5])),
        plain.with_weights(Some(vec![0.5; 9])),
    ] {
        let theirs = config.init(&device.clone().inner());
        let ours = CrossEntropyLoss::from(theirs.clone());
        let run = |loss: &dyn Fn(Tensor<2>) -> Tensor<1>, dtype| {
            let logits = logits.clone().cast(dtype).detach().require_grad();
            let loss = loss(logits.clone());
            assert_eq!(loss.dtype(), logits.dtype());
            let grads = loss.backward();
            let d_logits = logits.grad(&grads).expect("the logits are tracked");
            [loss.inner().unsqueeze::<2>(), d_logits].map(|tensor| tensor.cast(FloatDType::F32))
        };
        // Burn's loss takes no half types with padding or smoothing, and the kernel computes them in f32.
        let is_fused = config.weights.is_none() && config.pad_tokens.iter().flatten().count() < 2;
        for (dtype, close) in [(FloatDType::F32, CLOSE), (FloatDType::BF16, 0.04)] {
            if dtype == FloatDType::BF16 && !is_fused {
                continue;
            }
            let expected = run(&|logits| theirs.forward(logits, targets()), FloatDType::F32);
            for policy in [Policy::auto(), Policy::reference()] {
                let _policy = scope(policy);
                let got = run(&|logits| ours.forward(logits, targets()), dtype);
                for (got, expected) in got.into_iter().zip(expected.clone()) {
                    assert!(difference(got, expected) < close, "{config}, {dtype:?}");
                }
            }
        }
    }
}

/// Returns a layer's result for `x`, and the gradients of `x`, the weight and the bias, if they are tracked.
fn of_linear(
    layer: impl Fn(Tensor<3>) -> Tensor<3>,
    [weight, bias]: [Option<Tensor<2>>; 2],
    x: &Tensor<3>,
) -> (Tensor<3>, Tensor<3>, [Option<Tensor<2>>; 2]) {
    let x = x.clone().detach().require_grad();
    let y = layer(x.clone());
    let grads = y.clone().square().sum().backward();
    let dx = x.grad(&grads).expect("x is tracked");
    let of = |tensor: Option<Tensor<2>>| tensor.and_then(|tensor| tensor.grad(&grads));
    (y.inner(), dx, [of(weight), of(bias)])
}

#[test]
fn linear_is_burns() {
    let device = Device::flex().autodiff();
    for bias in [true, false] {
        let theirs = LinearConfig::new(24, 40).with_bias(bias).init(&device);
        let ours = Linear::from(theirs.clone());
        assert_eq!(ours.num_params(), theirs.num_params());
        for rows in [1, 6] {
            let x = random([2, rows, 24], &device);
            let run = |layer: &dyn Fn(Tensor<3>) -> Tensor<3>| {
                let weight = Some(theirs.weight.val());
                of_linear(layer, [weight, None], &x)
            };
            let expected = run(&|x| theirs.forward(x));
            for policy in [Policy::auto(), Policy::reference()] {
                let _policy = scope(policy);
                let (y, dx, [dw, _]) = run(&|x| ours.forward(x));
                assert!(difference(y, expected.0.clone()) < CLOSE);
                assert!(difference(dx, expected.1.clone()) < CLOSE);
                let theirs = expected.2[0].clone().expect("the weight is tracked");
                assert!(difference(dw.expect("the weight is tracked"), theirs) < CLOSE);
            }
        }
    }
}

/// Adapters and quantised weights of Burn's layer work here as there.
#[test]
fn adapted_and_quantised_weights_are_burns() {
    let device = Device::flex();
    let plain = LinearConfig::new(32, 32).init(&device);
    let x: Tensor<3> = random([2, 6, 32], &device);
    let adapted = plain.clone().apply_lora(Lora::new(2, 4.0));
    let mut quantiser = Quantizer::new(Calibration::MinMax, QuantScheme::default());
    let quantised = plain.quantize_weights(&mut quantiser);
    for theirs in [adapted, quantised] {
        let ours = Linear::from(theirs.clone());
        let found = ours.forward(x.clone());
        assert!(difference(found, theirs.forward(x.clone())) < CLOSE);
    }
    let adapted = Linear::from(LinearConfig::new(8, 8).init(&device)).apply_lora(Lora::new(2, 4.0));
    assert!(adapted.weight.adapter().is_some());
}

/// Compares results and the gradients of an adapter with those of Burn, which adds the adapter to the weight.
#[test]
fn an_adapter_is_burns() {
    let device = Device::flex().autodiff();
    for bias in [true, false] {
        let plain = LinearConfig::new(24, 40).with_bias(bias).init(&device);
        // A fresh adapter adds nothing: one of its factors is zero.
        let theirs = plain.apply_lora(Lora::new(3, 6.0)).map(&mut Moved);
        let ours = Linear::from(theirs.clone());
        let (x, dy) = (random([2, 7, 24], &device), random([2, 7, 40], &device));
        let run = |forward: &dyn Fn(Tensor<3>) -> Tensor<3>, weight: &Param<Tensor<2>>| {
            let x = x.clone().require_grad();
            let y = forward(x.clone());
            let grads = (y.clone() * dy.clone()).sum().backward();
            let adapter = weight.adapter().expect("it was attached");
            let of = |factor: &Param<Tensor<2>>| factor.val().grad(&grads).expect("it is trained");
            let dx = x.grad(&grads).expect("x is tracked");
            assert!(weight.base().grad(&grads).is_none(), "the base is frozen");
            (y.inner(), dx, [of(&adapter.a), of(&adapter.b)])
        };
        let (y, dx, factors) = run(&|x| ours.forward(x), &ours.weight);
        let (y2, dx2, factors2) = run(&|x| theirs.forward(x), &theirs.weight);
        assert!(difference(y, y2) < CLOSE);
        assert!(difference(dx, dx2) < CLOSE);
        for (ours, theirs) in factors.into_iter().zip(factors2) {
            assert!(difference(ours, theirs) < CLOSE);
        }
    }
}

/// Moves every trained parameter at random.
struct Moved;

impl ModuleMapper for Moved {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let tensor = param.val();
        if !tensor.is_require_grad() {
            return param;
        }
        let moved = tensor.clone() + tensor.random_like(Distribution::Normal(0.0, 1.0));
        Param::initialized(param.id, moved.detach().require_grad())
    }
}

/// Attaches an adapter with dropout to a weight.
struct Dropping(f64);

impl Reparameterizer for Dropping {
    type Reparam = LowRank;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LowRank>) {
        let device = param.base().device();
        let adapter = (D == 2).then(|| LowRank {
            a: Param::from_tensor(random([32, 2], &device)),
            b: Param::from_tensor(random([2, 24], &device)),
            scale: 0.5,
            dropout: self.0,
        });
        (param.set_require_grad(false), adapter)
    }
}

/// Results and gradients are those of the composed weight, as Burn computes it.
#[test]
fn adapters_have_the_gradients_of_the_composed_weight() {
    let device = Device::flex().autodiff();
    let plain = LinearConfig::new(32, 24).init(&device);
    let theirs = plain.apply_reparameterization(Dropping(0.0));
    let ours = Linear::from(theirs.clone());
    let adapter = theirs.weight.reparameterization::<LowRank>().unwrap();
    let x: Tensor<3> = random([2, 6, 32], &device);
    let run = |layer: &dyn Fn(Tensor<3>) -> Tensor<3>| {
        let x = x.clone().detach().require_grad();
        let y = layer(x.clone());
        let grads = y.clone().square().sum().backward();
        let of = |param: &Param<Tensor<2>>| param.val().grad(&grads).expect("it is trained");
        let dx = x.grad(&grads).expect("x is tracked");
        assert!(theirs.weight.base().grad(&grads).is_none(), "it is frozen");
        (y.inner(), dx, [of(&adapter.a), of(&adapter.b)])
    };
    let expected = run(&|x| theirs.forward(x));
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        let found = run(&|x| ours.forward(x));
        assert!(difference(found.0, expected.0.clone()) < CLOSE);
        // The sums have other orders, and more terms.
        assert!(difference(found.1, expected.1.clone()) < 5.0 * CLOSE);
        for (found, expected) in found.2.into_iter().zip(expected.2.clone()) {
            assert!(difference(found, expected) < 5.0 * CLOSE);
        }
    }
}

/// Dropout leaves out inputs of the adapter alone, in training alone, and keeps its mean.
#[test]
fn dropout_of_an_adapter_is_for_training() {
    let device = Device::flex().autodiff();
    device.seed(3);
    let layer = Linear::from(LinearConfig::new(32, 24).init(&device));
    let base = layer.clone();
    let dropping = layer.apply_reparameterization(Dropping(0.5));
    let x: Tensor<2> = random([1, 32], &device);
    let whole = dropping.clone().valid().forward(x.clone().inner());
    let again = dropping.clone().valid().forward(x.clone().inner());
    assert_eq!(difference(again, whole.clone()), 0.0);
    let one = dropping.forward(x.clone()).inner();
    assert!(difference(one, dropping.forward(x.clone()).inner()) > 0.01);
    // 4,096 equal rows, each with inputs of its own left out.
    let rows = x.clone().expand([4096, 32]);
    let mean = dropping.forward(rows.clone()).inner().mean_dim(0);
    let effect = (whole.clone() - base.forward(x).inner())
        .abs()
        .max()
        .into_scalar::<f32>();
    let error = (mean - whole).abs().max().into_scalar::<f32>();
    assert!(error < 0.1 * effect, "{error} of {effect}");
}

/// Gives both layers the same parameters.
fn with_parameters(
    mut theirs: burn::nn::LayerNorm,
    mut ours: LayerNorm,
    vector: impl Fn() -> Param<Tensor<1>>,
) -> (burn::nn::LayerNorm, LayerNorm) {
    theirs.gamma = vector();
    theirs.beta = theirs.beta.map(|_| vector());
    (ours.gamma, ours.beta) = (theirs.gamma.clone(), theirs.beta.clone());
    (theirs, ours)
}

#[test]
fn layer_norm_is_burns() {
    let device = Device::flex().autodiff();
    for bias in [true, false] {
        let config = LayerNormConfig::new(24).with_bias(bias).with_epsilon(1e-3);
        let theirs = config.init(&device);
        let ours = LayerNorm::init(&config, &device);
        assert_eq!(ours.num_params(), theirs.num_params());
        // New layers have weights of ones and biases of zeros, in which no mistake would show.
        let vector = || Param::from_tensor(random([24], &device));
        let (theirs, ours) = with_parameters(theirs, ours, vector);
        let (x, dy) = (random([3, 5, 24], &device), random([3, 5, 24], &device));
        let run = |f: &dyn Fn(Tensor<3>) -> Tensor<3>, norm: &LayerNorm| {
            let x = x.clone().require_grad();
            let y = f(x.clone());
            let grads = (y.clone() * dy.clone()).sum().backward();
            let dx = x.grad(&grads).expect("x is tracked");
            let of = |vector: Tensor<1>| vector.grad(&grads).expect("it is tracked");
            let vectors = [Some(&norm.gamma), norm.beta.as_ref()];
            let vectors: Vec<_> = vectors.into_iter().flatten().map(|p| of(p.val())).collect();
            (y.inner(), dx, vectors)
        };
        let with_theirs = run(&|x| theirs.forward(x), &ours);
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let (y, dx, vectors) = run(&|x| ours.forward(x), &ours);
            assert!(difference(y, with_theirs.0.clone()) < CLOSE);
            assert!(difference(dx, with_theirs.1.clone()) < CLOSE);
            assert_eq!(vectors.len(), if bias { 2 } else { 1 });
            for (ours, theirs) in vectors.into_iter().zip(&with_theirs.2) {
                assert!(difference(ours, theirs.clone()) < CLOSE);
            }
        }
        // Squares of these are beyond f16.
        let large = random([4, 24], &device).inner() * 3e3;
        let large = large.cast(FloatDType::F16);
        let vector = || Param::from_tensor(random([24], &Device::flex()).cast(FloatDType::F16));
        let (theirs, ours) = with_parameters(theirs, ours, vector);
        let expected = theirs.forward(large.clone()).cast(FloatDType::F32);
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let y = ours.forward(large.clone()).cast(FloatDType::F32);
            assert!(difference(y, expected.clone()) < 1e-3);
        }
    }
}

#[test]
fn swiglu_is_burns() {
    let device = Device::flex();
    let theirs = SwiGluConfig::new(8, 24).with_bias(true).init(&device);
    let ours = SwiGlu::from(theirs.clone());
    let x = random([2, 3, 8], &device);
    assert!(difference(ours.forward(x.clone()), theirs.forward(x)) < CLOSE);
}

#[test]
fn the_rotary_encoding_is_burns() {
    let device = Device::flex();
    let theirs = RotaryEncodingConfig::new(64, 16).init(&device);
    let ours = RotaryEncoding::from(theirs.clone());
    let (q, k) = (
        random([2, 4, 9, 16], &device),
        random([2, 2, 9, 16], &device),
    );
    for start in [0, 7, 55] {
        let (q2, k2) = (
            theirs.apply(q.clone(), start),
            theirs.apply(k.clone(), start),
        );
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let (q1, k1) = ours.apply(q.clone(), k.clone(), start);
            assert!(difference(q1, q2.clone()) < CLOSE);
            assert!(difference(k1, k2.clone()) < CLOSE);
        }
    }
    let fused = report().rows.iter().any(|row| {
        row.site == "burn_kernels::nn::rotary::rotate"
            && row
                .call
                .as_ref()
                .is_some_and(|call| call.implementation.is_some())
    });
    assert!(fused, "{}", report());
}
