//! Tests of live verification: it finds bodies that compute something other than their site's key, and accepts the
//! others. The tests call sites as the attribute's expansions do.

use crate::declared::sites;
use burn::tensor::activation::{gelu, relu, silu};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use kernels_runtime::__private::{self as private, At, RopeKey, RopeStyle, once};
use kernels_runtime::live::{self, Sampling, SamplingGuard};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::Site;
use kernels_runtime::report;
use std::cell::Cell;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};

sites! {
    NORM: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_LARGER_EPS: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_LARGE_EPS: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_NO_EPS: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_ANY_EPS: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_TWICE: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_OFFSET: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_HALF: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::GEMMA);
    NORM_HALF_PLAIN: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::GEMMA);
    NORM_CUT_OFF: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_FROZEN: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_FROZEN: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_DEEP_WEIGHT: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_NEVER_FINITE: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_INFINITE_AT_FIRST: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    GLU_OF_F32: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GLU_EMPTY: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GLU_FAILED: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GLU_OF_THREADS: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    ATTENTION_OF_GROUPS: "npu_fused_attention", SemanticsKey::Attention(AttentionKey::CAUSAL);
    NORM_INFINITE: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    GLU: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GLU_OF_GELU: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GLU_WARNED: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GLU_SWAPPED: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    GLU_OTHER_TYPE: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    MLP: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    MLP_OF_RELU: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    ROPE: "npu_fused_rope", SemanticsKey::Rope(RopeKey::LLAMA);
    ROPE_OF_NEIGHBOURS: "npu_fused_rope", SemanticsKey::Rope(RopeKey::LLAMA);
    SAMPLED: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    LEFT_OUT: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    OFF: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    OUTER: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    INNER: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
}

const EPS: f64 = 1e-6;

fn first() -> SamplingGuard {
    live::scope(Sampling::first())
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let device = Device::flex().autodiff();
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device)
}

/// Returns the message of a call's check.
fn refusal<T>(call: impl FnOnce() -> T) -> String {
    let _first = first();
    let panic = catch_unwind(AssertUnwindSafe(call))
        .err()
        .expect("the check fails");
    *panic.downcast::<String>().expect("a message")
}

fn row(site: &Site) -> Option<live::LiveRow> {
    let rows = live::report().rows;
    rows.into_iter().find(|row| row.site == site.name())
}

fn normed<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let mean_square = x.clone().square().mean_dim(D - 1);
    x / mean_square.add_scalar(EPS).sqrt()
}

/// Calls a site of a norm with the body `body`.
fn norm(
    site: &'static Site,
    x: Tensor<2>,
    weight: &Tensor<1>,
    body: impl FnOnce(Tensor<2>) -> Tensor<2>,
) -> Tensor<2> {
    private::rms_norm(
        At::new(site),
        x,
        &|| Some(weight.clone()),
        EPS,
        None,
        &mut once(body),
    )
}

fn glu(
    site: &'static Site,
    gate: Tensor<2>,
    up: Tensor<2>,
    mut body: impl FnMut(Tensor<2>, Tensor<2>) -> Tensor<2>,
) -> Tensor<2> {
    private::glu(At::new(site), gate, up, None, None, &mut |(gate, up)| {
        body(gate, up)
    })
}

#[test]
fn right_bodies_pass_and_the_programs_gradients_are_untouched() {
    let _first = first();
    let weight = random([24]).require_grad();
    let x = random([5, 24]).require_grad();
    // The call is inside the program's graph, whose parts the check must not use up.
    let inner = x.clone() * 2.0;
    let y = norm(&NORM, inner, &weight, |x| {
        normed(x) * weight.clone().unsqueeze()
    });
    let y = glu(&GLU, y.clone(), y, |gate, up| silu(gate) * up);
    let grads = y.sum().backward();
    let [d_x, d_weight] = [
        x.grad(&grads)
            .map(|grad| grad.abs().sum().into_scalar::<f32>()),
        weight
            .grad(&grads)
            .map(|grad| grad.abs().sum().into_scalar::<f32>()),
    ];
    assert!(d_x.is_some_and(|sum| sum > 0.0) && d_weight.is_some_and(|sum| sum > 0.0));
    for site in [&NORM, &GLU] {
        let row = row(site).expect("checked");
        assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
        assert!(row.kernel_error < 1.0 && row.body_error < 1.0, "{row:?}");
    }
    assert!(live::report().worst().is_some());
    assert!(live::report().to_string().contains("worst site: "));
}

