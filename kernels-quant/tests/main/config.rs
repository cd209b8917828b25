//! Configurations as the packages write them, and those that are not read.

use kernels_quant::{
    Awq, Bnb4Bit, BnbInt8, Code, Encoding, Fp8Blocks, Gptq, GptqVersion, LeftOut, Mxfp4, Packed,
    QuantConfig, Scales, Unpacked,
};
use serde_json::{Value, json};

use crate::stored::cases;

fn read(config: Value) -> QuantConfig {
    QuantConfig::parse(&config).unwrap_or_else(|error| panic!("{config}: {error}"))
}

fn is(config: Value, encoding: impl Into<Encoding>) {
    assert_eq!(read(config.clone()).encoding, encoding.into(), "{config}");
}

/// A configuration of compressed-tensors with one group.
fn compressed(format: &str, weights: Value) -> Value {
    json!({
        "quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed", "ignore": ["lm_head"],
        "kv_cache_scheme": null,
        "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": null, "weights": weights}},
    })
}

#[test]
fn configurations_of_files_are_read() {
    let nf4 = json!({
        "_load_in_4bit": true, "_load_in_8bit": false, "bnb_4bit_compute_dtype": "float32", "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": true, "llm_int8_has_fp16_weight": false, "llm_int8_skip_modules": null,
        "load_in_4bit": true, "load_in_8bit": false, "quant_method": "bitsandbytes",
    });
    is(nf4, Bnb4Bit::Nf4);
    is(json!({"load_in_4bit": true}), Bnb4Bit::Fp4);
    is(
        json!({"load_in_8bit": true, "quant_method": "bitsandbytes"}),
        BnbInt8,
    );

    let gptq = |group, version, desc_act| Gptq {
        bits: 4,
        group,
        version,
        desc_act,
    };
    is(
        json!({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true, "sym": false, "checkpoint_format": "gptq"}),
        gptq(Some(32), GptqVersion::V1, true),
    );
    is(
        json!({"quant_method": "gptq", "bits": 4, "group_size": -1, "format": "gptq_v2", "dynamic": {"-:.*gate": {}}}),
        gptq(None, GptqVersion::V2, false),
    );
    is(
        json!({"quant_method": "gptq", "bits": 4, "group_size": 128}),
        gptq(Some(128), GptqVersion::V1, false),
    );
    is(
        json!({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "version": "GEMM"}),
        Awq { group: Some(128) },
    );

    let packed = |bits, scales, symmetric| Packed {
        bits,
        scales,
        symmetric,
        reordered: false,
    };
    let scales = Scales::Groups(32);
    let weights = json!({"num_bits": 4, "type": "int", "symmetric": false, "strategy": "group", "group_size": 32});
    is(
        compressed("pack-quantized", weights),
        packed(4, scales, false),
    );
    let weights = json!({"num_bits": 8, "type": "int", "strategy": "channel", "dynamic": false, "group_size": null});
    is(
        compressed("pack-quantized", weights.clone()),
        packed(8, Scales::Rows, true),
    );
    is(
        compressed("int-quantized", weights),
        Unpacked {
            code: Code::Int8,
            scales: Scales::Rows,
            symmetric: true,
        },
    );
    let weights = json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32});
    is(
        compressed("int-quantized", weights),
        Unpacked {
            code: Code::Int8,
            scales: Scales::Groups(32),
            symmetric: true,
        },
    );
    let weights =
        json!({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 64]});
    let scales = Scales::Blocks([128, 64]);
    is(
        compressed("float-quantized", weights),
        Unpacked {
            code: Code::E4M3,
            scales,
            symmetric: true,
        },
    );
    for (order, reordered) in [
        (json!("group"), true),
        (json!("dynamic"), true),
        (json!(true), true),
        (json!("weight"), false),
        (json!("static"), false),
        (json!(null), false),
    ] {
        let weights = json!({"num_bits": 4, "type": "int", "group_size": 32, "actorder": order});
        let packed = packed(4, Scales::Groups(32), true);
        is(
            compressed("pack-quantized", weights),
            Packed {
                reordered,
                ..packed
            },
        );
    }
    for (group_size, scales) in [
        (json!(null), Scales::Tensor),
        (json!(-1), Scales::Rows),
        (json!(16), Scales::Groups(16)),
    ] {
        let weights = json!({"num_bits": 3, "type": "int", "group_size": group_size});
        is(
            compressed("pack-quantized", weights),
            packed(3, scales, true),
        );
    }

    let fp8 = read(
        json!({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}),
    );
    assert_eq!(fp8.encoding, Fp8Blocks { block: [128, 128] }.into());
    assert_eq!(
        fp8.remarks,
        [
            "inputs of quantised layers are not rounded, though the configuration has `activation_scheme` \"dynamic\""
        ]
    );
    is(
        json!({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}),
        Mxfp4,
    );
}

