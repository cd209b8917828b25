//! Hidden states and the projection that makes logits of them, a few tokens at a time.

use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, FloatDType, Int, Tensor};

use crate::layers::scores::capped;

/// The number of logits of a tile, 32 MiB in f32.
const TILE: usize = 1 << 23;

/// Hidden states of tokens, and what makes logits of them.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The hidden states, `[tokens, hidden]`.
    pub hidden: Tensor<2>,
    /// The weight of the output projection, `[hidden, vocabulary]`: that of a table of embeddings is transposed.
    pub weight: Tensor<2>,
    /// The cap `c` of logits, which are then `c · tanh(logit / c)`.
    pub softcap: Option<f64>,
}

impl Projection {
    /// Returns the number of tokens.
    pub fn tokens(&self) -> usize {
        self.hidden.dims()[0]
    }

    /// Returns the number of logits of a token.
    pub fn vocabulary(&self) -> usize {
        self.weight.dims()[1]
    }

    /// Returns the first token and the number of tokens of each tile.
    pub(super) fn tiles(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (tokens, most) = (self.tokens(), (TILE / self.vocabulary().max(1)).max(1));
        let starts = (0..tokens).step_by(most);
        starts.map(move |start| (start, most.min(tokens - start)))
    }

    /// Returns a part of the tokens.
    pub(super) fn tile(&self, start: usize, count: usize) -> Self {
        Self {
            hidden: self.hidden.clone().narrow(0, start, count),
            ..self.clone()
        }
    }

    /// Returns the entropy of each token's distribution in nats, and the most probable token (the first of equal ones),
    /// `[tokens]` each, without gradients. The logits of a few tokens are in memory at a time.
    ///
    /// # Panics
    /// Panics without a token.
    pub fn entropy_and_top(&self) -> (Tensor<1>, Tensor<1, Int>) {
        let constant = self.constant();
        let tiles = constant.tiles().map(|(start, count)| {
            let logits = constant.tile(start, count).logits();
            let top = logits.clone().argmax(1).squeeze_dim::<1>(1);
            let log_probs = log_softmax(logits, 1);
            let terms = log_probs.clone().exp() * log_probs;
            (terms.sum_dim(1).squeeze_dim::<1>(1).neg(), top)
        });
        let (entropies, tops) = tiles.unzip::<_, _, Vec<_>, Vec<_>>();
        (Tensor::cat(entropies, 0), Tensor::cat(tops, 0))
    }

    /// Returns the same without a graph.
    pub(super) fn constant(&self) -> Self {
        Self {
            hidden: self.hidden.clone().without_autodiff(),
            weight: self.weight.clone().without_autodiff(),
            softcap: self.softcap,
        }
    }

