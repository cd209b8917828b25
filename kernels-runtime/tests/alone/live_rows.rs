//! Tests of the rows that live verification compares by default: a few of the call, and rows of its own.

use crate::counting::alone;
use crate::declared::sites;
use burn::backend::DispatchTensor;
use burn::tensor::activation::{gelu, silu};
use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::__private::{self as private, At, StackedExperts, once};
use kernels_runtime::declare_kernel;
use kernels_runtime::dispatch::DeviceKinds;
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::fused::{Made, OfDispatch, OpLaunch};
use kernels_runtime::ops::rms_norm::{self, RmsNorm};
use kernels_runtime::registry::{
    CapabilityRange, FloatType, Gradient, Implementation, KernelSpec, Launch, Site,
};
use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};

declare_kernel! {
    /// A norm with a wrong last row.
    pub static LAST_ROW = KernelSpec {
        id: "rows_last_row",
        op: "rms_norm",
        version: 1,
        summary: "a norm whose last row is off",
        implementations: &[Implementation {
            device: DeviceKinds::CPU,
            name: "last-row",
            dtypes: &FloatType::ALL,
            gradient: Gradient::Kernel,
            deterministic: true,
            fusion_barrier: false,
            capability: CapabilityRange::ANY,
            accepts: |_| true,
            limits: None,
            operators: None,
            launch: Launch::RmsNorm(rms_norm::Launch(OpLaunch::by::<RmsNorm>(
                &(off_in_the_last_row as fn(_) -> _),
            ))),
        }],
    };
}

fn off_in_the_last_row(operands: OfDispatch<RmsNorm>) -> Made<DispatchTensor> {
    let (settings, key) = (operands.settings(), operands.key());
    let (x, [weight, ..]) = operands.into_parts();
    let inputs = rms_norm::Inputs {
        x: Tensor::<2>::from_dispatch(x),
        weight: weight.map(Tensor::from_dispatch),
        gate: None,
    };
    let y = rms_norm::reference(inputs, settings, key);
    let [rows, n] = y.dims();
    // Only calls of many rows are wrong, as if a loop ended too early.
    let off = if rows > 20 { 2.0 } else { 1.0 };
    let last = y.clone().narrow(0, rows - 1, 1) * off;
    let y = y.slice_assign([rows - 1..rows, 0..n], last);
    Made::new(y.into_dispatch())
}

sites! {
    SEEN: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    WHOLE: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    FIXED_SIZE: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    WRONG_LAST_ROW: "rows_last_row", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    ROUNDS_EVERYWHERE: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    ONES: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NO_CLAMP: "npu_fused_swiglu", SemanticsKey::Glu(GluKey {
        clamp: Clamp::Limit,
        ..GluKey::SWIGLU
    });
    UNIT: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    CHANNELS: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    HEADS: "npu_fused_rope", SemanticsKey::Rope(RopeKey::LLAMA);
    LARGE: "npu_fused_linear", SemanticsKey::Linear(LinearKey {
        layout: OutputLayout::OutputMajor,
        ..LinearKey::BURN
    });
    LARGE_WRONG: "npu_fused_linear", SemanticsKey::Linear(LinearKey {
        layout: OutputLayout::OutputMajor,
        ..LinearKey::BURN
    });
    EXPERTS: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
    EXPERTS_OF_GELU: "npu_fused_moe", SemanticsKey::MoeExperts(MoeExpertsKey::LLAMA4);
    PADDED: "npu_fused_attention", SemanticsKey::Attention(AttentionKey {
        lengths: SequenceLengths::LeftPadded,
        ..AttentionKey::CAUSAL
    });
    SEES_PADDING: "npu_fused_attention", SemanticsKey::Attention(AttentionKey {
        lengths: SequenceLengths::LeftPadded,
        ..AttentionKey::CAUSAL
    });
}

const EPS: f64 = 1e-6;

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let device = Device::flex().autodiff();
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device)
}

/// Verifies every call, so that none depends on another, with the default number of rows.
fn verified<T>(call: impl FnOnce() -> T) -> T {
    let _every = live::scope(Sampling::every(NonZeroU32::MIN));
    call()
}

