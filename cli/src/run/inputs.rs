//! The input file: token ids and positions.

use anyhow::{Context, bail};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use kernels_io::Limit;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// The inputs of a model.
pub struct Inputs {
    /// Token ids `[b, s]`.
    pub input_ids: Ids,
    /// The position of each token `[b, s]`. `None` means `0..s` in each row.
    pub position_ids: Option<Ids>,
}

/// A table of integers `[b, s]`.
pub struct Ids {
    values: Vec<i64>,
    shape: [usize; 2],
}

impl Ids {
    /// Returns the table as a tensor.
    pub fn tensor(&self, device: &Device) -> Tensor<2, Int> {
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
    let (mut input_ids, mut position_ids) = (None, None);
    for (name, view) in tensors.iter() {
        match name {
            "input_ids" => input_ids = Some(ids(&view).context("tensor `input_ids`")?),
            "position_ids" => position_ids = Some(ids(&view).context("tensor `position_ids`")?),
            _ if is_result(name) => {}
            _ => bail!(
                "tensor `{}` is unknown; inputs are `input_ids` and `position_ids`",
                kernels_io::escape(name)
            ),
        }
    }
    let input_ids = input_ids.context("tensor `input_ids` is missing")?;
    Ok(Inputs {
        input_ids,
        position_ids,
    })
}

/// Returns `true` for the names of results. Files of expected values hold them beside the inputs; they are ignored.
fn is_result(name: &str) -> bool {
    let results = ["logits", "loss", "grad.", "act."];
    results.iter().any(|result| name.starts_with(result))
}

fn ids(view: &TensorView<'_>) -> anyhow::Result<Ids> {
    let &[rows, columns] = view.shape() else {
        bail!("expected shape [b, s], found {:?}", view.shape());
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
    Ok(Ids {
        values,
        shape: [rows, columns],
    })
}
