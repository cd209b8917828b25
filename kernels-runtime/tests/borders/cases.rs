//! Cases for every method of the kernel traits on Flex.

use crate::operand::{Case, Operand, float, ints};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, IntDType, TensorData};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::add_rms_norm::AddRmsNorm;
use kernels_runtime::ops::attention::{Attention, Lengths};
use kernels_runtime::ops::causal_conv1d::{self, CausalConv1d};
use kernels_runtime::ops::cross_entropy::CrossEntropy;
use kernels_runtime::ops::fused::{
    self, Backward, BackwardOn, FusedKernel, FusedOp, MadeOn, Tensors,
};
use kernels_runtime::ops::gated_delta_rule::{self, GatedDeltaRule};
use kernels_runtime::ops::glu::{Glu, PackingGlu};
use kernels_runtime::ops::layer_norm::LayerNorm;
use kernels_runtime::ops::linear::Linear;
use kernels_runtime::ops::linear_divergence::{self, LinearDivergence};
use kernels_runtime::ops::moe::Routing;
use kernels_runtime::ops::moe::experts::{self, Experts};
use kernels_runtime::ops::moe::grouped_matmul::{self, GroupedMatmul};
use kernels_runtime::ops::moe::permute::{
    PermuteBackend, PermuteKernel, Sort, Spread, SpreadWeighed, Sum, Weigh, WeighBackward,
};
use kernels_runtime::ops::moe::router::{self, Router};
use kernels_runtime::ops::qk_norm_rope::QkNormRope;
use kernels_runtime::ops::rms_norm::RmsNorm;
use kernels_runtime::ops::rope::Rope;
use kernels_runtime::ops::softcap::{self, Softcap};
use kernels_runtime::ops::{
    adam_w, add_rms_norm, attention, cross_entropy, glu, layer_norm, linear, linear_cross_entropy,
    qk_norm_rope, rms_norm, rope,
};
use kernels_runtime::semantics::*;

/// The operands of a case, taken one after the other.
struct Given(std::vec::IntoIter<FlexTensor>);

impl Given {
    fn next(&mut self) -> FlexTensor {
        self.0.next().expect("as many operands as the case has")
    }

    fn when(&mut self, there: bool) -> Option<FlexTensor> {
        there.then(|| self.next())
    }

    fn many(&mut self, count: usize) -> Vec<FlexTensor> {
        (0..count).map(|_| self.next()).collect()
    }
}

fn given(tensors: Vec<FlexTensor>) -> Given {
    Given(tensors.into_iter())
}

/// Returns the results of a call without gradients, and those of one whose gradients are all wanted.
fn made<O: FusedOp>(operands: Tensors<O, Flex>) -> [MadeOn<Flex>; 2]
where
    Flex: FusedKernel<O>,
    Tensors<O, Flex>: Clone,
{
    let lengths = O::lengths(&operands);
    let every = O::floats(&operands).into_iter().map(|_| true);
    let wanted = O::each(every, &lengths);
    [None, Some(&wanted)].map(|wanted| <Flex as FusedKernel<O>>::forward(operands.clone(), wanted))
}

/// Returns the checked operands of a backward pass.
fn backward_of<O: FusedOp>(
    operands: Tensors<O, Flex>,
    dy: FlexTensor,
    saved: impl IntoIterator<Item = FlexTensor>,
    wanted: &[bool],
) -> Result<BackwardOn<O, Flex>, Mismatch> {
    Backward::new(operands, fused::Given::new(dy).saving(saved), wanted)
}

/// Returns the wanted gradients.
fn gradients<O: FusedOp>(backward: BackwardOn<O, Flex>) -> impl Iterator<Item = FlexTensor>
where
    Flex: FusedKernel<O>,
{
    let lengths = O::lengths(backward.operands());
    let wanted = O::values(backward.wanted().clone(), &lengths);
    let found = O::values(<Flex as FusedKernel<O>>::backward(backward), &lengths);
    let each = found.into_iter().zip(wanted).filter(|(_, wanted)| *wanted);
    each.map(|(gradient, _)| gradient.expect("it is wanted"))
}