/// Returns the message of a call's check.
fn refusal<T>(call: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| verified(call))).err();
    let panic = panic.expect("the check fails");
    *panic.downcast::<String>().expect("a message")
}

/// Returns how often a site was checked and skipped.
fn checks(site: &Site) -> (u64, u64) {
    let mut rows = live::report().rows.into_iter();
    let row = rows.find(|row| row.site == site.name());
    row.map_or((0, 0), |row| (row.checked, row.skipped))
}

fn normed<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let mean_square = x.clone().square().mean_dim(D - 1);
    x / mean_square.add_scalar(EPS).sqrt()
}

fn norm<const D: usize>(
    site: &'static Site,
    x: Tensor<D>,
    weight: &Tensor<1>,
    body: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    private::rms_norm(
        At::new(site),
        x,
        &|| Some(weight.clone()),
        EPS,
        None,
        &mut once(body),
    )
}

fn shape_seen(sampling: Sampling, site: &'static Site) -> Vec<usize> {
    let _scope = live::scope(sampling);
    let (seen, weight) = (RefCell::new(Vec::new()), random([8]));
    let y = norm(site, random([6, 50, 8]), &weight, |x| {
        *seen.borrow_mut() = x.dims().to_vec();
        normed(x) * weight.clone().unsqueeze()
    });
    assert_eq!(y.dims(), [6, 50, 8]);
    seen.into_inner()
}

#[test]
fn a_body_sees_a_few_rows_and_one_slice_that_is_not_the_runs() {
    let _alone = alone();
    assert_eq!(shape_seen(Sampling::default(), &SEEN), [2 + 1, 2, 8]);
    assert_eq!(shape_seen(Sampling::first().whole(), &WHOLE), [6, 50, 8]);
    let nine = Sampling::every(NonZeroU32::MIN).rows(NonZeroU32::new(9).unwrap());
    assert_eq!(shape_seen(nine, &WHOLE), [3 + 1, 3, 8]);
    let row = live::report().rows.into_iter();
    let took: f64 = row.map(|row| row.seconds).sum();
    assert!(took > 0.0);
}

/// Gradients are checked on a few rows. The results that the program gets are compared in full.
#[test]
fn a_kernel_that_is_wrong_in_the_last_row_of_many_is_found() {
    let _alone = alone();
    let weight = random([8]).inner();
    let call = |rows| {
        norm(&WRONG_LAST_ROW, random([rows, 8]).inner(), &weight, |x| {
            normed(x) * weight.clone().unsqueeze()
        })
    };
    let said = refusal(|| call(70));
    assert!(said.contains("the kernel is the odd one out"), "{said}");
    assert!(
        said.contains("operands  x f32[70, 8], weight f32[8]"),
        "{said}"
    );
    assert!(
        said.contains("compared  x f32[5, 8], weight f32[8]: rows from the first to the last"),
        "{said}"
    );
    verified(|| call(20));
}

#[test]
fn a_body_that_takes_no_other_sizes_is_skipped_and_the_program_goes_on() {
    let _alone = alone();
    let weight = random([8]);
    let y = verified(|| {
        norm(&FIXED_SIZE, random([6, 50, 8]), &weight, |x| {
            let x = x.reshape([300, 8]);
            (normed(x) * weight.clone().unsqueeze()).reshape([6, 50, 8])
        })
    });
    assert_eq!(y.dims(), [6, 50, 8]);
    assert_eq!(checks(&FIXED_SIZE), (0, 1));
}

#[test]
fn a_body_may_round_everywhere_and_weights_of_ones_show_no_order() {
    let _alone = alone();
    for dtype in [FloatDType::BF16, FloatDType::F16] {
        let weight = (random([64]) * 0.3 + 1.0).cast(dtype).detach();
        let x = || random([7, 64]).cast(dtype).detach();
        verified(|| {
            norm(&ROUNDS_EVERYWHERE, x(), &weight, |x| {
                normed(x) * weight.clone().unsqueeze()
            })
        });
        let ones = weight.ones_like();
        verified(|| {
            norm(&ONES, x(), &ones, |x| {
                let y = normed(x.cast(FloatDType::F32));
                (y * ones.clone().cast(FloatDType::F32).unsqueeze()).cast(dtype)
            })
        });
    }
    assert_eq!(
        (checks(&ROUNDS_EVERYWHERE), checks(&ONES)),
        ((2, 0), (2, 0))
    );
}

