//! Tests of the operands that operations refuse, with their messages, and of operands without elements.

use burn::tensor::{Device, Int, Tensor};
use kernels_runtime::ops::moe::{experts, unpermute};
use kernels_runtime::ops::{glu, layer_norm, rms_norm, rope};
use kernels_runtime::semantics::*;

/// Returns the panic message of `run`.
fn refusal(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(run).expect_err("it was accepted");
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

fn zeros<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::zeros(shape, &Device::flex())
}

fn norm(
    weight: Option<usize>,
    gate: Option<usize>,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> String {
    refusal(move || {
        let inputs = rms_norm::Inputs {
            x: zeros([2, 6]),
            weight: weight.map(|n| zeros([n])),
            gate: gate.map(|n| zeros([2, n])),
        };
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size,
        };
        rms_norm::reference(inputs, settings, key);
    })
}

#[test]
fn norms_have_the_operands_of_their_key() {
    let key = RmsNormKey::LLAMA;
    let gated = RmsNormKey {
        gating: Gating::AfterNorm,
        ..key
    };
    let grouped = RmsNormKey {
        groups: Groups::Many,
        ..key
    };
    assert_eq!(
        norm(Some(5), None, None, key),
        "RMSNorm: the weight has 5 elements, but the last axis of x, [2, 6], has 6"
    );
    assert_eq!(
        norm(None, None, None, key),
        "RMSNorm: a weight is missing, but the semantics are rms_norm(offset=0, rounding=llama)"
    );
    assert_eq!(
        norm(Some(6), Some(5), None, gated),
        "RMSNorm: the gate is [2, 5], but x is [2, 6]"
    );
    assert!(norm(Some(6), Some(6), None, key).contains("a gate is given"));
    assert!(norm(Some(6), None, None, grouped).contains("a group size is missing"));
    for size in [0, 4, 12] {
        assert_eq!(
            norm(Some(6), None, Some(size), grouped),
            format!("RMSNorm: the group size {size} does not divide the last axis of x, [2, 6]")
        );
    }
}

fn unit(packed: bool, n: usize, settings: glu::Settings, key: GluKey) -> String {
    refusal(move || {
        let inputs = if packed {
            glu::Inputs::Packed(zeros([2, n]))
        } else {
            glu::Inputs::Separate {
                gate: zeros([2, 6]),
                up: zeros([2, n]),
            }
        };
        glu::reference(inputs, settings, key);
    })
}

#[test]
fn units_have_the_operands_of_their_key() {
    let none = glu::Settings::default();
    let key = GluKey::SWIGLU;
    let chunked = GluKey {
        projections: Projections::Chunked,
        ..key
    };
    let clamped = GluKey {
        clamp: Clamp::Limit,
        ..key
    };
    let sparse = GluKey {
        topk: TopK::Gaussian,
        ..key
    };
    assert_eq!(
        unit(false, 5, none, key),
        "GLU: the gate projection is [2, 6], but the up projection is [2, 5]"
    );
    assert!(unit(true, 6, none, key).contains("packed in one tensor, but"));
    assert!(unit(false, 6, none, chunked).contains("two tensors, but"));
    assert!(unit(true, 5, none, chunked).contains("must be even"));
    assert!(unit(false, 6, none, clamped).contains("a limit is missing"));
    let limit = |limit| glu::Settings {
        limit: Some(limit),
        sparsity: None,
    };
    assert!(unit(false, 6, limit(1.0), key).contains("a limit is given"));
    assert!(unit(false, 6, limit(-1.0), clamped).contains("not negative"));
    assert!(unit(false, 6, limit(f64::NAN), clamped).contains("the clamp is NaN"));
    let sparsity = |sparsity| glu::Settings {
        limit: None,
        sparsity: Some(sparsity),
    };
    assert!(unit(false, 6, sparsity(1.0), sparse).contains("the sparsity is 1;"));
    assert!(unit(false, 6, sparsity(f64::NAN), sparse).contains("the sparsity is NaN"));
}

