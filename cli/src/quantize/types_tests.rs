//! Types that llama.cpp v0.5.0 gives the tensors of small models (`llama_model_quantize`).

use super::*;

#[test]
fn any_number_of_layers_is_divided() {
    for layers in 0..100 {
        for layer in 0..layers {
            let expected =
                layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
            assert_eq!(
                needs_more_bits(layer, layers),
                expected,
                "{layer} of {layers}"
            );
        }
    }
    assert!(needs_more_bits(0, usize::MAX));
}

/// Returns the names of a model's matrices with the length of their rows, in llama.cpp's order.
fn tensors(
    layers: usize,
    [wide, inner]: [u64; 2],
    is_tied: bool,
    is_sparse: bool,
) -> Vec<(String, u64)> {
    let mut names = vec![("token_embd.weight".to_owned(), wide)];
    if !is_tied {
        names.insert(0, ("output.weight".to_owned(), wide));
    }
    let end = if is_sparse { "_exps" } else { "" };
    for layer in 0..layers {
        let of = |name: &str, columns| (format!("blk.{layer}.{name}.weight"), columns);
        names.extend(["attn_k", "attn_output", "attn_q", "attn_v"].map(|name| of(name, wide)));
        names.push(of(&format!("ffn_down{end}"), inner));
        names.extend(["ffn_gate", "ffn_up"].map(|name| of(&format!("{name}{end}"), wide)));
    }
    names
}

/// Returns each kind of tensor with its type, or with the types of its layers if they differ.
fn types(model: &Model, target: Target, sizes: [u64; 2]) -> Vec<String> {
    let tensors = tensors(model.layers, sizes, !model.has_output, model.experts > 0);
    let mut chooser = Chooser::new(model, target);
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (name, columns) in tensors {
        let kind = chooser.choose(&name, columns).to_string();
        let short = name
            .split('.')
            .filter(|part| part.parse::<usize>().is_err() && *part != "blk");
        let short = short.collect::<Vec<_>>()[0].to_owned();
        match found.iter_mut().find(|own| own.0 == short) {
            Some(own) => own.1.push(kind),
            None => found.push((short, vec![kind])),
        }
    }
    let line =
        |(name, kinds): (String, Vec<String>)| match kinds.iter().all(|kind| *kind == kinds[0]) {
            true => format!("{name} {}", kinds[0]),
            false => format!("{name} {}", kinds.join(" ")),
        };
    found.into_iter().map(line).collect()
}

fn model(architecture: &str, layers: usize) -> Model {
    Model {
        architecture: architecture.into(),
        layers,
        experts: 0,
        heads: 4,
        key_value_heads: 2,
        has_output: true,
        values: layers,
    }
}

#[test]
fn dense_models() {
    let llama = model("llama", 10);
    let all = |kind: &str| {
        let names = [
            "token_embd",
            "attn_k",
            "attn_output",
            "attn_q",
            "attn_v",
            "ffn_down",
            "ffn_gate",
            "ffn_up",
        ];
        names.map(|name| format!("{name} {kind}"))
    };
    let found = types(&llama, Target::Q8_0, [256, 256]);
    assert_eq!((&*found[0], &found[1..]), ("output Q8_0", &all("Q8_0")[..]));
    let found = types(&llama, Target::Q4_0, [256, 256]);
    assert_eq!((&*found[0], &found[1..]), ("output Q6_K", &all("Q4_0")[..]));
    let mixed = "Q6_K Q4_K Q4_K Q6_K Q4_K Q4_K Q6_K Q4_K Q6_K Q6_K";
    let [values, downs] = ["attn_v", "ffn_down"].map(|name| format!("{name} {mixed}"));
    assert_eq!(
        types(&llama, Target::Q4KM, [256, 256]),
        [
            "output Q6_K",
            "token_embd Q4_K",
            "attn_k Q4_K",
            "attn_output Q4_K",
            "attn_q Q4_K",
            &values,
            &downs,
            "ffn_gate Q4_K",
            "ffn_up Q4_K",
        ]
    );
}

#[test]
fn tied_models_have_the_type_of_the_output_in_the_embedding() {
    let qwen = Model {
        has_output: false,
        ..model("qwen3", 12)
    };
    for (target, kind) in [
        (Target::Q8_0, "Q8_0"),
        (Target::Q4_0, "Q6_K"),
        (Target::Q4KM, "Q6_K"),
    ] {
        let found = types(&qwen, target, [256, 256]);
        assert_eq!(found[0], format!("token_embd {kind}"));
    }
    let found = types(&qwen, Target::Q4KM, [256, 256]);
    let mixed = "Q6_K Q4_K Q4_K Q6_K Q4_K Q4_K Q6_K Q4_K Q4_K Q6_K Q6_K Q6_K";
    assert_eq!(found[4], format!("attn_v {mixed}"));
}

