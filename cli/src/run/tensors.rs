//! The tensors of an input file, by type.

use anyhow::{Context, bail};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// Reads a tensor, if the file has it.
///
/// # Errors
/// Returns the error of `read`, with the name of the tensor.
pub fn read<T>(
    tensors: &SafeTensors<'_>,
    name: &str,
    read: impl Fn(&TensorView<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    match tensors.tensor(name) {
        Ok(view) => read(&view)
            .map(Some)
            .with_context(|| format!("tensor `{}`", kernels_io::escape(name))),
        Err(_) => Ok(None),
    }
}

/// A tensor of integers.
pub struct Ids<const D: usize> {
    values: Vec<i64>,
    shape: [usize; D],
}

impl<const D: usize> Ids<D> {
    /// Reads a tensor of `D` axes. `expected` is its shape in words.
    ///
    /// # Errors
    /// Returns an error for another dtype or rank.
    pub fn of(view: &TensorView<'_>, expected: &str) -> anyhow::Result<Self> {
        let Ok(shape) = <[usize; D]>::try_from(view.shape()) else {
            bail!("expected shape {expected}, found {:?}", view.shape());
        };
        let values = match view.dtype() {
            Dtype::I64 => {
                let values = view.data().as_chunks().0.iter().copied();
                values.map(i64::from_le_bytes).collect()
            }
            Dtype::I32 => {
                let values = view.data().as_chunks().0.iter().copied();
                values
                    .map(|value| i32::from_le_bytes(value).into())
                    .collect()
            }
            other => bail!("expected dtype I64 or I32, found {other:?}"),
        };
        Ok(Self { values, shape })
    }

    pub fn tensor(&self, device: &Device) -> Tensor<D, Int> {
        let data = TensorData::new(self.values.clone(), self.shape);
        Tensor::from_data(data, (device, DType::I64))
    }
}

/// A tensor of finite floats of any rank.
pub struct Floats {
    values: Vec<f32>,
    shape: Vec<usize>,
}

impl Floats {
    /// Reads a tensor of `axes` axes, or of any number. `expected` is its shape in words.
    ///
    /// # Errors
    /// Returns an error for another dtype or rank, and for a number that is not finite.
    pub fn of(view: &TensorView<'_>, axes: Option<usize>, expected: &str) -> anyhow::Result<Self> {
        let shape = view.shape().to_vec();
        if axes.is_some_and(|axes| axes != shape.len()) {
            bail!("expected shape {expected}, found {shape:?}");
        }
        if view.dtype() != Dtype::F32 {
            bail!("expected dtype F32, found {:?}", view.dtype());
        }
        let values = view.data().as_chunks().0.iter().copied();
        let values: Vec<f32> = values.map(f32::from_le_bytes).collect();
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            bail!("element {at} is {}, not a finite number", values[at]);
        }
        Ok(Self { values, shape })
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the tensor, rounded to a dtype.
    ///
    /// # Panics
    /// Panics if it has another number of axes.
    pub fn tensor<const D: usize>(&self, device: &Device, dtype: FloatDType) -> Tensor<D> {
        let shape = <[usize; D]>::try_from(self.shape.as_slice());
        let shape = shape.expect("the rank was checked");
        let data = TensorData::new(self.values.clone(), shape);
        Tensor::from_data(data, (device, DType::from(dtype)))
    }
}
