//! Loading a model from a directory.

use std::path::Path;

use burn::module::Param;
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData, bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;

use super::CONFIG;
use super::check::{check_tensors, stored_ways};
use super::decode::{Wanted, decode_into, decode_transposed};
use super::file::TensorFile;
use super::fp8;
use super::mxfp4;
#[cfg(feature = "remote")]
use super::server::ServerFiles;
use super::shards::Shards;
use crate::layout::{Encoding, Part};
use crate::parameters::{ParameterInfo, Replace, rebuild};
use crate::{CausalLm, ModelConfig, ModelError};

/// Reads a model from a directory in Hugging Face layout: `config.json`, and `model.safetensors` or the files of
/// `model.safetensors.index.json`.
///
/// Weights may be stored as `f16`, `bf16`, `f32` or `f64`. They are converted to `dtype`, rounded to nearest, and
/// require gradients on a device with autodiff. Only the bias by which some routers choose experts stays in `f32` if
/// `dtype` is a half type, and gets no gradient. The experts of a layer may be stored one by one or stacked (see
/// [`ExpertStorage`](crate::ExpertStorage)); in the model they are stacked. Those of gpt-oss may be stored in MXFP4,
/// and matrices of DeepSeek-V3 in FP8.
///
/// Vision towers, and layers that predict further tokens, are not loaded, with a warning; [`save`](crate::save) writes the
/// text model alone.
///
/// Rotary frequencies in old checkpoints are ignored, because they follow from the configuration. A stored output
/// projection of a tied model is accepted if it equals the embedding. For a remote device of this machine the server
/// reads the weights, if it is allowed to read the directory.
///
/// # Errors
///
/// Returns a [`ModelError`] if anything in the directory is wrong. One error lists all problems with tensors. Returns
/// [`ModelError::Dtype`] if the device does not support `dtype`.
pub fn load(
    dir: &Path,
    device: &Device,
    dtype: FloatDType,
) -> Result<(ModelConfig, CausalLm), ModelError> {
    check_dtype(device, dtype)?;
    let config = ModelConfig::from_file(&dir.join(CONFIG))?;
    let shards = Shards::open(dir)?;
    let model = config.init(device);
    check_tensors(dir, &config, &shards, &model)?;

    let mut read = Read {
        shards: &shards,
        device,
        dtype,
        failure: None,
        #[cfg(feature = "remote")]
        server: ServerFiles::of(device, &shards),
    };
    let model = rebuild(model, &mut read);
    match read.failure {
        Some(error) => Err(error),
        None => Ok((config, model)),
    }
}

fn check_dtype(device: &Device, dtype: FloatDType) -> Result<(), ModelError> {
    let fail = |problem: &str| {
        let dtype = format!("{dtype:?}").to_lowercase();
        Err(ModelError::Dtype {
            dtype,
            problem: problem.into(),
        })
    };
    if dtype == FloatDType::Flex32 {
        return fail("is no storage type; use f32");
    }
    if !device.supports_dtype(DType::from(dtype)) {
        return fail("the device does not support it");
    }
    Ok(())
}

/// Replaces every parameter by the checkpoint's. After a failure the remaining parameters stay unchanged.
struct Read<'a> {
    shards: &'a Shards,
    device: &'a Device,
    dtype: FloatDType,
    failure: Option<ModelError>,
    /// The server that reads the files, if it can.
    #[cfg(feature = "remote")]
    server: Option<ServerFiles>,
}

impl Replace for Read<'_> {
    fn replace<const D: usize>(
        &mut self,
        info: &ParameterInfo,
        param: Param<Tensor<D>>,
    ) -> Param<Tensor<D>> {
        let shape = param.lazy_shape();
        let mut ways = stored_ways(self.shards, info, shape.as_slice());
        let Some(parts) = ways.pop().filter(|_| self.failure.is_none()) else {
            return param;
        };
        let dtype = match self.dtype {
            FloatDType::F16 | FloatDType::BF16 if info.is_wide() => FloatDType::F32,
            dtype => dtype,
        };
        match self.tensor(&parts, shape.as_slice(), info.transposed, dtype) {
            Ok(tensor) => {
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Err(error) => {
                self.failure = Some(error);
                param
            }
        }
    }
}

