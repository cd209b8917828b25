//! Text generation with the trained model.

use super::settings::Settings;
use crate::training::random::SplitMix64;
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_models::CausalLm;

const LENGTH: usize = 240;
const TEMPERATURE: f64 = 0.8;

/// Continues `prompt` (not empty) by 240 bytes, each drawn from the model's distribution at temperature 0.8. The model
/// sees at most the last `seq` bytes; nothing is cached between bytes.
///
/// # Errors
/// Returns an error if the device fails.
pub fn generate(model: &CausalLm, settings: &Settings, prompt: &[u8]) -> anyhow::Result<String> {
    let device = settings.devices.first().device()?;
    let mut random = SplitMix64::new(settings.seed);
    let mut text = prompt.to_vec();
    for _ in 0..LENGTH {
        let context = &text[text.len().saturating_sub(settings.seq)..];
        let logits = next_logits(model, context, &device)?;
        text.push(draw(&logits, random.unit()));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the logits of the byte after `context`.
fn next_logits(model: &CausalLm, context: &[u8], device: &Device) -> anyhow::Result<Vec<f64>> {
    let length = context.len();
    let ids: Vec<i64> = context.iter().copied().map(i64::from).collect();
    let ids = Tensor::from_data(TensorData::new(ids, [1, length]), (device, DType::I64));
    let logits = model.forward(ids, None);
    let last = logits.slice([0..1, length - 1..length]);
    Ok(last.try_into_vec_as::<f64>()?)
}

/// Returns the byte at quantile `unit` of the softmax of `logits / TEMPERATURE`.
fn draw(logits: &[f64], unit: f64) -> u8 {
    let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logits
        .iter()
        .map(|logit| ((logit - highest) / TEMPERATURE).exp());
    let total: f64 = weights.clone().sum();
    let mut left = unit * total;
    for (byte, weight) in (0..=u8::MAX).zip(weights) {
        left -= weight;
        if left < 0.0 {
            return byte;
        }
    }
    // Rounding can leave a remainder at the end of the distribution.
    u8::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_distribution() {
        let mut logits = [f64::NEG_INFINITY; 256];
        logits[b'a' as usize] = 1.0;
        logits[b'b' as usize] = 1.0;
        assert_eq!(draw(&logits, 0.0), b'a');
        assert_eq!(draw(&logits, 0.49), b'a');
        assert_eq!(draw(&logits, 0.51), b'b');
        assert_eq!(draw(&logits, 0.999), b'b');
    }
}
