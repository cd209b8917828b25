//! Linear layers whose weights stay in quantised form: against the same layers in floats.

use crate::comparison::relative;
use burn::module::{Module, Param, Reparameterizer};
use burn::nn::LinearConfig;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use burn_kernels::nn::{Linear, LowRank, Quantize, Quantized, apply_low_rank};
use burn_kernels::ops::{quantized_linear, quantized_linear_int8 as int8};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::quant::{Dtype, OwnedPart, OwnedWeight, gguf};
use burn_kernels::report::report;
use std::panic::{AssertUnwindSafe, catch_unwind};

const INPUTS: usize = 96;
const OUTPUTS: usize = 70;

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Returns a layer in NF4, and one in the floats that its weight decodes to.
fn layers(bias: bool, dtype: FloatDType, device: &Device) -> [Linear; 2] {
    let linear = LinearConfig::new(INPUTS, OUTPUTS)
        .with_bias(bias)
        .init(device);
    let mut plain = Linear::from(linear);
    let rows = plain.weight.val().without_autodiff().transpose();
    let rows: Vec<f32> = rows.into_data().iter::<f32>().collect();
    let weight = OwnedWeight::nf4([OUTPUTS, INPUTS], &rows);
    plain.bias = plain
        .bias
        .map(|bias| bias.map(|bias| bias.cast(dtype).detach().require_grad()));
    let id = plain.weight.id;
    let quantize = Quantize::new([(id, weight)], DType::from(dtype));
    let layer = plain.clone().apply_reparameterization(quantize);
    plain.weight = Param::initialized(id, layer.weight.val());
    [layer, plain]
}

/// Attaches an adapter to every matrix.
struct Attach([Tensor<2>; 2]);

impl Reparameterizer for Attach {
    type Reparam = LowRank;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LowRank>) {
        let [a, b] = self.0.clone().map(Param::from_tensor);
        let adapter = LowRank {
            a,
            b,
            scale: 0.5,
            dropout: 0.0,
        };
        let param = param.set_require_grad(false);
        (param, (D == 2).then_some(adapter))
    }
}

/// Returns the result, the gradient of `x`, and those of an adapter's factors.
fn run(layer: &Linear, x: &Tensor<3>, dy: &Tensor<3>) -> Vec<Vec<f64>> {
    let x = x.clone().require_grad();
    let y = layer.forward(x.clone());
    let grads = (y.clone() * dy.clone()).sum().backward();
    let mut all = vec![
        numbers(y.inner()),
        numbers(x.grad(&grads).expect("x is tracked")),
    ];
    let quantized = layer.weight.reparameterization::<Quantized>();
    let adapter = match quantized {
        Some(weight) => weight.adapter(),
        None => layer.weight.reparameterization::<LowRank>(),
    };
    for factor in adapter.iter().flat_map(|adapter| [&adapter.a, &adapter.b]) {
        all.push(numbers(
            factor.val().grad(&grads).expect("factors are tracked"),
        ));
    }
    all
}

#[test]
fn results_and_gradients_are_those_of_the_decoded_weight() {
    let device = Device::flex().autodiff();
    for (bias, policy) in [
        (false, Policy::auto()),
        (true, Policy::auto()),
        (true, Policy::reference()),
    ] {
        let _policy = scope(policy);
        for (dtype, most) in [
            (FloatDType::F32, 2e-6),
            (FloatDType::BF16, 2e-2),
            (FloatDType::F16, 2e-3),
        ] {
            let [layer, plain] = layers(bias, dtype, &device);
            for rows in [1, 3, 40] {
                let [x, dy] =
                    [INPUTS, OUTPUTS].map(|width| random([2, rows, width], &device).cast(dtype));
                let (found, expected) = (run(&layer, &x, &dy), run(&plain, &x, &dy));
                assert_eq!(found.len(), 2);
                for (found, expected) in found.iter().zip(&expected) {
                    let error = relative(found, expected);
                    assert!(error < most, "{rows} rows, {dtype:?}: {error:e}");
                }
            }
            let empty = layer.forward(random([0, 2, INPUTS], &device).cast(dtype));
            assert_eq!(empty.dims(), [0, 2, OUTPUTS]);
        }
    }
}

