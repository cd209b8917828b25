//! Tests of wrong model directories and inputs: each error names the file and the field or tensor, and nothing panics.

use std::fs;
use std::path::Path;

use crate::common::{self, File, Stored, copy_of, edit_config, edit_tensors, model_dir};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_models::{ModelConfig, Qwen3MoeSize, Qwen3Size, load};
use safetensors::Dtype;
use serde_json::{Map, Value, json};

/// `input_ids`, `position_ids`, the input that the message names, other text in the message.
type InputCase = (
    Tensor<2, Int>,
    Option<Tensor<2, Int>>,
    &'static str,
    &'static str,
);

fn error_of(dir: &Path) -> String {
    match load(dir, &Device::default(), FloatDType::F32) {
        Ok(_) => panic!("{} was accepted", dir.display()),
        Err(error) => error.to_string(),
    }
}

/// Sets a field; `null` removes it.
fn set(config: &mut Map<String, Value>, name: &str, value: Value) {
    if value.is_null() {
        config.remove(name);
    } else {
        config.insert(name.into(), value);
    }
}

#[test]
fn configurations() {
    let llama3 = |change: &str, value: Value| {
        let mut rope = json!({
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32
        });
        set(rope.as_object_mut().unwrap(), change, value);
        rope
    };
    // Model, field to set, value, field that the message names, other text in the message.
    #[rustfmt::skip] // one case, one line
    let cases: Vec<(&str, &str, Value, &str, &str)> = vec![
        ("llama", "architectures", json!(["FalconForCausalLM"]), "architectures", "LlamaForCausalLM, Qwen3ForCausalLM, Qwen2MoeForCausalLM"),
        ("llama", "architectures", json!(["Qwen3ForCausalLM"]), "model_type", "contradicts"),
        ("llama", "architectures", json!("LlamaForCausalLM"), "architectures", "list of strings"),
        ("llama", "model_type", json!("falcon"), "model_type", "llama, qwen3"),
        ("llama", "hidden_act", json!("gelu"), "hidden_act", "silu"),
        ("llama", "hidden_size", json!("64"), "hidden_size", "an integer"),
        ("llama", "hidden_size", json!(0), "hidden_size", "from 1"),
        ("llama", "hidden_size", json!(64.5), "hidden_size", "found 64.5"),
        ("llama", "vocab_size", json!(null), "vocab_size", "missing"),
        ("llama", "vocab_size", json!(u64::MAX), "vocab_size", "an integer"),
        ("llama", "num_hidden_layers", json!(2_000_000_000), "num_hidden_layers", "at most"),
        ("llama", "num_hidden_layers", json!(1025), "num_hidden_layers", "at most 1024"),
        ("mixtral", "num_local_experts", json!(32_769), "num_local_experts", "32769 in each of 2 layers are too many"),
        ("mixtral", "num_local_experts", json!(i32::MAX), "num_local_experts", "at most 65536"),
        ("llama", "num_key_value_heads", json!(3), "num_key_value_heads", "does not divide"),
        ("llama", "head_dim", json!(15), "head_dim", "odd"),
        ("llama", "head_dim", json!(1 << 28), "head_dim", "at most"),
        ("llama", "attention_bias", json!("yes"), "attention_bias", "true or false"),
        ("llama", "attention_dropout", json!("0.1"), "attention_dropout", "a finite number"),
        ("llama", "partial_rotary_factor", json!(0.5), "partial_rotary_factor", "not supported"),
        ("llama", "auto_map", json!({"AutoModel": "modeling.Model"}), "auto_map", "repository's own"),
        ("llama", "quantization_config", json!({"bits": 4}), "quantization_config.quant_method", "supported: bitsandbytes"),
        ("llama", "attn_logit_softcapping", json!(50.0), "attn_logit_softcapping", "caps"),
        ("llama", "logit_scale", json!(0.0625), "logit_scale", "not supported"),
        ("llama", "num_local_experts", json!(8), "num_local_experts", "experts"),
        ("llama", "sliding_window", json!(4096), "sliding_window", "window"),
        ("llama", "dtype", json!("float8_e4m3fn"), "dtype", "bfloat16"),
        ("llama", "torch_dtype", json!("bfloat16"), "torch_dtype", "contradicts"),
        ("llama", "rms_norm_eps", json!(-1e-6), "rms_norm_eps", "from 0"),
        ("llama", "rope_theta", json!(500000.0), "rope_parameters.rope_theta", "contradicts"),
        ("llama", "rope_theta", json!(-1.0), "rope_theta", "above 0"),
        ("llama", "rope_scaling", json!({"type": "linear", "factor": 2.0}), "rope_scaling", "contradicts"),
        ("llama", "rope_parameters", json!({"rope_type": "dynamic", "factor": 4.0}), "rope_parameters.rope_type", "default, linear, llama3, yarn"),
        ("llama", "rope_parameters", json!({"rope_type": "linear", "factor": 0}), "rope_parameters.factor", "above 0"),
        ("llama", "rope_parameters", json!({"rope_type": "linear"}), "rope_parameters.factor", "missing"),
        ("llama", "rope_parameters", json!({"rope_type": "default", "factor": 2.0}), "rope_parameters.factor", "default"),
        ("llama", "rope_parameters", json!({"rope_type": "default", "type": "linear"}), "rope_parameters.type", "contradicts"),
        ("llama", "rope_parameters", json!({"full_attention": {"rope_theta": 1e6}}), "rope_parameters.full_attention", "not supported"),
        ("llama", "rope_parameters", json!([1, 2]), "rope_parameters", "an object"),
        ("llama", "rope_parameters", llama3("high_freq_factor", json!(0.5)), "rope_parameters.high_freq_factor", "below `low_freq_factor`"),
        ("llama", "rope_parameters", llama3("low_freq_factor", json!(null)), "rope_parameters.low_freq_factor", "missing"),
        ("llama", "rope_parameters", llama3("original_max_position_embeddings", json!(null)), "rope_parameters.original_max_position_embeddings", "missing"),
        ("qwen3", "use_sliding_window", json!(true), "use_sliding_window", "not supported"),
        ("qwen3", "layer_types", json!(["full_attention", "sliding_attention"]), "layer_types", "sliding_attention"),
        ("qwen3", "layer_types", json!(["full_attention"]), "layer_types", "1 entries"),
        ("qwen3", "mlp_bias", json!(true), "mlp_bias", "no such biases"),
        ("qwen3", "head_dim", json!(null), "head_dim", "128"),
        ("qwen3", "use_qk_norm", json!(false), "use_qk_norm", "not supported"),
        ("llama", "use_qk_norm", json!(true), "use_qk_norm", "not supported"),
        ("qwen3_moe", "num_local_experts", json!(null), "num_experts", "missing"),
        ("qwen3_moe", "num_experts", json!(7), "num_local_experts", "contradicts"),
        ("qwen3_moe", "num_local_experts", json!(0), "num_local_experts", "from 1"),
        ("mixtral", "num_local_experts", json!(2_000_000_000), "num_local_experts", "at most"),
        ("qwen3_moe", "num_experts_per_tok", json!(9), "num_experts_per_tok", "9 of 8 experts"),
        ("qwen3_moe", "num_experts_per_tok", json!(null), "num_experts_per_tok", "missing"),
        ("qwen3_moe", "moe_intermediate_size", json!(null), "moe_intermediate_size", "missing"),
        ("qwen3_moe", "shared_expert_intermediate_size", json!(64), "shared_expert_intermediate_size", "shared expert"),
        ("qwen3_moe", "n_shared_experts", json!(1), "n_shared_experts", "shared experts"),
        ("qwen3_moe", "routed_scaling_factor", json!(2.5), "routed_scaling_factor", "not supported"),
        ("qwen3_moe", "norm_topk_prob", json!(1), "norm_topk_prob", "true or false"),
        ("qwen3_moe", "decoder_sparse_step", json!(0), "decoder_sparse_step", "from 1"),
        ("qwen3_moe", "mlp_only_layers", json!([-1]), "mlp_only_layers", "integers from 0"),
        ("qwen3_moe", "mlp_only_layers", json!([2]), "mlp_only_layers", "layer 2 does not exist"),
        ("qwen3_moe", "router_aux_loss_coef", json!(-0.1), "router_aux_loss_coef", "from 0"),
        ("qwen3_moe", "output_router_logits", json!("no"), "output_router_logits", "true or false"),
        ("qwen3_moe", "use_sliding_window", json!(true), "use_sliding_window", "not supported"),
        ("qwen3_moe", "qkv_bias", json!(true), "qkv_bias", "not supported"),
        ("mixtral", "num_key_value_heads", json!(null), "num_key_value_heads", "MixtralForCausalLM"),
        ("qwen3_moe", "model_type", json!("qwen3"), "model_type", "contradicts"),
        ("qwen2_moe", "attention_bias", json!(true), "attention_bias", "no such biases"),
        ("qwen2_moe", "shared_expert_intermediate_size", json!(null), "shared_expert_intermediate_size", "missing"),
        ("qwen2_moe", "use_sliding_window", json!(true), "use_sliding_window", "not supported"),
        ("mixtral", "sliding_window", json!(4096), "sliding_window", "window"),
        ("mixtral", "norm_topk_prob", json!(false), "norm_topk_prob", "always"),
        ("mixtral", "decoder_sparse_step", json!(2), "decoder_sparse_step", "all sparse"),
        ("mixtral", "mlp_only_layers", json!([0]), "mlp_only_layers", "all sparse"),
        ("mixtral", "moe_intermediate_size", json!(48), "moe_intermediate_size", "not supported"),
        ("mixtral", "num_local_experts", json!(null), "num_local_experts", "missing"),
        ("mixtral", "hidden_act", json!("gelu"), "hidden_act", "silu"),
        ("mixtral", "attention_bias", json!(true), "attention_bias", "no such biases"),
        ("qwen2", "qkv_bias", json!(false), "qkv_bias", "always has such biases"),
        ("qwen2", "attention_bias", json!(true), "attention_bias", "no such biases"),
        ("qwen2", "mlp_bias", json!(true), "mlp_bias", "no such biases"),
        ("qwen2", "num_key_value_heads", json!(null), "num_key_value_heads", "Qwen2ForCausalLM"),
        ("qwen2", "use_sliding_window", json!("yes"), "use_sliding_window", "true or false"),
        ("qwen2", "layer_types", json!(["full_attention", "sliding_attention"]), "layer_types", "no window"),
        ("qwen2", "layer_types", json!(["full_attention", "chunked_attention"]), "layer_types", "chunked_attention"),
        ("qwen2", "layer_types", json!(["full_attention"]), "layer_types", "1 entries"),
        ("mistral", "num_key_value_heads", json!(null), "num_key_value_heads", "MistralForCausalLM"),
        ("mistral", "attention_bias", json!(true), "attention_bias", "no such biases"),
        ("mistral", "qkv_bias", json!(true), "qkv_bias", "not supported"),
        ("mistral", "sliding_window", json!(0), "sliding_window", "from 1"),
        ("mistral", "layer_types", json!(["sliding_attention", "sliding_attention"]), "layer_types", "no window"),
        ("mistral_sw8", "layer_types", json!(["full_attention", "sliding_attention"]), "layer_types", "every layer"),
        ("mistral_sw8", "use_sliding_window", json!(true), "use_sliding_window", "not supported"),
        ("mistral_sw8", "use_sliding_window", json!(false), "use_sliding_window", "always counts"),
        ("llama", "query_pre_attn_scalar", json!(256), "query_pre_attn_scalar", "scale of attention"),
        ("llama", "use_bidirectional_attention", json!(true), "use_bidirectional_attention", "later ones"),
        ("gemma2_sw8", "hidden_activation", json!("silu"), "hidden_activation", "supported: gelu_pytorch_tanh"),
        ("gemma2_sw8", "hidden_act", json!("gelu"), "hidden_act", "supported: gelu_pytorch_tanh"),
        ("gemma2_sw8", "query_pre_attn_scalar", json!(0), "query_pre_attn_scalar", "above 0"),
        ("gemma2_sw8", "attn_logit_softcapping", json!(-50.0), "attn_logit_softcapping", "above 0"),
        ("gemma2_sw8", "final_logit_softcapping", json!("30"), "final_logit_softcapping", "above 0"),
        ("gemma2_sw8", "use_bidirectional_attention", json!(true), "use_bidirectional_attention", "later ones"),
        ("gemma2_sw8", "mlp_bias", json!(true), "mlp_bias", "no such biases"),
        ("gemma2_sw8", "layer_types", json!(["sliding_attention", "chunked_attention"]), "layer_types", "chunked_attention"),
        ("gemma2_sw8", "sliding_window", json!(0), "sliding_window", "from 1"),
        ("gemma2_sw8", "use_sliding_window", json!(true), "use_sliding_window", "not supported"),
        ("gemma2_sw8", "rope_local_base_freq", json!(1e4), "rope_local_base_freq", "another rotary base"),
        ("gemma3_sw8_linear", "rope_parameters", json!({"rope_theta": 1e6}), "rope_parameters.rope_theta", "expected `full_attention`"),
        ("gemma3_sw8_linear", "rope_parameters", json!({"full_attention": {"rope_type": "dynamic"}}), "rope_parameters.full_attention.rope_type", "default, linear, llama3"),
        ("gemma3_sw8_linear", "rope_parameters", json!({"chunked_attention": {}}), "rope_parameters.chunked_attention", "sliding_attention"),
        ("gemma3_sw8_linear", "rope_local_base_freq", json!(5e4), "rope_parameters.sliding_attention.rope_theta", "contradicts"),
        ("gemma3_sw8_linear", "rope_scaling", json!({"rope_type": "linear", "factor": 2.0}), "rope_scaling", "contradicts"),
        ("llama", "rope_parameters", json!({"rope_type": "yarn"}), "rope_parameters.factor", "missing"),
        ("llama", "rope_parameters", json!({"rope_type": "yarn", "factor": 4.0, "mscale": 1.0}), "rope_parameters.mscale", "not supported with rope_type `yarn`"),
        ("llama", "rope_parameters", json!({"rope_type": "yarn", "factor": 4.0, "beta_fast": 0.5}), "rope_parameters.beta_fast", "beta_slow"),
        ("glm4_moe_norms", "n_routed_experts", json!(null), "n_routed_experts", "missing"),
        ("glm4_moe_norms", "n_shared_experts", json!(0), "n_shared_experts", "from 1"),
        ("glm4_moe_norms", "n_shared_experts", json!(2_000_000_000), "shared_expert_intermediate_size", "expected 1"),
        ("glm4_moe_norms", "n_group", json!(4), "n_group", "6"),
        ("glm4_moe_groups", "topk_group", json!(5), "n_group", "5"),
        ("glm4_moe_groups", "num_experts_per_tok", json!(5), "n_group", "5"),
        ("glm4_moe_norms", "norm_topk_prob", json!(false), "norm_topk_prob", "always"),
        ("glm4_moe_norms", "output_router_logits", json!(true), "output_router_logits", "not supported"),
        ("glm4_moe_norms", "num_local_experts", json!(8), "num_local_experts", "experts"),
        ("glm4_moe_norms", "use_qk_norm", json!("no"), "use_qk_norm", "true or false"),
        ("glm4_moe_norms", "first_k_dense_replace", json!(-1), "first_k_dense_replace", "from 0"),
        ("llama", "rope_parameters", json!({"rope_type": "yarn", "factor": 4.0, "mscale_all_dim": 1.0}), "rope_parameters.mscale_all_dim", "not supported"),
        ("llama", "kv_lora_rank", json!(32), "kv_lora_rank", "factorises"),
        ("deepseek_v2", "kv_lora_rank", json!(null), "kv_lora_rank", "missing"),
        ("deepseek_v2", "q_lora_rank", json!(0), "q_lora_rank", "from 1"),
        ("deepseek_v2", "q_lora_rank", json!(null), "q_lora_rank", "missing"),
        ("deepseek_v2", "num_key_value_heads", json!(2), "num_key_value_heads", "latent attention"),
        ("deepseek_v2", "head_dim", json!(16), "head_dim", "qk_rope_head_dim"),
        ("deepseek_v2", "topk_method", json!("noaux_tc"), "topk_method", "greedy, group_limited_greedy"),
        ("deepseek_v2", "norm_topk_prob", json!(true), "norm_topk_prob", "never"),
        ("deepseek_v2", "scoring_func", json!("sigmoid"), "scoring_func", "softmax"),
        ("deepseek_v2_group", "n_group", json!(3), "n_group", "8"),
        ("deepseek_v3_yarn", "scoring_func", json!("softmax"), "scoring_func", "sigmoids"),
        ("deepseek_v3_yarn", "topk_method", json!("greedy"), "topk_method", "two best"),
        ("deepseek_v3_yarn", "rope_interleave", json!(false), "rope_interleave", "neighbours"),
        ("deepseek_v3_yarn", "moe_layer_freq", json!(2), "moe_layer_freq", "sparse"),
        ("deepseek_v3_yarn", "qk_rope_head_dim", json!(7), "head_dim", "contradicts"),
        ("llama", "attention_chunk_size", json!(8), "attention_chunk_size", "chunks"),
        ("llama4_chunk8", "attention_chunk_size", json!(0), "attention_chunk_size", "from 1"),
        ("llama4_chunk8", "layer_types", json!(["sliding_attention", "full_attention"]), "layer_types", "chunked_attention"),
        ("llama4_chunk8", "no_rope_layers", json!([1]), "no_rope_layers", "1 entries"),
        ("llama4_chunk8", "no_rope_layers", json!([1, 2]), "no_rope_layers", "0 or 1"),
        ("llama4_chunk8", "moe_layers", json!([2]), "moe_layers", "layer 2 does not exist"),
        ("llama4_chunk8", "intermediate_size_mlp", json!(null), "intermediate_size_mlp", "missing"),
        ("llama4_chunk8", "floor_scale", json!(0), "floor_scale", "above 0"),
        ("llama4_chunk8", "attn_temperature_tuning", json!(4), "attn_temperature_tuning", "true or false"),
        ("llama4_chunk8", "output_router_logits", json!(true), "output_router_logits", "not supported"),
        ("llama", "text_config", json!({}), "text_config", "several modalities"),
        ("qwen3_vl", "tie_word_embeddings", json!("no"), "tie_word_embeddings", "true or false"),
        ("qwen3_vl", "text_config", json!({"model_type": "qwen3"}), "text_config.model_type", "qwen3_vl_text"),
        ("qwen3_vl", "text_config", json!({"quantization_config": {"bits": 4}}), "text_config.quantization_config", "quantised"),
        ("qwen3_vl", "text_config", json!({"model_type": "qwen3_vl_text"}), "text_config.num_hidden_layers", "missing"),
        ("qwen3_vl_moe", "text_config", json!({"norm_topk_prob": false}), "text_config.norm_topk_prob", "always"),
        ("glm4v_moe", "text_config", json!({"norm_topk_prob": false}), "text_config.norm_topk_prob", "always"),
        ("glm4v_moe", "text_config", json!({"use_qk_norm": true}), "text_config.use_qk_norm", "normalised"),
        ("glm4v_moe", "text_config", json!({"output_router_logits": true}), "text_config.output_router_logits", "load-balancing"),
        ("glm4v_moe", "text_config", json!({"mlp_only_layers": [0]}), "text_config.mlp_only_layers", "first_k_dense_replace"),
        ("qwen3_vl", "text_config", json!({"num_hidden_layers": 0}), "text_config.num_hidden_layers", "from 1"),
        ("gemma3n_kvshare", "intermediate_size", json!([96, 96, 96, 64]), "intermediate_size", "the same size"),
        ("gemma3n_kvshare", "intermediate_size", json!([0, 0, 0, 0]), "intermediate_size", "from 1"),
        ("gemma3n_kvshare", "intermediate_size", json!([]), "intermediate_size", "no entry"),
        ("gemma3n_kvshare", "activation_sparsity_pattern", json!([0.95]), "activation_sparsity_pattern", "1 entries"),
        ("gemma3n_kvshare", "activation_sparsity_pattern", json!([0.95, 1.0, 0.0, 0.0]), "activation_sparsity_pattern", "below 1"),
        ("gemma3n_kvshare", "altup_active_idx", json!(4), "altup_active_idx", "stream 4 does not exist"),
        ("gemma3n_kvshare", "altup_num_inputs", json!(1), "altup_num_inputs", "2 to 64"),
        ("gemma3n_kvshare", "num_kv_shared_layers", json!(4), "num_kv_shared_layers", "keys of its own"),
        ("gemma3n_kvshare", "altup_coef_clip", json!(1.0), "altup_coef_clip", "limited"),
        ("llama", "num_kv_shared_layers", json!(1), "num_kv_shared_layers", "shares keys"),
        ("llama", "attention_out_bias", json!(true), "attention_out_bias", "adds a bias"),
        ("gpt_oss_sw8", "rope_parameters", json!(null), "rope_parameters", "missing"),
        ("gpt_oss_sw8", "rope_parameters", json!({"rope_type": "default"}), "rope_parameters.rope_type", "supported: yarn"),
        ("gpt_oss_sw8", "swiglu_alpha", json!(1.0), "swiglu_alpha", "activation"),
        ("gpt_oss_sw8", "swiglu_limit", json!(-7), "swiglu_limit", "above 0"),
        ("gpt_oss_sw8", "quantization_config", json!({"quant_method": "gptq"}), "quantization_config.bits", "missing"),
        ("gpt_oss_sw8", "sliding_window", json!("128"), "sliding_window", "an integer"),
        ("gpt_oss_sw8", "mlp_only_layers", json!([0]), "mlp_only_layers", "all sparse"),
        ("olmo2", "sliding_window", json!(8), "sliding_window", "window"),
        ("olmo2", "mlp_bias", json!(true), "mlp_bias", "no such biases"),
        ("olmo2", "clip_qkv", json!(8.0), "clip_qkv", "clips"),
        ("glm4", "partial_rotary_factor", json!(0.75), "rope_parameters.partial_rotary_factor", "contradicts"),
        ("glm4", "rope_parameters", json!({"partial_rotary_factor": 1.5}), "rope_parameters.partial_rotary_factor", "at most 1"),
        ("glm4", "rope_parameters", json!({"partial_rotary_factor": 0.2}), "rope_parameters.partial_rotary_factor", "3 elements"),
        ("glm4", "mlp_bias", json!(true), "mlp_bias", "no such biases"),
        ("phi3_partial", "attention_bias", json!(true), "attention_bias", "no such biases"),
        ("phi3_partial", "rope_parameters", json!({"rope_type": "linear", "factor": 2.0}), "rope_parameters.rope_type", "default, longrope"),
        ("phi3_partial", "rope_parameters", json!({"rope_type": "longrope"}), "rope_parameters.short_factor", "missing"),
        ("phi3_longrope", "original_max_position_embeddings", json!(32), "rope_parameters.original_max_position_embeddings", "contradicts"),
        ("phi3_longrope", "partial_rotary_factor", json!(0.5), "rope_parameters.partial_rotary_factor", "contradicts"),
        ("phi3_longrope", "head_dim", json!(32), "rope_parameters.short_factor", "6 entries for 12"),
        ("qwen3_next", "linear_num_key_heads", json!(3), "linear_num_key_heads", "does not divide `linear_num_value_heads`, which is 4"),
        ("qwen3_next", "linear_num_value_heads", json!(0), "linear_num_value_heads", "from 1"),
        ("qwen3_next", "linear_key_head_dim", json!(null), "linear_key_head_dim", "missing"),
        ("qwen3_next", "linear_conv_kernel_dim", json!(1), "linear_conv_kernel_dim", "expected 2 to 8, found 1"),
        ("qwen3_next", "linear_conv_kernel_dim", json!(9), "linear_conv_kernel_dim", "expected 2 to 8, found 9"),
        ("qwen3_next", "layer_types", json!(["linear_attention"]), "layer_types", "has 1 entries for 4"),
        ("qwen3_next", "layer_types", json!(["linear_attention", "mamba", "full_attention", "full_attention"]), "layer_types", "`mamba` is not supported; supported: full_attention, linear_attention"),
        ("qwen3_next", "layer_types", json!("linear_attention"), "layer_types", "list of strings"),
        ("qwen3_next", "full_attention_interval", json!(0), "full_attention_interval", "from 1"),
        ("qwen3_next", "attn_output_gate", json!(false), "attn_output_gate", "always gated"),
        ("qwen3_next", "output_gate_type", json!("sigmoid"), "output_gate_type", "swish"),
        ("qwen3_next", "sliding_window", json!(8), "sliding_window", "window"),
        ("qwen3_next", "intermediate_size", json!(null), "intermediate_size", "missing"),
        ("qwen3_5_text", "num_experts", json!(4), "num_experts", "experts"),
        ("qwen3_5_text", "model_type", json!("qwen3_5"), "model_type", "contradicts"),
        ("qwen3_5_moe_text", "mlp_only_layers", json!([0]), "mlp_only_layers", "all layers of this family are sparse"),
        ("qwen3_5_moe_text", "norm_topk_prob", json!(false), "norm_topk_prob", "always"),
        ("qwen3_5_moe", "text_config", json!({"decoder_sparse_step": 2}), "text_config.decoder_sparse_step", "sparse"),
        ("llama", "layer_types", json!(["linear_attention", "full_attention"]), "layer_types", "`linear_attention` is not supported"),
    ];
    let mut others = Vec::new();
    for (model, name, value, field, says) in cases {
        let dir = copy_of(model);
        edit_config(dir.path(), |config| set(config, name, value.clone()));
        let error = error_of(dir.path());
        let file = dir.path().join("config.json");
        let start = format!("{}: field `{field}`: ", file.display());
        if !error.starts_with(&start) || !error.contains(says) {
            others.push(format!("{model}, {name} = {value}: {error}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// Checks fields that count only with a window.
#[test]
fn windows() {
    for (name, value, says) in [
        ("sliding_window", json!(0), "from 1"),
        ("sliding_window", json!("8"), "an integer"),
        ("max_window_layers", json!(-1), "an integer from 0"),
        ("layer_types", json!(["sliding_attention"]), "1 entries"),
    ] {
        let dir = copy_of("qwen2");
        edit_config(dir.path(), |config| {
            config.remove("layer_types");
            config.insert("use_sliding_window".into(), json!(true));
            config.insert("sliding_window".into(), json!(8));
            config.insert(name.into(), value.clone());
        });
        let error = error_of(dir.path());
        let start = format!("config.json: field `{name}`: ");
        assert!(error.contains(&start) && error.contains(says), "{error}");
    }
}

#[test]
fn fields_without_effect_are_accepted() {
    for (model, name, value) in [
        ("llama", "use_cache", json!(false)),
        ("llama", "eos_token_id", json!([1, 2])),
        ("llama", "some_future_field", json!({"a": 1})),
        ("llama", "attention_dropout", json!(0)),
        ("llama", "num_experts", json!(0)),
        ("llama", "logit_scale", json!(1)),
        ("llama", "final_logit_softcapping", json!(null)),
        ("llama", "partial_rotary_factor", json!(1)),
        ("qwen3_moe", "num_experts", json!(8)),
        ("qwen3_moe", "use_qk_norm", json!(true)),
        ("qwen3_moe", "qkv_bias", json!(false)),
        ("qwen3_moe", "shared_expert_intermediate_size", json!(0)),
        ("qwen3_moe", "sliding_window", json!(4096)),
        ("qwen3_moe", "head_dim", json!(null)),
        ("qwen2_moe", "qkv_bias", json!(null)),
        ("mixtral", "norm_topk_prob", json!(true)),
        ("mixtral", "head_dim", json!(null)),
        ("qwen2", "qkv_bias", json!(true)),
        ("qwen2", "sliding_window", json!(4096)),
        ("qwen2", "max_window_layers", json!(0)),
        ("mistral", "head_dim", json!(null)),
        ("mistral", "use_sliding_window", json!(false)),
        (
            "mistral",
            "layer_types",
            json!(["full_attention", "full_attention"]),
        ),
        (
            "mistral_sw8",
            "layer_types",
            json!(["sliding_attention", "sliding_attention"]),
        ),
        ("gemma2_sw8", "hidden_act", json!("gelu_pytorch_tanh")),
        ("gemma2_sw8", "use_bidirectional_attention", json!(false)),
        ("gemma2_sw8", "attn_logit_softcapping", json!(null)),
        ("gemma3_sw8_linear", "sliding_window_pattern", json!(2)),
        ("gemma3_sw8_linear", "rope_local_base_freq", json!(10000)),
        ("phi3_partial", "sliding_window", json!(8)),
        (
            "phi3_partial",
            "auto_map",
            json!({"AutoConfig": "configuration_phi3.Phi3Config"}),
        ),
        (
            "deepseek_v3_yarn",
            "auto_map",
            json!({"AutoModel": "modeling_deepseek.DeepseekV3Model"}),
        ),
        ("deepseek_v3_yarn", "scoring_func", json!("sigmoid")),
        ("deepseek_v3_yarn", "topk_method", json!("noaux_tc")),
        ("deepseek_v2", "moe_layer_freq", json!(1)),
        ("glm4_moe_norms", "norm_topk_prob", json!(true)),
        ("llama4_chunk8", "no_rope_layer_interval", json!(4)),
        ("gemma3n_kvshare", "altup_coef_clip", json!(null)),
        ("gemma3n_kvshare", "query_pre_attn_scalar", json!(256)),
        ("qwen3_vl", "vision_config", json!({"depth": 27})),
        (
            "phi3_longrope",
            "original_max_position_embeddings",
            json!(64),
        ),
    ] {
        let dir = copy_of(model);
        edit_config(dir.path(), |config| {
            config.insert(name.into(), value.clone());
        });
        if let Err(error) = load(dir.path(), &Device::default(), FloatDType::F32) {
            panic!("{name} = {value}: {error}");
        }
    }
}

#[test]
fn sizes_in_code() {
    let size = Qwen3Size {
        vocab_size: 256,
        hidden_size: 64,
        intermediate_size: 160,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: 128,
        tie_word_embeddings: true,
    };
    for (size, field) in [
        (
            Qwen3Size {
                num_key_value_heads: 0,
                ..size
            },
            "num_key_value_heads",
        ),
        (
            Qwen3Size {
                head_dim: 33,
                ..size
            },
            "head_dim",
        ),
        (
            Qwen3Size {
                vocab_size: usize::MAX,
                ..size
            },
            "vocab_size",
        ),
    ] {
        let error = ModelConfig::qwen3(size).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
    let mixture = Qwen3MoeSize {
        dense: size,
        num_experts: 8,
        num_experts_per_tok: 2,
        moe_intermediate_size: 48,
        router_aux_loss_coef: 0.0,
    };
    for (mixture, field) in [
        (
            Qwen3MoeSize {
                num_experts: 0,
                ..mixture
            },
            "num_experts",
        ),
        (
            Qwen3MoeSize {
                num_experts_per_tok: 9,
                ..mixture
            },
            "num_experts_per_tok",
        ),
        (
            Qwen3MoeSize {
                router_aux_loss_coef: f64::NAN,
                ..mixture
            },
            "router_aux_loss_coef",
        ),
    ] {
        let error = ModelConfig::qwen3_moe(mixture).unwrap_err().to_string();
        assert!(error.contains("Qwen3MoeSize"), "{error}");
        assert!(error.contains(field), "{error}");
    }
}

const GATE: &str = "model.layers.0.mlp.gate_proj.weight";

#[test]
fn tensors() {
    type Edit = fn(&mut File);
    let cases: &[(&str, &str, Edit, &str, &str)] = &[
        (
            "missing",
            "llama",
            |f| drop(f.remove(GATE)),
            GATE,
            "missing; expected shape [96, 64]",
        ),
        (
            "missing head of a model that is not tied",
            "llama",
            |f| drop(f.remove("lm_head.weight")),
            "lm_head.weight",
            "missing",
        ),
        (
            "transposed",
            "llama",
            |f| f.get_mut(GATE).unwrap().shape = vec![64, 96],
            GATE,
            "expected shape [96, 64], found [64, 96]",
        ),
        (
            "another rank",
            "qwen3",
            |f| f.get_mut("model.norm.weight").unwrap().shape = vec![8, 8],
            "model.norm.weight",
            "expected shape [64], found [8, 8]",
        ),
        (
            "an integer type",
            "llama",
            |f| f.get_mut(GATE).unwrap().dtype = Dtype::I32,
            GATE,
            "found I32",
        ),
        (
            "unexpected",
            "llama",
            |f| {
                drop(f.insert(
                    "model.layers.2.mlp.gate_proj.weight".into(),
                    Stored::f32(&[1], &[0.0]),
                ))
            },
            "model.layers.2.mlp.gate_proj.weight",
            "unexpected",
        ),
        (
            "a bias that the configuration denies",
            "llama",
            |f| {
                drop(f.insert(
                    "model.layers.0.mlp.gate_proj.bias".into(),
                    Stored::f32(&[96], &[0.0; 96]),
                ))
            },
            "model.layers.0.mlp.gate_proj.bias",
            "unexpected",
        ),
        (
            "a tied head of its own",
            "llama_rope3_tied",
            |f| {
                drop(f.insert(
                    "lm_head.weight".into(),
                    Stored::f32(&[128, 64], &[0.0; 128 * 64]),
                ))
            },
            "lm_head.weight",
            "tie_word_embeddings",
        ),
    ];
    for (case, model, edit, tensor, says) in cases {
        let dir = copy_of(model);
        edit_tensors(dir.path(), edit);
        let error = error_of(dir.path());
        let file = dir.path().join("model.safetensors");
        let start = format!("{}: tensor `{tensor}`: ", file.display());
        assert!(
            error.contains(&start) && error.contains(says),
            "{case}: {error}"
        );
    }
}

#[test]
fn all_problems_are_listed_together() {
    let dir = copy_of("llama");
    edit_tensors(dir.path(), |file| {
        file.remove("model.norm.weight");
        file.get_mut(GATE).unwrap().shape = vec![64, 96];
        file.insert("surplus".into(), Stored::f32(&[1], &[0.0]));
    });
    let error = error_of(dir.path());
    for name in ["model.norm.weight", GATE, "surplus"] {
        assert!(error.contains(&format!("tensor `{name}`")), "{error}");
    }
}

#[test]
fn damaged_files() {
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let cases: &[(&str, Damage, &str)] = &[
        ("empty", |_| Vec::new(), "0 bytes"),
        (
            "shorter than the first word",
            |b| b[..5].to_vec(),
            "5 bytes",
        ),
        ("cut in the header", |b| b[..100].to_vec(), "does not fit"),
        (
            "cut in the tensors",
            |b| b[..b.len() - 1].to_vec(),
            "promises",
        ),
        (
            "longer than promised",
            |mut b| {
                b.push(0);
                b
            },
            "promises",
        ),
        (
            "a huge header",
            |mut b| {
                b[..8].fill(0xff);
                b
            },
            "does not fit",
        ),
        (
            "a header that is not JSON",
            |mut b| {
                b[8] = b'!';
                b
            },
            "does not parse",
        ),
        (
            "something else",
            |_| b"PK\x03\x04 this is a zip file, isn't it".to_vec(),
            "a zip archive, as PyTorch writes",
        ),
        (
            "a web page",
            |_| b"<!DOCTYPE html><title>Not found</title>".to_vec(),
            "text that begins with `<!DOCTYP`",
        ),
    ];
    for (case, damage, says) in cases {
        let dir = copy_of("llama");
        let path = dir.path().join("model.safetensors");
        fs::write(&path, damage(fs::read(&path).unwrap())).unwrap();
        let error = error_of(dir.path());
        assert!(
            error.starts_with(&path.display().to_string()),
            "{case}: {error}"
        );
        assert!(error.contains(says), "{case}: {error}");
    }
}

/// Damages every byte of the header in turn. The result is an error or a model, never a panic.
#[test]
fn damaged_headers_never_panic() {
    let original = fs::read(model_dir("llama").join("model.safetensors")).unwrap();
    let dir = copy_of("llama");
    for at in (0..2000).step_by(7) {
        let mut bytes = original.clone();
        bytes[at] ^= 0x15;
        fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
        let _ = load(dir.path(), &Device::default(), FloatDType::F32);
    }
}

fn with_index(index: Value) -> tempfile::TempDir {
    let dir = copy_of("llama");
    fs::rename(
        dir.path().join("model.safetensors"),
        dir.path().join("part.safetensors"),
    )
    .unwrap();
    fs::write(
        dir.path().join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
    dir
}

#[test]
fn indices() {
    let names: Vec<String> = common::read(&model_dir("llama").join("model.safetensors"))
        .into_keys()
        .collect();
    let all_in = |file: &str| -> Map<String, Value> {
        names
            .iter()
            .map(|name| (name.clone(), json!(file)))
            .collect()
    };
    let changed = |name: &str, file: Value| {
        let mut map = all_in("part.safetensors");
        set(&mut map, name, file);
        json!({ "weight_map": map })
    };
    assert!(
        load(
            with_index(json!({ "weight_map": all_in("part.safetensors") })).path(),
            &Device::default(),
            FloatDType::F32
        )
        .is_ok()
    );
    let cases: Vec<(Value, &str, &str)> = vec![
        (
            json!({}),
            "index.json: field `weight_map`",
            "expected an object",
        ),
        (
            json!({ "weight_map": { GATE: 1 } }),
            "field `weight_map.model.layers.0.mlp",
            "file name",
        ),
        (
            changed(GATE, json!("../part.safetensors")),
            "field `weight_map.model.layers.0.mlp",
            "plain name",
        ),
        (
            changed(GATE, json!("/etc/passwd")),
            "field `weight_map.model.layers.0.mlp",
            "plain name",
        ),
        (
            changed(GATE, json!("absent.safetensors")),
            "absent.safetensors: cannot open",
            "",
        ),
    ];
    for (index, names, says) in cases {
        let dir = with_index(index);
        let error = error_of(dir.path());
        assert!(error.contains(names) && error.contains(says), "{error}");
    }
}

#[test]
fn directories() {
    let dir = copy_of("llama");
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    fs::write(dir.path().join("pytorch_model.bin"), "").unwrap();
    let error = error_of(dir.path());
    assert!(
        error.contains("model.safetensors.index.json") && error.contains("convert"),
        "{error}"
    );

    fs::write(dir.path().join("config.json"), "{ \"architectures\": [").unwrap();
    let error = error_of(dir.path());
    assert!(error.contains("config.json: not valid JSON"), "{error}");

    fs::write(dir.path().join("config.json"), "[]").unwrap();
    let error = error_of(dir.path());
    assert!(
        error.contains("config.json") && error.contains("expected an object"),
        "{error}"
    );

    fs::remove_file(dir.path().join("config.json")).unwrap();
    let error = error_of(dir.path());
    assert!(error.contains("config.json: cannot read"), "{error}");
}

#[test]
fn inputs() {
    let device = Device::default();
    let (_, model) = load(&model_dir("llama"), &device, FloatDType::F32).unwrap();
    let ids = |row: &[i32]| Tensor::<1, Int>::from_data(row, &device).unsqueeze::<2>();
    let cases: Vec<InputCase> = vec![
        (
            ids(&[1, 128]),
            None,
            "input_ids",
            "column 1: 128 is not in 0..128 (vocab_size)",
        ),
        (ids(&[-1, 2]), None, "input_ids", "-1"),
        (
            ids(&[1; 129]),
            None,
            "input_ids",
            "max_position_embeddings, 128",
        ),
        (ids(&[1]), None, "input_ids", "at least 2"),
        (
            ids(&[1, 2]),
            Some(ids(&[0, 1, 2])),
            "position_ids",
            "[1, 3]",
        ),
        (ids(&[1, 2]), Some(ids(&[0, -3])), "position_ids", "-3"),
        (ids(&[1, 2]), Some(ids(&[0, 128])), "position_ids", "128"),
    ];
    for (input_ids, position_ids, input, says) in cases {
        let error = model
            .check_loss_inputs(&input_ids, position_ids.as_ref())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(input) && error.contains(says), "{error}");
    }
    model.check_inputs(&ids(&[1]), Some(&ids(&[127]))).unwrap();

    let error = load(&model_dir("llama"), &device, FloatDType::Flex32)
        .unwrap_err()
        .to_string();
    assert!(error.contains("flex32"), "{error}");
}
