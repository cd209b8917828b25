//! Tests short causal convolutions: against transformers' formula, sequences in parts, refusals, and live verification.

use crate::comparison::relative;
use crate::declared::sites;
use crate::support::{Fixture, values};
use burn::tensor::activation::silu;
use burn::tensor::{Device, Distribution, Tensor};
use kernels_runtime::__private::{
    At, LinearParameters, causal_conv1d, causal_conv1d_from_state, once,
};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::attention::Lengths;
use kernels_runtime::ops::causal_conv1d::{Inputs, fused, reference};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn run(inputs: Inputs, key: CausalConv1dKey, is_fused: bool) -> (Tensor<3>, Tensor<3>) {
    match is_fused {
        true => fused(inputs, key).expect("a kernel"),
        false => reference(inputs, key),
    }
}

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    let panic = panic.expect("it is refused").downcast::<String>();
    *panic.expect("a message")
}

/// States of the fixture have as many inputs as weights, and the first is never read.
#[test]
fn results_are_those_of_transformers() {
    let fixture = Fixture::open("causal_conv");
    let device = Device::flex().autodiff();
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 14);
    for (case, is_fused) in cases.iter().flat_map(|case| [(case, true), (case, false)]) {
        let of = |name: &str| format!("{case}.{name}");
        let has = |name: &str| fixture.has(&of(name));
        let tensor = |name: &str| -> Tensor<3> { fixture.tensor(&of(name), &device) };
        let of_state = |state: Tensor<3>| {
            let width = state.dims()[2];
            state.narrow(2, 1, width - 1).swap_dims(1, 2)
        };
        let weight: Tensor<2> = fixture.tensor(&of("weight"), &device);
        let weight = weight.require_grad();
        let bias = has("bias").then(|| {
            let bias: Tensor<1> = fixture.tensor(&of("bias"), &device);
            bias.require_grad()
        });
        let ends = has("cu_seqlens").then(|| fixture.integers(&of("cu_seqlens")));
        let state = has("state").then(|| of_state(tensor("state")));
        let key = CausalConv1dKey {
            activation: match case.contains("plain") {
                true => ConvActivation::None,
                false => ConvActivation::Silu,
            },
            shift: if bias.is_some() {
                Shift::Bias
            } else {
                Shift::None
            },
            state: match state {
                Some(_) => InitialState::Given,
                None => InitialState::None,
            },
            lengths: match ends {
                Some(_) => SequenceLengths::Packed,
                None => SequenceLengths::None,
            },
        };
        let lengths = ends.map(|ends| {
            let lengths = ends.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
            Lengths::new(&lengths.collect::<Vec<_>>())
        });
        let inputs = Inputs {
            x: tensor("x").swap_dims(1, 2),
            weight: weight.clone(),
            bias: bias.clone(),
            state,
            lengths: lengths.unwrap_or_default(),
        };
        let (y, last) = run(inputs, key, is_fused);
        let grads = (y.clone() * tensor("d_y").swap_dims(1, 2)).sum().backward();
        let rounding = match case.rsplit('.').next() {
            Some("bf16") => 2.0_f64.powi(-8),
            Some("f16") => 2.0_f64.powi(-11),
            _ => 2e-6,
        };
        let check = |name: &str, found: Vec<f64>, expected: Vec<f64>| {
            let off = relative(&found, &expected);
            assert!(off < rounding, "{case} {name}, fused {is_fused}: {off:.1e}");
        };
        let expected = |name: &str| -> Tensor<3> { fixture.tensor(&of(name), &Device::flex()) };
        check("y", values(y), values(expected("ref.y").swap_dims(1, 2)));
        let last_state = of_state(expected("ref.final_state"));
        check("last state", values(last), values(last_state));
        let dw = weight.grad(&grads).expect("a gradient");
        check("d_weight", values(dw), fixture.values(&of("ref.d_weight")));
        if let Some(bias) = bias {
            let db = bias.grad(&grads).expect("a gradient");
            check("d_bias", values(db), fixture.values(&of("ref.d_bias")));
        }
    }
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn plain(x: Tensor<3>, weight: &Tensor<2>, state: Option<Tensor<3>>) -> Inputs {
    Inputs {
        x,
        weight: weight.clone(),
        bias: None,
        state,
        lengths: Lengths::default(),
    }
}

