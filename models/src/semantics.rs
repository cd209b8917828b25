//! The semantics keys of published architectures, as a guide to the attributes of your own model.
//!
//! The keys describe what `transformers` 5 computes for each `model_type`. They are data only: no model is matched by
//! its name.

use burn_kernels::semantics::{
    Activation, AddRmsNormKey, AttentionKey, AttentionWindow, Clamp, GluKey, HeadLayout,
    MoeBlockKey, MoeExpertsKey, Offset, Projections, QkNormRopeKey, RmsNormKey, RopeKey, RopeStyle,
    RotaryWidth, Rounding, RouterKey, ScoreCap, Sections, SharedExpert, Sinks, TableLayout, TopK,
};

/// The operations of one architecture that kernels can replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSemantics {
    /// The `model_type` in `config.json`.
    pub model_type: &'static str,
    /// The norms around attention and MLP.
    pub norm: RmsNormKey,
    /// The dense MLP, or the MLP of each expert.
    pub mlp: GluKey,
    /// The rotary position embedding of queries and keys.
    pub rope: RopeKey,
    /// The norm and the rotation of queries and keys in one operation, if their heads are normalised.
    pub qk_norm_rope: Option<QkNormRopeKey>,
    /// The attention of layers without a window.
    pub attention: AttentionKey,
    /// The attention of layers with a window, if there can be any.
    pub local_attention: Option<AttentionKey>,
    /// The experts of sparse layers, with the layout of their weights in the memory of `transformers`.
    pub experts: Option<MoeExpertsKey>,
    /// The block of sparse layers: the router, and the shared expert if there is one.
    pub block: Option<MoeBlockKey>,
    /// A note on what the keys don't express.
    pub note: Option<&'static str>,
}

/// Returns the semantics of the architecture with this `model_type`.
pub fn of(model_type: &str) -> Option<&'static ModelSemantics> {
    TABLE.iter().find(|model| model.model_type == model_type)
}

/// Returns every architecture in the table, sorted by name.
pub fn all() -> &'static [ModelSemantics] {
    TABLE
}

impl ModelSemantics {
    /// Returns the attributes to write on the norm, the MLP, the rotary function and the attention; on the norm and
    /// rotation of queries and keys, the experts and the sparse block if there are any.
    pub fn attributes(&self) -> Vec<String> {
        let mut attributes = vec![
            attribute("npu_fused_rmsnorm", &self.norm.to_string()),
            attribute(
                "npu_fused_add_rmsnorm",
                &AddRmsNormKey::of_norm(self.norm).to_string(),
            ),
            attribute("npu_fused_swiglu", &self.mlp.to_string()),
            attribute("npu_fused_rope", &self.rope.to_string()),
        ];
        let both = self.qk_norm_rope.map(|key| key.to_string());
        attributes.extend(both.map(|key| attribute("npu_fused_qk_norm_rope", &key)));
        let attention = [Some(self.attention), self.local_attention];
        let attention = attention.iter().flatten().map(AttentionKey::to_string);
        attributes.extend(attention.map(|key| attribute("npu_fused_attention", &key)));
        let experts = self.experts.map(|key| key.to_string());
        let block = self.block.map(|key| key.to_string());
        let moe = experts.into_iter().chain(block);
        attributes.extend(moe.map(|key| attribute("npu_fused_moe", &key)));
        attributes
    }
}

/// Formats `op(a=b, c=d)` as `#[fused_kernel("id", a = b, c = d)]`.
fn attribute(id: &str, key: &str) -> String {
    let settings = key
        .split_once('(')
        .map_or("", |(_, rest)| rest.trim_end_matches(')'));
    format!(
        "#[fused_kernel(\"{id}\", {})]",
        settings.replace('=', " = ")
    )
}

const fn model(model_type: &'static str) -> ModelSemantics {
    ModelSemantics {
        model_type,
        norm: RmsNormKey::LLAMA,
        mlp: GluKey::SWIGLU,
        rope: RopeKey::LLAMA,
        qk_norm_rope: None,
        attention: AttentionKey::CAUSAL,
        local_attention: None,
        experts: None,
        block: None,
        note: None,
    }
}