#[test]
fn the_first_call_with_and_the_first_without_autodiff_are_checked() {
    let _first = first();
    let bodies = Cell::new(0);
    let weight = random([8]);
    let call = |x: Tensor<2>, weight: &Tensor<1>| {
        norm(&NORM_TWICE, x, weight, |x| {
            bodies.set(bodies.get() + 1);
            normed(x) * weight.clone().unsqueeze()
        });
        bodies.get()
    };
    assert_eq!(call(random([3, 8]), &weight), 1);
    assert_eq!(call(random([3, 8]), &weight), 1);
    assert_eq!(call(random([3, 8]).inner(), &weight.clone().inner()), 2);
    assert_eq!(call(random([3, 8]).inner(), &weight.inner()), 2);
}

#[test]
fn an_offset_norm_is_not_a_plain_one() {
    let weight = random([24]);
    let said = refusal(|| {
        norm(&NORM_OF_OFFSET, random([5, 24]), &weight, |x| {
            normed(x) * weight.clone().add_scalar(1.0).unsqueeze()
        })
    });
    for words in [
        "main::live::NORM_OF_OFFSET",
        "the annotated body is the odd one out",
        "rms_norm(offset=0",
        "y is ",
        "x f32[5, 24], weight f32[24]",
        "BURN_KERNELS=all,-main::live::NORM_OF_OFFSET",
        "BURN_KERNELS_VERIFY=first,-main::live::NORM_OF_OFFSET",
        "tests/main/live.rs:",
    ] {
        assert!(said.contains(words), "`{words}` is not in\n{said}");
    }
    assert!(row(&NORM_OF_OFFSET).is_none());
}

#[test]
fn half_types_have_room_for_the_bodys_roundings_and_not_for_other_maths() {
    let bf16 = |x: Tensor<2>| x.cast(FloatDType::BF16);
    let weight = random([512]).cast(FloatDType::BF16) * 0.1;
    let weight = weight.detach();
    {
        let _first = first();
        // Every operation rounds to bf16.
        let y = norm(&NORM_HALF, bf16(random([7, 512])), &weight, |x| {
            normed(x) * weight.clone().add_scalar(1.0).unsqueeze()
        });
        assert_eq!(y.dtype(), DType::BF16);
        assert!(row(&NORM_HALF).is_some());
    }
    let said = refusal(|| {
        norm(&NORM_HALF_PLAIN, bf16(random([7, 512])), &weight, |x| {
            normed(x) * weight.clone().unsqueeze()
        })
    });
    assert!(said.contains("odd one out"), "{said}");
}

#[test]
fn a_body_without_the_gradient_is_found() {
    let weight = random([8]).require_grad();
    let said = refusal(|| {
        norm(&NORM_CUT_OFF, random([3, 8]), &weight, |x| {
            normed(x.detach()) * weight.clone().unsqueeze()
        })
    });
    assert!(said.contains("d_x is missing"), "{said}");
}

#[test]
fn a_body_that_freezes_a_trained_weight_is_found() {
    let weight = random([8]).require_grad();
    let said = refusal(|| {
        norm(&NORM_FROZEN, random([3, 8]).require_grad(), &weight, |x| {
            normed(x) * weight.clone().detach().unsqueeze()
        })
    });
    assert!(said.contains("d_weight is missing"), "{said}");
}

