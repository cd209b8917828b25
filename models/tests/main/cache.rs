//! Compares decoding with a cache of keys and values with passes over all tokens.

use crate::common::{MODELS, ints, model_dir, read, to_f64};
use crate::comparison::difference;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::policy::{Policy, scope};
use kernels_models::load;

/// Feeds parts of the tokens, and compares the logits after each.
#[test]
fn logits_are_those_of_a_pass_over_all_tokens() {
    let device = Device::default();
    for name in MODELS {
        let (config, model) = load(&model_dir(name), &device, FloatDType::F64).unwrap();
        let ids = ints(
            &read(&model_dir(name).join("golden.safetensors"))["input_ids"],
            &device,
        );
        // Windows of 8 show only in longer sequences.
        let ids = Tensor::cat(vec![ids.clone(), ids], 1);
        let [_, seq] = ids.dims();
        assert!(seq >= 20, "{name}");
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let all = model.forward(ids.clone(), None);
            let mut cache = config.cache();
            let mut from = 0;
            for part in [5, 1, 1, 3, 9].into_iter().chain(std::iter::repeat(1)) {
                if from + part > seq {
                    break;
                }
                let logits = model.next(ids.clone().narrow(1, from, part), &mut cache);
                from += part;
                assert_eq!(cache.positions(), from);
                let found = to_f64(&logits.unwrap().into_data());
                let expected = to_f64(&all.clone().narrow(1, from - 1, 1).into_data());
                let worst = difference(&found, &expected);
                assert!(worst < 1e-12, "{name}, {from} tokens: {worst:e}");
            }
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let device = Device::default();
    let (config, model) = load(&model_dir("llama"), &device, FloatDType::F32).unwrap();
    let ids = |batch: usize, seq: usize| Tensor::<2, Int>::zeros([batch, seq], &device);
    let mut cache = config.cache();
    model.next(ids(2, 3), &mut cache).unwrap();
    let mut refused = |ids: Tensor<2, Int>| {
        let error = model.next(ids, &mut cache).unwrap_err().to_string();
        assert_eq!(cache.positions(), 3);
        error
    };
    let said = refused(ids(1, 1));
    assert!(said.contains("another model or batch"), "{said}");
    let said = refused(ids(2, 0));
    assert!(said.contains("holds no token"), "{said}");
    let limit = config.max_position_embeddings;
    let said = refused(ids(2, limit - 2));
    assert!(said.contains("tokens after 3 are more than"), "{said}");

    let (other, _) = load(&model_dir("qwen3"), &device, FloatDType::F32).unwrap();
    let (wide, of_wide) = load(&model_dir("llama"), &device, FloatDType::F64).unwrap();
    let mut cache = wide.cache();
    of_wide.next(ids(2, 3), &mut cache).unwrap();
    let said = model.next(ids(2, 1), &mut cache).unwrap_err().to_string();
    assert!(said.contains("F64"), "{said}");
    assert_eq!(other.num_hidden_layers, config.num_hidden_layers);
}
