//! Weights as bitsandbytes stores them.

use super::encode::Floats;
use kernels_quant::{BnbInt8, Dtype, PartSpec, QuantError, nf4};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A method of bitsandbytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Nf4,
    Int8,
}

impl Method {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nf4 => "NF4",
            Self::Int8 => "int8",
        }
    }

    /// Returns the parts of a weight in the place of a float weight.
    pub fn parts(self, shape: [usize; 2], stored: Dtype) -> Vec<PartSpec> {
        match self {
            Self::Nf4 => nf4::parts(shape, stored),
            Self::Int8 => BnbInt8::parts(shape).into(),
        }
    }

    /// Encodes a weight `[rows, columns]`, which has elements. Returns the bytes of its parts.
    ///
    /// # Errors
    /// Returns an error if a number has no code.
    pub fn encode(self, floats: Floats<'_>) -> anyhow::Result<Vec<Vec<u8>>> {
        match self {
            Self::Nf4 => in_nf4(floats),
            Self::Int8 => in_int8(floats),
        }
    }

    /// Returns the `quantization_config` of a checkpoint, as transformers writes it.
    pub fn config(self, skipped: &BTreeSet<String>, compute: Dtype) -> Value {
        let four = self == Self::Nf4;
        json!({
            "_load_in_4bit": four,
            "_load_in_8bit": !four,
            "bnb_4bit_compute_dtype": of_torch(compute),
            "bnb_4bit_quant_storage": "uint8",
            "bnb_4bit_quant_type": if four { "nf4" } else { "fp4" },
            "bnb_4bit_use_double_quant": four,
            "llm_int8_enable_fp32_cpu_offload": false,
            "llm_int8_has_fp16_weight": false,
            "llm_int8_skip_modules": skipped,
            "llm_int8_threshold": 6.0,
            "load_in_4bit": four,
            "load_in_8bit": !four,
            "quant_method": "bitsandbytes",
        })
    }
}

/// Returns torch's name of a type of floats.
fn of_torch(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "float16",
        Dtype::BF16 => "bfloat16",
        _ => "float32",
    }
}

/// A block of NF4: its codes, two a byte, and its scale.
#[derive(Clone, Copy)]
struct Block([u8; nf4::BLOCK / 2], f32);

fn in_nf4(floats: Floats<'_>) -> anyhow::Result<Vec<Vec<u8>>> {
    let elements = floats.bytes.len() / floats.dtype.size();
    let mut blocks = vec![Block([0; nf4::BLOCK / 2], 0.0); elements.div_ceil(nf4::BLOCK)];
    floats.encode(&mut blocks, [nf4::BLOCK, 1], |numbers, blocks| {
        let mut codes = vec![0; numbers.len().div_ceil(2)];
        let mut scales = vec![0.0; blocks.len()];
        nf4::encode(numbers, &mut codes, &mut scales)?;
        let codes = codes.chunks(nf4::BLOCK / 2);
        for ((block, codes), scale) in blocks.iter_mut().zip(codes).zip(scales) {
            block.0[..codes.len()].copy_from_slice(codes);
            block.1 = scale;
        }
        Ok(())
    })?;
    let mut codes: Vec<u8> = blocks.iter().flat_map(|block| block.0).collect();
    codes.truncate(elements.div_ceil(2));
    let absmax: Vec<f32> = blocks.iter().map(|block| block.1).collect();
    let shape = [elements / floats.columns, floats.columns];
    Ok(nf4::finish(shape, floats.dtype, codes, &absmax))
}

fn in_int8(floats: Floats<'_>) -> anyhow::Result<Vec<Vec<u8>>> {
    let (columns, size) = (floats.columns, floats.dtype.size());
    let rows = floats.bytes.par_chunks(columns * size);
    let mut codes = vec![0; floats.bytes.len() / size];
    let encoded: Vec<Result<f32, QuantError>> = rows
        .zip(codes.par_chunks_mut(columns))
        .map(|(bytes, codes)| {
            let mut numbers = vec![0.0; columns];
            kernels_quant::decode_floats(floats.dtype, bytes, &mut numbers);
            BnbInt8::encode_row(&numbers, codes)
        })
        .collect();
    let mut scales = Vec::with_capacity(encoded.len() * 4);
    for (row, scale) in encoded.into_iter().enumerate() {
        let scale = scale.map_err(|error| floats.error(row * columns, error))?;
        scales.extend(scale.to_le_bytes());
    }
    Ok(vec![codes, scales, vec![0]])
}