#[test]
fn a_frozen_weight_needs_no_gradient() {
    let _first = first();
    let weight = random([8]);
    let x = random([3, 8]).require_grad();
    norm(&NORM_OF_FROZEN, x, &weight, |x| {
        normed(x) * weight.clone().unsqueeze()
    });
    assert_eq!(row(&NORM_OF_FROZEN).expect("checked").checked, 1);
}

#[test]
fn a_weight_that_was_computed_keeps_its_graph() {
    let _first = first();
    let base = random([8]).require_grad();
    let weight = base.clone() * 3.0;
    let x = random([3, 8]).require_grad();
    let y = norm(&NORM_DEEP_WEIGHT, x, &weight, |x| {
        normed(x) * weight.clone().unsqueeze()
    });
    assert_eq!(row(&NORM_DEEP_WEIGHT).expect("checked").checked, 1);
    // This panics if the check already went backward through `weight`.
    assert!(base.grad(&y.sum().backward()).is_some());
}

#[test]
fn what_is_not_finite_is_not_compared() {
    let _first = first();
    let weight = random([8]);
    norm(&NORM_INFINITE, random([3, 8]) / 0.0, &weight, |x| x);
    let row = row(&NORM_INFINITE).expect("skipped");
    assert_eq!((row.checked, row.skipped), (0, 1));
}

/// The next calls are checked instead, but not without end.
#[test]
fn a_call_that_is_not_finite_uses_no_check_up() {
    let weight = random([8]);
    let call = |x: Tensor<2>| norm(&NORM_INFINITE_AT_FIRST, x, &weight, |x| x);
    {
        let _first = first();
        for _ in 0..3 {
            call(random([3, 8]) / 0.0);
        }
    }
    let said = refusal(|| call(random([3, 8])));
    assert!(said.contains("odd one out"), "{said}");

    let _first = first();
    for _ in 0..20 {
        norm(&NORM_NEVER_FINITE, random([3, 8]) / 0.0, &weight, |x| x);
    }
    assert_eq!(row(&NORM_NEVER_FINITE).expect("skipped").skipped, 8);
}

#[test]
fn a_site_that_failed_stays_failed() {
    let wrong = || {
        glu(&GLU_FAILED, random([4, 9]), random([4, 9]), |gate, up| {
            gelu(gate) * up
        })
    };
    let said = refusal(wrong);
    assert_eq!(refusal(wrong), said);
    // Nor does a call of another kind get numbers.
    let other = || {
        glu(&GLU_FAILED, random([4, 4]), random([4, 4]), |gate, up| {
            silu(gate) * up
        })
    };
    assert_eq!(refusal(other), said);
    let _warn = live::scope(Sampling::first().warn());
    wrong();
    let _left_out = live::scope(Sampling::first().except("main::live::GLU_FAILED").unwrap());
    wrong();
}