#[test]
fn differences_of_a_decoded_model_are_named() {
    let mut config = compressed(
        "int-quantized",
        json!({"num_bits": 8, "type": "int", "strategy": "channel"}),
    );
    config["config_groups"]["group_0"]["input_activations"] =
        json!({"num_bits": 8, "dynamic": true});
    config["config_groups"]["group_0"]["output_activations"] = json!({"num_bits": 8});
    config["kv_cache_scheme"] = json!({"num_bits": 8});
    let remarks = read(config).remarks;
    assert!(
        remarks.len() == 3 && remarks[0].contains("kv_cache_scheme"),
        "{remarks:?}"
    );
    assert!(remarks[1].contains("inputs") && remarks[1].contains("`input_activations`"));
    assert!(remarks[2].contains("outputs") && remarks[2].contains("`output_activations`"));
}

/// A group without weights, such as one of attention, whose inputs other programs round.
#[test]
fn groups_may_have_the_same_weights_or_none() {
    let weights = json!({"num_bits": 8, "type": "int", "strategy": "channel"});
    let mut config = compressed("int-quantized", weights);
    let one = read(config.clone()).encoding;
    let group = config["config_groups"]["group_0"].clone();
    config["config_groups"]["group_1"] = group;
    config["config_groups"]["group_1"]["input_activations"] = json!({"num_bits": 8});
    let inputs = json!({"num_bits": 8, "dynamic": true});
    config["config_groups"]["group_2"] = json!({"weights": null, "input_activations": inputs});
    let found = read(config);
    assert_eq!(found.encoding, one);
    assert_eq!(found.remarks.len(), 1, "{:?}", found.remarks);
}

#[test]
fn layers_that_stay_floats_are_those_of_the_packages_own_field() {
    let compressed = compressed(
        "int-quantized",
        json!({"num_bits": 8, "type": "int", "strategy": "channel"}),
    );
    let bnb = json!({"load_in_4bit": true, "llm_int8_skip_modules": ["lm_head"]});
    let awq =
        json!({"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": null});
    for (config, field) in [
        (compressed.clone(), Some("ignore")),
        (bnb, Some("llm_int8_skip_modules")),
        (awq, None),
    ] {
        let expected = field.map(|field| LeftOut {
            field,
            entries: vec!["lm_head".into()],
        });
        assert_eq!(read(config).left_out, expected);
    }
    for list in [json!([3]), json!("lm_head")] {
        let mut wrong = compressed.clone();
        wrong["ignore"] = list;
        let found = read(wrong);
        assert_eq!(found.left_out, None);
        assert_eq!(
            found.remarks,
            ["field `ignore`: expected a list of texts, so it is ignored"]
        );
    }
}

