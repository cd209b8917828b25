//! Weights of any shape, of random codes, in every encoding.

use crate::stored::{Stored, noise};
use half::f16;
use kernels_quant::{
    Awq, Bnb4Bit, BnbInt8, Code, Dtype, Fp8Blocks, Gptq, GptqVersion, Mxfp4, Packed, Scales,
    Unpacked, gguf,
};

/// Returns blocks of random codes, with scales near 1/64.
pub fn blocks(block: gguf::Block, shape: [usize; 2]) -> Stored {
    let mut random = noise(7);
    let row = shape[1] / block.elements() * block.bytes();
    let mut bytes: Vec<u8> = (0..shape[0] * row).map(|_| random() as u8).collect();
    let halves: &[usize] = match block {
        gguf::Block::Q4_1 | gguf::Block::Q5_1 | gguf::Block::Q4K | gguf::Block::Q5K => &[0, 2],
        gguf::Block::Q6K => &[208],
        gguf::Block::Mxfp4 => &[],
        _ => &[0],
    };
    for bytes in bytes.chunks_exact_mut(block.bytes()) {
        for &at in halves {
            let scale = f16::from_f64(random() as f64 / u64::MAX as f64 / 64.0);
            bytes[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
        if block == gguf::Block::Mxfp4 {
            bytes[0] = 120 + bytes[0] % 8;
        }
    }
    Stored::new(block, shape).with("blocks", Dtype::U8, &[shape[0], row], bytes)
}

fn random_bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut random = noise(seed);
    (0..count).map(|_| random() as u8).collect()
}

/// Returns scales between 1/128 and 1/64 in half precision.
fn halves(count: usize) -> Vec<u8> {
    let scale = |at: usize| f16::from_f64((1.0 + (at % 61) as f64 / 61.0) / 128.0);
    (0..count).flat_map(|at| scale(at).to_le_bytes()).collect()
}

pub fn int8(shape: [usize; 2]) -> Stored {
    let bytes = random_bytes(shape[0] * shape[1], 8);
    let scales: Vec<f32> = (0..shape[0]).map(|row| 0.5 + row as f32 / 50.0).collect();
    Stored::new(BnbInt8, shape)
        .with("weight", Dtype::I8, &shape, bytes)
        .singles("SCB", &shape[..1], &scales)
}

const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

pub fn nf4(shape: [usize; 2], block: usize) -> Stored {
    let elements = shape[0] * shape[1];
    let bytes = random_bytes(elements.div_ceil(2), 9);
    let count = elements.div_ceil(block);
    let absmax: Vec<f32> = (0..count).map(|at| 0.1 + (at % 13) as f32 / 20.0).collect();
    let text = format!(
        r#"{{"quant_type": "nf4", "blocksize": {block}, "shape": [{}, {}]}}"#,
        shape[0], shape[1]
    );
    let state = text.into_bytes();
    let name = "weight.quant_state.bitsandbytes__nf4";
    Stored::new(Bnb4Bit::Nf4, shape)
        .with(name, Dtype::U8, &[state.len()], state)
        .with("weight", Dtype::U8, &[elements.div_ceil(2), 1], bytes)
        .singles("weight.absmax", &[count], &absmax)
        .singles("weight.quant_map", &[16], &NF4)
}

/// Returns a weight with groups of consecutive columns, or, with `shuffled`, of any.
pub fn gptq([rows, columns]: [usize; 2], bits: u32, group: usize, shuffled: bool) -> Stored {
    let in_word = 32 / bits as usize;
    let groups = columns.div_ceil(group);
    let encoding = Gptq {
        bits,
        group: Some(group),
        version: GptqVersion::V1,
        desc_act: shuffled,
    };
    let stored = Stored::new(encoding, [rows, columns])
        .with(
            "qweight",
            Dtype::I32,
            &[columns / in_word, rows],
            random_bytes(columns / in_word * rows * 4, 10),
        )
        .with(
            "qzeros",
            Dtype::I32,
            &[groups, rows / in_word],
            random_bytes(groups * (rows / in_word) * 4, 11),
        )
        .with("scales", Dtype::F16, &[groups, rows], halves(groups * rows));
    match shuffled {
        false => stored,
        true => {
            let group = |column: usize| (column * 7 % columns / group) as u32;
            let groups: Vec<u32> = (0..columns).map(group).collect();
            stored.words("g_idx", &[columns], &groups)
        }
    }
}

pub fn awq([rows, columns]: [usize; 2], group: usize) -> Stored {
    let groups = columns / group;
    Stored::new(Awq { group: Some(group) }, [rows, columns])
        .with(
            "qweight",
            Dtype::I32,
            &[columns, rows / 8],
            random_bytes(columns * rows / 2, 12),
        )
        .with(
            "qzeros",
            Dtype::I32,
            &[groups, rows / 8],
            random_bytes(groups * rows / 2, 13),
        )
        .with("scales", Dtype::F16, &[groups, rows], halves(groups * rows))
}

/// Returns the numbers of rows and columns of scales.
fn grid([rows, columns]: [usize; 2], scales: Scales) -> [usize; 2] {
    match scales {
        Scales::Tensor => [1, 1],
        Scales::Rows => [rows, 1],
        Scales::Groups(size) => [rows, columns / size],
        Scales::Blocks([height, width]) => [rows.div_ceil(height), columns.div_ceil(width)],
    }
}

pub fn packed(shape: [usize; 2], bits: u32, scales: Scales, zeros: bool) -> Stored {
    let [rows, columns] = shape;
    let encoding = Packed {
        bits,
        scales,
        symmetric: !zeros,
        reordered: false,
    };
    let words = (columns * bits as usize).div_ceil(32);
    let grid @ [down, across] = grid(shape, scales);
    let sides = shape.iter().flat_map(|&side| (side as i64).to_le_bytes());
    let stored = Stored::new(encoding, shape)
        .with(
            "weight_packed",
            Dtype::I32,
            &[rows, words],
            random_bytes(rows * words * 4, 14),
        )
        .with("weight_scale", Dtype::F16, &grid, halves(down * across))
        .with("weight_shape", Dtype::I64, &[2], sides.collect());
    let of_zeros = [(rows * bits as usize).div_ceil(32), across];
    match zeros {
        false => stored,
        true => {
            let bytes = random_bytes(of_zeros[0] * across * 4, 15);
            stored.with("weight_zero_point", Dtype::I32, &of_zeros, bytes)
        }
    }
}

/// Returns bytes without the NaN of E4M3.
fn no_nan(mut bytes: Vec<u8>) -> Vec<u8> {
    for byte in &mut bytes {
        if *byte & 0x7f == 0x7f {
            *byte ^= 1;
        }
    }
    bytes
}

pub fn unpacked(shape: [usize; 2], code: Code, scales: Scales, zeros: bool) -> Stored {
    let encoding = Unpacked {
        code,
        scales,
        symmetric: !zeros,
    };
    let grid @ [down, across] = grid(shape, scales);
    let bytes = random_bytes(shape[0] * shape[1], 16);
    let (dtype, bytes) = match code {
        Code::Int8 => (Dtype::I8, bytes),
        Code::E4M3 => (Dtype::F8E4M3, no_nan(bytes)),
    };
    let stored = Stored::new(encoding, shape)
        .with("weight", dtype, &shape, bytes)
        .with("weight_scale", Dtype::F16, &grid, halves(down * across));
    match zeros {
        false => stored,
        true => {
            let bytes = random_bytes(down * across, 17);
            stored.with("weight_zero_point", Dtype::I8, &grid, bytes)
        }
    }
}

pub fn fp8_blocks(shape: [usize; 2], block: [usize; 2]) -> Stored {
    let grid @ [down, across] = grid(shape, Scales::Blocks(block));
    let bytes = no_nan(random_bytes(shape[0] * shape[1], 18));
    Stored::new(Fp8Blocks { block }, shape)
        .with("weight", Dtype::F8E4M3, &shape, bytes)
        .with("weight_scale_inv", Dtype::F16, &grid, halves(down * across))
}

pub fn mxfp4([rows, columns]: [usize; 2]) -> Stored {
    let across = columns / 32;
    let mut powers = random_bytes(rows * across, 20);
    powers
        .iter_mut()
        .for_each(|power| *power = 120 + *power % 8);
    Stored::new(Mxfp4, [rows, columns])
        .with(
            "blocks",
            Dtype::U8,
            &[rows, across, 16],
            random_bytes(rows * columns / 2, 19),
        )
        .with("scales", Dtype::U8, &[rows, across], powers)
}