#[test]
fn threads_whose_first_calls_meet_get_no_numbers_of_a_wrong_site() {
    let at_once = std::sync::Barrier::new(8);
    let refused = std::thread::scope(|threads| {
        let all: Vec<_> = (0..8)
            .map(|_| {
                threads.spawn(|| {
                    at_once.wait();
                    refusal(|| {
                        glu(
                            &GLU_OF_THREADS,
                            random([4, 9]),
                            random([4, 9]),
                            |gate, up| gelu(gate) * up,
                        )
                    })
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().is_ok())
            .collect::<Vec<_>>()
    });
    assert_eq!(refused, [true; 8]);
}

#[test]
fn each_dtype_is_checked_and_other_lengths_are_not() {
    let bodies = Cell::new(0);
    let call = |rows, dtype| {
        let operand = || random([rows, 9]).cast(dtype).detach();
        glu(&GLU_OF_F32, operand(), operand(), |gate, up| {
            bodies.set(bodies.get() + 1);
            match gate.dtype() {
                DType::F32 => silu(gate) * up,
                _ => gelu(gate) * up,
            }
        })
    };
    {
        let _first = first();
        call(4, FloatDType::F32);
        call(7, FloatDType::F32);
        assert_eq!(bodies.get(), 1);
    }
    assert!(refusal(|| call(4, FloatDType::F64)).contains("odd one out"));
}

/// The grouping of heads shows only where there are fewer key heads.
#[test]
fn a_wrong_grouping_of_heads_is_found_in_the_first_call_that_has_groups() {
    let key = private::AttentionKey::CAUSAL;
    let settings = private::AttentionSettings::default();
    let call = |kv_heads: usize| {
        let heads = |count| random([2, count, 5, 8]);
        private::attention(
            At::new(&ATTENTION_OF_GROUPS),
            [heads(6), heads(kv_heads), heads(kv_heads)],
            &|| None,
            None,
            settings,
            &mut |(q, k, v)| {
                // The heads of keys are repeated as a whole, not each of them.
                let times = 6 / k.dims()[1];
                let [k, v] = [k, v].map(|heads| heads.repeat_dim(1, times));
                private::attention_reference([q, k, v], None, None, settings, key)
            },
        )
    };
    {
        let _first = first();
        call(6);
        assert_eq!(row(&ATTENTION_OF_GROUPS).expect("checked").checked, 1);
        // One head of keys has no other order.
        call(1);
        call(1);
        assert_eq!(row(&ATTENTION_OF_GROUPS).expect("checked").checked, 2);
    }
    assert!(refusal(|| call(3)).contains("odd one out"));
}

#[test]
fn a_call_without_elements_is_not_checked() {
    let _first = first();
    let body = |_, _| -> Tensor<2> { panic!("there is nothing to compare") };
    let y = glu(&GLU_EMPTY, random([0, 9]), random([0, 9]), body);
    assert_eq!(y.dims(), [0, 9]);
    assert!(row(&GLU_EMPTY).is_none());
}

#[test]
fn gelu_is_not_silu() {
    let said = refusal(|| {
        glu(&GLU_OF_GELU, random([4, 9]), random([4, 9]), |gate, up| {
            gelu(gate) * up
        })
    });
    assert!(said.contains("computes  glu(activation=silu)"), "{said}");
    assert!(said.contains("kernel    within"), "{said}");
}

#[test]
fn where_a_difference_is_a_warning_the_kernels_result_is_returned() {
    let _warn = live::scope(Sampling::first().warn());
    let (gate, up) = (random([4, 9]), random([4, 9]));
    let y = glu(&GLU_WARNED, gate.clone(), up.clone(), |gate, up| {
        gelu(gate) * up
    });
    let expected = (silu(gate) * up).into_data();
    y.into_data()
        .assert_approx_eq::<f32>(&expected, burn::tensor::Tolerance::default());
    let row = row(&GLU_WARNED).expect("it was checked");
    assert_eq!((row.checked, row.differed), (1, 1));
    assert!(live::report().to_string().contains("differed"));
}

#[test]
fn gate_and_up_are_not_the_same() {
    let said = refusal(|| {
        glu(&GLU_SWAPPED, random([4, 9]), random([4, 9]), |gate, up| {
            gate * silu(up)
        })
    });
    assert!(
        said.contains("the annotated body is the odd one out"),
        "{said}"
    );
}

#[test]
fn another_dtype_is_another_result() {
    let half = || random([4, 9]).cast(FloatDType::F16).detach();
    let said = refusal(|| {
        glu(&GLU_OTHER_TYPE, half(), half(), |gate, up| {
            silu(gate.cast(FloatDType::F32)) * up.cast(FloatDType::F32)
        })
    });
    assert!(
        said.contains(
            "y is f32 [5, 9], the reference f16 [5, 9]; cast in the body to the type of the kernel's result, \
             `.cast(FloatDType::F16)`"
        ),
        "{said}"
    );
}

/// A body with another epsilon is told both. Other mistakes are not taken for one.
#[test]
fn another_epsilon_is_named() {
    let of = |site: &'static Site, eps: f64| {
        let weight = random([8]);
        refusal(|| {
            norm(site, random([3, 8]), &weight, |x| {
                let mean_square = x.clone().square().mean_dim(1);
                x / mean_square.add_scalar(eps).sqrt() * weight.clone().unsqueeze()
            })
        })
    };
    for (site, eps, written) in [
        (&NORM_OF_LARGER_EPS, 1e-5, "1e-5"),
        (&NORM_OF_LARGE_EPS, 1e-3, "0.001"),
        (&NORM_OF_NO_EPS, 0.0, "0.0"),
    ] {
        let said = of(site, eps);
        let both =
            format!("are those of eps = {written}, but the attribute gives the kernel eps = 1e-6");
        assert!(said.contains(&both), "{said}");
    }
    let said = of(&NORM_OF_ANY_EPS, 3.0);
    assert!(!said.contains("are those of eps"), "{said}");
}

/// Calls a site of a gated MLP with the activation `body` in its own body.
fn mlp(site: &'static Site, body: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
    let [gate, up, down] = [[6, 10], [6, 10], [10, 6]].map(|shape| random(shape).require_grad());
    private::glu_mlp(
        At::new(site),
        random([3, 6]),
        &|x| (x.clone().matmul(gate.clone()), x.matmul(up.clone())),
        &|hidden| hidden.matmul(down.clone()),
        None,
        None,
        &mut |x| {
            let hidden = body(x.clone().matmul(gate.clone())) * x.matmul(up.clone());
            hidden.matmul(down.clone())
        },
    )
}

#[test]
fn the_body_of_a_gated_mlp_is_checked_with_its_projections() {
    {
        let _first = first();
        mlp(&MLP, silu);
        let row = row(&MLP).expect("checked");
        assert_eq!(row.checked, 1);
    }
    let said = refusal(|| mlp(&MLP_OF_RELU, relu));
    assert!(
        said.contains("main::live::MLP_OF_RELU failed: the annotated body"),
        "{said}"
    );
}

fn tables(s: usize, d: usize) -> [Tensor<3>; 2] {
    let angles = random([1, s, d / 2]).inner() * 3.0;
    let angles = Tensor::cat(vec![angles.clone(), angles], 2);
    [angles.clone().cos(), angles.sin()]
}

fn rope_as(site: &'static Site, style: RopeStyle) -> (Tensor<4>, Tensor<4>) {
    let [cos, sin] = tables(5, 8);
    let key = RopeKey {
        style,
        ..RopeKey::LLAMA
    };
    private::rope(
        At::new(site),
        random([2, 4, 5, 8]),
        random([2, 1, 5, 8]),
        &cos,
        &sin,
        &mut |(q, k)| private::rope_reference(q, k, &cos, &sin, key),
    )
}

#[test]
fn rotating_neighbours_is_not_rotating_halves() {
    {
        let _first = first();
        rope_as(&ROPE, RopeStyle::Half);
        assert_eq!(row(&ROPE).expect("checked").checked, 1);
    }
    let said = refusal(|| rope_as(&ROPE_OF_NEIGHBOURS, RopeStyle::Interleaved));
    assert!(
        said.contains("rope(style=half)") && said.contains("y.0 is "),
        "{said}"
    );
}

#[test]
fn every_nth_call_is_checked() {
    let _every = live::scope(Sampling::every(NonZeroU32::new(3).unwrap()));
    let bodies = Cell::new(0);
    for _ in 0..8 {
        glu(&SAMPLED, random([2, 4]), random([2, 4]), |gate, up| {
            bodies.set(bodies.get() + 1);
            silu(gate) * up
        });
    }
    // Calls 1, 4 and 7 were checked.
    assert_eq!(bodies.get(), 3);
    assert_eq!(row(&SAMPLED).expect("checked").checked, 3);
}

#[test]
fn sites_can_be_left_out_and_all_of_it_switched_off() {
    let _auto = policy::scope(Policy::auto());
    let body = |_, _| -> Tensor<2> { panic!("the body does not run") };
    let _first = live::scope(Sampling::first().except("main::live::LEFT_*").unwrap());
    glu(&LEFT_OUT, random([2, 4]), random([2, 4]), body);
    let _off = live::scope(Sampling::off());
    glu(&OFF, random([2, 4]), random([2, 4]), body);
    assert!(row(&LEFT_OUT).is_none() && row(&OFF).is_none());
}

#[test]
fn calls_inside_a_checked_body_are_not_counted() {
    let calls = |site: &Site| -> u64 {
        let rows = report::report().rows;
        let rows = rows.iter().filter(|row| row.site == site.name());
        rows.map(|row| row.calls).sum()
    };
    let _first = first();
    let weight = random([4]);
    glu(&OUTER, random([2, 4]), random([2, 4]), |gate, up| {
        // The check runs the site in the body by its reference, and does not count it as a call.
        norm(&INNER, up.clone(), &weight, normed);
        silu(gate) * up
    });
    assert_eq!((calls(&OUTER), calls(&INNER)), (1, 0));
    assert!(row(&INNER).is_none());
}

#[test]
fn gated_and_grouped_norms_and_packed_units() {
    sites! {
        GATED: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey {
            gating: Gating::BeforeNorm,
            ..RmsNormKey::LLAMA
        });
        GATED_AFTER: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey {
            gating: Gating::BeforeNorm,
            ..RmsNormKey::LLAMA
        });
        GROUPED: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey {
            groups: Groups::Many,
            scale: Scale::None,
            ..RmsNormKey::LLAMA
        });
        PACKED: "npu_fused_swiglu", SemanticsKey::Glu(GluKey {
            projections: Projections::Interleaved,
            activation: Activation::QuickGelu,
            clamp: Clamp::Limit,
            up_offset: Offset::One,
            ..GluKey::SWIGLU
        });
    }
    let weight = random([8]);
    let scaled = |x: Tensor<2>| normed(x) * weight.clone().unsqueeze();
    let gated = |site, body: &dyn Fn(Tensor<2>, Tensor<2>) -> Tensor<2>| {
        private::rms_norm_gated(
            At::new(site),
            random([3, 8]),
            random([3, 8]),
            &|| Some(weight.clone()),
            EPS,
            None,
            &mut |(x, gate)| body(x, gate),
        )
    };
    {
        let _first = first();
        gated(&GATED, &|x, gate| scaled(x * silu(gate)));
    }
    let said = refusal(|| gated(&GATED_AFTER, &|x, gate| scaled(x) * silu(gate)));
    assert!(said.contains("gating=before_norm"), "{said}");

    let said = refusal(|| {
        private::rms_norm(
            At::new(&GROUPED),
            random([3, 8]),
            &|| None,
            EPS,
            Some(2),
            &mut normed,
        )
    });
    assert!(said.contains("groups=many"), "{said}");

    let said = refusal(|| {
        private::glu_packed(
            At::new(&PACKED),
            random([3, 8]),
            Some(7.0),
            &mut |gate_up| {
                // This body splits in halves instead of neighbours.
                let (gate, up) = (gate_up.clone().narrow(1, 0, 4), gate_up.narrow(1, 4, 4));
                let gate = gate.clamp_max(7.0);
                let up = up.clamp(-7.0, 7.0);
                gate.clone() * burn::tensor::activation::sigmoid(gate * 1.702) * (up + 1.0)
            },
        )
    });
    assert!(said.contains("projections=interleaved"), "{said}");
}