#[test]
fn a_limit_that_a_body_forgot_is_found_though_no_number_of_the_run_reaches_it() {
    let _alone = alone();
    let small = || random([5, 9]) * 0.1;
    let said = refusal(|| {
        private::glu(
            At::new(&NO_CLAMP),
            small(),
            small(),
            Some(7.0),
            None,
            &mut |(gate, up)| silu(gate) * up,
        )
    });
    assert!(
        said.contains("2 slices of the check's own numbers"),
        "{said}"
    );
}

/// Projections along another axis than the last are compared whole, because it is unknown which slices could be left
/// out.
#[test]
fn what_is_no_layer_of_the_last_axis_is_compared_whole() {
    let _alone = alone();
    let seen = RefCell::new(Vec::new());
    let [gate, up, down] = [[10, 6], [10, 6], [6, 10]].map(|shape| random(shape).require_grad());
    let call = |site, project: &dyn Fn(Tensor<2>, Tensor<2>) -> Tensor<2>, x: [usize; 2]| {
        verified(|| {
            private::glu_mlp(
                At::new(site),
                random(x),
                &|x: Tensor<2>| (project(gate.clone(), x.clone()), project(up.clone(), x)),
                &|hidden| project(down.clone(), hidden),
                None,
                None,
                &mut |x: Tensor<2>| {
                    seen.borrow_mut().push(x.dims());
                    let hidden = silu(project(gate.clone(), x.clone()));
                    project(down.clone(), hidden * project(up.clone(), x))
                },
            )
        })
    };
    call(&CHANNELS, &|weight, x| weight.matmul(x), [6, 30]);
    assert_eq!(seen.take(), [[6, 30]]);
    call(&UNIT, &|weight, x| x.matmul(weight.transpose()), [30, 6]);
    assert_eq!(seen.take(), [[4, 6]]);
}

#[test]
fn of_heads_the_first_and_the_last_are_compared_at_every_position() {
    let _alone = alone();
    let angles = random([1, 5, 4]).inner() * 3.0;
    let angles = Tensor::cat(vec![angles.clone(), angles], 2);
    let (cos, sin) = (angles.clone().cos(), angles.sin());
    let seen = RefCell::new(None);
    verified(|| {
        private::rope(
            At::new(&HEADS),
            random([3, 6, 5, 8]),
            random([3, 1, 5, 8]),
            &cos,
            &sin,
            &mut |(q, k)| {
                seen.replace(Some((q.dims(), k.dims())));
                private::rope_reference(q, k, &cos, &sin, private::RopeKey::LLAMA)
            },
        )
    });
    assert_eq!(seen.take(), Some(([2, 2, 5, 8], [2, 1, 5, 8])));
    assert_eq!(checks(&HEADS), (1, 0));
}

const COUNT: usize = 16;

/// Calls experts, and returns the experts of the tokens that were compared.
fn experts(
    site: &'static Site,
    size: f64,
    activation: fn(Tensor<2>) -> Tensor<2>,
) -> Vec<Vec<i64>> {
    let (gate_up, down) = (random([COUNT, 6, 10]), random([COUNT, 5, 6]));
    let indices: Vec<i64> = (0..9).flat_map(|t| [t, (t + 5) % COUNT as i64]).collect();
    let indices =
        Tensor::<2, Int>::from_data(TensorData::new(indices, [9, 2]), &Device::flex().autodiff());
    let seen = RefCell::new(Vec::new());
    verified(|| {
        private::experts(
            At::new(site),
            random([9, 6]) * size,
            indices,
            random([9, 2]),
            StackedExperts::packed(&gate_up, &down),
            None,
            &mut |(x, indices, routing): (Tensor<2>, Tensor<2, Int>, Tensor<2>)| {
                let numbers: Vec<i64> = indices.to_data().iter().collect();
                *seen.borrow_mut() = numbers.chunks(2).map(<[i64]>::to_vec).collect();
                let one = |all: &Tensor<3>, e: usize| all.clone().narrow(0, e, 1).squeeze_dim(0);
                let each = (0..COUNT).map(|e| {
                    let parts = x.clone().matmul(one(&gate_up, e)).chunk(2, 1);
                    let hidden = activation(parts[0].clone()) * parts[1].clone();
                    let chosen = indices.clone().equal_elem(e as i64).float();
                    let share = (routing.clone() * chosen).sum_dim(1);
                    hidden.matmul(one(&down, e)) * share
                });
                each.reduce(|sum, part| sum + part).expect("experts")
            },
        )
    });
    seen.into_inner()
}

