//! Tests of properties of attention that hold for any weights.

use crate::common::{MODELS, Stored, copy_of, edit_config, edit_tensors, model_dir, to_f64};
use crate::comparison::difference;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_models::{CausalLm, load};
use serde_json::json;

fn open(dir: &std::path::Path) -> CausalLm {
    load(dir, &Device::default(), FloatDType::F32).unwrap().1
}

fn logits(model: &CausalLm, ids: [[i32; 6]; 2]) -> Vec<f64> {
    let ids = Tensor::<2, Int>::from_data(ids, &Device::default());
    to_f64(&model.forward(ids, None).into_data())
}

const IDS: [[i32; 6]; 2] = [[3, 14, 15, 92, 65, 35], [89, 79, 32, 38, 46, 26]];

#[test]
fn a_token_sees_no_later_one_and_no_other_row() {
    for name in MODELS {
        let model = open(&model_dir(name));
        let before = logits(&model, IDS);
        let mut ids = IDS;
        ids[0][4] = 1;
        let after = logits(&model, ids);
        let vocab = before.len() / 12;
        for position in 0..12 {
            let range = position * vocab..(position + 1) * vocab;
            let change = difference(&after[range.clone()], &before[range]);
            let sees_it = (4..6).contains(&position);
            assert_eq!(
                change > 1e-4,
                sees_it,
                "{name}, position {position}: {change:e}"
            );
        }
    }
}

/// Checks windows over two layers: a window of two tokens reaches one token back in each layer, and a layer without a
/// window reaches all.
#[test]
fn a_token_sees_its_window() {
    for (max_window_layers, reach) in [(0, 2), (1, 5)] {
        let windowed = copy_of("qwen2");
        edit_config(windowed.path(), |config| {
            config.remove("layer_types");
            config.insert("use_sliding_window".into(), json!(true));
            config.insert("sliding_window".into(), json!(2));
            config.insert("max_window_layers".into(), json!(max_window_layers));
        });
        let model = open(windowed.path());
        let before = logits(&model, IDS);
        let mut ids = IDS;
        ids[0][0] = 1;
        let after = logits(&model, ids);
        let vocab = before.len() / 12;
        for position in 0..6 {
            let range = position * vocab..(position + 1) * vocab;
            let change = difference(&after[range.clone()], &before[range]);
            assert_eq!(change > 1e-4, position <= reach, "{position}: {change:e}");
        }
    }
}

/// Grouped queries equal ordinary attention with repeated key and value heads: two heads of 16 rows become four, each
/// written twice in a row.
#[test]
fn grouped_queries_are_repeated_heads() {
    for name in ["llama", "qwen3"] {
        let repeated = copy_of(name);
        edit_config(repeated.path(), |config| {
            config.insert("num_key_value_heads".into(), json!(4));
        });
        edit_tensors(repeated.path(), |file| {
            for (name, tensor) in file.iter_mut() {
                if name.contains("k_proj") || name.contains("v_proj") {
                    let head = tensor.bytes.len() / 2;
                    let bytes = tensor
                        .bytes
                        .chunks(head)
                        .flat_map(|head| [head, head].concat())
                        .collect();
                    let shape = vec![2 * tensor.shape[0], tensor.shape[1]];
                    *tensor = Stored {
                        dtype: tensor.dtype,
                        shape,
                        bytes,
                    };
                }
            }
        });
        let grouped = logits(&open(&model_dir(name)), IDS);
        let full = logits(&open(repeated.path()), IDS);
        assert!(difference(&grouped, &full) < 1e-5, "{name}");
    }
}
