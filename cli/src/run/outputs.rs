//! The output file.

use crate::output;
use anyhow::{Context, bail};
use burn::tensor::{DType, TensorData};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::collections::BTreeMap;
use std::path::Path;

/// Tensors by name.
pub type Outputs = BTreeMap<String, TensorData>;

/// Writes a safetensors file, complete or not at all.
///
/// # Errors
/// Returns an error that names the file if it can't be written.
pub fn write(path: &Path, outputs: &Outputs) -> anyhow::Result<()> {
    let views = outputs.iter().map(|(name, data)| {
        let view = view(data).with_context(|| format!("tensor `{name}`"))?;
        Ok((name, view))
    });
    let views = views.collect::<anyhow::Result<Vec<_>>>()?;
    let bytes = safetensors::serialize(views, None)
        .with_context(|| format!("cannot lay out {}", kernels_io::escape_path(path)))?;
    output::write_file(path, &bytes)
}

fn view(data: &TensorData) -> anyhow::Result<TensorView<'_>> {
    let dtype = match data.dtype() {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        other => bail!("a result of dtype {other:?} has no place in a safetensors file"),
    };
    Ok(TensorView::new(
        dtype,
        data.shape().to_vec(),
        data.as_bytes(),
    )?)
}