#[test]
fn experts_are_compared_on_the_first_and_the_last_token() {
    let _alone = alone();
    assert_eq!(experts(&EXPERTS, 1.0, silu), [[0, 5], [8, 13]]);
    assert_eq!(checks(&EXPERTS), (1, 0));
    // For such small tokens any activation is nearly a straight line, so the first is checked again with larger values.
    assert_eq!(experts(&EXPERTS, 1e-3, silu), [[0, 5], [8, 13], [0, 5]]);
    assert_eq!(checks(&EXPERTS), (2, 0));
    let said = refusal(|| experts(&EXPERTS_OF_GELU, 1e-3, gelu));
    assert!(said.contains("odd one out"), "{said}");
}

/// Calls attention of sequences of 500 keys, and returns the number of queries that were compared.
fn padded_attention(
    site: &'static Site,
    lengths: [usize; 3],
    body: private::AttentionKey,
) -> usize {
    let seen = Cell::new(0);
    let settings = private::AttentionSettings::default();
    let heads = |count| random([3, count, 500, 4]);
    let of_body = match body.lengths {
        private::SequenceLengths::None => None,
        _ => Some(&lengths[..]),
    };
    verified(|| {
        private::attention(
            At::new(site),
            [heads(4), heads(2), heads(2)],
            &|| None,
            Some(&lengths),
            settings,
            &mut |(q, k, v)| {
                seen.set(q.dims()[2]);
                private::attention_reference([q, k, v], None, of_body, settings, body)
            },
        )
    });
    seen.get()
}

/// The padding stays where it is, because lengths count from the last key.
#[test]
fn attention_after_padding_is_compared_on_the_last_queries() {
    let _alone = alone();
    let causal = private::AttentionKey::CAUSAL;
    let padded = private::AttentionKey {
        lengths: private::SequenceLengths::LeftPadded,
        ..causal
    };
    // The scores of all queries are 3 million, of which a check takes one.
    let queries = (1 << 20) / (3 * 4 * 500);
    assert_eq!(padded_attention(&PADDED, [500, 17, 0], padded), queries);
    assert_eq!(checks(&PADDED), (1, 0));
    let said = refusal(|| padded_attention(&SEES_PADDING, [500, 480, 500], causal));
    assert!(said.contains("SEES_PADDING"), "{said}");
}

/// The reference would hold the whole weight in f64, which may be the largest of a model.
#[test]
fn large_weights_that_are_not_trained_are_compared_in_part() {
    let _alone = alone();
    let device = Device::flex();
    let normal = Distribution::Normal(0.0, 1.0);
    let weight = Tensor::<2>::random([70_000, 64], normal, &device);
    let bias = Tensor::<1>::random([70_000], normal, &device);
    let x = Tensor::<2>::random([9, 64], normal, &device);
    let call = |site, factor: f64| {
        let parameters = private::LinearParameters::new(&weight).bias(&bias);
        private::linear(At::new(site), x.clone(), parameters, &mut |x| {
            x.matmul(weight.clone().transpose()) * factor + bias.clone().unsqueeze()
        })
    };
    let y = verified(|| call(&LARGE, 1.0));
    assert_eq!((y.dims(), checks(&LARGE)), ([9, 70_000], (1, 0)));
    let said = refusal(|| call(&LARGE_WRONG, 1.01));
    for words in [
        "the annotated body is the odd one out",
        "weight f32[256, 64], bias f32[256]",
    ] {
        assert!(said.contains(words), "{said}");
    }
}