/// A sparsity of zero leaves the gate unchanged.
#[test]
fn no_sparsity_is_no_change() {
    let gate = Tensor::<2>::from_floats([[1.0, -2.0, 0.5]], &Device::flex());
    let sparse = GluKey {
        topk: TopK::Gaussian,
        ..GluKey::SWIGLU
    };
    let run = |settings, key| {
        let inputs = glu::Inputs::Separate {
            gate: gate.clone(),
            up: gate.clone(),
        };
        let reference = glu::reference(inputs.clone(), settings, key).into_data();
        glu::fused(inputs, settings, key)
            .unwrap()
            .into_data()
            .assert_approx_eq::<f32>(&reference, burn::tensor::Tolerance::default());
        reference
    };
    let zero = glu::Settings {
        limit: None,
        sparsity: Some(0.0),
    };
    assert_eq!(
        run(zero, sparse),
        run(glu::Settings::default(), GluKey::SWIGLU)
    );
}

/// Equal gates have a standard deviation of zero, which has no slope. The gradients stay finite.
#[test]
fn equal_gates_have_a_gradient() {
    let device = Device::flex().autodiff();
    let key = GluKey {
        activation: Activation::Identity,
        topk: TopK::Gaussian,
        ..GluKey::SWIGLU
    };
    let settings = glu::Settings {
        limit: None,
        // The multiplier is negative, so all gates pass.
        sparsity: Some(0.2),
    };
    for fused in [true, false] {
        let gate = Tensor::<2>::full([1, 4], 3.0, &device).require_grad();
        let inputs = glu::Inputs::Separate {
            gate: gate.clone(),
            up: gate.ones_like(),
        };
        let y = if fused {
            glu::fused(inputs, settings, key).unwrap()
        } else {
            glu::reference(inputs, settings, key)
        };
        let gradient = gate.grad(&y.sum().backward()).unwrap();
        let values: Vec<f32> = gradient.into_data().iter::<f32>().collect();
        assert!(values.iter().all(|value| *value == 0.0), "{values:?}");
    }
}

fn rotation(q: [usize; 4], k: [usize; 4], table: [usize; 3], key: RopeKey) -> String {
    refusal(move || {
        rope::reference(zeros(q), zeros(k), zeros(table), zeros(table), key);
    })
}

#[test]
fn rotations_have_the_shapes_of_their_key() {
    let key = RopeKey::LLAMA;
    let partial = RopeKey {
        width: RotaryWidth::Partial,
        ..key
    };
    let pairs = RopeKey {
        table: TableLayout::Pairs,
        ..key
    };
    let bsnd = RopeKey {
        layout: HeadLayout::Bsnd,
        ..key
    };
    let (q, k) = ([2, 4, 5, 8], [2, 1, 5, 8]);
    assert!(rotation(q, [2, 1, 6, 8], [1, 5, 8], key).contains("heads (axis 1) may differ"));
    assert!(rotation(q, k, [1, 5, 8], bsnd).contains("heads (axis 2) may differ"));
    assert!(rotation(q, k, [1, 6, 8], key).contains("needs [1, 5, 8] or [2, 5, 8]"));
    let single = rotation([1, 4, 5, 8], [1, 1, 5, 8], [1, 6, 8], key);
    assert!(
        single.contains("needs [1, 5, 8]") && !single.contains(" or "),
        "{single}"
    );
    assert!(rotation(q, k, [1, 5, 4], key).contains("`width = partial` rotates a part"));
    assert!(rotation(q, k, [1, 5, 8], pairs).contains("rotate 16 elements, but a head has 8"));
    assert!(rotation(q, k, [1, 5, 10], partial).contains("a head has only 8"));
    assert!(rotation(q, k, [1, 5, 3], partial).contains("3 elements of a head, which is odd"));
    assert!(rotation(q, k, [1, 5, 0], partial).contains("they rotate nothing"));
    let neighbours = RopeKey {
        table: TableLayout::Neighbours,
        ..key
    };
    assert!(rotation(q, k, [1, 5, 8], neighbours).contains("is for style=interleaved"));
}

