//! Parts that do not go together are refused with a sentence, and nothing that is accepted fails later.

use crate::stored::{Case, Stored, cases, noise};
use kernels_quant::{
    Awq, Bnb4Bit, Code, Dtype, Encoding, Fp8Blocks, Gptq, GptqVersion, Packed, Scales, Unpacked,
    gguf,
};

fn read(file: &str) -> Stored {
    let is = |case: &Case| case.file == file;
    cases().into_iter().find(is).expect(file).read().0
}

fn refused(stored: &Stored, says: &str) {
    let error = stored.error();
    assert!(error.contains(says), "{error:?} does not say {says:?}");
}

#[test]
fn lengths_off_by_one_are_refused() {
    for case in cases() {
        let (stored, _) = case.read();
        for at in 0..stored.parts.len() {
            let name = format!("part {:?}", stored.parts[at].name);
            for change in [-1_isize, 1] {
                let mut broken = stored.clone();
                let part = &mut broken.parts[at];
                part.bytes
                    .resize(part.bytes.len().strict_add_signed(change), 0);
                refused(
                    &broken,
                    &format!("{name} has {} bytes", part_length(&broken, at)),
                );
                for side in 0..stored.parts[at].shape.len() {
                    // Shape and length agree, and are not those of the weight.
                    let mut broken = stored.clone();
                    let part = &mut broken.parts[at];
                    part.shape[side] = part.shape[side].strict_add_signed(change);
                    let elements: usize = part.shape.iter().product();
                    part.bytes.resize(elements * part.dtype.size(), 0);
                    refused(&broken, &name);
                }
            }
        }
    }
}

/// A check without the codes accepts and refuses the same weights, but for scales that are not finite.
#[test]
fn checks_need_no_codes() {
    for case in cases() {
        let (stored, _) = case.read();
        assert_eq!(stored.check(), Ok(()), "{}", case.file);
        for at in 0..stored.parts.len() {
            let mut broken = stored.clone();
            broken.parts.remove(at);
            assert_eq!(broken.check().err(), broken.weight().err(), "{}", case.file);
            let mut broken = stored.clone();
            let part = &mut broken.parts[at];
            part.shape.push(3);
            part.bytes.resize(3 * part.bytes.len(), 0);
            assert_eq!(broken.check().err(), broken.weight().err(), "{}", case.file);
            let part = &stored.parts[at];
            let not_finite: &[u8] = match part.dtype {
                Dtype::F16 => &[0, 0x7c],
                Dtype::BF16 => &[0x80, 0x7f],
                Dtype::F32 => &[0, 0, 0xc0, 0x7f],
                Dtype::U8 if part.name == "scales" => &[255],
                _ => continue,
            };
            let mut broken = stored.clone();
            let bytes = &mut broken.parts[at].bytes;
            let last = bytes.len() - not_finite.len();
            bytes[last..].copy_from_slice(not_finite);
            let error = broken.check().expect_err(case.file).to_string();
            assert!(error.contains(&format!("{:?}", part.name)), "{error}");
        }
    }
}

/// Parts that the settings declare are not optional.
#[test]
fn declared_parts_are_needed() {
    let gptq = Gptq {
        bits: 4,
        group: Some(32),
        version: GptqVersion::V1,
        desc_act: true,
    };
    let mut stored = with("gptq_act_order", gptq);
    assert!(stored.weight().is_ok());
    stored.parts.retain(|part| part.name != "g_idx");
    refused(&stored, "part \"g_idx\" is missing");

    let packed = Packed {
        bits: 4,
        scales: Scales::Groups(32),
        symmetric: false,
        reordered: false,
    };
    assert!(with("ct_w4a16_asym", packed).weight().is_ok());
    let group = "ct_w4a16_group";
    refused(
        &with(group, packed),
        "part \"weight_zero_point\" is missing",
    );
    let reordered = Packed {
        symmetric: true,
        reordered: true,
        ..packed
    };
    refused(&with(group, reordered), "part \"weight_g_idx\" is missing");
    let rows = Packed {
        scales: Scales::Rows,
        ..reordered
    };
    refused(&with(group, rows), "only groups of columns have an order");
    let one = Packed {
        scales: Scales::Tensor,
        ..packed
    };
    refused(&with(group, one), "no zeros in words");

    let unpacked = |code| Unpacked {
        code,
        scales: Scales::Rows,
        symmetric: false,
    };
    refused(
        &with("ct_w8a16_channel", unpacked(Code::Int8)),
        "part \"weight_zero_point\" is missing",
    );
    refused(
        &with("ct_fp8_channel", unpacked(Code::E4M3)),
        "floats have no zeros",
    );
}

