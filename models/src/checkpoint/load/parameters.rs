//! Reading of parameters from the tensors of a checkpoint.

use burn::module::{Param, ParamId};
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData, bf16, f16};

use super::super::check::stored_ways;
use super::super::decode::Wanted;
#[cfg(feature = "remote")]
use super::super::file::Change;
use super::super::kept::{self, Kept};
use super::super::matrices::Parts;
use super::super::progress::Counter;
#[cfg(feature = "remote")]
use super::super::server::ServerFiles;
use super::super::shards::Shards;
use super::super::source::Source;
#[cfg(feature = "remote")]
use super::super::storage::Storage;
use super::QuantisedWeights;
use crate::ModelError;
use crate::parameters::layout::{Encoding, MXFP4_BLOCK, Part};
use crate::parameters::{ParameterInfo, Replace};

/// Replaces every parameter by the checkpoint's. After a failure the remaining parameters stay unchanged.
pub(super) struct Read<'a> {
    counter: Counter<'a>,
    shards: &'a Shards,
    device: &'a Device,
    dtype: FloatDType,
    pub(super) failure: Option<ModelError>,
    /// The weights that stay in quantised form, if some do.
    pub(super) kept: Option<Kept>,
    quantised: QuantisedWeights,
    /// The server that reads the files, if it can.
    #[cfg(feature = "remote")]
    server: Option<ServerFiles>,
}

impl<'a> Read<'a> {
    /// Reads every parameter as floats.
    pub(super) fn floats(
        counter: Counter<'a>,
        shards: &'a Shards,
        device: &'a Device,
        dtype: FloatDType,
    ) -> Self {
        Self {
            counter,
            shards,
            device,
            dtype,
            failure: None,
            kept: None,
            quantised: QuantisedWeights::Decoded,
            #[cfg(feature = "remote")]
            server: ServerFiles::of(device, shards),
        }
    }

    /// Keeps the weights that can stay in a quantised form.
    pub(super) fn keeping(self, quantised: QuantisedWeights) -> Self {
        Self {
            kept: Some(Kept::default()),
            quantised,
            ..self
        }
    }
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
        match self.keep(info, &parts, shape.as_slice(), param.id) {
            Ok(false) => {}
            Ok(true) => {
                self.counter.add(self.shards, &parts);
                return param;
            }
            Err(error) => {
                self.failure = Some(error);
                return param;
            }
        }
        match self.tensor(&parts, shape.as_slice(), info.transposed, dtype) {
            Ok(tensor) => {
                self.counter.add(self.shards, &parts);
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
    /// Reads a weight that stays in quantised form. Returns `false` for other parameters.
    fn keep(
        &mut self,
        info: &ParameterInfo,
        parts: &[Part],
        shape: &[usize],
        id: ParamId,
    ) -> Result<bool, ModelError> {
        let Some(all) = &mut self.kept else {
            return Ok(false);
        };
        if let ([count, ..], QuantisedWeights::Kept) = (shape, self.quantised)
            && let Some(experts) = kept::experts(self.shards, info, parts, *count)?
        {
            all.experts.push((id, experts));
            return Ok(true);
        }
        let weight = match self.quantised {
            QuantisedWeights::Nf4 => kept::in_nf4(self.shards, info, parts)?,
            _ => kept::weight(self.shards, info, parts)?,
        };
        let Some(weight) = weight else {
            return Ok(false);
        };
        all.add(info, id, weight);
        Ok(true)
    }

    /// Returns the tensor of a parameter. The server reads it, if it can.
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

    /// Reads the data of a parameter in a dtype.
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
        let length = |part: &Part| part.shape.iter().product::<usize>();
        if let [blocks, scales] = parts
            && blocks.encoding == Encoding::Mxfp4
        {
            return self.mxfp4(blocks, scales);
        }
        let mut values = vec![T::from_elem(0.0); parts.iter().map(length).sum()];
        for part in parts {
            let read = match (self.shards.matrix(&part.name), part.shape.as_slice()) {
                (Some(matrix), &[rows, columns]) => Some(matrix.read([rows, columns])?),
                _ => None,
            };
            let source = match &read {
                Some(parts) => Source::of(parts)?,
                None => Source::open(self.shards, part),
            };
            match (part.encoding, part.shape.as_slice()) {
                (_, &[rows, _]) if transposed => source.read_transposed(0, rows, &mut values)?,
                (Encoding::Transposed, &[_, rows, columns]) => {
                    for (at, matrix) in values.chunks_mut(rows * columns).enumerate() {
                        source.read_transposed(at * rows, rows, matrix)?;
                    }
                }
                (_, shape) => {
                    let start = part.row * shape.last().copied().unwrap_or(1);
                    source.read(&mut values[start..start + length(part)])?;
                }
            }
        }
        Ok(values)
    }

    /// Reads a stack of quantised matrices. Only one of them is in memory as it is stored.
    fn mxfp4<T: Wanted>(&self, blocks: &Part, scales: &Part) -> Result<Vec<T>, ModelError> {
        let &[matrices, rows, across] = scales.shape.as_slice() else {
            unreachable!("the scales of a stack have three axes");
        };
        let elements = rows * across * MXFP4_BLOCK;
        let mut values = vec![T::from_elem(0.0); matrices * elements];
        for (at, values) in values.chunks_mut(elements).enumerate() {
            let parts = Parts::of_stack(self.shards, [blocks, scales], at)?;
            Source::of(&parts)?.read_transposed(0, rows, values)?;
        }
        Ok(values)
    }

    /// Returns `true` if a tensor has one float of a usual type for each element, in the usual order.
    #[cfg(feature = "remote")]
    fn is_plain(&self, part: &Part) -> bool {
        let Some((_, info)) = self.shards.find(&part.name) else {
            return false;
        };
        if self.shards.matrix(&part.name).is_some() {
            return false;
        }
        let floats = matches!(info.storage, Storage::Plain(_)) && info.storage.is_supported();
        part.encoding == Encoding::Floats && info.change == Change::None && floats
    }
}
