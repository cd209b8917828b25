//! Numbers are those of the formulas, for settings that the fixtures do not have.

use crate::stored::{Stored, cases, noise, pack};
use kernels_quant::{Code, Dtype, Gptq, GptqVersion, Mxfp4, Packed, Scales, Unpacked, gguf};

/// Returns integers of so many bits.
fn integers(count: usize, bits: usize, seed: u64) -> Vec<u32> {
    let mut random = noise(seed);
    (0..count)
        .map(|_| random() as u32 & ((1 << bits) - 1))
        .collect()
}

fn scales(count: usize) -> Vec<f32> {
    (0..count).map(|at| 0.01 + at as f32 * 0.003).collect()
}

/// Packs integers `[lines, width]` down the columns.
fn pack_down(integers: &[u32], width: usize, bits: usize) -> Vec<u32> {
    let lines = integers.len() / width;
    let columns: Vec<Vec<u32>> = (0..width)
        .map(|at| {
            let column: Vec<u32> = (0..lines).map(|line| integers[line * width + at]).collect();
            pack(&column, bits)
        })
        .collect();
    let words = columns[0].len();
    let place = |at: usize| columns[at % width][at / width];
    (0..words * width).map(place).collect()
}

/// GPTQ in 2, 4 and 8 bits, both versions, with a last group that is smaller, in order and out of it.
#[test]
fn gptq_is_its_formula() {
    let [rows, columns] = [32_usize, 80];
    for (bits, group) in [
        (2, Some(32)),
        (4, Some(24)),
        (8, Some(usize::MAX)),
        (4, None),
    ] {
        let groups = group.map_or(1, |group: usize| columns.div_ceil(group));
        let most = (1_u32 << bits) - 1;
        // `[columns, rows]` and `[groups, rows]`. No zero is 0, whose version 1 carries.
        let codes = integers(columns * rows, bits, 2);
        let zeros: Vec<u32> = integers(groups * rows, bits, 3)
            .iter()
            .map(|&zero| zero.max(1))
            .collect();
        let scales = scales(groups * rows);
        let mut order: Vec<u32> = (0..columns)
            .map(|column| (column / group.unwrap_or(columns)) as u32)
            .collect();
        for (version, shuffled) in [(GptqVersion::V1, false), (GptqVersion::V2, true)] {
            if shuffled {
                order.reverse();
                order.swap(3, 60);
            }
            let stored_zeros: Vec<u32> = match version {
                GptqVersion::V1 => zeros.iter().map(|zero| (zero - 1) & most).collect(),
                GptqVersion::V2 => zeros.clone(),
            };
            let bits = bits as u32;
            let mut stored = Stored::new(
                Gptq {
                    bits,
                    group,
                    version,
                    desc_act: shuffled,
                },
                [rows, columns],
            )
            .words(
                "qweight",
                &[columns * bits as usize / 32, rows],
                &pack_down(&codes, rows, bits as usize),
            )
            .words(
                "qzeros",
                &[groups, rows * bits as usize / 32],
                &pack(&stored_zeros, bits as usize),
            )
            .singles("scales", &[groups, rows], &scales);
            if shuffled {
                stored = stored.words("g_idx", &[columns], &order);
            }
            let expected: Vec<f32> = (0..rows * columns)
                .map(|at| {
                    let (row, column) = (at / columns, at % columns);
                    let group = order[column] as usize * rows + row;
                    (codes[column * rows + row] as f32 - zeros[group] as f32) * scales[group]
                })
                .collect();
            assert_eq!(
                stored.decoded(),
                expected,
                "{bits} bits, {group:?}, {version:?}"
            );
        }
    }
}