    /// Returns the logits `[tokens, vocabulary]`, in f32 (f64 for f64 weights).
    pub(super) fn logits(self) -> Tensor<2> {
        let logits = self.hidden.matmul(self.weight);
        let logits = match logits.dtype() {
            DType::F16 | DType::BF16 => logits.cast(FloatDType::F32),
            _ => logits,
        };
        match self.softcap {
            Some(cap) => capped(logits, cap),
            None => logits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::loss::{capped_projected_losses, projected_losses};
    use burn::tensor::{Device, TensorData};
    use safetensors::SafeTensors;
    use std::path::Path;

    /// Reads numbers of a file as f64.
    fn numbers(file: &SafeTensors<'_>, name: &str) -> (Vec<f64>, Vec<usize>) {
        let view = file.tensor(name).unwrap();
        fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().copied().map(read).collect()
        }
        let values = match view.dtype() {
            safetensors::Dtype::F32 => each(view.data(), |b| f32::from_le_bytes(b).into()),
            safetensors::Dtype::F64 => each(view.data(), f64::from_le_bytes),
            _ => each(view.data(), |b| i64::from_le_bytes(b) as f64),
        };
        (values, view.shape().to_vec())
    }

    #[track_caller]
    fn near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len(), "{what}");
        let largest = expected.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
        for (found, expected) in found.iter().zip(expected) {
            let error = (found - expected).abs() / largest;
            assert!(error < tolerance, "{what}: {found}, not {expected}");
        }
    }

    #[test]
    fn log_probabilities_entropies_and_first_tokens_are_those_of_f64() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("../tests/fixtures/preference/kernels.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let device = Device::flex().autodiff();
        // Logits are `scale · hidden · weight`, capped, and divided by the temperature.
        for (case, scale, cap, temperature) in
            [("all", 0.25, Some(2.0), 1.3), ("peaked", 1.0, None, 1.0)]
        {
            for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 1e-5)] {
                let of = |name: &str| numbers(&file, &format!("{case}.{name}"));
                let matrix = |name: &str| {
                    let (values, shape) = of(name);
                    let data = TensorData::new(values, [shape[0], shape[1]]);
                    Tensor::<2>::from_data(data, (&device, dtype))
                };
                let hidden = matrix("hidden").require_grad();
                let weight = matrix("weight").require_grad();
                let projection = Projection {
                    hidden: hidden.clone() * (scale / temperature),
                    weight: weight.clone().transpose(),
                    softcap: cap.map(|cap: f64| cap / temperature),
                };
                let values =
                    |tensor: Tensor<1>| tensor.without_autodiff().try_to_vec_as::<f64>().unwrap();
                let (entropy, top) = projection.entropy_and_top();
                near(case, &values(entropy), &of("entropy").0, tolerance);
                let ids: Vec<i64> = of("targets").0.iter().map(|id| *id as i64).collect();
                let tops = top.try_to_vec_as::<i64>().unwrap();
                let right = tops.iter().zip(&ids);
                let right: Vec<f64> = right
                    .map(|(top, id)| f64::from(u8::from(top == id)))
                    .collect();
                // Whether the most probable token is the target.
                near(case, &right, &of("top1").0, 1e-12);
                let targets = Tensor::<1, Int>::from_data(&ids[..], (&device, DType::I64));
                let Projection {
                    hidden: scaled,
                    weight: output,
                    softcap,
                } = projection;
                let losses = match softcap {
                    Some(cap) => capped_projected_losses(scaled, output, targets, cap),
                    None => projected_losses(scaled, output, targets),
                };
                let log_probs = losses.neg();
                near(case, &values(log_probs.clone()), &of("logp").0, tolerance);
                let (factors, shape) = of("g_logp");
                let factors =
                    Tensor::<1>::from_data(TensorData::new(factors, [shape[0]]), (&device, dtype));
                let gradients = (log_probs * factors).sum().backward();
                let gradient = |leaf: &Tensor<2>| {
                    leaf.grad(&gradients)
                        .unwrap()
                        .try_to_vec_as::<f64>()
                        .unwrap()
                };
                // Those of the file are in f32.
                near(
                    case,
                    &gradient(&hidden),
                    &of("d_hidden.logp").0,
                    tolerance.max(1e-6),
                );
                let found = gradient(&weight);
                let norm = found.iter().map(|g| g * g).sum::<f64>().sqrt();
                let each = found.iter().enumerate();
                let probe = each
                    .map(|(i, g)| g * (0.7 * i as f64 + 0.3).cos())
                    .sum::<f64>();
                near(case, &[norm, probe], &of("d_weight.logp").0, tolerance);
            }
        }
    }

    #[test]
    fn equal_logits_have_the_largest_entropy_and_the_first_token() {
        let device = Device::flex();
        let projection = Projection {
            hidden: Tensor::from_data([[0.0, 0.0], [1.0, 2.0]], &device),
            weight: Tensor::from_data([[0.0, 5.0, 0.0], [0.0, 5.0, 9.0]], &device),
            softcap: None,
        };
        let (entropy, top) = projection.entropy_and_top();
        assert_eq!(top.try_to_vec_as::<i64>().unwrap(), [0, 2]);
        let entropy = entropy.try_to_vec_as::<f64>().unwrap();
        near("equal", &entropy[..1], &[3.0_f64.ln()], 1e-6);
        // The logits are 0, 15 and 18.
        let p = (-3.0_f64).exp() / (1.0 + (-3.0_f64).exp());
        let expected = -(p * p.ln() + (1.0 - p) * (1.0 - p).ln());
        near("two", &entropy[1..], &[expected], 1e-5);
    }
}
