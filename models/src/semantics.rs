//! What published architectures compute, as semantics keys: what to write in the attribute of a
//! model of one's own.
//!
//! The keys say what `transformers` 5 computes for each `model_type`. They are data, not a switch:
//! nothing is replaced by the name of a model.

use burn_kernels::semantics::{
    Activation, Clamp, GluKey, HeadLayout, Offset, Projections, RmsNormKey, RopeKey, RopeStyle,
    RotaryWidth, Rounding, Sections, TableLayout, TopK,
};

/// The operations of one architecture that kernels can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSemantics {
    /// `model_type` of `config.json`.
    pub model_type: &'static str,
    /// The norms around attention and MLP.
    pub norm: RmsNormKey,
    /// The dense MLP, or each expert's.
    pub mlp: GluKey,
    /// The rotary position embedding of queries and keys.
    pub rope: RopeKey,
    /// What the keys don't say.
    pub note: Option<&'static str>,
}

/// The semantics of the architecture of this `model_type`.
pub fn of(model_type: &str) -> Option<&'static ModelSemantics> {
    TABLE.iter().find(|model| model.model_type == model_type)
}

/// Every architecture in the table, sorted by name.
pub fn all() -> &'static [ModelSemantics] {
    TABLE
}

impl ModelSemantics {
    /// The three attributes as they are written on the norm, the MLP and the rotary function.
    pub fn attributes(&self) -> [String; 3] {
        [
            attribute("npu_fused_rmsnorm", &self.norm.to_string()),
            attribute("npu_fused_swiglu", &self.mlp.to_string()),
            attribute("npu_fused_rope", &self.rope.to_string()),
        ]
    }
}

/// `op(a=b, c=d)` as `#[fused_kernel("id", a = b, c = d)]`.
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
        note: None,
    }
}

/// `x̂ · w` in f32, rounded once.
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

/// The real and imaginary part of a complex table, one angle a pair.
const COMPLEX: RopeKey = RopeKey {
    style: RopeStyle::Interleaved,
    table: TableLayout::Pairs,
    ..RopeKey::LLAMA
};

const SHARED_EXPERT: Option<&str> = Some("the shared expert has the same MLP");
const INTERLEAVED_MROPE: RopeKey = RopeKey {
    sections: Sections::Interleaved,
    ..RopeKey::LLAMA
};

static TABLE: &[ModelSemantics] = &[
    ModelSemantics {
        rope: COMPLEX,
        note: Some("the table is complex and in f32; pass its real and imaginary parts"),
        ..model("deepseek_v2")
    },
    ModelSemantics {
        rope: RopeKey {
            style: RopeStyle::InterleavedToHalf,
            ..RopeKey::LLAMA
        },
        note: Some("RoPE is on the rotary part of a head alone, before it is joined to the rest"),
        ..model("deepseek_v3")
    },
    ModelSemantics {
        norm: RmsNormKey::GEMMA,
        mlp: GELU_TANH,
        ..model("gemma2")
    },
    ModelSemantics {
        norm: RmsNormKey::GEMMA,
        mlp: GELU_TANH,
        note: Some("local and global layers have tables of their own"),
        ..model("gemma3_text")
    },
    ModelSemantics {
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
        note: SHARED_EXPERT,
        ..model("glm4_moe")
    },
    ModelSemantics {
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
        note: Some("`swiglu_limit` is the limit of the clamp, 7"),
        ..model("gpt_oss")
    },
    model("llama"),
    ModelSemantics {
        rope: RopeKey {
            layout: HeadLayout::Bsnd,
            ..COMPLEX
        },
        note: Some("some layers have no RoPE; the norm of queries and keys has no weight"),
        ..model("llama4_text")
    },
    model("mistral"),
    model("mixtral"),
    ModelSemantics {
        norm: ROUNDED_ONCE,
        note: Some("the rotary table stays in f32"),
        ..model("olmo2")
    },
    ModelSemantics {
        mlp: PACKED,
        rope: PARTIAL,
        note: Some("without `partial_rotary_factor` the table is as wide as the head"),
        ..model("phi3")
    },
    model("qwen2"),
    ModelSemantics {
        rope: RopeKey {
            sections: Sections::Chunked,
            ..RopeKey::LLAMA
        },
        ..model("qwen2_5_vl_text")
    },
    ModelSemantics {
        note: SHARED_EXPERT,
        ..model("qwen2_moe")
    },
    model("qwen3"),
    model("qwen3_moe"),
    ModelSemantics {
        norm: RmsNormKey::GEMMA,
        rope: PARTIAL,
        note: Some(
            "the norm after linear attention is gated: `gating = after_norm`, `offset = 0`, \
             `rounding = llama`",
        ),
        ..model("qwen3_next")
    },
    ModelSemantics {
        rope: INTERLEAVED_MROPE,
        ..model("qwen3_vl_moe_text")
    },
    ModelSemantics {
        rope: INTERLEAVED_MROPE,
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
    use burn_kernels::registry::sites;
    use burn_kernels::semantics::SemanticsKey;

    #[test]
    fn the_table_is_sorted_and_has_no_name_twice() {
        let names: Vec<_> = all().iter().map(|model| model.model_type).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    /// The models of this crate carry the keys of the table.
    #[test]
    fn annotated_models_agree_with_the_table() {
        for model_type in ["llama", "qwen3"] {
            let model = of(model_type).unwrap();
            let module = format!("kernels_models::{model_type}");
            let keys: Vec<_> = sites()
                .map(|site| site.spec())
                .filter(|spec| spec.module == module)
                .map(|spec| spec.key)
                .collect();
            for key in [
                SemanticsKey::RmsNorm(model.norm),
                SemanticsKey::Glu(model.mlp),
                SemanticsKey::Rope(model.rope),
            ] {
                assert!(keys.contains(&key), "{model_type}: {key} not in {keys:?}");
            }
        }
    }

    #[test]
    fn attributes_are_what_one_writes() {
        let [norm, mlp, rope] = of("gpt_oss").unwrap().attributes();
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
        assert!(of("gpt-oss").is_none());
    }
}