/// The bytes stay where they are while the factors are trained, moved and recorded.
#[test]
fn adapters_are_those_of_the_decoded_weight() {
    let device = Device::flex().autodiff();
    let factors = [random([INPUTS, 4], &device), random([4, OUTPUTS], &device)];
    let [layer, plain] = layers(true, FloatDType::F32, &device)
        .map(|layer| apply_low_rank(layer, Attach(factors.clone())));
    let [x, dy] = [INPUTS, OUTPUTS].map(|width| random([2, 5, width], &device));
    let expected = run(&plain, &x, &dy);
    assert_eq!(expected.len(), 4);
    let moved = layer.clone().valid().train().fork(&device);
    for layer in [&layer, &moved] {
        for (found, expected) in run(layer, &x, &dy).iter().zip(&expected) {
            let error = relative(found, expected);
            assert!(error < 2e-6, "{error:e}");
        }
        assert_eq!(layer.num_params(), plain.num_params());
        let weight = layer.weight.reparameterization::<Quantized>().unwrap();
        let size = (INPUTS * OUTPUTS, weight.weight().bytes());
        assert_eq!(Quantized::size_in(layer), size);
    }
    // `val`, and what materialises, are in floats and with the adapter.
    let folded = layer.clone().materialize();
    assert!(!Quantized::is_in(&folded) && Quantized::is_in(&layer));
    assert_eq!(Quantized::size_in(&folded), (0, 0));
    for weight in [&layer.weight, &folded.weight] {
        let error = relative(
            &numbers(weight.val().inner()),
            &numbers(plain.weight.val().inner()),
        );
        assert!(error < 1e-6, "{error:e}");
    }
    // A second pass replaces the adapter.
    let doubled = factors.map(|factor| factor * 2.0);
    let again = apply_low_rank(layer, Attach(doubled));
    let adapter = again
        .weight
        .reparameterization::<Quantized>()
        .unwrap()
        .adapter();
    let largest = numbers(adapter.unwrap().a.val().inner().abs().max());
    assert!(largest[0] > 4.0, "{largest:?}");
}

#[cfg(feature = "optim")]
#[test]
fn records_hold_the_decoded_weight() {
    let device = Device::flex();
    let [layer, plain] = layers(false, FloatDType::F32, &device);
    let other = layers(false, FloatDType::F32, &device)[1].clone();
    let x = random([2, 3, INPUTS], &device);
    let expected = numbers(plain.forward(x.clone()));
    let into_plain = other.clone().load_record(layer.clone().into_record());
    let error = relative(&numbers(into_plain.forward(x.clone())), &expected);
    assert!(error < 1e-6, "{error:e}");
    let half = burn_kernels::optim::rounded(&layer, FloatDType::BF16).into_record();
    let into_plain = other.clone().load_record(half);
    let [found, decoded] = [&into_plain, &plain].map(|layer| numbers(layer.weight.val()));
    let error = relative(&found, &decoded);
    assert!(error < 1e-2, "{error:e}");
    let into_own = layer.clone().load_record(plain.clone().into_record());
    let error = relative(&numbers(into_own.forward(x)), &expected);
    assert!(error < 2e-6, "{error:e}");
    let record = other.into_record();
    let loaded = catch_unwind(AssertUnwindSafe(|| layer.load_record(record).num_params()));
    let message = *loaded.unwrap_err().downcast::<&str>().unwrap();
    assert!(
        message.contains("other numbers than the quantised weight"),
        "{message}"
    );
}

#[test]
fn the_weight_itself_is_not_trained() {
    let device = Device::flex().autodiff();
    let [layer, _] = layers(false, FloatDType::F32, &device);
    assert!(!layer.weight.base().is_require_grad());
    let layer = layer.set_require_grad(true);
    let call = || layer.forward(random([1, 1, INPUTS], &device)).dims();
    let message = *catch_unwind(AssertUnwindSafe(call))
        .unwrap_err()
        .downcast::<&str>()
        .unwrap();
    assert!(message.contains("QLoRA"), "{message}");
}