fn part_length(stored: &Stored, at: usize) -> usize {
    stored.parts[at].bytes.len()
}

#[test]
fn missing_doubled_and_foreign_parts_are_refused() {
    for case in cases() {
        let (stored, _) = case.read();
        for at in 0..stored.parts.len() {
            let mut broken = stored.clone();
            let part = broken.parts.remove(at);
            let optional = ["g_idx", "weight_format", "weight_zero_point"];
            if !optional.contains(&part.name.as_str()) {
                refused(&broken, &format!("part {:?} is missing", part.name));
            }
            let mut doubled = stored.clone();
            doubled.parts.push(part.clone());
            refused(
                &doubled,
                &format!("two parts have the name {:?}", part.name),
            );

            let mut other = stored.clone();
            let part = &mut other.parts[at];
            // Of the same size, so that only the type is wrong.
            let (old, new) = match part.dtype {
                Dtype::U8 => ("U8", Dtype::I8),
                Dtype::I8 => ("I8", Dtype::U8),
                Dtype::F8E4M3 => ("F8_E4M3", Dtype::U8),
                Dtype::F16 => ("F16", Dtype::I32),
                Dtype::BF16 => ("BF16", Dtype::I32),
                Dtype::I32 => ("I32", Dtype::F32),
                Dtype::F32 => ("F32", Dtype::I32),
                Dtype::I64 => ("I64", Dtype::F32),
            };
            part.bytes
                .resize(part.bytes.len() / part.dtype.size() * new.size(), 0);
            part.dtype = new;
            let error = other.error();
            assert!(
                error.contains(&format!("is {new}; expected")) && error.contains(old),
                "{error}"
            );
        }
        let foreign = stored.with("weight_scale_2", Dtype::F32, &[], vec![0; 4]);
        refused(&foreign, "unexpected part \"weight_scale_2\"");
    }
}

#[test]
fn empty_and_enormous_shapes_are_refused() {
    for case in cases() {
        let (stored, _) = case.read();
        let [rows, columns] = stored.shape;
        for shape in [[0, columns], [rows, 0], [0, 0], [0, usize::MAX]] {
            let empty = Stored {
                shape,
                ..stored.clone()
            };
            refused(&empty, "it has no elements");
        }
        for shape in [[usize::MAX, usize::MAX], [usize::MAX / 2, 2], [1 << 63, 4]] {
            let enormous = Stored {
                shape,
                ..stored.clone()
            };
            refused(&enormous, "more elements than memory can hold");
        }
        let wide = [1, (usize::MAX >> 4) / 4096 * 4096];
        for shape in [
            [rows, columns + 256],
            [rows + 256, columns],
            [1, 1],
            wide,
            [wide[1], 1],
        ] {
            assert!(
                Stored {
                    shape,
                    ..stored.clone()
                }
                .weight()
                .is_err(),
                "{} {shape:?}",
                case.file
            );
        }
        // Shapes of parts whose product overflows.
        for at in 0..stored.parts.len() {
            for shape in [
                vec![usize::MAX, usize::MAX, 0],
                vec![1 << 63, 2],
                vec![usize::MAX; 9],
            ] {
                let mut broken = stored.clone();
                broken.parts[at].shape = shape;
                assert!(broken.weight().is_err());
            }
        }
    }
}