impl Read<'_> {
    fn tensor<const D: usize>(
        &self,
        parts: &[Part],
        shape: &[usize],
        transposed: bool,
        dtype: FloatDType,
    ) -> Result<Tensor<D>, ModelError> {
        #[cfg(feature = "remote")]
        if let Some(server) = self.server.as_ref()
            && parts.iter().all(|part| self.is_plain(part))
        {
            return server.tensor(self.shards, parts, shape, transposed, dtype);
        }
        let data = self.data(parts, shape, transposed, dtype)?;
        Ok(Tensor::from_data(data, (self.device, DType::from(dtype))))
    }

    fn data(
        &self,
        parts: &[Part],
        shape: &[usize],
        transposed: bool,
        dtype: FloatDType,
    ) -> Result<TensorData, ModelError> {
        Ok(match dtype {
            FloatDType::F16 => TensorData::new(self.values::<f16>(parts, transposed)?, shape),
            FloatDType::BF16 => TensorData::new(self.values::<bf16>(parts, transposed)?, shape),
            FloatDType::F32 => TensorData::new(self.values::<f32>(parts, transposed)?, shape),
            FloatDType::F64 => TensorData::new(self.values::<f64>(parts, transposed)?, shape),
            FloatDType::Flex32 => unreachable!("flex32 was refused before"),
        })
    }

    /// Reads the values of a parameter. Only a matrix can be transposed, and it is one part.
    fn values<T: Wanted>(&self, parts: &[Part], transposed: bool) -> Result<Vec<T>, ModelError> {
        if transposed
            && let [part] = parts
            && let &[rows, columns] = part.shape.as_slice()
        {
            return self.matrix(part, [rows, columns]);
        }
        if let [part] = parts
            && part.encoding == Encoding::Transposed
            && let &[matrices, rows, columns] = part.shape.as_slice()
        {
            return self.matrices(part, matrices, [rows, columns]);
        }
        if let [blocks, scales] = parts
            && blocks.encoding == Encoding::Mxfp4
        {
            return self.mxfp4(blocks, scales);
        }
        let length = |part: &Part| part.shape.iter().product::<usize>();
        let mut values = vec![T::from_elem(0.0); parts.iter().map(length).sum()];
        for part in parts {
            let start = part.row * part.shape.last().copied().unwrap_or(1);
            self.fill(part, &mut values[start..start + length(part)])?;
        }
        Ok(values)
    }

    /// Reads a stack of transposed matrices. Only one of them is in memory as it is stored.
    fn matrices<T: Wanted>(
        &self,
        part: &Part,
        matrices: usize,
        shape: [usize; 2],
    ) -> Result<Vec<T>, ModelError> {
        let (file, info) = self.stored(part);
        let bytes_of_one = shape[0] * shape[1] * info.dtype.bitsize() / 8;
        let mut values = Vec::with_capacity(matrices * shape[0] * shape[1]);
        for at in 0..matrices {
            let begin = info.data_offsets.0 + at * bytes_of_one;
            let bytes = file.read_range(begin, bytes_of_one)?;
            values.extend(decode_transposed::<T>(&bytes, info.dtype, shape));
        }
        Ok(values)
    }

    /// Reads a stack of quantised matrices. Only one of them is in memory as it is stored.
    fn mxfp4<T: Wanted>(&self, blocks: &Part, scales: &Part) -> Result<Vec<T>, ModelError> {
        let (matrices, rows) = (scales.shape[0], scales.shape[1]);
        let scales_of_one = rows * scales.shape[2];
        let blocks_of_one = scales_of_one * mxfp4::BLOCK_BYTES;
        let elements = scales_of_one * mxfp4::BLOCK;
        let mut values = vec![T::from_elem(0.0); matrices * elements];
        let part = |part: &Part, at: usize, length: usize| {
            let (file, info) = self.stored(part);
            file.read_range(info.data_offsets.0 + at * length, length)
        };
        for (at, values) in values.chunks_mut(elements).enumerate() {
            let blocks = part(blocks, at, blocks_of_one)?;
            let scales = part(scales, at, scales_of_one)?;
            mxfp4::decode_transposed(&blocks, &scales, rows, values);
        }
        Ok(values)
    }

    /// Returns `true` if a tensor has one float of a usual type for each element.
    #[cfg(feature = "remote")]
    fn is_plain(&self, part: &Part) -> bool {
        part.encoding == Encoding::Floats && self.stored(part).1.dtype != Dtype::F8_E4M3
    }

    /// Reads a matrix of 8 bits and its factors.
    fn fp8<T: Wanted>(&self, part: &Part, values: &mut [T]) -> Result<(), ModelError> {
        let (file, info) = self.stored(part);
        let name = format!("{}{}", part.name, fp8::SCALES);
        let scales = self.shards.find(&name);
        let (scales_file, scales) = scales.expect("the factors were looked up before");
        let bytes = scales_file.read(scales)?;
        let mut factors = vec![0.0_f32; bytes.len() / 4];
        decode_into(&bytes, scales.dtype, &mut factors);
        let columns = part.shape[1];
        fp8::decode_into(&file.read(info)?, &factors, columns, values);
        Ok(())
    }

    fn stored(&self, part: &Part) -> (&TensorFile, &TensorInfo) {
        let stored = self.shards.find(&part.name);
        stored.expect("every part was looked up before anything is read")
    }

    fn matrix<T: Wanted>(&self, part: &Part, shape: [usize; 2]) -> Result<Vec<T>, ModelError> {
        let (file, info) = self.stored(part);
        if info.dtype == Dtype::F8_E4M3 {
            let [rows, columns] = shape;
            let mut values = vec![T::from_elem(0.0); rows * columns];
            self.fp8(part, &mut values)?;
            let place = |at: usize| values[at % rows * columns + at / rows];
            return Ok((0..rows * columns).map(place).collect());
        }
        Ok(decode_transposed(&file.read(info)?, info.dtype, shape))
    }

    /// Reads a tensor into its place. Only one piece of its stored bytes is in memory at a time.
    fn fill<T: Wanted>(&self, part: &Part, values: &mut [T]) -> Result<(), ModelError> {
        const PIECE: usize = 1 << 20;
        let (file, info) = self.stored(part);
        if info.dtype == Dtype::F8_E4M3 {
            return self.fp8(part, values);
        }
        let width = info.dtype.bitsize() / 8;
        let mut begin = info.data_offsets.0;
        for piece in values.chunks_mut(PIECE) {
            let bytes = file.read_range(begin, piece.len() * width)?;
            decode_into(&bytes, info.dtype, piece);
            begin += bytes.len();
        }
        Ok(())
    }
}