#[test]
fn other_configurations_are_refused() {
    let weights = |weights: Value| compressed("pack-quantized", weights);
    let four = json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32});
    let changed = |field: &str, value: Value| {
        let mut config = weights(four.clone());
        config[field] = value;
        config
    };
    let method = |method: &str, rest: Value| {
        let mut config = rest;
        config["quant_method"] = json!(method);
        config
    };
    let gptq = |rest: Value| method("gptq", rest);
    #[rustfmt::skip] // one case, one line
    let cases = [
        (json!("gptq"), "", "expected an object"),
        (json!({}), "quant_method", "\"\" is not supported; supported: bitsandbytes"),
        (json!({"quant_method": 4}), "quant_method", "expected a text"),
        (json!({"quant_method": "\u{1b}[31mhqq"}), "quant_method", "\"\\u{1b}[31mhqq\" is not supported"),
        (method("bitsandbytes", json!({"load_in_4bit": false})), "load_in_4bit", "neither"),
        (method("bitsandbytes", json!({"load_in_4bit": "yes"})), "load_in_4bit", "true or false"),
        (method("bitsandbytes", json!({"load_in_4bit": true, "load_in_8bit": true})), "load_in_4bit", "contradicts"),
        (method("bitsandbytes", json!({"load_in_8bit": true, "llm_int8_has_fp16_weight": true})), "llm_int8_has_fp16_weight", "halves"),
        (method("bitsandbytes", json!({"load_in_4bit": true, "bnb_4bit_quant_type": "af4"})), "bnb_4bit_quant_type", "fp4 or nf4"),
        (gptq(json!({"group_size": 32})), "bits", "missing"),
        (gptq(json!({"bits": -4, "group_size": 32})), "bits", "a number of bits"),
        (gptq(json!({"bits": 3, "group_size": 32})), "bits", "3 is not supported; supported: 2, 4 and 8"),
        (gptq(json!({"bits": 4})), "group_size", "missing"),
        (gptq(json!({"bits": 4, "group_size": 0})), "group_size", "or -1"),
        (gptq(json!({"bits": 4, "group_size": -2})), "group_size", "or -1"),
        (gptq(json!({"bits": 4, "group_size": 1.5})), "group_size", "or -1"),
        (gptq(json!({"bits": 4, "group_size": 32, "checkpoint_format": "marlin"})), "checkpoint_format", "gptq or gptq_v2"),
        (gptq(json!({"bits": 4, "group_size": 32, "is_marlin_format": true})), "is_marlin_format", "order"),
        (gptq(json!({"bits": 4, "group_size": 32, "pack_dtype": "int16"})), "pack_dtype", "int32"),
        (gptq(json!({"bits": 4, "group_size": 32, "dynamic": {"+:.*down": {"bits": 8}}})), "dynamic", "+:.*down"),
        (method("awq", json!({"bits": 8, "group_size": 32})), "bits", "supported: 4"),
        (method("awq", json!({"bits": 4, "group_size": 32, "zero_point": false})), "zero_point", "without zeros"),
        (method("awq", json!({"bits": 4, "group_size": 32, "version": "gemv"})), "version", "gemm"),
        (method("fp8", json!({"weight_block_size": null})), "weight_block_size", "missing"),
        (method("fp8", json!({"weight_block_size": [128]})), "weight_block_size", "rows and of columns"),
        (method("fp8", json!({"weight_block_size": [128, 0]})), "weight_block_size", "rows and of columns"),
        (method("fp8", json!({"weight_block_size": [128, 128], "fmt": "e5m2"})), "fmt", "e4m3"),
        (changed("quantization_status", json!("initialized")), "quantization_status", "compressed or frozen"),
        (changed("transform_config", json!({"config_groups": {"R1": {}}})), "transform_config", "rotates"),
        (changed("sparsity_config", json!({"format": "sparse-24-bitmask"})), "sparsity_config.format", "dense"),
        (changed("config_groups", json!({})), "config_groups", "no group has weights"),
        (changed("config_groups", json!({"a": {"weights": four}, "b": {"weights": {"num_bits": 8, "type": "int"}}})), "config_groups",
            "\"a\" has weights in pack-quantized of 4 bits, groups of 32, and \"b\" in pack-quantized of 8 bits, one scale"),
        (changed("config_groups", json!({"a": 3})), "config_groups", "objects"),
        (changed("config_groups", json!({"a": {"weights": null}})), "config_groups", "no group has weights"),
        (changed("format", json!("nvfp4-pack-quantized")), "format", "pack-quantized or"),
        (changed("format", json!("float-quantized")), "config_groups.\"group_0\".weights.num_bits", "4 bits of this type"),
        (compressed("int-quantized", json!({"num_bits": 9, "type": "int"})), "config_groups.\"group_0\".weights.num_bits", "9 bits of this type"),
        (weights(json!({"num_bits": 8, "type": "float"})), "config_groups.\"group_0\".weights.num_bits", "pack-quantized"),
        (weights(json!({"num_bits": 9, "type": "int"})), "config_groups.\"group_0\".weights.num_bits", "9 bits"),
        (weights(json!({"num_bits": 4, "type": "int", "strategy": "group"})), "config_groups.\"group_0\".weights.group_size", "a size"),
        (weights(json!({"num_bits": 4, "type": "int", "actorder": "random"})), "config_groups.\"group_0\".weights.actorder", "group or"),
        (weights(json!({"num_bits": 4, "type": "int", "symmetric": "no"})), "config_groups.\"group_0\".weights.symmetric", "true or false"),
        (compressed("int-quantized", json!({"num_bits": 8, "type": "int", "actorder": true})), "config_groups.\"group_0\".weights.actorder", "not supported in int-quantized"),
        (gptq(json!({"bits": 4, "group_size": 32, "desc_act": 1})), "desc_act", "true or false"),
        (weights(json!({"num_bits": 4, "type": "int", "strategy": "token"})), "config_groups.\"group_0\".weights.strategy", "tensor or"),
    ];
    for (config, field, says) in cases {
        let error = QuantConfig::parse(&config).expect_err(&config.to_string());
        assert_eq!(error.field, field, "{config}: {error}");
        assert!(error.problem.contains(says), "{config}: {error}");
    }
}

/// The names of parts are those of files.
#[test]
fn all_parts_are_named() {
    for case in cases() {
        let (stored, _) = case.read();
        let names = stored.encoding.part_names();
        for part in &stored.parts {
            assert!(
                names.contains(&part.name.as_str()),
                "{}: {}",
                case.file,
                part.name
            );
        }
        assert!(stored.parts.iter().any(|part| part.name == names[0]));
        assert_ne!(names[0], "weight");
    }
}
