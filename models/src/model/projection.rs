//! Hidden states and the projection that makes logits of them, a few tokens at a time.

use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, FloatDType, Int, Tensor};
use burn_kernels::nn::Quantized;
use burn_kernels::ops::quantized_linear::decoded;

use crate::layers::scores::capped;
use crate::model::tiles::entropies;

/// The number of logits of a tile, and of widened elements of a weight, 32 MiB in f32.
const TILE: usize = 1 << 23;

/// Hidden states of tokens, and the weight and cap that make logits of them.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The hidden states, `[tokens, hidden]`.
    pub hidden: Tensor<2>,
    /// The weight of the output projection.
    pub weight: OutputWeight,
    /// The cap `c` of logits, which are then `c · tanh(logit / c)`.
    pub softcap: Option<f64>,
}

/// The weight of an output projection.
#[derive(Clone, Debug)]
pub enum OutputWeight {
    /// Floats, `[hidden, vocabulary]`: those of a table of embeddings are transposed.
    Floats(Tensor<2>),
    /// A weight in quantised form, which is frozen.
    Quantised(Quantized),
}

impl From<Tensor<2>> for OutputWeight {
    fn from(weight: Tensor<2>) -> Self {
        Self::Floats(weight)
    }
}

impl OutputWeight {
    /// Returns the numbers of inputs and of logits.
    pub fn dims(&self) -> [usize; 2] {
        match self {
            Self::Floats(weight) => weight.dims(),
            Self::Quantised(weight) => {
                let [logits, inputs] = weight.weight().shape();
                [inputs, logits]
            }
        }
    }

    /// Returns the floats, if it has them.
    pub fn floats(&self) -> Option<&Tensor<2>> {
        match self {
            Self::Floats(weight) => Some(weight),
            Self::Quantised(_) => None,
        }
    }

    /// Applies a function to floats.
    pub(super) fn map(&self, change: impl FnOnce(Tensor<2>) -> Tensor<2>) -> Self {
        match self {
            Self::Floats(weight) => Self::Floats(change(weight.clone())),
            Self::Quantised(_) => self.clone(),
        }
    }
}

