//! The Phi-3 family. Its norm is Llama's.

use super::llama;
use crate::config::family::{Defaults, Family, Positions, Projections, Window};
use crate::layers::blocks::Mlp;
use crate::layers::kinds::Layers;
use crate::layers::phi3::{Phi3Mlp, apply_rotary_pos_emb};

pub(crate) static FAMILY: Family = Family {
    class_name: "Phi3ForCausalLM",
    model_type: "phi3",
    projections: Projections {
        packed: true,
        output_bias: false,
    },
    positions: Positions {
        rotated_part: Some(1.0),
        scalings: &["default", "longrope"],
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        rms_norm_eps: 1e-5,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &[],
    window: Window {
        honoured: true,
        ..Window::NONE
    },
    honours: &[
        "partial_rotary_factor",
        // Published files name the code of their first release, which the class replaces.
        "auto_map",
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    mlp: |new| {
        let [gate_up_proj, down_proj] = new.packed();
        Mlp::Phi3(Phi3Mlp {
            gate_up_proj,
            down_proj,
        })
    },
    rotate: apply_rotary_pos_emb,
    ..llama::LAYERS
};
