//! Compares the sites that are found without weights with those that a model reaches.

use crate::counting::alone;
use std::collections::BTreeSet;

use crate::common::{MODELS, model_dir};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report;
use kernels_models::{CausalLm, ModelConfig, load};

/// Everything that a model does, with more tokens than the windows of these models hold.
fn run(model: &CausalLm, training: bool) {
    let device = match training {
        true => Device::default().autodiff(),
        false => Device::default(),
    };
    let ids = Tensor::<1, Int>::arange(0..24, &device).reshape([2, 12]);
    model.losses(ids.clone(), None);
    if training {
        model.training_losses(ids, None);
        return;
    }
    let mut cache = model.config().cache();
    model.next(ids.clone(), &mut cache).unwrap();
    cache.clear();
    let padded = model.next_padded(ids.clone(), &[11, 12], &mut cache);
    padded.unwrap();
    model.next(ids.narrow(1, 0, 1), &mut cache).unwrap();
}

fn reached() -> BTreeSet<String> {
    let rows = report::report().rows.into_iter();
    let reached = rows.filter(|row| row.calls > 0);
    reached.map(|row| row.site).collect()
}

#[test]
fn they_are_found_without_weights() {
    let _alone = alone();
    for name in MODELS {
        for training in [true, false] {
            let device = match training {
                true => Device::default().autodiff(),
                false => Device::default(),
            };
            let (config, model) = load(&model_dir(name), &device, FloatDType::F32).unwrap();
            report::reset();
            {
                let _policy = policy::scope("none".parse::<Policy>().unwrap());
                run(&model, training);
            }
            let expected = reached();
            assert!(expected.len() > 6, "{name}: {expected:?}");
            let found = config.reached_sites(&device).unwrap();
            assert_eq!(found, expected, "{name}, training: {training}");
        }
    }
    // More layers, experts and tokens than there is memory for.
    let text = std::fs::read_to_string(model_dir("glm4_moe_groups").join("config.json")).unwrap();
    let large = text
        .replace("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 90")
        .replace("\"hidden_size\": 64", "\"hidden_size\": 65536")
        .replace("\"vocab_size\": 128", "\"vocab_size\": 200000");
    let config = |json: &str| ModelConfig::from_json(json, "config.json".as_ref()).unwrap();
    let device = Device::default();
    assert_eq!(
        config(&large).reached_sites(&device).unwrap(),
        config(&text).reached_sites(&device).unwrap()
    );
    let wide = text.replace("\"head_dim\": 16", "\"head_dim\": 131072");
    let error = config(&wide).reached_sites(&device).unwrap_err();
    assert!(error.to_string().contains("head_dim"), "{error}");
}