/// Numbers of tokens' distributions, `[tokens]` each, without gradients.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The entropy, in nats.
    pub entropy: Tensor<1>,
    /// The most probable token, the first of equal ones.
    pub top: Tensor<1, Int>,
    /// The mean of the logits.
    pub mean_logit: Tensor<1>,
    /// `log Σ p²`, by which WPO weighs tokens (Zhou et al., arXiv:2406.11827).
    pub log_sum_squares: Tensor<1>,
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

    /// Returns numbers of each token's distribution. The logits of a few tokens are in memory at a time, and a few columns of
    /// a weight in a half type in f32.
    ///
    /// # Panics
    /// Panics without a token.
    pub fn statistics(&self) -> Statistics {
        let constant = self.constant();
        let mut tiles: [Vec<Tensor<1>>; 3] = Default::default();
        let mut tops = Vec::new();
        for (start, count) in constant.tiles() {
            let tile = constant.tile(start, count);
            let logits = tile.capped(tile.products());
            tops.push(logits.clone().argmax(1).squeeze_dim::<1>(1));
            let mean = logits.clone().mean_dim(1).squeeze_dim::<1>(1);
            let log_probs = log_softmax(logits, 1);
            // The largest probability is at least one of the vocabulary, so the sum of squares is above 0.
            let squares = (log_probs.clone() * 2.0).exp().sum_dim(1).log();
            let found = [entropies(&log_probs), mean, squares.squeeze_dim::<1>(1)];
            let each = tiles.iter_mut().zip(found);
            each.for_each(|(tiles, found)| tiles.push(found));
        }
        let [entropy, mean_logit, log_sum_squares] = tiles.map(|tiles| Tensor::cat(tiles, 0));
        Statistics {
            entropy,
            top: Tensor::cat(tops, 0),
            mean_logit,
            log_sum_squares,
        }
    }

    /// Returns the same without a graph, with hidden states in the type that logits are computed in. A product of half types
    /// would round logits.
    pub(super) fn constant(&self) -> Self {
        Self {
            hidden: wide(self.hidden.clone().without_autodiff()),
            weight: self.weight.map(Tensor::without_autodiff),
            softcap: self.softcap,
        }
    }

    /// Returns the type that logits are computed in: f32, or f64 for f64.
    pub(super) fn logit_dtype(&self) -> DType {
        match self.hidden.dtype() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        }
    }

    /// Returns the products of constant hidden states and the weight, `[tokens, vocabulary]`.
    pub(super) fn products(&self) -> Tensor<2> {
        match &self.weight {
            OutputWeight::Quantised(weight) => weight.forward(self.hidden.clone()),
            OutputWeight::Floats(weight) if weight.dtype() == self.hidden.dtype() => {
                self.hidden.clone().matmul(weight.clone())
            }
            OutputWeight::Floats(_) => self.products_in_parts(self.classes_of_part()),
        }
    }

    fn products_in_parts(&self, most: usize) -> Tensor<2> {
        let parts = self.parts(most);
        let parts = parts.map(|(_, weight)| self.hidden.clone().matmul(weight));
        Tensor::cat(parts.collect(), 1)
    }

    /// Returns the products of rows `[tokens, vocabulary]` and the transposed weight, `[tokens, hidden]`.
    pub(super) fn times_weight(&self, rows: &Tensor<2>) -> Tensor<2> {
        match self.weight.floats() {
            Some(weight) if weight.dtype() == rows.dtype() => {
                rows.clone().matmul(weight.clone().transpose())
            }
            _ => self.times_parts(rows, self.classes_of_part()),
        }
    }

    fn times_parts(&self, rows: &Tensor<2>, most: usize) -> Tensor<2> {
        let parts = self.parts(most).map(|(start, weight)| {
            let rows = rows.clone().narrow(1, start, weight.dims()[1]);
            rows.matmul(weight.transpose())
        });
        let sum = parts.reduce(|sum, part| sum + part);
        sum.expect("the vocabulary has a token")
    }

    /// Returns the number of classes of a part of a weight in a half type or in quantised form, which is widened one part
    /// at a time, because it may be larger than all else.
    fn classes_of_part(&self) -> usize {
        (TILE / self.weight.dims()[0].max(1)).max(1)
    }

    /// Returns the parts of the weight of at most so many classes, `[hidden, classes]`, in the type that logits are
    /// computed in, each with its first class.
    fn parts(&self, most: usize) -> impl Iterator<Item = (usize, Tensor<2>)> + '_ {
        let classes = self.vocabulary();
        (0..classes).step_by(most).map(move |start| {
            let count = most.min(classes - start);
            let part = match &self.weight {
                OutputWeight::Floats(weight) => wide(weight.clone().narrow(1, start, count)),
                OutputWeight::Quantised(weight) => {
                    let (device, dtype) = (self.hidden.device(), self.logit_dtype());
                    let rows = start..start + count;
                    decoded(weight.weight(), rows, &device, dtype).transpose()
                }
            };
            (start, part)
        })
    }

    /// Returns the logits of products.
    pub(super) fn capped(&self, products: Tensor<2>) -> Tensor<2> {
        match self.softcap {
            Some(cap) => capped(products, cap),
            None => products,
        }
    }
}