fn with(file: &str, encoding: impl Into<Encoding>) -> Stored {
    Stored {
        encoding: encoding.into(),
        ..read(file)
    }
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let gptq = |bits, group| Gptq {
        bits,
        group,
        version: GptqVersion::V1,
        desc_act: false,
    };
    refused(
        &with("gptq", gptq(3, Some(32))),
        "supported: 2, 4 and 8 bits",
    );
    refused(
        &with("gptq", gptq(0, Some(32))),
        "supported: 2, 4 and 8 bits",
    );
    refused(&with("gptq", gptq(4, Some(0))), "at least one column");
    refused(
        &with("gptq", gptq(8, Some(32))),
        "\"qweight\" has shape [12, 64]; expected [24, 64]",
    );
    refused(
        &with("gptq", gptq(4, Some(64))),
        "column 64 is in group 2, and there are 2",
    );
    let mut odd = read("gptq");
    odd.shape = [64, 95];
    refused(&odd, "words hold 8 integers");

    refused(&with("awq", Awq { group: Some(0) }), "at least one element");
    refused(
        &with("awq", Awq { group: Some(36) }),
        "whole numbers of groups of 36",
    );
    refused(&with("awq", Awq { group: None }), "expected [1, 5]");
    let mut odd = read("awq");
    odd.shape = [39, 96];
    refused(&odd, "words hold 8 rows");

    let packed = |bits, scales| Packed {
        bits,
        scales,
        symmetric: true,
        reordered: false,
    };
    for bits in [0, 9, 32, u32::MAX] {
        refused(
            &with("ct_w4a16_group", packed(bits, Scales::Rows)),
            "supported: 1 to 8 bits",
        );
    }
    refused(
        &with("ct_w4a16_group", packed(4, Scales::Groups(0))),
        "at least one element",
    );
    refused(
        &with("ct_w4a16_group", packed(4, Scales::Groups(40))),
        "whole numbers of groups of 40",
    );
    refused(
        &with("ct_w4a16_group", packed(4, Scales::Groups(usize::MAX))),
        "whole numbers",
    );
    refused(
        &with("ct_w4a16_group", packed(4, Scales::Rows)),
        "expected [21, 1]",
    );
    refused(
        &with("ct_w4a16_group", packed(4, Scales::Blocks([1, 32]))),
        "no blocks of several rows",
    );
    refused(
        &with("ct_w4a16_asym", packed(4, Scales::Tensor)),
        "\"weight_scale\" has shape",
    );

    refused(
        &with("fp8_block", Fp8Blocks { block: [128, 0] }),
        "at least one element",
    );
    refused(
        &with("fp8_block", Fp8Blocks { block: [64, 64] }),
        "expected [3, 3]",
    );
    let mut odd = read("gguf_q4_k");
    odd.shape[1] = 480;
    refused(&odd, "whole blocks of 256");
    refused(&with("gguf_q4_k", gguf::Block::Q5K), "expected [12, 352]");
}

#[test]
fn indices_out_of_range_are_refused() {
    for group in [3, -1, i32::MIN, i32::MAX] {
        let mut broken = read("gptq_act_order");
        broken.part("g_idx").bytes[4 * 95..].copy_from_slice(&group.to_le_bytes());
        refused(
            &broken,
            &format!("column 95 is in group {group}, and there are 3"),
        );

        let mut order: Vec<u32> = (0..96).map(|column| column / 32).collect();
        order[7] = group as u32;
        let broken = read("ct_w4a16_group").words("weight_g_idx", &[96], &order);
        refused(
            &broken,
            &format!("column 7 is in group {group}, and there are 3"),
        );
    }
    let mut order: Vec<u32> = (0..96).map(|column| column / 32).collect();
    order[0] = 1;
    let uneven = read("ct_w4a16_group").words("weight_g_idx", &[96], &order);
    refused(&uneven, "group 0 has 31 columns instead of 32");

    let mut broken = read("ct_w4a16_group");
    broken.part("weight_shape").bytes[0] ^= 1;
    refused(&broken, "says [20, 96], and the weight's shape is [21, 96]");
    broken.part("weight_shape").bytes[7] = 0xff;
    refused(&broken, "says [-");
    let mut broken = read("bnb_int8");
    broken.part("weight_format").bytes[0] = 1;
    refused(&broken, "only the format 0");
}