/// gptqmodel adds the ones of version 1 to words: a stored 15 becomes 0, and one more goes to the next zero.
#[test]
fn zeros_of_version_1_carry() {
    let gptq = Gptq {
        bits: 4,
        group: None,
        version: GptqVersion::V1,
        desc_act: false,
    };
    let stored = Stored::new(gptq, [8, 8])
        .words("qweight", &[1, 8], &[0; 8])
        .words("qzeros", &[1, 1], &[0x0000_00f4])
        .singles("scales", &[1, 8], &[1.0; 8]);
    let zeros: Vec<f32> = stored.decoded().chunks(8).map(|row| -row[0]).collect();
    assert_eq!(zeros, [5.0, 0.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
}

/// Integers of compressed-tensors in words, which 3 and 5 bits share, with zeros and columns out of order.
#[test]
fn packed_integers_are_their_formula() {
    let [rows, columns] = [13_usize, 48];
    for (bits, size) in [(3, 16), (5, 48), (8, 12), (1, 24)] {
        let across = columns / size;
        let codes = integers(rows * columns, bits, 4);
        let zeros = integers(rows * across, bits, 5);
        let scales = scales(rows * across);
        let words: Vec<u32> = codes
            .chunks(columns)
            .flat_map(|row| pack(row, bits))
            .collect();
        let shape = [rows as i64, columns as i64].map(i64::to_le_bytes).concat();
        let group = |column: usize| (columns - 1 - column) / size;
        let packed = Packed {
            bits: bits as u32,
            scales: Scales::Groups(size),
            symmetric: true,
            reordered: false,
        };
        let plain = Stored::new(packed, [rows, columns])
            .words(
                "weight_packed",
                &[rows, (columns * bits).div_ceil(32)],
                &words,
            )
            .singles("weight_scale", &[rows, across], &scales)
            .with("weight_shape", Dtype::I64, &[2], shape);
        let all = plain
            .clone()
            .words(
                "weight_zero_point",
                &[(rows * bits).div_ceil(32), across],
                &pack_down(&zeros, across, bits),
            )
            .words(
                "weight_g_idx",
                &[columns],
                &(0..columns).map(|at| group(at) as u32).collect::<Vec<_>>(),
            );
        let expected = |zero: &dyn Fn(usize) -> f32, group: &dyn Fn(usize) -> usize| -> Vec<f32> {
            (0..rows * columns)
                .map(|at| {
                    let scale = at / columns * across + group(at % columns);
                    (codes[at] as f32 - zero(scale)) * scales[scale]
                })
                .collect()
        };
        let half = (1 << (bits - 1)) as f32;
        assert_eq!(
            all.decoded(),
            expected(&|at| zeros[at] as f32, &group),
            "{bits} bits"
        );
        assert_eq!(
            plain.decoded(),
            expected(&|_| half, &|column| column / size),
            "{bits} bits"
        );
        // Some files have a list in which nothing was written.
        let unset = plain
            .clone()
            .words("weight_g_idx", &[columns], &vec![u32::MAX; columns]);
        assert_eq!(unset.decoded(), plain.decoded());
    }
}

#[test]
fn bytes_are_their_formula() {
    let codes: Vec<u8> = integers(6 * 10, 8, 6)
        .iter()
        .map(|&code| code as u8)
        .collect();
    let of = |scales, shape: &[usize], numbers: &[f32]| {
        Stored::new(
            Unpacked {
                code: Code::Int8,
                scales,
                symmetric: true,
            },
            [6, 10],
        )
        .with("weight", Dtype::I8, &[6, 10], codes.clone())
        .singles("weight_scale", shape, numbers)
    };
    let number = |at: usize| f32::from(codes[at] as i8);
    let expected: Vec<f32> = (0..60).map(|at| number(at) * 0.3).collect();
    for shape in [&[] as &[usize], &[1], &[1, 1]] {
        assert_eq!(of(Scales::Tensor, shape, &[0.3]).decoded(), expected);
    }
    let whole = of(Scales::Blocks([usize::MAX; 2]), &[1, 1], &[0.3]);
    assert_eq!(whole.decoded(), expected);

    let numbers = scales(4);
    let place = |at: usize| at / 10 / 4 * 2 + at % 10 / 7;
    let expected: Vec<f32> = (0..60).map(|at| number(at) * numbers[place(at)]).collect();
    let blocks = of(Scales::Blocks([4, 7]), &[2, 2], &numbers);
    assert_eq!(blocks.decoded(), expected);

    let numbers = scales(12);
    let zeros: Vec<u8> = (0..12_u8).map(|at| at.wrapping_mul(50)).collect();
    let zero = |at: usize| f32::from(zeros[at] as i8);
    let expected: Vec<f32> = (0..60)
        .map(|at| (number(at) - zero(at / 5)) * numbers[at / 5])
        .collect();
    let groups = of(Scales::Groups(5), &[6, 2], &numbers);
    let groups = groups.with("weight_zero_point", Dtype::I8, &[6, 2], zeros.clone());
    assert_eq!(groups.decoded(), expected);
}

/// bitsandbytes stores the bytes under other types if `bnb_4bit_quant_storage` says so.
#[test]
fn codes_of_4_bits_may_be_stored_as_floats() {
    for file in ["bnb_nf4_double", "bnb_fp4"] {
        let case = cases().into_iter().find(|case| case.file == file).unwrap();
        let (mut stored, _) = case.read();
        let expected = stored.decoded();
        let weight = stored.part("weight");
        if weight.bytes.len() % 2 == 0 {
            (weight.dtype, weight.shape) = (Dtype::BF16, vec![weight.bytes.len() / 2, 1]);
            assert_eq!(stored.decoded(), expected);
        }
    }
}

/// Scales of scales change with `nested_blocksize`.
#[test]
fn nested_scales_are_their_formula() {
    let state = |size: usize| {
        format!(
            r#"{{"quant_type": "nf4", "blocksize": 32, "dtype": "bfloat16", "shape": [4, 40], "nested_blocksize": {size},
            "nested_dtype": "float32", "nested_offset": 0.1}}"#
        )
    };
    let map: Vec<f32> = (0..256).map(|at| at as f32 / 255.0).collect();
    let table = cases()
        .into_iter()
        .find(|case| case.file == "bnb_nf4")
        .unwrap()
        .read()
        .0;
    let table = table
        .parts
        .iter()
        .find(|part| part.name == "weight.quant_map")
        .unwrap();
    let codes: Vec<u8> = integers(80, 8, 7).iter().map(|&byte| byte as u8).collect();
    let table_of = |code: u8| {
        let number = table.bytes[4 * usize::from(code)..].first_chunk().unwrap();
        f32::from_le_bytes(*number)
    };
    for (size, nested) in [(2, vec![2.0, 3.0, 5.0]), (4, vec![7.0, 11.0])] {
        let stored = Stored::new(kernels_quant::Bnb4Bit::Nf4, [4, 40])
            .with("weight", Dtype::U8, &[80, 1], codes.clone())
            .with("weight.absmax", Dtype::U8, &[5], vec![0, 17, 99, 200, 255])
            .with("weight.quant_map", Dtype::F32, &[16], table.bytes.clone())
            .singles("weight.nested_absmax", &[nested.len()], &nested)
            .singles("weight.nested_quant_map", &[256], &map)
            .with(
                "weight.quant_state.bitsandbytes__nf4",
                Dtype::U8,
                &[state(size).len()],
                state(size).into_bytes(),
            );
        let expected: Vec<f32> = (0..160)
            .map(|at| {
                let block = at / 32;
                let absmax = map[[0, 17, 99, 200, 255][block]] * nested[block / size] + 0.1;
                let byte = codes[at / 2];
                table_of(if at % 2 == 0 { byte >> 4 } else { byte & 15 }) * absmax
            })
            .collect();
        assert_eq!(stored.decoded(), expected);
    }
}

