//! Training of adapters over a quantised model: the losses and the first step of PEFT over bitsandbytes.

use crate::common::{File, fixtures, ints, read};
use crate::comparison::relative;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::nn::Quantized;
use burn_kernels::optim::InitFused;
use burn_kernels::policy::{self, Policy};
use kernels_models::{CausalLm, QuantisedWeights, load_as, save_adapters};

/// Returns the mean loss of the next token where its label is no −100.
fn loss(model: &CausalLm, golden: &File, device: &Device) -> Tensor<1> {
    let logits = model.forward(ints(&golden["input_ids"], device), None);
    let [batch, seq, vocab] = logits.dims();
    let logits = logits.narrow(1, 0, seq - 1);
    let labels: Tensor<2, Int> = ints(&golden["labels"], device).narrow(1, 1, seq - 1);
    let labels = labels.reshape([batch * (seq - 1), 1]);
    let ignored = labels.clone().equal_elem(-100);
    let chosen = labels.mask_fill(ignored.clone(), 0);
    let all = log_softmax(logits.reshape([batch * (seq - 1), vocab]), 1);
    let losses = all.gather(1, chosen).neg().mask_fill(ignored.clone(), 0.0);
    losses.sum() / ignored.bool_not().float().sum()
}

fn number(loss: &Tensor<1>) -> f64 {
    loss.clone().without_autodiff().into_scalar::<f64>()
}

/// W is in f32 in both passes of the goldens, as here. Adam divides a gradient by its size, so that the sizes of gradients
/// count from the second step on, in the losses after it.
#[test]
fn three_steps_are_those_of_peft() {
    let folder = fixtures().join("quantised/llama_nf4");
    let adapter = folder.join("qlora");
    let golden = read(&adapter.join("golden.safetensors"));
    let expected = golden["losses"].values();
    let device = Device::flex().autodiff();
    let forms = [QuantisedWeights::Decoded, QuantisedWeights::Kept];
    for (policy, form) in forms
        .into_iter()
        .flat_map(|form| [("none", form), ("all", form)])
    {
        let _scope = policy::scope(policy.parse::<Policy>().unwrap());
        let (_, base) = load_as(&folder, &device, FloatDType::F32, form, &mut |_| {}).unwrap();
        assert_eq!(Quantized::is_in(&base), form == QuantisedWeights::Kept);
        let (config, mut model) = base.load_adapters(&adapter).unwrap();
        let settings = AdamWConfig::new()
            .with_beta_1(0.9)
            .with_beta_2(0.999)
            .with_epsilon(1e-8)
            .with_weight_decay(0.01);
        let mut optimiser = settings.init_fused();
        let mut losses = Vec::new();
        for step in 0..3 {
            let loss = loss(&model, &golden, &device);
            losses.push(number(&loss));
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            assert_eq!(gradients.len(), 2 * 2 * 7, "only adapters are trained");
            model = optimiser.step(1e-2, model, gradients);
            if step == 0 {
                let dir = tempfile::tempdir().unwrap();
                let saved = dir.path().join("adapter");
                save_adapters(&model, &config, "base", &saved).unwrap();
                compare(&read(&saved.join("adapter_model.safetensors")), &golden);
            }
        }
        losses.push(number(&loss(&model, &golden, &device)));
        for (found, expected) in losses.iter().zip(&expected) {
            let error = (found - expected).abs() / expected;
            assert!(
                error < 1e-5,
                "{policy}, {form:?}: {losses:?}, not {expected:?}"
            );
        }
    }
}

/// Compares the factors after one step.
fn compare(found: &File, golden: &File) {
    let after = golden.iter().filter_map(|(name, expected)| {
        let name = name.strip_prefix("after_one_step.")?;
        Some((name, expected.values()))
    });
    let mut compared = 0;
    for (name, expected) in after {
        let error = relative(&found[name].values(), &expected);
        assert!(error < 1e-5, "{name}: {error:e}");
        compared += 1;
    }
    assert_eq!(compared, found.len());
}
