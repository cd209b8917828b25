//! Batches with explicit positions and with padding.

use burn::tensor::{Bool, DType, Int, Tensor, TensorData};

use crate::error::ModelError;
use crate::model::loss::{IGNORED, next_tokens, require_next_token};
use crate::model::pictures::Pictures;

/// Token ids `[b, s]`, with optional explicit positions, padding and pictures.
///
/// ```no_run
/// use burn::tensor::{Device, FloatDType, Int, Tensor};
/// use kernels_models::Batch;
/// # fn main() -> Result<(), kernels_models::ModelError> {
/// let device = Device::default();
/// let (_, model) = kernels_models::load("checkpoint".as_ref(), &device, FloatDType::F32)?;
/// // A prompt of two tokens and one of four.
/// let input_ids = Tensor::<2, Int>::from_data([[0, 0, 17, 4], [8, 15, 16, 23]], &device);
/// let attention_mask = Tensor::from_data([[0, 0, 1, 1], [1, 1, 1, 1]], &device);
/// let batch = Batch::new(input_ids).masked(&attention_mask)?;
/// model.check_batch(&batch)?;
/// let logits = model.output_of(batch).logits; // [2, 4, vocab_size], meaningless where the mask is 0
/// # let _ = logits;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) input_ids: Tensor<2, Int>,
    /// The inputs of the layers in place of the embedded token ids, `[b, s, width]`.
    pub(crate) inputs_embeds: Option<Tensor<3>>,
    pub(crate) position_ids: Option<PositionIds>,
    pub(crate) padding: Option<Padding>,
    pub(crate) pictures: Option<Pictures>,
}

/// Explicit positions of tokens.
#[derive(Clone, Debug)]
pub(crate) enum PositionIds {
    /// One for each token, `[b or 1, s]`.
    One(Tensor<2, Int>),
    /// Three for each token, `[3, b or 1, s]`.
    Axes(Tensor<3, Int>),
}

/// The padding of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Padding {
    shape: [usize; 2],
    /// True for tokens, row by row.
    is_token: Vec<bool>,
}

impl Batch {
    /// Makes a batch without padding. The positions of each row are `0..s`.
    pub fn new(input_ids: Tensor<2, Int>) -> Self {
        Self {
            input_ids,
            inputs_embeds: None,
            position_ids: None,
            padding: None,
            pictures: None,
        }
    }

    /// Sets the inputs of the layers in place of the embedded token ids, `[b, s, width]`, in the dtype of the weights.
    /// The width is that of the [embeddings](crate::ModelConfig::embedding_width). Token ids are then the targets of
    /// losses alone.
    #[must_use]
    pub fn embedded(self, inputs_embeds: Tensor<3>) -> Self {
        Self {
            inputs_embeds: Some(inputs_embeds),
            ..self
        }
    }

    /// Sets the positions, `[b, s]` or `[1, s]`. They rotate queries and keys.
    #[must_use]
    pub fn at(self, position_ids: Tensor<2, Int>) -> Self {
        Self {
            position_ids: Some(PositionIds::One(position_ids)),
            ..self
        }
    }

    /// Sets the positions of three axes, `[3, b, s]` or `[3, 1, s]`: time, height and width. They are for families
    /// whose tokens have three positions (Qwen2.5-VL, Qwen3-VL, Qwen3.5, GLM-4.5V).
    #[must_use]
    pub fn at_axes(self, position_ids: Tensor<3, Int>) -> Self {
        Self {
            position_ids: Some(PositionIds::Axes(position_ids)),
            ..self
        }
    }

    /// Sets the padding: `attention_mask` `[b, s]` is 1 for tokens and 0 for padding, which stands before or after the
    /// tokens of a row, or on both sides. The mask is read from its device.
    ///
    /// No token sees padding, and padding counts in no loss. As in `transformers`, positions are not changed: without
    /// explicit ones, those of each row are `0..s`, padding included.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] if the mask has another shape than the token ids, if it holds other numbers than 0
    /// and 1, if a row has no token, or if there is padding between the tokens of a row.
    pub fn masked(self, attention_mask: &Tensor<2, Int>) -> Result<Self, ModelError> {
        let shape = self.input_ids.dims();
        if attention_mask.dims() != shape {
            let found = attention_mask.dims();
            return fail(format!(
                "expected the shape of input_ids, {shape:?}, found {found:?}"
            ));
        }
        let values = attention_mask.try_to_vec_as::<i64>();
        let padding = match values {
            Ok(values) => Padding::new(shape, &values)?,
            Err(error) => return fail(format!("cannot be read from the device: {error}")),
        };
        Ok(Self {
            padding: Some(padding),
            ..self
        })
    }
}