#[test]
fn settings_of_bitsandbytes_are_checked() {
    const STATE: &str = "weight.quant_state.bitsandbytes__nf4";
    let set = |stored: &mut Stored, text: &str| {
        let part = stored.part(STATE);
        (part.shape, part.bytes) = (vec![text.len()], text.into());
    };
    let nested = r#""nested_blocksize": 256, "nested_offset": 0.1"#;
    for (text, says) in [
        ("", "EOF"),
        ("{}", "missing field"),
        ("\u{1b}[31m", "expected value"),
        (
            r#"{"quant_type": "nf4", "blocksize": 64}"#,
            "missing field `shape`",
        ),
        (
            r#"{"quant_type": "nf4", "blocksize": -64, "shape": [33, 80]}"#,
            "invalid value",
        ),
        (
            r#"{"quant_type": "fp4", "blocksize": 64, "shape": [33, 80]}"#,
            "not nf4",
        ),
        (
            r#"{"quant_type": "nf4", "blocksize": 0, "shape": [33, 80]}"#,
            "at least one",
        ),
        (
            r#"{"quant_type": "nf4", "blocksize": 64, "shape": [33, 81]}"#,
            "is [33, 81]",
        ),
        (
            r#"{"quant_type": "nf4", "blocksize": 64, "shape": [33]}"#,
            "is [33]",
        ),
        (
            r#"{"quant_type": "nf4", "blocksize": 64, "shape": [33, 80]}"#,
            "\"weight.absmax\" is U8",
        ),
        (
            r#"{"quant_type": "nf4", "blocksize": 64, "shape": [33, 80], "nested_blocksize": 256}"#,
            "one of `nested_blocksize`",
        ),
        (
            r#"{"quant_type": "nf4", "blocksize": 64, "shape": [33, 80], "nested_blocksize": 256, "nested_offset": -1e300}"#,
            "outside of the range of f32",
        ),
    ] {
        let mut broken = read("bnb_nf4_double");
        set(&mut broken, text);
        refused(&broken, says);
    }
    for (size, says) in [
        ("0", "at least one"),
        ("32", "\"weight.absmax\" has shape [42]; expected [83]"),
        (
            "18446744073709551615",
            "\"weight.absmax\" has shape [42]; expected [1]",
        ),
    ] {
        let mut broken = read("bnb_nf4_double");
        let text =
            format!(r#"{{"quant_type": "nf4", "blocksize": {size}, "shape": [33, 80], {nested}}}"#);
        set(&mut broken, &text);
        refused(&broken, says);
    }
    let mut long = read("bnb_nf4_double");
    set(&mut long, &" ".repeat(1 << 17));
    refused(&long, "131072 bytes of settings");
    let mut deep = read("bnb_nf4_double");
    set(&mut deep, &"[".repeat(60_000));
    assert!(deep.weight().is_err());

    let mut other = read("bnb_nf4");
    other.part("weight.quant_map").bytes[4..8].copy_from_slice(&0.5_f32.to_le_bytes());
    refused(&other, "number 1 of nf4 is -0.6961928, not 0.5");
    let mut fp4 = read("bnb_nf4");
    fp4.encoding = Bnb4Bit::Fp4.into();
    refused(
        &fp4,
        "part \"weight.quant_state.bitsandbytes__fp4\" is missing",
    );
}

/// Whatever the parts are, they are refused, or decoded without a panic.
#[test]
fn random_changes_never_panic() {
    let mut accepted = 0;
    for (seed, case) in cases().iter().enumerate() {
        let (stored, _) = case.read();
        let mut random = noise(seed as u64 + 100);
        for _ in 0..300 {
            let mut broken = stored.clone();
            for _ in 0..=random() % 3 {
                let at = random() as usize % broken.parts.len();
                let part = &mut broken.parts[at];
                match random() % 8 {
                    0 if !part.shape.is_empty() => {
                        let side = random() as usize % part.shape.len();
                        part.shape[side] = random() as usize >> (random() % 64);
                    }
                    1 => part
                        .bytes
                        .truncate(random() as usize % (part.bytes.len() + 1)),
                    2 => broken.shape[at % 2] = random() as usize >> (random() % 64),
                    3 => part.bytes.fill(random() as u8),
                    _ if !part.bytes.is_empty() => {
                        let place = random() as usize % part.bytes.len();
                        part.bytes[place] = random() as u8;
                    }
                    _ => {}
                }
            }
            if let Ok(weight) = broken.weight() {
                let [rows, columns] = weight.shape();
                weight.decode_rows(0..rows, &mut vec![0.0; rows * columns]);
                accepted += 1;
            }
        }
    }
    assert!(accepted > 1000, "only {accepted} of 7800 were decoded");
}

#[test]
#[should_panic(expected = "rows 3..8 of a weight with 7")]
fn rows_beyond_the_last_are_a_mistake_of_the_caller() {
    let stored = read("bnb_nf4");
    stored
        .weight()
        .unwrap()
        .decode_rows(3..8, &mut vec![0.0; 5 * 46]);
}

#[test]
#[should_panic(expected = "one element for each of the 2 rows of 46")]
fn a_wrong_room_is_a_mistake_of_the_caller() {
    let stored = read("bnb_nf4");
    stored.weight().unwrap().decode_rows(0..2, &mut [0.0; 46]);
}
