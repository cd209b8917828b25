//! Weights in memory, as files hold them.

use std::path::Path;

use kernels_quant::{
    Awq, Bnb4Bit, BnbInt8, Code, Dtype, Encoding, Fp8Blocks, Gptq, GptqVersion, Mxfp4, Packed,
    Part, QuantError, QuantizedWeight, Scales, Unpacked, gguf,
};
use safetensors::SafeTensors;

/// A tensor.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

/// A weight with its parts.
#[derive(Debug, Clone)]
pub struct Stored {
    pub encoding: Encoding,
    pub shape: [usize; 2],
    pub parts: Vec<Tensor>,
}

impl Stored {
    pub fn new(encoding: impl Into<Encoding>, shape: [usize; 2]) -> Self {
        Self {
            encoding: encoding.into(),
            shape,
            parts: Vec::new(),
        }
    }

    pub fn with(mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Self {
        self.parts.push(Tensor {
            name: name.into(),
            dtype,
            shape: shape.into(),
            bytes,
        });
        self
    }

    pub fn words(self, name: &str, shape: &[usize], words: &[u32]) -> Self {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.with(name, Dtype::I32, shape, bytes)
    }

    pub fn singles(self, name: &str, shape: &[usize], numbers: &[f32]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        self.with(name, Dtype::F32, shape, bytes.collect())
    }

    pub fn part(&mut self, name: &str) -> &mut Tensor {
        let mut parts = self.parts.iter_mut();
        parts
            .find(|part| part.name == name)
            .expect("a part of this name")
    }

    pub fn weight(&self) -> Result<QuantizedWeight<'_>, QuantError> {
        let parts = self.parts.iter();
        let parts = parts.map(|part| {
            (
                part.name.as_str(),
                Part::new(part.dtype, &part.shape, &part.bytes),
            )
        });
        QuantizedWeight::new(self.encoding, self.shape, parts)
    }

    /// Checks all parts but the bytes of the codes.
    pub fn check(&self) -> Result<(), QuantError> {
        let is_codes = |part: &&Tensor| part.name == self.encoding.codes();
        let codes = self.parts.iter().find(is_codes);
        let others = self.parts.iter().filter(|part| !is_codes(part));
        let others = others.map(|part| {
            let part_of = Part::new(part.dtype, &part.shape, &part.bytes);
            (part.name.as_str(), part_of)
        });
        let codes = codes.map(|codes| (codes.dtype, codes.shape.as_slice()));
        QuantizedWeight::check(self.encoding, self.shape, codes, others)
    }

    /// Decodes all rows.
    pub fn decoded(&self) -> Vec<f32> {
        let weight = self.weight().unwrap_or_else(|error| panic!("{error}"));
        let mut out = vec![f32::NAN; self.shape[0] * self.shape[1]];
        weight.decode_rows(0..self.shape[0], &mut out);
        out
    }

    pub fn error(&self) -> String {
        self.weight().expect_err("an error").to_string()
    }
}

fn dtype(of_file: safetensors::Dtype) -> Dtype {
    match of_file {
        safetensors::Dtype::U8 => Dtype::U8,
        safetensors::Dtype::I8 => Dtype::I8,
        safetensors::Dtype::F8_E4M3 => Dtype::F8E4M3,
        safetensors::Dtype::F16 => Dtype::F16,
        safetensors::Dtype::BF16 => Dtype::BF16,
        safetensors::Dtype::I32 => Dtype::I32,
        safetensors::Dtype::F32 => Dtype::F32,
        safetensors::Dtype::I64 => Dtype::I64,
        other => panic!("{other}"),
    }
}

/// A fixture and its encoding.
pub struct Case {
    pub file: &'static str,
    encoding: Encoding,
}

impl Case {
    /// Returns the weight, and the numbers that its package decodes.
    pub fn read(&self) -> (Stored, Vec<f32>) {
        // Tests of `kernels-simd` read them too.
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../kernels-quant/tests/fixtures")
            .join(format!("{}.safetensors", self.file));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let dequant = file.tensor("dequant").expect("decoded numbers");
        let shape = dequant.shape().try_into().expect("a matrix");
        let mut stored = Stored::new(self.encoding, shape);
        for (name, tensor) in file.tensors() {
            if let Some(name) = name.strip_prefix("stored.") {
                let bytes = tensor.data().to_vec();
                stored = stored.with(name, dtype(tensor.dtype()), tensor.shape(), bytes);
            }
        }
        let numbers = dequant.data().as_chunks().0.iter();
        (
            stored,
            numbers.map(|&number| f32::from_le_bytes(number)).collect(),
        )
    }
}

/// Returns every fixture.
pub fn cases() -> Vec<Case> {
    let of = |file, encoding: Encoding| Case { file, encoding };
    let gptq = Gptq {
        bits: 4,
        group: Some(32),
        version: GptqVersion::V1,
        desc_act: false,
    };
    let packed = |bits, scales| {
        Packed {
            bits,
            scales,
            symmetric: true,
            reordered: false,
        }
        .into()
    };
    let unpacked = |code, scales| {
        Unpacked {
            code,
            scales,
            symmetric: true,
        }
        .into()
    };
    vec![
        of("gguf_q8_0", gguf::Block::Q8_0.into()),
        of("gguf_q4_0", gguf::Block::Q4_0.into()),
        of("gguf_q4_1", gguf::Block::Q4_1.into()),
        of("gguf_q5_0", gguf::Block::Q5_0.into()),
        of("gguf_q5_1", gguf::Block::Q5_1.into()),
        of("gguf_q4_k", gguf::Block::Q4K.into()),
        of("gguf_q5_k", gguf::Block::Q5K.into()),
        of("gguf_q6_k", gguf::Block::Q6K.into()),
        of("gguf_mxfp4", gguf::Block::Mxfp4.into()),
        of("bnb_nf4", Bnb4Bit::Nf4.into()),
        of("bnb_nf4_odd", Bnb4Bit::Nf4.into()),
        of("bnb_nf4_block128", Bnb4Bit::Nf4.into()),
        of("bnb_nf4_double", Bnb4Bit::Nf4.into()),
        of("bnb_nf4_double_long", Bnb4Bit::Nf4.into()),
        of("bnb_fp4", Bnb4Bit::Fp4.into()),
        of("bnb_int8", BnbInt8.into()),
        of("gptq", gptq.into()),
        of("gptq_act_order", gptq.into()),
        of("awq", Awq { group: Some(32) }.into()),
        of("ct_w4a16_group", packed(4, Scales::Groups(32))),
        of("ct_w4a16_asym", packed(4, Scales::Groups(32))),
        of("ct_w8a16_packed", packed(8, Scales::Rows)),
        of("ct_w8a16_channel", unpacked(Code::Int8, Scales::Rows)),
        of("ct_fp8_channel", unpacked(Code::E4M3, Scales::Rows)),
        of("fp8_block", Fp8Blocks { block: [128, 128] }.into()),
        of("mxfp4_gpt_oss_expert0", Mxfp4.into()),
    ]
}

/// Returns numbers that differ in all bits, the same at every run.
pub fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    // SplitMix64.
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Packs integers into words, the lowest bits first.
pub fn pack(integers: &[u32], bits: usize) -> Vec<u32> {
    let mut words = vec![0; (integers.len() * bits).div_ceil(32)];
    for (at, integer) in integers.iter().enumerate() {
        for bit in 0..bits {
            words[(at * bits + bit) / 32] |= (integer >> bit & 1) << ((at * bits + bit) % 32);
        }
    }
    words
}
