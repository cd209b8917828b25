//! The input file: token ids, positions and padding.

use anyhow::{Context, bail};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use kernels_io::Limit;
use kernels_models::{Batch, ModelError};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// The inputs of a model.
pub struct Inputs {
    /// Token ids `[b, s]`.
    input_ids: Ids<2>,
    /// The positions of each token. `None` means `0..s` in each row.
    position_ids: Option<Positions>,
    /// 1 for tokens and 0 for padding, `[b, s]`. `None` means no padding.
    attention_mask: Option<Ids<2>>,
}

/// The positions of tokens.
enum Positions {
    /// One for each token, `[b, s]`.
    One(Ids<2>),
    /// Three for each token, `[3, b, s]`.
    Axes(Ids<3>),
}

impl Inputs {
    /// Returns the inputs as tensors.
    ///
    /// # Errors
    /// Returns an error if the mask does not fit these token ids. The model checks the rest.
    pub fn batch(&self, device: &Device) -> Result<Batch, ModelError> {
        let batch = Batch::new(self.input_ids.tensor(device));
        let batch = match &self.position_ids {
            None => batch,
            Some(Positions::One(ids)) => batch.at(ids.tensor(device)),
            Some(Positions::Axes(ids)) => batch.at_axes(ids.tensor(device)),
        };
        match &self.attention_mask {
            // The mask is read by the host alone.
            Some(mask) => batch.masked(&mask.tensor(&Device::flex())),
            None => Ok(batch),
        }
    }
}

/// A tensor of integers.
struct Ids<const D: usize> {
    values: Vec<i64>,
    shape: [usize; D],
}

impl<const D: usize> Ids<D> {
    fn tensor(&self, device: &Device) -> Tensor<D, Int> {
        let data = TensorData::new(self.values.clone(), self.shape);
        Tensor::from_data(data, (device, DType::I64))
    }
}

/// Reads the file.
///
/// # Errors
/// Returns an error that names the file and the tensor if the file can't be read or is not a safetensors file, or if a
/// tensor is missing, unknown, or of another dtype or rank. The model checks the values.
pub fn read(path: &Path) -> anyhow::Result<Inputs> {
    // The file may also hold results, with gradients of every parameter among them.
    const LIMIT: Limit = Limit::mib("token ids and results", 4 << 10);
    let name = kernels_io::escape_path(path);
    let bytes = kernels_io::read(path, LIMIT)?;
    let tensors = SafeTensors::deserialize(&bytes)
        .with_context(|| format!("{name} is not a complete safetensors file"))?;
    parse(&tensors).context(name)
}

fn parse(tensors: &SafeTensors<'_>) -> anyhow::Result<Inputs> {
    for name in tensors.names() {
        if !INPUTS.contains(&name) && !is_result(name) {
            bail!(
                "tensor `{}` is unknown; inputs are `input_ids`, `position_ids` and `attention_mask`",
                kernels_io::escape(name)
            );
        }
    }
    let input_ids = read_tensor(tensors, INPUT_IDS, |view| ids(view, "[b, s]"))?;
    Ok(Inputs {
        input_ids: input_ids.context("tensor `input_ids` is missing")?,
        position_ids: read_tensor(tensors, POSITION_IDS, positions)?,
        attention_mask: read_tensor(tensors, ATTENTION_MASK, |view| ids(view, "[b, s]"))?,
    })
}

const INPUT_IDS: &str = "input_ids";
const POSITION_IDS: &str = "position_ids";
const ATTENTION_MASK: &str = "attention_mask";
const INPUTS: [&str; 3] = [INPUT_IDS, POSITION_IDS, ATTENTION_MASK];

/// Reads a tensor, if the file has it.
fn read_tensor<T>(
    tensors: &SafeTensors<'_>,
    name: &str,
    read: impl Fn(&TensorView<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    match tensors.tensor(name) {
        Ok(view) => read(&view)
            .map(Some)
            .with_context(|| format!("tensor `{name}`")),
        Err(_) => Ok(None),
    }
}

fn positions(view: &TensorView<'_>) -> anyhow::Result<Positions> {
    match view.shape().len() {
        3 => Ok(Positions::Axes(ids(view, "[3, b, s]")?)),
        _ => Ok(Positions::One(ids(view, "[b, s] or [3, b, s]")?)),
    }
}

/// Returns `true` for the names of results. Files of expected values hold them beside the inputs; they are ignored.
fn is_result(name: &str) -> bool {
    let results = ["logits", "loss", "grad.", "act."];
    results.iter().any(|result| name.starts_with(result))
}

/// Reads a tensor of `D` axes. `expected` is its shape in words.
fn ids<const D: usize>(view: &TensorView<'_>, expected: &str) -> anyhow::Result<Ids<D>> {
    let Ok(shape) = <[usize; D]>::try_from(view.shape()) else {
        bail!("expected shape {expected}, found {:?}", view.shape());
    };
    let values = match view.dtype() {
        Dtype::I64 => view
            .data()
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(i64::from_le_bytes)
            .collect(),
        Dtype::I32 => {
            let values = view.data().as_chunks().0.iter().copied();
            values
                .map(|value| i32::from_le_bytes(value).into())
                .collect()
        }
        other => bail!("expected dtype I64 or I32, found {other:?}"),
    };
    Ok(Ids { values, shape })
}