#[test]
fn plans_and_reports_name_the_kernel() {
    let device = Device::flex();
    let [layer, _] = layers(false, FloatDType::F32, &device);
    layer.forward(random([1, 2, INPUTS], &device));
    let text = report().to_string();
    assert!(text.contains("npu_fused_quantized_linear"), "{text}");
    let off = Policy::auto()
        .disable("npu_fused_quantized_linear")
        .unwrap();
    let _off = scope(off);
    layer.forward(random([1, 2, INPUTS], &device));
    let text = report().to_string();
    assert!(text.contains("reference"), "{text}");
}

/// Returns a layer in Q8_0, and its weight.
fn layer_of_integers(device: &Device) -> (Linear, OwnedWeight) {
    let linear = LinearConfig::new(INPUTS, OUTPUTS).with_bias(false);
    let layer = Linear::from(linear.init(device));
    let rows = layer.weight.val().without_autodiff().transpose();
    let rows: Vec<f32> = rows.into_data().iter::<f32>().collect();
    let row = INPUTS / 32 * 34;
    let mut bytes = vec![0; OUTPUTS * row];
    gguf::Block::Q8_0.encode(&rows, &mut bytes).unwrap();
    let blocks = OwnedPart {
        name: "blocks".into(),
        dtype: Dtype::U8,
        shape: vec![OUTPUTS, row],
        bytes,
    };
    let weight = OwnedWeight::new(gguf::Block::Q8_0, [OUTPUTS, INPUTS], vec![blocks]).unwrap();
    let quantize = Quantize::new([(layer.weight.id, weight.clone())], DType::F32);
    (layer.apply_reparameterization(quantize), weight)
}

#[test]
fn rows_are_rounded_only_on_request() {
    let device = Device::flex();
    let (layer, weight) = layer_of_integers(&device);
    for (dtype, most) in [
        (FloatDType::F32, 2e-6),
        (FloatDType::BF16, 2e-2),
        (FloatDType::F16, 2e-3),
    ] {
        for rows in [1, 3, 40] {
            let x = random([2, rows, INPUTS], &device).cast(dtype);
            let exact = numbers(layer.forward(x.clone()));
            let defined = numbers(int8::of_rounded(x.clone(), &weight));
            let found = {
                let _prefer = scope(Policy::auto().prefer(int8::IMPLEMENTATION).unwrap());
                numbers(layer.forward(x))
            };
            let error = relative(&found, &defined);
            assert!(error < most, "{rows} rows, {dtype:?}: {error:e}");
            let error = relative(&found, &exact);
            assert!(
                (1e-4..5e-2).contains(&error),
                "{rows} rows, {dtype:?}: {error:e}"
            );
        }
    }
    assert!(report().to_string().contains(int8::ID));
}

/// Training and other weights take the exact kernel.
#[test]
fn rows_are_not_rounded_where_that_has_no_kernel() {
    let _prefer = scope(Policy::auto().prefer(int8::IMPLEMENTATION).unwrap());
    let device = Device::flex().autodiff();
    let (layer, weight) = layer_of_integers(&device);
    let x = random([3, INPUTS], &device);
    assert!(!int8::applies(&x, &weight));
    let own = quantized_linear::reference(x.clone().inner(), &weight);
    let error = relative(&numbers(layer.forward(x).inner()), &numbers(own));
    assert!(error < 2e-6, "{error:e}");
    let [of_table, plain] = layers(false, FloatDType::F32, &Device::flex());
    let x = random([3, INPUTS], &Device::flex());
    let [y, expected] = [of_table, plain].map(|layer| numbers(layer.forward(x.clone())));
    let error = relative(&y, &expected);
    assert!(error < 2e-6, "{error:e}");
}