/// A sequence in two parts, the second from the state of the first, is the whole one, also in its gradients.
#[test]
fn parts_are_the_whole() {
    let device = Device::flex().autodiff();
    let usual = CausalConv1dKey::GATED_DELTA_NET;
    let from_state = CausalConv1dKey {
        state: InitialState::Given,
        ..usual
    };
    for is_fused in [true, false] {
        device.seed(3);
        let x = random([2, 9, 5], &device).require_grad();
        let weight = random([5, 4], &device).require_grad();
        let dy = random([2, 9, 5], &device);
        let (whole, last) = run(plain(x.clone(), &weight, None), usual, is_fused);
        let grads = (whole.clone() * dy.clone()).sum().backward();
        let expected = [x.grad(&grads).map(values), weight.grad(&grads).map(values)];
        for first in [1, 2, 7] {
            let parts = [(0, first), (first, 9 - first)];
            let [a, b] = parts.map(|(start, length)| x.clone().narrow(1, start, length));
            let (y, state) = run(plain(a, &weight, None), usual, is_fused);
            let (rest, state) = run(plain(b, &weight, Some(state)), from_state, is_fused);
            let y = Tensor::cat(vec![y, rest], 1);
            assert!(relative(&values(y.clone()), &values(whole.clone())) < 1e-6);
            assert_eq!(values(state), values(last.clone()));
            let grads = (y * dy.clone()).sum().backward();
            let found = [x.grad(&grads).map(values), weight.grad(&grads).map(values)];
            for (found, expected) in found.iter().zip(&expected) {
                let [found, expected] = [found, expected].map(|d| d.as_deref().expect("one"));
                assert!(
                    relative(found, expected) < 1e-6,
                    "{first}, fused {is_fused}"
                );
            }
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let device = Device::flex();
    let x = random([2, 3, 4], &device);
    let inputs = |weight: [usize; 2]| plain(x.clone(), &random(weight, &device), None);
    let usual = CausalConv1dKey::GATED_DELTA_NET;
    let packed = CausalConv1dKey {
        lengths: SequenceLengths::Packed,
        ..usual
    };
    let padded = CausalConv1dKey {
        lengths: SequenceLengths::Padded,
        ..usual
    };
    let from_state = CausalConv1dKey {
        state: InitialState::Given,
        ..usual
    };
    let with_lengths = |lengths: &[usize]| Inputs {
        lengths: Lengths::new(lengths),
        ..inputs([4, 4])
    };
    let with_state = |shape: [usize; 3]| Inputs {
        state: Some(random(shape, &device)),
        ..inputs([4, 4])
    };
    for (inputs, key, expected) in [
        (
            inputs([3, 4]),
            usual,
            "the weight is [3, 4], but x has 4 channels",
        ),
        (
            inputs([4, 1]),
            usual,
            "a channel has 1 weights, but must have 2 to 8",
        ),
        (
            inputs([4, 9]),
            usual,
            "a channel has 9 weights, but must have 2 to 8",
        ),
        (
            inputs([4, 4]),
            from_state,
            "a state is missing, but the semantics are causal_conv1d(activation=silu, state=given)",
        ),
        (
            with_state([2, 4, 4]),
            from_state,
            "the state is [2, 4, 4], but must be [2, 3, 4]: sequences, weights of a channel minus one, channels",
        ),
        (
            with_lengths(&[3, 3]),
            usual,
            "lengths are given, but the semantics have none",
        ),
        (
            inputs([4, 4]),
            packed,
            "lengths are missing, but the semantics have packed sequences",
        ),
        (
            with_lengths(&[2, 4]),
            packed,
            "the sequences don't fill row 0, which has 3 tokens; a sequence lies within a row",
        ),
        (
            with_lengths(&[3, 3, 1]),
            packed,
            "there are more sequences than the 2 rows of 3 tokens have",
        ),
        (
            with_lengths(&[3, 2]),
            padded,
            "the lengths of padded sequences are given, but the operation takes only those of packed ones; set what is \
             padding to zero",
        ),
    ] {
        let expected = format!("Causal convolution: {expected}");
        assert_eq!(refusal(|| fused(inputs.clone(), key)), expected);
        assert_eq!(refusal(|| reference(inputs, key)), expected);
    }
}

const KEY: SemanticsKey = SemanticsKey::CausalConv1d(CausalConv1dKey::GATED_DELTA_NET);
const FROM_STATE: SemanticsKey = SemanticsKey::CausalConv1d(CausalConv1dKey {
    state: InitialState::Given,
    ..CausalConv1dKey::GATED_DELTA_NET
});

sites! {
    RIGHT: "npu_fused_causal_conv1d", KEY;
    REVERSED: "npu_fused_causal_conv1d", KEY;
    RIGHT_STATE: "npu_fused_causal_conv1d", FROM_STATE;
    FIRST_STATE: "npu_fused_causal_conv1d", FROM_STATE;
}

fn convolved(state: Tensor<3>, x: Tensor<3>, weight: &Tensor<2>) -> (Tensor<3>, Tensor<3>) {
    let [_, tokens, channels] = x.dims();
    let all = Tensor::cat(vec![state, x], 1);
    let taps = (0..4).map(|tap| {
        let weight = weight.clone().narrow(1, tap, 1).reshape([1, 1, channels]);
        all.clone().narrow(1, tap, tokens) * weight
    });
    let sum = taps.reduce(|sum, tap| sum + tap).expect("four");
    (silu(sum), all.narrow(1, tokens, 3))
}

#[test]
fn bodies_are_verified() {
    let _first = live::scope(Sampling::first());
    let device = Device::flex().autodiff();
    let weight = random([6, 4], &device).require_grad();
    let x = || random([3, 40, 6], &device).require_grad();
    let call = |site: &'static Site, is_reversed: bool| {
        let own = match is_reversed {
            true => weight.clone().flip([1]),
            false => weight.clone(),
        };
        let body = |x: Tensor<3>| {
            let [batch, _, channels] = x.dims();
            convolved(Tensor::zeros([batch, 3, channels], &x.device()), x, &own).0
        };
        let parameters = LinearParameters::new(&weight);
        let x = x();
        let y = causal_conv1d(At::new(site), x.clone(), parameters, None, &mut once(body));
        assert!(x.grad(&y.sum().backward()).is_some());
    };
    let from_state = |site: &'static Site, takes_first: bool| {
        let body = |(x, state): (Tensor<3>, Tensor<3>)| {
            let (y, last) = convolved(state.clone(), x, &weight);
            (y, if takes_first { state } else { last })
        };
        let both = [x(), random([3, 3, 6], &device)];
        let parameters = LinearParameters::new(&weight);
        causal_conv1d_from_state(At::new(site), both, parameters, None, &mut once(body))
    };
    call(&RIGHT, false);
    from_state(&RIGHT_STATE, false);
    let rows = live::report().rows;
    for site in [&RIGHT, &RIGHT_STATE] {
        let row = rows.iter().find(|row| row.site == site.name());
        let row = row.expect("checked");
        assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
    }
    let why = refusal(|| call(&REVERSED, true));
    assert!(why.contains(&REVERSED.name()), "{why}");
    let why = refusal(|| from_state(&FIRST_STATE, true));
    assert!(why.contains(&FIRST_STATE.name()), "{why}");
}