impl Batch {
    /// Returns the target of each position, `[b · s]`: the next token, if both are tokens.
    pub(super) fn targets(&self) -> Tensor<1, Int> {
        require_next_token(self.input_ids.dims()[1]);
        let targets = next_tokens(self.input_ids.clone());
        let Some(padding) = &self.padding else {
            return targets;
        };
        let ignored: Vec<bool> = padding
            .predicts()
            .iter()
            .map(|predicts| !predicts)
            .collect();
        let data = TensorData::new(ignored, targets.shape());
        targets.clone().mask_fill(
            Tensor::<1, Bool>::from_data(data, &targets.device()),
            IGNORED,
        )
    }

    /// Returns the place of the last token of each row: `row · s + column`.
    pub(super) fn last_tokens(&self) -> Vec<usize> {
        let [rows, columns] = self.input_ids.dims();
        let last = |row: usize| {
            let own = row * columns..(row + 1) * columns;
            let is_token = |at: &usize| {
                let padding = self.padding.as_ref();
                padding.is_none_or(|padding| padding.is_token[*at])
            };
            own.clone().rev().find(is_token).unwrap_or(own.start)
        };
        (0..rows).map(last).collect()
    }

    /// Returns 1 for tokens and 0 for padding, `[b · s]`, if there is padding.
    pub(super) fn mask(&self) -> Option<Tensor<1>> {
        let padding = self.padding.as_ref()?;
        let numbers = padding.is_token.iter().map(|&token| f32::from(token));
        let data = TensorData::new(numbers.collect::<Vec<f32>>(), [padding.is_token.len()]);
        let device = self.input_ids.device();
        Some(Tensor::from_data(data, (&device, DType::F32)))
    }
}

impl Padding {
    fn new(shape: [usize; 2], mask: &[i64]) -> Result<Self, ModelError> {
        let [_, columns] = shape;
        if columns == 0 {
            return fail("rows have no token".into());
        }
        let other = mask.iter().position(|value| ![0, 1].contains(value));
        if let Some(at) = other {
            return fail(format!(
                "row {}, column {}: {} is neither 0, padding, nor 1, a token",
                at / columns,
                at % columns,
                mask[at]
            ));
        }
        let is_token: Vec<bool> = mask.iter().map(|&value| value == 1).collect();
        for (row, is_token) in is_token.chunks(columns).enumerate() {
            let mut columns = is_token.iter();
            let Some(first) = columns.position(|&token| token) else {
                return fail(format!("row {row} has no token"));
            };
            let tokens = columns.clone().take_while(|&&token| token).count() + 1;
            if is_token.iter().filter(|&&token| token).count() > tokens {
                let column = first + tokens;
                return fail(format!(
                    "row {row}, column {column}: 0 between tokens is not supported; move padding to the start or the \
                     end of the row"
                ));
            }
        }
        Ok(Self { shape, is_token })
    }

    /// Returns `true` for each token and `false` for padding, row by row.
    pub(crate) fn is_token(&self) -> &[bool] {
        &self.is_token
    }

    /// Returns the number of columns of each row from its first token on, or `None` if every row begins with a token. The
    /// causal mask hides the padding behind a token.
    pub(crate) fn lengths(&self) -> Option<Vec<usize>> {
        let [_, columns] = self.shape;
        let before = |row: &[bool]| row.iter().take_while(|&&token| !token).count();
        let rows = self.is_token.chunks(columns);
        let lengths: Vec<usize> = rows.map(|row| columns - before(row)).collect();
        lengths
            .iter()
            .any(|&length| length < columns)
            .then_some(lengths)
    }

    /// Returns `true` for each place, row by row, whose token and next token are tokens.
    pub(super) fn predicts(&self) -> Vec<bool> {
        let [_, columns] = self.shape;
        let of_row = |row: &[bool]| -> Vec<bool> {
            let next = row.iter().skip(1).copied().chain([false]);
            row.iter()
                .zip(next)
                .map(|(&token, next)| token && next)
                .collect()
        };
        self.is_token.chunks(columns).flat_map(of_row).collect()
    }
}

fn fail<T>(problem: String) -> Result<T, ModelError> {
    Err(ModelError::Input {
        input: "attention_mask",
        problem,
    })
}