const SLIDING: AttentionKey = AttentionKey {
    window: AttentionWindow::Sliding,
    ..AttentionKey::CAUSAL
};

const CAPPED: AttentionKey = AttentionKey {
    cap: ScoreCap::Tanh,
    ..AttentionKey::CAUSAL
};

const WITH_SINKS: AttentionKey = AttentionKey {
    sink: Sinks::Learned,
    ..AttentionKey::CAUSAL
};

/// Returns the same model with the usual kind of experts in sparse layers.
const fn mixture(model_type: &'static str, block: MoeBlockKey) -> ModelSemantics {
    ModelSemantics {
        experts: Some(MoeExpertsKey::QWEN3),
        block: Some(block),
        ..model(model_type)
    }
}

/// Computes `x̂ · w` in f32 and rounds once.
const ROUNDED_ONCE: RmsNormKey = RmsNormKey {
    rounding: Rounding::Gemma,
    ..RmsNormKey::LLAMA
};

const GELU_TANH: GluKey = GluKey {
    activation: Activation::GeluTanh,
    ..GluKey::SWIGLU
};

const PACKED: GluKey = GluKey {
    projections: Projections::Chunked,
    ..GluKey::SWIGLU
};

const PARTIAL: RopeKey = RopeKey {
    width: RotaryWidth::Partial,
    ..RopeKey::LLAMA
};

/// Reads the real and imaginary parts of a complex table, with one angle for each pair.
const COMPLEX: RopeKey = RopeKey {
    style: RopeStyle::Interleaved,
    table: TableLayout::Pairs,
    ..RopeKey::LLAMA
};

/// The routers of the Qwen mixtures depend on a value of the configuration.
const QWEN2_MOE_NOTE: &str =
    "the shared expert has the same MLP; with `norm_topk_prob`, `renormalise = sum`";
const QWEN3_MOE_NOTE: &str = "without `norm_topk_prob`, leave out `renormalise`";

const CHUNKED_MROPE: RopeKey = RopeKey {
    sections: Sections::Chunked,
    ..RopeKey::LLAMA
};

/// The operations of linear attention.
const LINEAR_NOTE: &str = "linear attention has `npu_fused_causal_conv1d` and `npu_fused_gated_delta_rule` with their \
                           usual settings; the norm after it is gated: `gating = after_norm`, `offset = 0`, \
                           `rounding = llama`";

/// Rotates a part of each head by three positions in turn.
const PARTIAL_MROPE: RopeKey = RopeKey {
    sections: Sections::Interleaved,
    ..PARTIAL
};

const INTERLEAVED_MROPE: RopeKey = RopeKey {
    sections: Sections::Interleaved,
    ..RopeKey::LLAMA
};

const QWEN3_VL_QK: QkNormRopeKey = QkNormRopeKey {
    sections: Sections::Interleaved,
    ..QkNormRopeKey::QWEN3
};