/// Returns a tensor in f32, or in f64 if it is that.
pub(super) fn wide(tensor: Tensor<2>) -> Tensor<2> {
    match tensor.dtype() {
        DType::F64 => tensor,
        _ => tensor.cast(FloatDType::F32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::divergences::divergence_loss;
    use crate::model::loss::{capped_projected_losses, projected_losses};
    use crate::model::tiles::entropy_loss;
    use crate::preference::Divergence;
    use burn::module::Module;
    use burn::nn::LinearConfig;
    use burn::tensor::{Device, TensorData};
    use burn_kernels::nn::{Linear, Quantize};
    use burn_kernels::quant::{Dtype, OwnedPart, OwnedWeight, gguf};
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
            safetensors::Dtype::BF16 => each(view.data(), |b| {
                f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16).into()
            }),
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

    /// The norm of a gradient, and `Σ g_i·cos(0.7·i + 0.3)`.
    fn probe(values: &[f64]) -> [f64; 2] {
        let norm = values.iter().map(|g| g * g).sum::<f64>().sqrt();
        let each = values.iter().enumerate();
        let sum = each.map(|(i, g)| g * (0.7 * i as f64 + 0.3).cos()).sum();
        [norm, sum]
    }

    #[test]
    fn log_probabilities_entropies_and_first_tokens_are_those_of_f64() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("../tests/fixtures/preference/kernels.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let device = Device::flex().autodiff();
        // Logits are `scale · hidden · weight`, capped, and divided by the temperature.
        let wide: &[(DType, f64)] = &[(DType::F64, 1e-10), (DType::F32, 1e-5)];
        for (case, scale, cap, temperature, dtypes) in [
            ("all", 0.25, Some(2.0), 1.3, wide),
            ("peaked", 1.0, None, 1.0, wide),
            ("bf16", 1.0, None, 1.0, &[(DType::BF16, 1e-5)]),
        ] {
            for (dtype, tolerance) in dtypes.iter().copied() {
                // Gradients are rounded once.
                let of_gradients = match dtype {
                    DType::BF16 => 1.0 / 256.0,
                    _ => tolerance.max(1e-6),
                };
                let of = |name: &str| numbers(&file, &format!("{case}.{name}"));
                let matrix = |name: &str| {
                    let (values, shape) = of(name);
                    let data = TensorData::new(values, [shape[0], shape[1]]);
                    Tensor::<2>::from_data(data, (&device, dtype))
                };
                let hidden = matrix("hidden").require_grad();
                let weight = matrix("weight").require_grad();
                // Each backward pass has a graph of its own.
                let projected = || Projection {
                    hidden: hidden.clone() * (scale / temperature),
                    weight: weight.clone().transpose().into(),
                    softcap: cap.map(|cap: f64| cap / temperature),
                };
                let projection = projected();
                let values =
                    |tensor: Tensor<1>| tensor.without_autodiff().try_to_vec_as::<f64>().unwrap();
                let Statistics {
                    entropy,
                    top,
                    mean_logit,
                    log_sum_squares,
                } = projection.statistics();
                for (name, found) in [
                    ("entropy", entropy),
                    ("mean_logit", mean_logit),
                    ("log_sum_sq", log_sum_squares),
                ] {
                    near(name, &values(found), &of(name).0, tolerance.max(1e-9));
                }
                let ids: Vec<i64> = of("targets").0.iter().map(|id| *id as i64).collect();
                let tops = top.try_to_vec_as::<i64>().unwrap();
                let right = tops.iter().zip(&ids);
                let right: Vec<f64> = right
                    .map(|(top, id)| f64::from(u8::from(top == id)))
                    .collect();
                // Whether the most probable token is the target.
                near(case, &right, &of("top1").0, 1e-12);
                let loss = entropy_loss(&projected(), &of("g_entropy").0).unwrap();
                let products = of("g_entropy").0.into_iter().zip(of("entropy").0);
                let sum: f64 = products.map(|(factor, entropy)| factor * entropy).sum();
                near(case, &values(loss.clone()), &[sum], 10.0 * tolerance);
                let gradients = loss.backward();
                let found = hidden.grad(&gradients).unwrap();
                let found = found.try_to_vec_as::<f64>().unwrap();
                let expected = of("d_hidden.entropy").0;
                near(case, &found, &expected, of_gradients);
                let found = weight.grad(&gradients).unwrap();
                let found = found.try_to_vec_as::<f64>().unwrap();
                let expected = of("d_weight.entropy").0;
                near(case, &probe(&found), &expected, of_gradients);
                let targets = Tensor::<1, Int>::from_data(&ids[..], (&device, DType::I64));
                let Projection {
                    hidden: scaled,
                    weight: output,
                    softcap,
                } = projection;
                let output = output.floats().unwrap().clone();
                let losses = match softcap {
                    Some(cap) => capped_projected_losses(scaled, output, targets, cap),
                    None => projected_losses(scaled, output, targets),
                };
                let log_probs = losses.neg();
                near(case, &values(log_probs.clone()), &of("logp").0, tolerance);
                let (factors, shape) = of("g_logp");
                let data = TensorData::new(factors, [shape[0]]);
                let factors = Tensor::<1>::from_data(data, (&device, log_probs.dtype()));
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
                    of_gradients,
                );
                let found = gradient(&weight);
                let expected = of("d_weight.logp").0;
                near(case, &probe(&found), &expected, of_gradients);
            }
        }
    }

    #[test]
    fn products_of_parts_are_those_of_the_whole_weight() {
        let device = Device::flex();
        let weight = [[1.0, 2.0, -3.0, 0.25, 4.0], [0.5, -1.0, 2.0, 1.5, -0.75]];
        let projection = Projection {
            hidden: Tensor::from_data([[0.5, -1.0], [1.0, 2.0]], &device),
            weight: Tensor::<2>::from_data(weight, &device)
                .cast(FloatDType::BF16)
                .into(),
            softcap: None,
        };
        let values = |tensor: Tensor<2>| tensor.try_to_vec_as::<f64>().unwrap();
        let widened = Projection {
            weight: projection.weight.map(wide),
            ..projection.clone()
        };
        let rows = widened.products();
        let (whole, back) = (values(rows.clone()), values(widened.times_weight(&rows)));
        for most in [1, 2, 5, 9] {
            let parts = projection.products_in_parts(most);
            assert_eq!(parts.dims(), [2, 5]);
            near("products", &values(parts), &whole, 1e-6);
            let sums = projection.times_parts(&rows, most);
            near("sums", &values(sums), &back, 1e-6);
        }
    }

    /// Returns a layer of three classes whose weight is in Q8_0: the scale 0.5, and integers.
    fn quantised_layer(device: &Device) -> Linear {
        let layer: Linear = LinearConfig::new(32, 3)
            .with_bias(false)
            .init(device)
            .into();
        let row = |row: u8| {
            let integers = (0..32).map(move |column| (column * 7 + row * 5) % 9);
            [0x00, 0x38].into_iter().chain(integers)
        };
        let blocks = OwnedPart {
            name: "blocks".into(),
            dtype: Dtype::U8,
            shape: vec![3, 34],
            bytes: (0..3).flat_map(row).collect(),
        };
        let weight = OwnedWeight::new(gguf::Block::Q8_0, [3, 32], vec![blocks]).unwrap();
        let quantize = Quantize::new([(layer.weight.id, weight)], DType::F32);
        layer.apply_reparameterization(quantize)
    }

    #[test]
    fn divergences_of_quantised_weights_are_those_of_their_floats() {
        let device = Device::flex();
        let layer = quantised_layer(&device);
        let quantised = layer.weight.reparameterization::<Quantized>().unwrap();
        let weights = [
            OutputWeight::Quantised(quantised.clone()),
            layer.weight.val().into(),
        ];
        let hidden = |step: f64| {
            let values: Vec<_> = (0..64).map(|i| (step * i as f64).sin() * 0.1).collect();
            Tensor::<2>::from_data(TensorData::new(values, [2, 32]), (&device, DType::F32))
        };
        let divergence = Divergence {
            mixture: 0.3,
            temperature: 1.5,
        };
        let values = |tensor: Tensor<1>| tensor.try_to_vec_as::<f64>().unwrap();
        let found = |student: &OutputWeight, teacher: &OutputWeight| {
            let of = |hidden, weight: &OutputWeight| Projection {
                hidden,
                weight: weight.clone(),
                softcap: Some(4.0),
            };
            let leaf = hidden(0.7).autodiff().require_grad();
            let (student, teacher) = (of(leaf.clone(), student), of(hidden(1.1), teacher));
            let loss = divergence_loss(&student, &teacher, &[0.5, 2.0], divergence).unwrap();
            let gradient = leaf.grad(&loss.backward()).unwrap();
            (values(loss), values(gradient.reshape([64])))
        };
        let (loss, gradient) = found(&weights[1], &weights[1]);
        assert!(loss[0] > 1e-3, "{loss:?}");
        for (student, teacher) in [(0, 1), (1, 0), (0, 0)] {
            let (of_bytes, slopes) = found(&weights[student], &weights[teacher]);
            near("loss", &of_bytes, &loss, 1e-5);
            near("gradient", &slopes, &gradient, 1e-5);
        }
    }

    #[test]
    fn equal_logits_have_the_largest_entropy_and_the_first_token() {
        let device = Device::flex();
        let projection = Projection {
            hidden: Tensor::from_data([[0.0, 0.0], [1.0, 2.0]], &device),
            weight: Tensor::from_data([[0.0, 5.0, 0.0], [0.0, 5.0, 9.0]], &device).into(),
            softcap: None,
        };
        let Statistics { entropy, top, .. } = projection.statistics();
        assert_eq!(top.try_to_vec_as::<i64>().unwrap(), [0, 2]);
        let entropy = entropy.try_to_vec_as::<f64>().unwrap();
        near("equal", &entropy[..1], &[3.0_f64.ln()], 1e-6);
        // The logits are 0, 15 and 18.
        let p = (-3.0_f64).exp() / (1.0 + (-3.0_f64).exp());
        let expected = -(p * p.ln() + (1.0 - p) * (1.0 - p).ln());
        near("two", &entropy[1..], &[expected], 1e-5);
    }
}