pub fn all() -> Vec<Case> {
    [
        norms(),
        sums(),
        layer_norms(),
        linear_layers(),
        gated_units(),
        packing(),
        rotations(),
        prepared(),
        caps(),
        convolutions(),
        delta_rules(),
        attentions(),
        losses(),
        losses_of_hidden_states(),
        divergences(),
        steps(),
        routers(),
        grouped(),
        moving(),
        mixtures(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn norms() -> Vec<Case> {
    let mut cases = Vec::new();
    for (gating, shift) in [
        (Gating::None, Shift::None),
        (Gating::BeforeNorm, Shift::None),
        (Gating::AfterNorm, Shift::None),
        (Gating::None, Shift::Bias),
    ] {
        for (scale, groups) in [
            (Scale::Weight, Groups::One),
            (Scale::Weight, Groups::Many),
            (Scale::None, Groups::One),
            (Scale::None, Groups::Many),
        ] {
            let key = RmsNormKey {
                gating,
                scale,
                groups,
                shift,
                ..RmsNormKey::GEMMA
            };
            let size = (groups == Groups::Many).then_some(4);
            let settings = rms_norm::Settings {
                eps: 1e-5,
                group_size: size,
            };
            let (weighted, gated) = (scale == Scale::Weight, gating != Gating::None);
            let shifted = shift == Shift::Bias;
            let operands = move |given: &mut Given| {
                let x = given.next();
                let (weight, gate) = (given.when(weighted), given.when(gated));
                let bias = given.when(shifted);
                rms_norm::Operands::with_later(x, weight, gate, bias, settings, key)
            };
            let inputs = || {
                let weight = weighted.then(|| float("weight", [8]));
                let gate = gated.then(|| float("gate", [3, 2, 8]));
                let x = std::iter::once(float("x", [3, 2, 8]));
                let bias = shifted.then(|| float("beta", [8]));
                x.chain(weight).chain(gate).chain(bias)
            };
            cases.push(Case::new(
                format!("rms_norm, {key}"),
                inputs(),
                move |tensors| {
                    let operands = operands(&mut given(tensors))?;
                    Ok(vec![
                        <Flex as FusedKernel<RmsNorm>>::forward(operands, None).y,
                    ])
                },
            ));
            cases.push(Case::new(
                format!("rms_norm_forward, {key}"),
                inputs(),
                move |tensors| {
                    let operands = operands(&mut given(tensors))?;
                    let nothing = operands.x().layout().shape().last() == Some(&0);
                    let wanted = rms_norm::Each {
                        x: true,
                        weight: weighted,
                        gate: gated,
                        bias: shifted,
                    };
                    let made = <Flex as FusedKernel<RmsNorm>>::forward(operands, Some(&wanted));
                    // The mean of no elements is NaN.
                    let rstd = made.saved.into_iter().filter(|_| !nothing);
                    Ok(std::iter::once(made.y).chain(rstd).collect())
                },
            ));
            let rstd = float("rstd", [3, 2, size.map_or(1, |size| 8 / size)]);
            let backward = [float("dy", [3, 2, 8]), rstd].into_iter().chain(inputs());
            for weight_gradient in [false, weighted] {
                cases.push(Case::new(
                    format!("rms_norm_backward, {weight_gradient}, {key}"),
                    backward.clone(),
                    move |tensors| {
                        let mut given = given(tensors);
                        let (dy, rstd) = (given.next(), given.next());
                        let operands = operands(&mut given)?;
                        let weight = weighted.then_some(weight_gradient);
                        let gate = gated.then_some(true);
                        let bias = shifted.then_some(true);
                        let wanted = std::iter::once(true).chain(weight).chain(gate).chain(bias);
                        let wanted: Vec<bool> = wanted.collect();
                        let given = fused::Given::new(dy).saving([rstd]);
                        let backward = fused::Backward::<RmsNorm, _>::new(operands, given, &wanted);
                        let found = <Flex as FusedKernel<RmsNorm>>::backward(backward?);
                        let found = [found.x, found.weight, found.gate, found.bias];
                        Ok(found.into_iter().flatten().collect())
                    },
                ));
            }
        }
    }
    cases
}

fn sums() -> Vec<Case> {
    let gatings = [Gating::None, Gating::BeforeNorm, Gating::AfterNorm];
    let groups = [Groups::One, Groups::Many];
    let keys = gatings.into_iter().flat_map(|gating| {
        groups.map(|groups| AddRmsNormKey {
            gating,
            groups,
            ..AddRmsNormKey::GEMMA
        })
    });
    let case = |key: AddRmsNormKey| {
        let size = (key.groups == Groups::Many).then_some(4);
        let settings = add_rms_norm::Settings {
            eps: 1e-5,
            group_size: size,
        };
        let gated = key.gating != Gating::None;
        let terms = [float("x", [3, 2, 8]), float("residual", [3, 2, 8])];
        let gate = gated.then(|| float("gate", [3, 2, 8]));
        let inputs = terms.into_iter().chain([float("weight", [8])]).chain(gate);
        Case::new(format!("add_rms_norm, {key}"), inputs, move |tensors| {
            let mut given = given(tensors);
            let (x, residual) = (given.next(), given.next());
            let (weight, gate) = (Some(given.next()), given.when(gated));
            let operands = add_rms_norm::Operands::new(x, residual, weight, gate, settings, key)?;
            let nothing = operands.x().layout().shape().last() == Some(&0);
            let wanted = add_rms_norm::Each {
                x: true,
                residual: true,
                weight: true,
                gate: gated,
            };
            let forward = <Flex as FusedKernel<AddRmsNorm>>::forward;
            let both = forward(operands.clone(), None);
            let found = forward(operands, Some(&wanted));
            // The mean of no elements is NaN. The rstd of a rounded sum is as exact as the sum's dtype.
            let dtype = found.y.dtype().into();
            let rstd = found.saved.into_iter().filter(|_| !nothing);
            let rstd = rstd.map(|rstd| Flex::float_cast(rstd, dtype));
            let results = [both.y].into_iter().chain(both.others);
            let results = results.chain([found.y]).chain(found.others);
            Ok(results.chain(rstd).collect())
        })
    };
    keys.map(case).collect()
}

fn layer_norms() -> Vec<Case> {
    let mut cases = Vec::new();
    for key in [LayerNormKey::GPT2, LayerNormKey::COHERE] {
        let settings = layer_norm::Settings { eps: 1e-5 };
        let shifted = key.shift == Shift::Bias;
        let operands = move |given: &mut Given| {
            let (x, weight) = (given.next(), given.next());
            layer_norm::Operands::new(x, weight, given.when(shifted), settings, key)
        };
        let inputs = || {
            let first = [float("x", [3, 2, 8]), float("weight", [8])].into_iter();
            first.chain(shifted.then(|| float("beta", [8])))
        };
        cases.push(Case::new(
            format!("layer_norm_forward, {key}"),
            inputs(),
            move |tensors| {
                let operands = operands(&mut given(tensors))?;
                let nothing = operands.x().layout().shape().last() == Some(&0);
                let [inferred, found] = made::<LayerNorm>(operands);
                // The mean of no elements is NaN.
                let statistics = found.saved.into_iter().filter(|_| !nothing);
                Ok([inferred.y, found.y]
                    .into_iter()
                    .chain(statistics)
                    .collect())
            },
        ));
        let given_back = ["mean", "rstd"].map(|name| float(name, [3, 2, 1]));
        let dy = std::iter::once(float("dy", [3, 2, 8]));
        let backward = dy.chain(given_back).chain(inputs());
        let every = [(true, true), (true, false), (false, true), (false, false)];
        for (weight, bias) in every.into_iter().filter(|(_, bias)| shifted || !bias) {
            let wanted = [true, weight, bias];
            cases.push(Case::new(
                format!("layer_norm_backward, {weight}, {bias}, {key}"),
                backward.clone(),
                move |tensors| {
                    let mut given = given(tensors);
                    let (dy, mean, rstd) = (given.next(), given.next(), given.next());
                    let operands = operands(&mut given)?;
                    let wanted = &wanted[..2 + usize::from(shifted)];
                    let backward = backward_of::<LayerNorm>(operands, dy, [mean, rstd], wanted)?;
                    Ok(gradients(backward).collect())
                },
            ));
        }
    }
    cases
}

fn linear_layers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (layout, shift) in [
        (OutputLayout::InputMajor, Shift::None),
        (OutputLayout::InputMajor, Shift::Bias),
        (OutputLayout::OutputMajor, Shift::Bias),
    ] {
        let key = LinearKey { layout, shift };
        let shifted = shift == Shift::Bias;
        let operands = move |given: &mut Given| {
            let (x, weight) = (given.next(), given.next());
            linear::Operands::new(x, weight, given.when(shifted), key)
        };
        let axes = match layout {
            OutputLayout::InputMajor => [8, 6],
            OutputLayout::OutputMajor => [6, 8],
        };
        let inputs = || {
            let first = [float("x", [3, 4, 8]), float("weight", axes)].into_iter();
            first.chain(shifted.then(|| float("beta", [6])))
        };
        cases.push(Case::new(
            format!("fused_linear_forward, {key}"),
            inputs(),
            move |tensors| {
                let operands = operands(&mut given(tensors))?;
                Ok(made::<Linear>(operands).map(|made| made.y).into())
            },
        ));
        let backward = std::iter::once(float("dy", [3, 4, 6])).chain(inputs());
        for (x, weight, bias) in [
            (true, true, shifted),
            (true, false, false),
            (false, true, false),
            (false, false, shifted),
        ] {
            let wanted = [x, weight, bias];
            cases.push(Case::new(
                format!("fused_linear_backward, {x}, {weight}, {bias}, {key}"),
                backward.clone(),
                move |tensors| {
                    let mut given = given(tensors);
                    let dy = given.next();
                    let wanted = &wanted[..2 + usize::from(shifted)];
                    let operands = operands(&mut given)?;
                    Ok(gradients(backward_of::<Linear>(operands, dy, [], wanted)?).collect())
                },
            ));
        }
    }
    cases
}

fn gated_units() -> Vec<Case> {
    let mut cases = Vec::new();
    for projections in [
        Projections::Separate,
        Projections::Chunked,
        Projections::Interleaved,
    ] {
        for clamp in [Clamp::None, Clamp::Limit] {
            let key = GluKey {
                projections,
                clamp,
                ..GluKey::SWIGLU
            };
            let settings = glu::Settings {
                limit: (clamp == Clamp::Limit).then_some(0.9005), // No value is near it.
                sparsity: None,
            };
            let separate = projections == Projections::Separate;
            let operands = move |given: &mut Given| {
                let projected = if separate {
                    glu::Projected::Separate {
                        gate: given.next(),
                        up: given.next(),
                    }
                } else {
                    glu::Projected::Packed(given.next())
                };
                glu::Operands::of_projected(projected, settings, key)
            };
            let inputs = if separate {
                vec![float("gate", [3, 2, 6]), float("up", [3, 2, 6])]
            } else {
                vec![float("gate and up", [3, 2, 12])]
            };
            cases.push(Case::new(
                format!("glu_forward, {key}"),
                inputs.clone(),
                move |tensors| {
                    let operands = operands(&mut given(tensors))?;
                    Ok(made::<Glu>(operands).map(|made| made.y).into())
                },
            ));
            let dy = std::iter::once(float("dy", [3, 2, 6]));
            cases.push(Case::new(
                format!("glu_backward, {key}"),
                dy.chain(inputs),
                move |tensors| {
                    let mut given = given(tensors);
                    let dy = given.next();
                    Ok(gradients(operands(&mut given)?.backward(dy)?).collect())
                },
            ));
        }
    }
    cases
}

fn caps() -> Vec<Case> {
    let x = || std::iter::once(float("x", [3, 2, 8]));
    let forward = |tensors| {
        let operands = softcap::Operands::new(given(tensors).next(), 0.5)?;
        Ok(made::<Softcap>(operands).map(|made| made.y).into())
    };
    let backward = |tensors| {
        let mut given = given(tensors);
        let dy = given.next();
        let operands = softcap::Operands::new(given.next(), 0.5)?;
        Ok(gradients(backward_of::<Softcap>(operands, dy, [], &[true])?).collect())
    };
    let dy = std::iter::once(float("dy", [3, 2, 8]));
    vec![
        Case::new("softcap_forward".to_owned(), x(), forward),
        Case::new("softcap_backward".to_owned(), dy.chain(x()), backward),
    ]
}

fn convolutions() -> Vec<Case> {
    let key = CausalConv1dKey {
        shift: Shift::Bias,
        state: InitialState::Given,
        lengths: SequenceLengths::Packed,
        ..CausalConv1dKey::GATED_DELTA_NET
    };
    let operands = move |given: &mut Given| {
        let (x, weight) = (given.next(), given.next());
        let (bias, state) = (given.when(true), given.when(true));
        let lengths = Lengths::new(&[2, 3, 5]);
        causal_conv1d::Operands::new(x, weight, bias, state, lengths, key)
    };
    let inputs = || {
        [
            float("x", [2, 5, 6]),
            float("weight", [6, 4]),
            float("conv bias", [6]),
            float("state", [3, 3, 6]),
        ]
        .into_iter()
    };
    let forward = Case::new(
        format!("causal_conv1d_forward, {key}"),
        inputs(),
        move |tensors| {
            let [one, other] = made::<CausalConv1d>(operands(&mut given(tensors))?);
            let results = [one, other].into_iter();
            Ok(results
                .flat_map(|made| std::iter::once(made.y).chain(made.others))
                .collect())
        },
    );
    let ends = [float("dy", [2, 5, 6]), float("dlast", [3, 3, 6])];
    let all = ends.into_iter().chain(inputs());
    let backward = Case::new(
        format!("causal_conv1d_backward, {key}"),
        all,
        move |tensors| {
            let mut given = given(tensors);
            let (dy, dlast) = (given.next(), given.next());
            let ends = fused::Given::new(dy).and([dlast]);
            let backward =
                Backward::<CausalConv1d, _>::new(operands(&mut given)?, ends, &[true; 4]);
            Ok(gradients(backward?).collect())
        },
    );
    vec![forward, backward]
}

fn delta_rules() -> Vec<Case> {
    let (head, channel) = (GatedDeltaRuleKey::GATED_DELTA_NET, GatedDeltaRuleKey::KIMI);
    let from_state = GatedDeltaRuleKey {
        norm: KeyNorm::None,
        state: InitialState::Given,
        lengths: SequenceLengths::Packed,
        ..channel
    };
    let cases = [head, from_state].into_iter();
    cases.flat_map(delta_rule).collect()
}

fn delta_rule(key: GatedDeltaRuleKey) -> [Case; 2] {
    let has_state = key.state == InitialState::Given;
    let operands = move |given: &mut Given| {
        let [q, k, v, g, beta] = std::array::from_fn(|_| given.next());
        let (settings, lengths) = match key.lengths {
            SequenceLengths::Packed => (Some(0.5), Lengths::new(&[1, 4, 5])),
            _ => (None, Lengths::default()),
        };
        let (settings, state) = (
            gated_delta_rule::Settings { scale: settings },
            given.when(has_state),
        );
        gated_delta_rule::Operands::new(q, k, v, g, beta, state, settings, lengths, key)
    };
    // Decays and states are in the type of the computation, whatever the others are in.
    let inputs = move || {
        let g = match key.decay {
            Decay::Head => float("wide g", [2, 5, 4]),
            Decay::Channel => float("wide g", [2, 5, 4, 3]),
        };
        let state = has_state.then(|| float("wide state", [3, 4, 3, 6]));
        [
            float("q", [2, 5, 2, 3]),
            float("k", [2, 5, 2, 3]),
            float("v", [2, 5, 4, 6]),
            g,
            float("beta", [2, 5, 4]),
        ]
        .into_iter()
        .chain(state)
    };
    let forward = Case::new(
        format!("delta_rule_forward, {key}"),
        inputs(),
        move |tensors| {
            let [one, other] = made::<GatedDeltaRule>(operands(&mut given(tensors))?);
            let results = [one, other].into_iter();
            Ok(results
                .flat_map(|made| std::iter::once(made.y).chain(made.others))
                .collect())
        },
    );
    let states = if has_state { 3 } else { 2 };
    let ends = [
        float("dy", [2, 5, 4, 6]),
        float("wide dlast", [states, 4, 3, 6]),
    ];
    let all = ends.into_iter().chain(inputs());
    let backward = Case::new(format!("delta_rule_backward, {key}"), all, move |tensors| {
        let mut given = given(tensors);
        let (dy, dlast) = (given.next(), given.next());
        let operands = operands(&mut given)?;
        operands.dtype()?;
        // The backward pass reads what the forward pass keeps, so it is not an operand of the case.
        let [_, kept] = made::<GatedDeltaRule>(operands.clone());
        let ends = fused::Given::new(dy).and([dlast]).saving(kept.saved);
        let wanted = vec![true; if has_state { 6 } else { 5 }];
        let backward = Backward::<GatedDeltaRule, _>::new(operands, ends, &wanted)?;
        Ok(gradients(backward).collect())
    });
    [forward, backward]
}

/// Gated units that pack their operands, which only clients of a served CPU could call.
fn packing() -> Vec<Case> {
    let operands =
        |given: &mut Given| glu::PackingOperands::new(given.next(), given.next(), GluKey::SWIGLU);
    let inputs = [float("gate", [3, 2, 6]), float("up", [3, 2, 6])];
    let forward = Case::new("packing_glu_forward", inputs.clone(), move |tensors| {
        let operands = operands(&mut given(tensors))?;
        let [plain, kept] = made::<PackingGlu>(operands);
        Ok([plain.y, kept.y].into_iter().chain(kept.saved).collect())
    });
    let given_back = [float("dy", [3, 2, 6]), float("packed", [3, 2, 12])];
    let all = given_back.into_iter().chain(inputs);
    let backward = Case::new("packing_glu_backward", all, move |tensors| {
        let mut given = given(tensors);
        let (dy, packed) = (given.next(), given.next());
        let operands = operands(&mut given)?;
        let backward = backward_of::<PackingGlu>(operands, dy, [packed], &[true, true]);
        Ok(gradients(backward?).collect())
    });
    vec![forward, backward]
}

fn rotations() -> Vec<Case> {
    let mut cases = Vec::new();
    for (style, table) in [
        (RopeStyle::Half, TableLayout::Halves),
        (RopeStyle::Half, TableLayout::Pairs),
        (RopeStyle::Interleaved, TableLayout::Halves),
        (RopeStyle::Interleaved, TableLayout::Neighbours),
        (RopeStyle::InterleavedToHalf, TableLayout::Halves),
    ] {
        for (layout, width) in [
            (HeadLayout::Bnsd, RotaryWidth::Full),
            (HeadLayout::Bsnd, RotaryWidth::Partial),
        ] {
            let key = RopeKey {
                style,
                table,
                layout,
                width,
                ..RopeKey::LLAMA
            };
            let shape = match layout {
                HeadLayout::Bnsd => [2, 3, 5, 8],
                HeadLayout::Bsnd => [2, 5, 3, 8],
            };
            let rotated = if width == RotaryWidth::Full { 8 } else { 4 };
            let table_width = match table {
                TableLayout::Pairs => rotated / 2,
                _ => rotated,
            };
            let inputs = [
                float("x", shape),
                float("cos", [2, 5, table_width]),
                float("sin", [1, 5, table_width]),
            ];
            for forward in [true, false] {
                cases.push(Case::new(
                    format!("rope, forward: {forward}, {key}"),
                    inputs.clone(),
                    move |tensors| {
                        let mut given = given(tensors);
                        let (x, cos, sin) = (given.next(), given.next(), given.next());
                        let operands = rope::Operands::new(x.clone(), cos, sin, key)?;
                        if forward {
                            let made = <Flex as FusedKernel<Rope>>::forward(operands, None);
                            return Ok(vec![made.y]);
                        }
                        // The rotation back does not read what was rotated.
                        let (given, wanted) = (fused::Given::new(x), [true, false, false]);
                        let backward = fused::Backward::<Rope, _>::new(operands, given, &wanted);
                        let found = <Flex as FusedKernel<Rope>>::backward(backward?);
                        Ok(found.x.into_iter().collect())
                    },
                ));
            }
        }
    }
    cases
}

/// Norms and rotations of queries and keys, forward and backward.
fn prepared() -> Vec<Case> {
    let mut cases = Vec::new();
    let in_place = QkNormRopeKey {
        style: RopeStyle::Interleaved,
        width: RotaryWidth::Partial,
        layout: HeadLayout::Bsnd,
        ..QkNormRopeKey::OLMO2
    };
    for key in [
        QkNormRopeKey::QWEN3,
        QkNormRopeKey::OLMO2,
        QkNormRopeKey::LLAMA,
        in_place,
    ] {
        let has_norm = key.norm != QkNorm::None;
        let settings = qk_norm_rope::Settings {
            eps: has_norm.then_some(1e-6),
        };
        let operands = move |given: &mut Given| {
            let (x, weight) = (given.next(), given.when(has_norm));
            let (cos, sin) = (given.next(), given.next());
            qk_norm_rope::Operands::new(x, weight, cos, sin, settings, key)
        };
        let elements = if key.norm == QkNorm::Row { 24 } else { 8 };
        let columns = if key == in_place { 4 } else { 8 };
        let mut inputs = vec![float("x", [2, 5, 3, 8])];
        if has_norm {
            inputs.push(float("weight", [elements]));
        }
        inputs.push(float("cos", [2, 5, columns]));
        inputs.push(float("sin", [1, 5, columns]));
        cases.push(Case::new(
            format!("{key}, forward"),
            inputs.clone(),
            move |tensors| {
                let operands = operands(&mut given(tensors))?;
                let made = <Flex as FusedKernel<QkNormRope>>::forward(operands, None);
                Ok(vec![made.y])
            },
        ));
        inputs.push(match key.layout {
            HeadLayout::Bnsd => float("dy", [2, 3, 5, 8]),
            HeadLayout::Bsnd => float("dy", [2, 5, 3, 8]),
        });
        cases.push(Case::new(
            format!("{key}, backward"),
            inputs,
            move |tensors| {
                let mut given = given(tensors);
                let operands = operands(&mut given)?;
                let given = fused::Given::new(given.next());
                let wanted: &[bool] = match has_norm {
                    true => &[true, true, false, false],
                    false => &[true, false, false],
                };
                let backward = fused::Backward::<QkNormRope, _>::new(operands, given, wanted);
                let found = <Flex as FusedKernel<QkNormRope>>::backward(backward?);
                Ok(found.x.into_iter().chain(found.weight).collect())
            },
        ));
    }
    cases
}

fn attentions() -> Vec<Case> {
    let mut cases = Vec::new();
    let everything = AttentionKey {
        window: AttentionWindow::Sliding,
        bias: AttentionBias::Additive,
        cap: ScoreCap::Tanh,
        sink: Sinks::Learned,
        layout: HeadLayout::Bsnd,
        ..AttentionKey::CAUSAL
    };
    let packed = AttentionKey {
        lengths: SequenceLengths::Packed,
        ..AttentionKey::CAUSAL
    };
    let padded = AttentionKey {
        mask: AttentionMask::None,
        lengths: SequenceLengths::Padded,
        ..AttentionKey::CAUSAL
    };
    let prefix = AttentionKey {
        mask: AttentionMask::Prefix,
        ..AttentionKey::CAUSAL
    };
    for key in [AttentionKey::CAUSAL, everything, packed, padded, prefix] {
        let whole = key == everything;
        let keys = if key == packed { 5 } else { 6 };
        let lengths = match key.lengths {
            SequenceLengths::None => attention::Lengths::default(),
            SequenceLengths::Packed => attention::Lengths::new(&[3, 2, 0, 1, 4]),
            SequenceLengths::Padded | SequenceLengths::LeftPadded => {
                attention::Lengths::new(&[6, 2])
            }
        };
        let settings = attention::Settings {
            scale: None,
            prefix: (key == prefix).then_some(3),
            window: whole.then_some(3),
            cap: whole.then_some(1.5),
            offset: None,
        };
        let shape = |heads: usize, rows: usize, width: usize| match key.layout {
            HeadLayout::Bnsd => [2, heads, rows, width],
            HeadLayout::Bsnd => [2, rows, heads, width],
        };
        let operands = move |given: &mut Given| {
            let (q, k, v) = (given.next(), given.next(), given.next());
            let (bias, sinks) = (given.when(whole), given.when(whole));
            attention::Operands::new(q, k, v, bias, sinks, settings, lengths.clone(), key)
        };
        let required = [
            float("q", shape(4, 5, 8)),
            float("k", shape(2, keys, 8)),
            float("v", shape(2, keys, 3)),
        ];
        let others = [float("score bias", [1, 4, 5, 6]), float("sinks", [4])];
        let others = others.into_iter().filter(move |_| whole);
        let inputs: Vec<_> = required.into_iter().chain(others).collect();
        let of_forward = operands.clone();
        cases.push(Case::new(
            format!("attention_forward, {key}"),
            inputs.clone(),
            move |tensors| {
                let operands = of_forward(&mut given(tensors))?;
                let sizes = operands.sizes();
                let all_see = sizes.keys >= sizes.queries.max(1);
                let [inferred, found] = made::<Attention>(operands);
                let [y, lse] = found.saved.into_inner().expect("the result and lse");
                // The logarithm of an empty sum, of a query that sees no key, is infinite.
                let lse = all_see.then_some(lse);
                Ok([inferred.y, found.y, y].into_iter().chain(lse).collect())
            },
        ));
        let given_back = [
            float("dy", shape(4, 5, 3)),
            float("y", shape(4, 5, 3)),
            float("lse", [2, 4, 5]),
        ];
        for bias_gradient in [false, whole] {
            let operands = operands.clone();
            cases.push(Case::new(
                format!("attention_backward, {bias_gradient}, {key}"),
                given_back.clone().into_iter().chain(inputs.clone()),
                move |tensors| {
                    let mut given = given(tensors);
                    let (dy, y, lse) = (given.next(), given.next(), given.next());
                    let operands = operands(&mut given)?;
                    let wanted = [true, true, true, bias_gradient, true];
                    let wanted = &wanted[..if whole { 5 } else { 3 }];
                    // Checks the shapes of what was given. The gradients are those of the forward pass's own results:
                    // `y` of a half type is not read, since `lse` and the operands have it more exactly.
                    backward_of::<Attention>(operands.clone(), dy.clone(), [y, lse], wanted)?;
                    let [_, found] = made::<Attention>(operands.clone());
                    let backward = backward_of::<Attention>(operands, dy, found.saved, wanted)?;
                    Ok(gradients(backward).collect())
                },
            ));
        }
    }
    cases
}

/// Targets of five tokens of six classes. The fourth is ignored.
const TARGETS: [i64; 5] = [0, 5, 2, -100, 1];

/// Returns the keys of losses, each with numbers, and the number of elements of the loss.
fn loss_keys() -> impl Iterator<Item = (CrossEntropyKey, cross_entropy::Settings, usize)> {
    let sum = (LossReduction::Sum, LogitCap::None, 1);
    let each = (LossReduction::None, LogitCap::Tanh, 5);
    [sum, each].into_iter().map(|(reduction, cap, elements)| {
        let settings = cross_entropy::Settings {
            label_smoothing: 0.1,
            cap: (cap == LogitCap::Tanh).then_some(2.0),
            z_loss: 0.01,
            ..cross_entropy::Settings::default()
        };
        (CrossEntropyKey { reduction, cap }, settings, elements)
    })
}

fn losses() -> Vec<Case> {
    let mut cases = Vec::new();
    for (key, settings, elements) in loss_keys() {
        let operands = move |given: &mut Given| {
            let (logits, targets) = (given.next(), given.next());
            cross_entropy::Operands::new(logits, targets, settings, key)
        };
        let inputs = [float("logits", [5, 6]), ints("targets", [5], &TARGETS)];
        cases.push(Case::new(
            format!("cross_entropy_forward, {key}"),
            inputs.clone(),
            move |tensors| {
                let operands = operands(&mut given(tensors))?;
                let [inferred, found] = made::<CrossEntropy>(operands);
                Ok([inferred.y, found.y]
                    .into_iter()
                    .chain(found.saved)
                    .collect())
            },
        ));
        cases.push(Case::new(
            format!("cross_entropy_backward, {key}"),
            [float("wide dy", [elements]), float("lse", [5])]
                .into_iter()
                .chain(inputs),
            move |tensors| {
                let mut given = given(tensors);
                let (dy, lse) = (given.next(), given.next());
                let operands = operands(&mut given)?;
                let backward = backward_of::<CrossEntropy>(operands, dy, [lse], &[true])?;
                Ok(gradients(backward).collect())
            },
        ));
    }
    cases
}

fn losses_of_hidden_states() -> Vec<Case> {
    use linear_cross_entropy::{Gradients, Kept, LinearCrossEntropyKernel, Operands, Wanted};
    let all = |gradients: Gradients<FlexTensor>| {
        let Gradients {
            hidden,
            weight,
            bias,
        } = gradients;
        hidden.into_iter().chain(weight).chain(bias)
    };
    let mut cases = Vec::new();
    for (loss, settings, elements) in loss_keys() {
        let has_bias = loss.reduction == LossReduction::None;
        let key = LinearCrossEntropyKey {
            reduction: loss.reduction,
            cap: loss.cap,
            layout: match has_bias {
                true => OutputLayout::InputMajor,
                false => OutputLayout::OutputMajor,
            },
            shift: if has_bias { Shift::Bias } else { Shift::None },
        };
        let wanted = Wanted {
            hidden: true,
            weight: true,
            bias: has_bias,
        };
        let operands = move |given: &mut Given| {
            let (hidden, weight) = (given.next(), given.next());
            let bias = given.when(has_bias);
            Operands::new(hidden, weight, bias, given.next(), settings, key)
        };
        let weight = if has_bias { [4, 6] } else { [6, 4] };
        let inputs: Vec<_> = [float("hidden", [5, 4]), float("weight", weight)]
            .into_iter()
            .chain(has_bias.then(|| float("logit bias", [6])))
            .chain([ints("targets", [5], &TARGETS)])
            .collect();
        cases.push(Case::new(
            format!("linear_cross_entropy_forward, {key}"),
            inputs.clone(),
            move |tensors| {
                let operands = operands(&mut given(tensors))?;
                let dtype = operands.hidden().dtype();
                let (loss, kept) = Flex::linear_cross_entropy_forward(operands, wanted);
                if loss.layout().shape().num_elements() != 1 {
                    return Ok(vec![loss]);
                }
                let one = FlexTensor::from_data(
                    TensorData::new(vec![1.0], [1]).convert_dtype(loss.dtype()),
                );
                let gradients = Flex::linear_cross_entropy_scale(Kept::new(kept, one, dtype)?);
                Ok(std::iter::once(loss).chain(all(gradients)).collect())
            },
        ));
        cases.push(Case::new(
            format!("linear_cross_entropy_backward, {key}"),
            std::iter::once(float("wide dy", [elements])).chain(inputs),
            move |tensors| {
                let mut given = given(tensors);
                let dy = given.next();
                let backward = operands(&mut given)?.backward(dy, wanted)?;
                Ok(all(Flex::linear_cross_entropy_backward(backward)).collect())
            },
        ));
    }
    let kept = [
        float("wide dy", [1]),
        float("kept gradient", [5, 4]),
        float("kept bias", [6]),
    ];
    cases.push(Case::new(
        "linear_cross_entropy_scale",
        kept,
        move |tensors| {
            let mut given = given(tensors);
            let dy = given.next();
            let gradients = Gradients {
                hidden: Some(given.next()),
                weight: None,
                bias: Some(given.next()),
            };
            let kept = Kept::new(gradients, dy.clone(), dy.dtype())?;
            Ok(all(Flex::linear_cross_entropy_scale(kept)).collect())
        },
    ));
    cases.push(Case::new(
        "linear_cross_entropy_scale, rows",
        [float("wide dy", [5]), float("kept gradient", [5, 4])],
        move |tensors| {
            let mut given = given(tensors);
            let dy = given.next();
            let gradients = Gradients {
                hidden: Some(given.next()),
                weight: None,
                bias: None,
            };
            let kept = Kept::new(gradients, dy.clone(), dy.dtype())?;
            Ok(all(Flex::linear_cross_entropy_scale(kept)).collect())
        },
    ));
    cases
}

fn divergences() -> Vec<Case> {
    let keys = [(0.0, Shift::None), (0.5, Shift::Bias)];
    let cases = keys.into_iter().flat_map(|(mixture, shift)| {
        let has_bias = shift == Shift::Bias;
        let settings = linear_divergence::Settings {
            cap: has_bias.then_some(2.0),
            temperature: 1.5,
            ..linear_divergence::Settings::of_mixture(mixture)
        };
        let operands = move |given: &mut Given| {
            let (hidden, weight) = (given.next(), given.next());
            let bias = given.when(has_bias);
            let (teacher_hidden, teacher_weight) = (given.next(), given.next());
            let teacher_bias = given.when(has_bias);
            linear_divergence::Operands::new(
                hidden,
                weight,
                bias,
                teacher_hidden,
                teacher_weight,
                teacher_bias,
                given.next(),
                settings,
                LinearDivergenceKey { shift },
            )
        };
        let inputs = move || {
            let bias = has_bias.then(|| float("logit bias", [6]));
            let teacher_bias = has_bias.then(|| float("teacher bias", [7]));
            [float("hidden", [5, 4]), float("weight", [4, 6])]
                .into_iter()
                .chain(bias)
                .chain([
                    float("teacher hidden", [5, 3]),
                    float("teacher weight", [3, 7]),
                ])
                .chain(teacher_bias)
                .chain([float("wide factors", [5])])
        };
        let key = LinearDivergenceKey { shift };
        let forward = Case::new(
            format!("linear_divergence_forward, {mixture}, {key}"),
            inputs(),
            move |tensors| {
                // Kept gradients are of rounded slopes, and those of the backward pass have their type.
                let made = made::<LinearDivergence>(operands(&mut given(tensors))?);
                Ok(made.into_iter().map(|made| made.y).collect())
            },
        );
        let backward = Case::new(
            format!("linear_divergence_backward, {mixture}, {key}"),
            std::iter::once(float("wide dy", [1])).chain(inputs()),
            move |tensors| {
                let mut given = given(tensors);
                let dy = given.next();
                let operands = operands(&mut given)?;
                operands.dtype()?;
                // The backward pass reads what the forward pass keeps, so it is not an operand of the case.
                let [_, kept] = made::<LinearDivergence>(operands.clone());
                // Nothing flows to the teacher.
                let wanted: &[bool] = match has_bias {
                    true => &[true, true, true, false, false, false, true],
                    false => &[true, true, false, false, true],
                };
                let backward = backward_of::<LinearDivergence>(operands, dy, kept.saved, wanted)?;
                Ok(gradients(backward).collect())
            },
        );
        [forward, backward]
    });
    cases.collect()
}

fn steps() -> Vec<Case> {
    let settings = adam_w::Settings {
        learning_rate: 0.01,
        beta_1: 0.9,
        beta_2: 0.99,
        epsilon: 1e-8,
        weight_decay: 0.1,
        step: 2,
    };
    let operands = ["parameter", "moment_1", "moment_2", "gradient"];
    vec![Case::new(
        "adam_w",
        operands.map(|name| float(name, [3, 7])),
        move |tensors| {
            let mut given = given(tensors);
            let state = adam_w::State {
                parameter: given.next(),
                moment_1: given.next(),
                moment_2: given.next(),
            };
            let operands = adam_w::Operands::of_state(state, given.next(), settings)?;
            let after = <Flex as FusedKernel<adam_w::AdamW>>::forward(operands, None);
            Ok(std::iter::once(after.y).chain(after.others).collect())
        },
    )]
}

fn routers() -> Vec<Case> {
    let mut cases = Vec::new();
    let plain = Routing::new(RouterKey::QWEN3_MOE, 6, 2).expect("it goes together");
    let grouped = Routing::new(RouterKey::DEEPSEEK_V3, 6, 2)
        .and_then(|routing| routing.limited_to_groups(3, 2))
        .expect("it goes together");
    for routing in [plain, grouped] {
        let has_bias = routing.key().correction == Correction::Bias;
        let bias = has_bias.then(|| float("bias", [6]));
        cases.push(Case::new(
            format!("route, {}", routing.key()),
            std::iter::once(float("logits", [5, 6])).chain(bias.clone()),
            move |tensors| {
                let mut given = given(tensors);
                let (logits, bias) = (given.next(), given.when(has_bias));
                let operands = router::Operands::new(logits, bias, routing, IntDType::I64)?;
                let made = <Flex as FusedKernel<Router>>::forward(operands, None);
                Ok(std::iter::once(made.y).chain(made.ints).collect())
            },
        ));
        cases.push(Case::new(
            format!("route_backward, {}", routing.key()),
            [
                float(if has_bias { "wide dw" } else { "dw" }, [5, 2]),
                float("logits", [5, 6]),
                ints("indices", [5, 2], &[0, 1, 5, 3, 2, 4]),
            ]
            .into_iter()
            .chain(bias),
            move |tensors| {
                let mut given = given(tensors);
                let (dw, logits, indices) = (given.next(), given.next(), given.next());
                let bias = given.when(has_bias);
                let operands = router::Operands::new(logits, bias, routing, IntDType::I64)?;
                let mut made = fused::Given::new(dw);
                made.ints.push(indices);
                let wanted = [true, false];
                let wanted = &wanted[..1 + usize::from(has_bias)];
                let backward = Backward::<Router, _>::new(operands, made, wanted)?;
                let gradients = <Flex as FusedKernel<Router>>::backward(backward);
                Ok(gradients.logits.into_iter().collect())
            },
        ));
    }
    cases
}

/// Returns the weights of four experts, stacked or not.
fn weights(stacked: bool, name: &'static str, [first, second]: [usize; 2]) -> Vec<Operand> {
    if stacked {
        return vec![float(name, [4, first, second])];
    }
    vec![float(name, [first, second]); 4]
}

fn grouped() -> Vec<Case> {
    let mut cases = Vec::new();
    for (layout, sizes) in [
        (ExpertLayout::Linear, [5, 6]),
        (ExpertLayout::Matmul, [6, 5]),
    ] {
        for stacked in [true, false] {
            let weights = weights(stacked, "weight", sizes);
            let count = weights.len();
            let operands = move |given: &mut Given| {
                let (x, counts) = (given.next(), given.next());
                grouped_matmul::Operands::new(x, given.many(count), counts, layout, None)
            };
            let inputs = || {
                let first = [float("x", [9, 6]), ints("counts", [4], &[2, 0, 3, 2])];
                first.into_iter().chain(weights.clone())
            };
            cases.push(Case::new(
                format!("grouped_matmul_forward, {layout:?}, {stacked}"),
                inputs(),
                move |tensors| {
                    let operands = operands(&mut given(tensors))?;
                    let made = <Flex as FusedKernel<GroupedMatmul>>::forward(operands, None);
                    Ok(vec![made.y])
                },
            ));
            let dy = std::iter::once(float("dy", [9, 5]));
            cases.push(Case::new(
                format!("grouped_matmul_backward, {layout:?}, {stacked}"),
                dy.chain(inputs()),
                move |tensors| {
                    let mut given = given(tensors);
                    let dy = given.next();
                    let operands = operands(&mut given)?;
                    let made = fused::Given::new(dy);
                    let wanted = vec![true; 1 + count];
                    let backward = Backward::<GroupedMatmul, _>::new(operands, made, &wanted)?;
                    let gradients = <Flex as FusedKernel<GroupedMatmul>>::backward(backward);
                    let weights = gradients.weights.into_iter();
                    Ok(std::iter::once(gradients.x)
                        .chain(weights)
                        .flatten()
                        .collect())
                },
            ));
        }
    }
    cases
}

fn moving() -> Vec<Case> {
    let map = || ints("row_map", [4, 2], &[3, 0, 8, 1, 2, 4, 5, 9]);
    let (tokens, rows, probs) = (
        || float("tokens", [4, 3]),
        || float("rows", [6, 3]),
        || float("probs", [4, 2]),
    );
    let dy = || float("dy", [4, 3]);
    vec![
        Case::new(
            "sort_slots",
            [ints("indices", [4, 2], &[2, 0, 3, 1, 0, 1])],
            |tensors| {
                let slots = Sort::new(given(tensors).next(), 3, 7, IntDType::I32)?;
                let (map, counts) = <Flex as PermuteBackend>::sort_slots(slots);
                Ok(vec![map, counts])
            },
        ),
        Case::new("spread", [tokens(), map()], |tensors| {
            let mut given = given(tensors);
            let operands = Spread::new(given.next(), given.next(), 6)?;
            Ok(vec![<Flex as PermuteBackend>::spread(operands)])
        }),
        Case::new("sum_rows", [rows(), map()], |tensors| {
            let mut given = given(tensors);
            let operands = Sum::new(given.next(), given.next())?;
            Ok(vec![<Flex as PermuteBackend>::sum_rows(operands)])
        }),
        Case::new("weigh_rows", [rows(), map(), probs()], |tensors| {
            let mut given = given(tensors);
            let operands = Weigh::new(given.next(), given.next(), given.next())?;
            Ok(vec![<Flex as PermuteBackend>::weigh_rows(operands)])
        }),
        Case::new("weigh_rows_d_rows", [dy(), map(), probs()], |tensors| {
            let mut given = given(tensors);
            let operands = SpreadWeighed::new(given.next(), given.next(), given.next(), 6)?;
            Ok(vec![<Flex as PermuteKernel>::weigh_rows_d_rows(operands)])
        }),
        Case::new(
            "weigh_rows_backward",
            [dy(), rows(), map(), probs()],
            |tensors| {
                let mut given = given(tensors);
                let (dy, rows) = (given.next(), given.next());
                let operands = WeighBackward::new(dy, rows, given.next(), given.next())?;
                let (d_rows, d_probs) = <Flex as PermuteKernel>::weigh_rows_backward(operands);
                Ok(vec![d_rows, d_probs])
            },
        ),
    ]
}

fn mixtures() -> Vec<Case> {
    const TOKENS: usize = 5;
    const HIDDEN: usize = 6;
    const WIDTH: usize = 3;
    let mut cases = Vec::new();
    for (projections, layout, bias) in [
        (
            Projections::Separate,
            ExpertLayout::Linear,
            ExpertBias::None,
        ),
        (Projections::Chunked, ExpertLayout::Linear, ExpertBias::None),
        (
            Projections::Interleaved,
            ExpertLayout::Matmul,
            ExpertBias::All,
        ),
    ] {
        for stacked in [true, false] {
            let key = MoeExpertsKey {
                projections,
                layout,
                bias,
                ..MoeExpertsKey::QWEN3
            };
            let separate = projections == Projections::Separate;
            let sizes = |inputs, features| match layout {
                ExpertLayout::Linear => [features, inputs],
                ExpertLayout::Matmul => [inputs, features],
            };
            let features = if separate { WIDTH } else { 2 * WIDTH };
            let gate = weights(stacked, "gate", sizes(HIDDEN, features));
            let up = if separate {
                weights(stacked, "up", sizes(HIDDEN, features))
            } else {
                Vec::new()
            };
            let down = weights(stacked, "down", sizes(WIDTH, HIDDEN));
            let biases = |name, features| match (bias, stacked) {
                (ExpertBias::None, _) => Vec::new(),
                (ExpertBias::All, true) => vec![float(name, [4, features])],
                (ExpertBias::All, false) => vec![float(name, [features]); 4],
            };
            let groups = [
                gate,
                up,
                down,
                biases("gate_bias", features),
                Vec::new(),
                biases("down_bias", HIDDEN),
            ];
            let lengths = groups.each_ref().map(Vec::len);
            let operands = move |given: &mut Given| {
                let (x, indices, routing) = (given.next(), given.next(), given.next());
                let weights = lengths.map(|length| given.many(length)).to_vec();
                let settings = experts::Settings { key, limit: None };
                experts::Operands::new(x, routing, weights, indices, settings)
            };
            // Index 4 belongs to no expert here.
            let indices = ints("indices", [TOKENS, 2], &[3, 0, 4, 1, 0]);
            let routed = TOKENS * 2 - 2;
            let inputs = || {
                let x = float("x", [TOKENS, HIDDEN]);
                let routing = float("routing", [TOKENS, 2]);
                let first = [x, indices.clone(), routing].into_iter();
                first.chain(groups.iter().flatten().cloned())
            };
            cases.push(Case::new(
                format!("experts_forward, stacked: {stacked}, {key}"),
                inputs(),
                move |tensors| {
                    let operands = operands(&mut given(tensors))?;
                    let again = operands.clone();
                    let alone = <Flex as FusedKernel<Experts>>::forward(again, None);
                    let wanted = experts::Each {
                        x: true,
                        routing: true,
                        weights: lengths.map(|length| vec![true; length]).to_vec(),
                    };
                    let made = <Flex as FusedKernel<Experts>>::forward(operands, Some(&wanted));
                    assert_eq!((alone.saved.len(), made.saved.len()), (0, 1));
                    Ok([alone.y, made.y].into_iter().chain(made.saved).collect())
                },
            ));
            let first = [
                float("dy", [TOKENS, HIDDEN]),
                float("kept", [routed, 2 * WIDTH]),
            ];
            cases.push(Case::new(
                format!("experts_backward, stacked: {stacked}, {key}"),
                first.into_iter().chain(inputs()),
                move |tensors| {
                    let mut given = given(tensors);
                    let (dy, kept) = (given.next(), given.next());
                    let operands = operands(&mut given)?;
                    let made = fused::Given::new(dy).saving([kept]);
                    let wanted = vec![true; 2 + lengths.iter().sum::<usize>()];
                    let backward = Backward::<Experts, _>::new(operands, made, &wanted)?;
                    let gradients = <Flex as FusedKernel<Experts>>::backward(backward);
                    let first = [gradients.x, gradients.routing].into_iter();
                    let weights = gradients.weights.into_iter().flatten();
                    Ok(first.chain(weights).flatten().collect())
                },
            ));
        }
    }
    cases
}

/// Returns the case's operands in another dtype. Operands in the compute dtype stay f32 beside half types.
pub fn in_dtype(operands: &[Operand], dtype: DType) -> Vec<Operand> {
    let wide = [
        "mean",
        "rstd",
        "lse",
        "bias",
        "wide dw",
        "wide dy",
        "wide g",
        "wide state",
        "wide dlast",
        "wide factors",
        "kept gradient",
        "kept bias",
    ];
    let change = |operand: &Operand| {
        let mut operand = operand.clone();
        if operand.ints.is_none() && !(wide.contains(&operand.name) && dtype != DType::F64) {
            operand.dtype = dtype;
        }
        operand
    };
    operands.iter().map(change).collect()
}
