//! The cases of functions: arguments, and the formulas of their results.

use crate::formulas;
use crate::functions::{Array, Given, Results, Values, numbers};
use Given::{Bools, Flag, Float, Floats, Int, Integers, Name, None};

/// A call of a function, and of that of its gradients.
pub struct Case {
    pub function: &'static str,
    pub values: Values,
    pub formula: fn(&Values) -> Results,
    /// The arguments of the gradients that are other ones there. `None` if these are not computed in this case.
    pub backward: Option<Vec<(&'static str, Given)>>,
    /// Whether the function itself returns gradients, for a gradient of its loss of 1.
    pub has_gradients: bool,
}

fn case(
    function: &'static str,
    formula: fn(&Values) -> Results,
    values: &[(&'static str, Given)],
) -> Case {
    let values = values
        .iter()
        .map(|(name, given)| {
            let given = match given {
                Floats(array) if array.data.is_empty() => Floats(Array {
                    data: numbers(name, array.shape.iter().product()),
                    shape: array.shape.clone(),
                }),
                other => other.clone(),
            };
            ((*name).to_owned(), given)
        })
        .collect();
    Case {
        function,
        values: Values(values),
        formula,
        backward: Some(Vec::new()),
        has_gradients: false,
    }
}

/// Returns an array whose numbers depend on its name.
fn of(shape: &[usize]) -> Given {
    Floats(Array {
        shape: shape.to_vec(),
        data: Vec::new(),
    })
}

/// Returns an array of positive numbers.
fn positive(shape: &[usize]) -> Given {
    let count = shape.iter().product();
    Floats(Array {
        shape: shape.to_vec(),
        data: numbers("positive", count)
            .into_iter()
            .map(|x| x.abs() + 0.125)
            .collect(),
    })
}

pub fn cases() -> Vec<Case> {
    [
        norms(),
        units(),
        rotations(),
        attentions(),
        losses(),
        experts(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn norms() -> Vec<Case> {
    let rms = |residual, gate, gating, group_size| {
        case(
            "rms_norm",
            formulas::rms_norm,
            &[
                ("x", of(&[3, 10])),
                ("weight", of(&[10])),
                ("residual", residual),
                ("gate", gate),
                ("eps", Float(1e-3)),
                ("group_size", Int(group_size)),
                ("offset", Float(1.0)),
                ("rounding", Name("llama")),
                ("gating", Name(gating)),
                ("dsum", None),
            ],
        )
    };
    let mut added = rms(of(&[3, 10]), None, "none", 0);
    added.values.0.remove("dsum"); // the gradient of a result
    added.backward = Some(vec![("x", Given::Result("sum"))]);
    vec![
        rms(None, None, "none", 0),
        added,
        rms(None, of(&[3, 10]), "before_norm", 5),
        rms(None, of(&[3, 10]), "after_norm", 0),
        case(
            "layer_norm",
            formulas::layer_norm,
            &[
                ("x", of(&[2, 3, 7])),
                ("weight", of(&[7])),
                ("bias", of(&[7])),
                ("eps", Float(1e-3)),
            ],
        ),
    ]
}

fn units() -> Vec<Case> {
    let glu = |gate: &[usize], up, projections, [limit, up_offset, threshold]: [Given; 3]| {
        case(
            "glu",
            formulas::glu,
            &[
                ("gate", of(gate)),
                ("up", up),
                ("activation", Name("silu")),
                ("projections", Name(projections)),
                ("limit", limit),
                ("up_offset", up_offset),
                ("threshold", threshold),
            ],
        )
    };
    let plain = || [None, Float(0.0), None];
    vec![
        glu(&[3, 9], of(&[3, 9]), "separate", plain()),
        glu(&[3, 8], None, "chunked", [Float(0.4), Float(1.0), None]),
        glu(&[3, 8], None, "interleaved", plain()),
        glu(
            &[3, 9],
            of(&[3, 9]),
            "separate",
            [None, Float(0.0), Float(0.3)],
        ),
        case(
            "linear",
            formulas::linear,
            &[
                ("x", of(&[2, 3, 5])),
                ("weight", of(&[4, 5])),
                ("bias", of(&[4])),
                ("layout", Name("output_major")),
            ],
        ),
        case(
            "linear",
            formulas::linear,
            &[
                ("x", of(&[6, 5])),
                ("weight", of(&[5, 4])),
                ("bias", of(&[4])),
                ("layout", Name("input_major")),
            ],
        ),
        case(
            "adam_w",
            formulas::adam_w,
            &[
                ("parameter", of(&[2, 9])),
                ("moment_1", of(&[2, 9])),
                ("moment_2", positive(&[2, 9])),
                ("gradient", of(&[2, 9])),
                ("learning_rate", Float(0.01)),
                ("beta_1", Float(0.9)),
                ("beta_2", Float(0.99)),
                ("epsilon", Float(1e-3)),
                ("weight_decay", Float(0.1)),
                ("step", Int(3)),
            ],
        ),
    ]
}

fn rotations() -> Vec<Case> {
    let rope = |q: [usize; 4], k: [usize; 4], width: usize, style, layout, table| {
        case(
            "rope",
            formulas::rope,
            &[
                ("q", of(&q)),
                ("k", of(&k)),
                ("cos", of(&[1, 3, width])),
                ("sin", of(&[1, 3, width])),
                ("style", Name(style)),
                ("layout", Name(layout)),
                ("table", Name(table)),
            ],
        )
    };
    let normed = |together, layout| {
        case(
            "qk_norm_rope",
            formulas::qk_norm_rope,
            &[
                ("x", of(&[2, 3, 2, 8])),
                ("weight", of(&[if together { 16 } else { 8 }])),
                ("cos", of(&[2, 3, 6])),
                ("sin", of(&[2, 3, 6])),
                ("eps", Float(1e-3)),
                ("offset", Float(0.5)),
                ("rounding", Name("gemma")),
                ("together", Flag(together)),
                ("style", Name("half")),
                ("layout", Name(layout)),
                ("table", Name("halves")),
            ],
        )
    };
    vec![
        rope([2, 4, 3, 8], [2, 1, 3, 8], 8, "half", "bnsd", "halves"),
        rope(
            [2, 3, 4, 8],
            [2, 3, 2, 8],
            6,
            "interleaved",
            "bsnd",
            "neighbours",
        ),
        rope(
            [1, 2, 3, 8],
            [1, 2, 3, 8],
            4,
            "interleaved_to_half",
            "bnsd",
            "pairs",
        ),
        normed(false, "bnsd"),
        normed(true, "bsnd"),
    ]
}

fn attentions() -> Vec<Case> {
    let attention = |bias, sinks, mask, causal, window, cap| {
        case(
            "attention",
            formulas::attention,
            &[
                ("q", of(&[2, 4, 5, 3])),
                ("k", of(&[2, 2, 6, 3])),
                ("v", of(&[2, 2, 6, 2])),
                ("bias", bias),
                ("sinks", sinks),
                ("mask", mask),
                ("causal", Flag(causal)),
                ("window", Int(window)),
                ("scale", Float(1.5)),
                ("cap", cap),
                ("layout", Name("bnsd")),
            ],
        )
    };
    // Each query sees three keys, which begin at its own number minus one or at the first.
    let seen = |query: usize, key: usize| {
        let first = query.saturating_sub(1);
        u8::from((first..first + 3).contains(&key))
    };
    let mask = (0..5).flat_map(|query| (0..6).map(move |key| seen(query, key)));
    let mask = Bools(vec![1, 1, 5, 6], mask.collect());
    vec![
        attention(None, of(&[4]), None, true, 3, Float(2.0)),
        attention(of(&[1, 4, 5, 6]), None, mask, false, 0, None),
    ]
}

fn losses() -> Vec<Case> {
    let targets = || Integers(vec![4], vec![2, -100, 0, 5]);
    let numbers = |reduction| {
        [
            ("targets", targets()),
            ("ignore_index", Int(-100)),
            ("label_smoothing", Float(0.1)),
            ("cap", Float(1.5)),
            ("z_loss", Float(0.05)),
            ("reduction", Name(reduction)),
        ]
    };
    let plain = |reduction| {
        let values = [&[("logits", of(&[4, 7]))][..], &numbers(reduction)].concat();
        case("cross_entropy", formulas::cross_entropy, &values)
    };
    let layer = |reduction, layout, weight: [usize; 2], wanted| {
        let operands = [
            ("hidden", of(&[4, 3])),
            ("weight", of(&weight)),
            ("bias", of(&[7])),
            ("layout", Name(layout)),
            ("wants_hidden", Flag(wanted)),
            ("wants_weight", Flag(wanted)),
            ("wants_bias", Flag(wanted)),
        ];
        let values = [&operands[..], &numbers(reduction)].concat();
        Case {
            has_gradients: wanted,
            backward: (!wanted).then(Vec::new),
            ..case(
                "linear_cross_entropy",
                formulas::linear_cross_entropy,
                &values,
            )
        }
    };
    vec![
        plain("mean"),
        plain("sum"),
        plain("none"),
        layer("mean", "output_major", [7, 3], true),
        layer("sum", "output_major", [7, 3], true),
        layer("none", "output_major", [7, 3], false),
        case(
            "scaled",
            formulas::scaled,
            &[
                ("kept", of(&[3, 5])),
                ("dloss", of(&[])),
                ("like", of(&[1])),
            ],
        ),
    ]
}

fn experts() -> Vec<Case> {
    // The last choice of the second token is an expert elsewhere.
    let numbers = || Integers(vec![4, 2], vec![2, 0, 1, 3, 0, 1, 2, 1]);
    let experts = |gate: &[usize], up, down: &[usize], biases: [Given; 3], projections, layout| {
        let [gate_bias, up_bias, down_bias] = biases;
        case(
            "experts",
            formulas::experts,
            &[
                ("x", of(&[4, 5])),
                ("routing", of(&[4, 2])),
                ("experts", numbers()),
                ("gate", of(gate)),
                ("up", up),
                ("down", of(down)),
                ("gate_bias", gate_bias),
                ("up_bias", up_bias),
                ("down_bias", down_bias),
                ("activation", Name("quick_gelu")),
                ("projections", Name(projections)),
                ("layout", Name(layout)),
                ("limit", Float(0.7)),
                ("up_offset", Float(1.0)),
                ("keep", Flag(true)),
            ],
        )
    };
    let separate = [of(&[3, 4]), of(&[3, 4]), of(&[3, 5])];
    let together = [of(&[3, 8]), None, of(&[3, 5])];
    vec![
        experts(
            &[3, 4, 5],
            of(&[3, 4, 5]),
            &[3, 5, 4],
            separate,
            "separate",
            "linear",
        ),
        experts(
            &[3, 5, 8],
            None,
            &[3, 4, 5],
            together,
            "interleaved",
            "matmul",
        ),
        experts(
            &[3, 8, 5],
            None,
            &[3, 5, 4],
            [None, None, None],
            "chunked",
            "linear",
        ),
    ]
}