#[test]
fn sections_make_up_the_pairs() {
    let of = |order, table: [usize; 4], sections| {
        let key = RopeKey {
            sections: order,
            ..RopeKey::LLAMA
        };
        refusal(move || {
            let (q, k) = (zeros([2, 4, 5, 16]), zeros([2, 1, 5, 16]));
            rope::reference_sections(q, k, zeros(table), zeros(table), sections, key);
        })
    };
    let table = [3, 2, 5, 16];
    assert!(of(Sections::None, table, [2, 3, 3]).contains("sections are for style=half"));
    assert!(of(Sections::Chunked, [2, 2, 5, 16], [2, 3, 3]).contains("must be [3, b, s, w]"));
    assert_eq!(
        of(Sections::Chunked, table, [2, 3, 4]),
        "RoPE: the sections [2, 3, 4] make up 9 pairs, but the tables have 8"
    );
    assert!(of(Sections::Interleaved, table, [1, 4, 3]).contains("height has 4 pairs, but"));
}

/// Makes a leaf of a graph.
fn leaf<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    zeros(shape).autodiff().require_grad()
}

/// Compares the shapes of a kernel's result and its reference's, on a device with autodiff, and runs the gradients.
fn same_shape<const D: usize>(expected: [usize; D], run: impl Fn(bool) -> Tensor<D>) {
    for fused in [true, false] {
        let y = run(fused);
        assert_eq!(y.dims(), expected, "fused: {fused}");
        // A result without elements may depend on nothing.
        (y.sum() + leaf([1])).backward();
    }
}

#[test]
fn operands_without_elements_have_a_result() {
    let device = Device::flex().autodiff();
    same_shape([3, 0], |fused| {
        let inputs = rms_norm::Inputs {
            x: leaf([3, 0]),
            weight: Some(leaf([0])),
            gate: None,
        };
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size: None,
        };
        match fused {
            true => rms_norm::fused(inputs, settings, RmsNormKey::LLAMA).unwrap(),
            false => rms_norm::reference(inputs, settings, RmsNormKey::LLAMA),
        }
    });
    same_shape([3, 0], |fused| {
        let inputs = layer_norm::Inputs {
            x: leaf([3, 0]),
            weight: leaf([0]),
            bias: Some(leaf([0])),
        };
        let settings = layer_norm::Settings { eps: 1e-6 };
        match fused {
            true => layer_norm::fused(inputs, settings, LayerNormKey::GPT2).unwrap(),
            false => layer_norm::reference(inputs, settings, LayerNormKey::GPT2),
        }
    });
    for projections in [Projections::Chunked, Projections::Interleaved] {
        let key = GluKey {
            projections,
            ..GluKey::SWIGLU
        };
        same_shape([3, 0], |fused| {
            let inputs = glu::Inputs::Packed(leaf([3, 0]));
            match fused {
                true => glu::fused(inputs, glu::Settings::default(), key).unwrap(),
                false => glu::reference(inputs, glu::Settings::default(), key),
            }
        });
    }
    same_shape([0, 2, 3, 4], |fused| {
        let (q, k, table) = (leaf([0, 2, 3, 4]), leaf([0, 1, 3, 4]), leaf([1, 3, 4]));
        match fused {
            true => {
                rope::fused(q, k, table.clone(), table, RopeKey::LLAMA)
                    .unwrap()
                    .0
            }
            false => rope::reference(q, k, table.clone(), table, RopeKey::LLAMA).0,
        }
    });
    let key = MoeExpertsKey {
        bias: ExpertBias::All,
        ..MoeExpertsKey::QWEN3
    };
    for [hidden, width, choices] in [[0, 3, 1], [4, 0, 1], [4, 3, 0]] {
        same_shape([2, hidden], |fused| {
            let projection = |inputs, outputs| {
                experts::Projection::new(leaf([2, outputs, inputs])).with_bias(leaf([2, outputs]))
            };
            let weights =
                experts::Weights::packed(projection(hidden, 2 * width), projection(width, hidden));
            let indices = Tensor::<2, Int>::zeros([2, choices], &device);
            let (x, routing) = (leaf([2, hidden]), leaf([2, choices]));
            match fused {
                true => experts::fused(x, indices, routing, weights, None, key).unwrap(),
                false => experts::reference(x, indices, routing, weights, None, key),
            }
        });
    }
    same_shape([2, 0], |fused| {
        let (rows, probs) = (leaf([4, 0]), Some(leaf([2, 2])));
        let map = Tensor::<2, Int>::from_data([[0, 1], [2, 3]], &device);
        match fused {
            true => unpermute::fused(rows, map, probs).unwrap(),
            false => unpermute::reference(rows, map, probs),
        }
    });
}