/// The types of the values, and of the down projections, in 80 layers.
#[test]
fn large_models_have_more_bits_in_values_that_heads_share() {
    let values = |model: &Model| {
        let found = types(model, Target::Q4KM, [256, 256]);
        let of = |name: &str| {
            let line = found.iter().find(|line| line.starts_with(name)).unwrap();
            let kinds: Vec<String> = line.split(' ').skip(1).map(str::to_owned).collect();
            (kinds[9].clone(), kinds[10].clone())
        };
        (of("attn_v"), of("ffn_down"))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let downs = pair("Q6_K", "Q4_K");
    assert_eq!(
        values(&model("llama", 80)),
        (pair("Q6_K", "Q5_K"), downs.clone())
    );
    assert_eq!(
        values(&model("qwen2", 80)),
        (pair("Q6_K", "Q5_K"), downs.clone())
    );
    let unshared = Model {
        key_value_heads: 4,
        ..model("llama", 80)
    };
    assert_eq!(values(&unshared), (downs.clone(), downs));
}

#[test]
fn mixtures_of_8_experts_have_more_bits_in_attention() {
    let mixtral = Model {
        experts: 8,
        ..model("llama", 9)
    };
    let found = types(&mixtral, Target::Q4KM, [256, 256]);
    let expected = [
        "attn_k Q8_0",
        "attn_output Q5_K",
        "attn_q Q4_K",
        "attn_v Q8_0",
        "ffn_down_exps Q6_K Q4_K Q4_K Q6_K Q4_K Q4_K Q6_K Q6_K Q6_K",
        "ffn_gate_exps Q4_K",
    ];
    assert_eq!(found[2..8], expected);
    let found = types(&mixtral, Target::Q4_0, [256, 256]);
    assert_eq!(
        found[2..6],
        [
            "attn_k Q8_0",
            "attn_output Q4_0",
            "attn_q Q4_0",
            "attn_v Q8_0"
        ]
    );
    let qwen = Model {
        experts: 4,
        ..model("qwen3moe", 9)
    };
    let found = types(&qwen, Target::Q4KM, [256, 256]);
    assert_eq!(found[2..4], ["attn_k Q4_K", "attn_output Q4_K"]);
    assert_eq!(
        found[6],
        "ffn_down_exps Q6_K Q4_K Q4_K Q6_K Q4_K Q4_K Q6_K Q6_K Q6_K"
    );
}

/// Rows that are not whole blocks.
#[test]
fn odd_rows_have_other_types() {
    let found = types(&model("llama", 5), Target::Q4KM, [320, 96]);
    assert_eq!(
        found[..3],
        ["output Q8_0", "token_embd Q5_0", "attn_k Q5_0"]
    );
    assert_eq!(found[5], "attn_v Q5_0 Q5_0 Q8_0 Q5_0 Q8_0");
    assert_eq!(found[6], "ffn_down Q5_0 Q5_0 Q8_0 Q5_0 Q8_0");
    let found = types(&model("llama", 5), Target::Q4_0, [320, 96]);
    assert_eq!(found[..2], ["output Q8_0", "token_embd Q4_0"]);
    for target in [Target::Q8_0, Target::Q4_0, Target::Q4KM] {
        let found = types(&model("llama", 2), target, [96, 72]);
        assert_eq!(found[6], "ffn_down F16");
        assert_eq!(found[0], "output Q8_0");
    }
}

#[test]
fn norms_biases_and_routers_are_kept() {
    for name in [
        "blk.0.attn_norm.weight",
        "blk.0.ffn_gate_inp.weight",
        "blk.0.attn_q.bias",
        "position_embd.weight",
    ] {
        assert!(!is_quantised(name, &[64, 64]), "{name}");
    }
    assert!(!is_quantised("rope_freqs.weight", &[64]));
    assert!(!is_quantised("blk.0.ffn_up.weight", &[64, 1]));
    assert!(is_quantised("blk.0.ffn_up_exps.weight", &[64, 1, 2]));
    assert_eq!(layer("blk.12.attn_q.weight"), Some(12));
    assert_eq!(layer("blkx.1.a"), None);
}