/// The same bytes mean halves of a block in GGUF files, and neighbours in those of gpt-oss.
#[test]
fn orders_of_mxfp4_differ() {
    let codes: Vec<u8> = (0..16).map(|at| at | at << 4).collect();
    let stored = Stored::new(Mxfp4, [1, 32])
        .with("blocks", Dtype::U8, &[1, 1, 16], codes.clone())
        .with("scales", Dtype::U8, &[1, 1], vec![128]);
    let neighbours = stored.decoded();
    assert_eq!(neighbours[..6], [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);

    let block = |exponent: u8| [vec![exponent], codes.clone()].concat();
    let of_gguf = |exponent| {
        Stored::new(gguf::Block::Mxfp4, [1, 32]).with(
            "blocks",
            Dtype::U8,
            &[1, 17],
            block(exponent),
        )
    };
    let halves = of_gguf(128).decoded();
    assert_eq!(halves[..4], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(halves[..16], halves[16..]);
    // Powers of two at the ends of f32: 2⁻¹²⁷, 2⁻¹²⁶ and 2¹²⁸, of which 0.5 times is a number.
    for exponent in [0, 1, 255] {
        let halves = of_gguf(exponent).decoded();
        assert_eq!(
            f64::from(halves[1]),
            0.5 * 2.0_f64.powi(i32::from(exponent) - 127)
        );
    }
}

/// Infinite and NaN scales are decoded as they are: without an error, and no other element is touched. A check refuses
/// them.
#[test]
fn scales_may_be_infinite_or_nan() {
    let scales = [f32::INFINITY, f32::NAN, 0.5, -0.0];
    let stored = Stored::new(
        Unpacked {
            code: Code::Int8,
            scales: Scales::Rows,
            symmetric: true,
        },
        [4, 2],
    )
    .with("weight", Dtype::I8, &[4, 2], vec![1, 255, 1, 2, 3, 4, 5, 6])
    .singles("weight_scale", &[4, 1], &scales);
    let decoded = stored.decoded();
    assert_eq!(decoded[..2], [f32::INFINITY, f32::NEG_INFINITY]);
    assert!(decoded[2].is_nan() && decoded[3].is_nan());
    assert_eq!(decoded[4..], [1.5, 2.0, 0.0, 0.0]);
    let error = stored.check().expect_err("an error").to_string();
    let says = "part \"weight_scale\": number 0 is inf; expected finite numbers";
    assert_eq!(error, says);
}