static TABLE: &[ModelSemantics] = &[
    ModelSemantics {
        rope: COMPLEX,
        note: Some(
            "the table is complex and in f32; pass its real and imaginary parts; with `topk_method` \
             group_limited_greedy, `grouping = max`",
        ),
        ..mixture(
            "deepseek_v2",
            MoeBlockKey::new(RouterKey::DEEPSEEK_V2, SharedExpert::Plain),
        )
    },
    ModelSemantics {
        rope: RopeKey {
            style: RopeStyle::InterleavedToHalf,
            ..RopeKey::LLAMA
        },
        note: Some("RoPE is on the rotary part of a head alone, before it is joined to the rest"),
        ..mixture("deepseek_v3", MoeBlockKey::DEEPSEEK_V3)
    },
    ModelSemantics {
        attention: CAPPED,
        local_attention: Some(AttentionKey {
            window: AttentionWindow::Sliding,
            ..CAPPED
        }),
        norm: RmsNormKey::GEMMA,
        mlp: GELU_TANH,
        ..model("gemma2")
    },
    ModelSemantics {
        local_attention: Some(SLIDING),
        norm: RmsNormKey::GEMMA,
        qk_norm_rope: Some(QkNormRopeKey::GEMMA3),
        mlp: GELU_TANH,
        note: Some("local and global layers have tables of their own"),
        ..model("gemma3_text")
    },
    ModelSemantics {
        local_attention: Some(SLIDING),
        norm: ROUNDED_ONCE,
        mlp: GluKey {
            topk: TopK::Gaussian,
            ..GELU_TANH
        },
        note: Some("the norm of the values has no weight: `scale = none`"),
        ..model("gemma3n_text")
    },
    ModelSemantics {
        mlp: PACKED,
        rope: RopeKey {
            style: RopeStyle::Interleaved,
            ..PARTIAL
        },
        ..model("glm4")
    },
    ModelSemantics {
        rope: PARTIAL,
        note: Some("the shared expert has the same MLP"),
        ..mixture("glm4_moe", MoeBlockKey::DEEPSEEK_V3)
    },
    ModelSemantics {
        rope: RopeKey {
            sections: Sections::Chunked,
            ..PARTIAL
        },
        note: Some("the shared expert has the same MLP"),
        ..mixture("glm4v_moe_text", MoeBlockKey::DEEPSEEK_V3)
    },
    ModelSemantics {
        attention: WITH_SINKS,
        local_attention: Some(AttentionKey {
            window: AttentionWindow::Sliding,
            ..WITH_SINKS
        }),
        norm: ROUNDED_ONCE,
        mlp: GluKey {
            activation: Activation::QuickGelu,
            projections: Projections::Interleaved,
            clamp: Clamp::Limit,
            up_offset: Offset::One,
            topk: TopK::None,
        },
        rope: RopeKey {
            table: TableLayout::Pairs,
            ..RopeKey::LLAMA
        },
        experts: Some(MoeExpertsKey::GPT_OSS),
        block: Some(MoeBlockKey::new(RouterKey::GPT_OSS, SharedExpert::None)),
        note: Some("`swiglu_limit` is the limit of the clamp, 7"),
        ..model("gpt_oss")
    },
    model("llama"),
    ModelSemantics {
        local_attention: Some(AttentionKey {
            window: AttentionWindow::Chunked,
            ..AttentionKey::CAUSAL
        }),
        rope: RopeKey {
            layout: HeadLayout::Bsnd,
            ..COMPLEX
        },
        experts: Some(MoeExpertsKey::LLAMA4),
        note: Some(
            "some layers have no RoPE; the norm of queries and keys has no weight; the router scales the \
             experts' input and not their result: its block is not a sum that an attribute describes",
        ),
        ..model("llama4_text")
    },
    ModelSemantics {
        local_attention: Some(SLIDING),
        ..model("mistral")
    },
    mixture("mixtral", MoeBlockKey::MIXTRAL),
    ModelSemantics {
        norm: ROUNDED_ONCE,
        qk_norm_rope: Some(QkNormRopeKey::OLMO2),
        note: Some("the rotary table stays in f32"),
        ..model("olmo2")
    },
    ModelSemantics {
        local_attention: Some(SLIDING),
        mlp: PACKED,
        rope: PARTIAL,
        note: Some("without `partial_rotary_factor` the table is as wide as the head"),
        ..model("phi3")
    },
    ModelSemantics {
        local_attention: Some(SLIDING),
        ..model("qwen2")
    },
    ModelSemantics {
        rope: CHUNKED_MROPE,
        ..model("qwen2_5_omni_talker")
    },
    ModelSemantics {
        rope: CHUNKED_MROPE,
        ..model("qwen2_5_omni_text")
    },
    ModelSemantics {
        rope: CHUNKED_MROPE,
        ..model("qwen2_5_vl_text")
    },
    ModelSemantics {
        note: Some(QWEN2_MOE_NOTE),
        ..mixture("qwen2_moe", MoeBlockKey::QWEN2_MOE)
    },
    ModelSemantics {
        local_attention: Some(SLIDING),
        qk_norm_rope: Some(QkNormRopeKey::QWEN3),
        ..model("qwen3")
    },
    ModelSemantics {
        norm: RmsNormKey::GEMMA,
        rope: PARTIAL_MROPE,
        note: Some(LINEAR_NOTE),
        ..mixture(
            "qwen3_5_moe_text",
            MoeBlockKey::new(RouterKey::QWEN3_MOE, SharedExpert::Gated),
        )
    },
    ModelSemantics {
        norm: RmsNormKey::GEMMA,
        rope: PARTIAL_MROPE,
        note: Some(LINEAR_NOTE),
        ..model("qwen3_5_text")
    },
    ModelSemantics {
        qk_norm_rope: Some(QkNormRopeKey::QWEN3),
        note: Some(QWEN3_MOE_NOTE),
        ..mixture("qwen3_moe", MoeBlockKey::QWEN3_MOE)
    },
    ModelSemantics {
        norm: RmsNormKey::GEMMA,
        rope: PARTIAL,
        qk_norm_rope: Some(QkNormRopeKey {
            width: RotaryWidth::Partial,
            ..QkNormRopeKey::GEMMA3
        }),
        note: Some(LINEAR_NOTE),
        ..mixture(
            "qwen3_next",
            MoeBlockKey::new(RouterKey::QWEN3_MOE, SharedExpert::Gated),
        )
    },
    ModelSemantics {
        attention: SLIDING,
        note: Some(
            "configurations have no `model_type`; attention and MLP are scaled before they are added",
        ),
        ..model("qwen3_omni_moe_code2wav")
    },
    ModelSemantics {
        qk_norm_rope: Some(QkNormRopeKey::QWEN3),
        ..model("qwen3_omni_moe_talker_code_predictor")
    },
    ModelSemantics {
        rope: INTERLEAVED_MROPE,
        note: Some(QWEN2_MOE_NOTE),
        ..mixture("qwen3_omni_moe_talker_text", MoeBlockKey::QWEN2_MOE)
    },
    ModelSemantics {
        rope: INTERLEAVED_MROPE,
        note: Some(QWEN3_MOE_NOTE),
        ..mixture("qwen3_omni_moe_text", MoeBlockKey::QWEN3_MOE)
    },
    ModelSemantics {
        rope: INTERLEAVED_MROPE,
        qk_norm_rope: Some(QWEN3_VL_QK),
        ..mixture("qwen3_vl_moe_text", MoeBlockKey::QWEN3_MOE)
    },
    ModelSemantics {
        rope: INTERLEAVED_MROPE,
        qk_norm_rope: Some(QWEN3_VL_QK),
        ..model("qwen3_vl_text")
    },
    ModelSemantics {
        note: Some("the MLP has a dropout after `down_proj`: annotate its activation alone"),
        ..model("seed_oss")
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_no_name_twice() {
        let names: Vec<_> = all().iter().map(|model| model.model_type).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    #[test]
    fn attributes_are_what_one_writes() {
        let attributes = of("gpt_oss").unwrap().attributes();
        let [norm, sum, mlp, rope, attention, local, experts, block] = attributes.as_slice() else {
            panic!("{attributes:?}")
        };
        assert_eq!(
            experts,
            "#[fused_kernel(\"npu_fused_moe\", activation = quick_gelu, projections = interleaved, \
             layout = matmul, clamp = limit, up_offset = 1, bias = all)]"
        );
        assert_eq!(
            block,
            "#[fused_kernel(\"npu_fused_moe\", part = block, scoring = softmax_of_chosen)]"
        );
        assert_eq!(of("llama").unwrap().attributes().len(), 5);
        let of_sum = norm.replace("npu_fused_rmsnorm", "npu_fused_add_rmsnorm");
        assert_eq!(*sum, of_sum);
        assert_eq!(
            norm,
            "#[fused_kernel(\"npu_fused_rmsnorm\", offset = 0, rounding = gemma)]"
        );
        assert_eq!(
            mlp,
            "#[fused_kernel(\"npu_fused_swiglu\", activation = quick_gelu, projections = interleaved, \
             clamp = limit, up_offset = 1)]"
        );
        assert_eq!(
            rope,
            "#[fused_kernel(\"npu_fused_rope\", style = half, table = pairs)]"
        );
        assert_eq!(
            attention,
            "#[fused_kernel(\"npu_fused_attention\", mask = causal, sink = learned)]"
        );
        assert_eq!(
            local,
            "#[fused_kernel(\"npu_fused_attention\", mask = causal, window = sliding, sink = learned)]"
        );
        assert!(of("gpt-oss").is_none());
    }
}
