//! Tests gated delta rules: against the recurrence in f64, gradients of each result, sequences in parts, dtypes,
//! refusals, and live verification.

mod live;

use crate::comparison::relative;
use crate::support::{Fixture, values};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::attention::Lengths;
use kernels_runtime::ops::gated_delta_rule::{Decays, Inputs, Settings, fused, reference};
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const GDN: GatedDeltaRuleKey = GatedDeltaRuleKey::GATED_DELTA_NET;

fn run(inputs: Inputs, key: GatedDeltaRuleKey, is_fused: bool) -> (Tensor<4>, Tensor<4>) {
    let settings = Settings::default();
    match is_fused {
        true => fused(inputs, settings, key).expect("a kernel"),
        false => reference(inputs, settings, key),
    }
}

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    let panic = panic.expect("it is refused").downcast::<String>();
    *panic.expect("a message")
}

/// The tensors that have gradients.
#[derive(Clone)]
struct Leaves {
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    g: Decays,
    beta: Tensor<3>,
    state: Option<Tensor<4>>,
}

impl Leaves {
    fn inputs(&self, lengths: Lengths) -> Inputs {
        let Self {
            q,
            k,
            v,
            g,
            beta,
            state,
        } = self.clone();
        Inputs {
            q,
            k,
            v,
            g,
            beta,
            state,
            lengths,
        }
    }

    /// Returns the gradients of a loss, by name.
    fn gradients(&self, loss: Tensor<1>) -> Vec<(&'static str, Vec<f64>)> {
        let grads = loss.backward();
        let of_heads = |tensor: &Tensor<4>| values(tensor.grad(&grads).expect("a gradient"));
        let of_numbers = |tensor: &Tensor<3>| values(tensor.grad(&grads).expect("a gradient"));
        let mut found = vec![
            ("d_q", of_heads(&self.q)),
            ("d_k", of_heads(&self.k)),
            ("d_v", of_heads(&self.v)),
            ("d_beta", of_numbers(&self.beta)),
        ];
        found.push(match &self.g {
            Decays::Heads(g) => ("d_g", of_numbers(g)),
            Decays::Channels(g) => ("d_g", of_heads(g)),
        });
        let of_state = self.state.as_ref().map(of_heads);
        found.extend(of_state.map(|gradient| ("d_initial_state", gradient)));
        found
    }
}

#[test]
fn results_and_gradients_are_those_of_the_recurrence() {
    let device = Device::flex().autodiff();
    for (file, key) in [("gated_delta", GDN), ("kda", GatedDeltaRuleKey::KIMI)] {
        let fixture = Fixture::open(file);
        for (case, is_fused) in fixture
            .cases("q")
            .iter()
            .flat_map(|case| [(case, true), (case, false)])
        {
            let of = |name: &str| format!("{case}.{name}");
            let has = |name: &str| fixture.has(&of(name));
            let heads = |name: &str| -> Tensor<4> {
                fixture.tensor::<4>(&of(name), &device).require_grad()
            };
            let numbers = |name: &str| -> Tensor<3> {
                fixture.tensor::<3>(&of(name), &device).require_grad()
            };
            let leaves = Leaves {
                q: heads("q"),
                k: heads("k"),
                v: heads("v"),
                g: match key.decay {
                    Decay::Head => Decays::Heads(numbers("g")),
                    Decay::Channel => Decays::Channels(heads("g")),
                },
                beta: numbers("beta"),
                state: has("initial_state").then(|| heads("initial_state")),
            };
            let ends = has("cu_seqlens").then(|| fixture.integers(&of("cu_seqlens")));
            let key = GatedDeltaRuleKey {
                norm: match case.contains("plain") {
                    true => KeyNorm::None,
                    false => KeyNorm::L2,
                },
                state: match leaves.state {
                    Some(_) => InitialState::Given,
                    None => InitialState::None,
                },
                lengths: match ends {
                    Some(_) => SequenceLengths::Packed,
                    None => SequenceLengths::None,
                },
                ..key
            };
            let lengths = ends.map(|ends| {
                let lengths = ends.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
                Lengths::new(&lengths.collect::<Vec<_>>())
            });
            let inputs = leaves.inputs(lengths.unwrap_or_default());
            let (y, last) = run(inputs, key, is_fused);
            assert_eq!((y.dtype(), last.dtype()), (leaves.q.dtype(), DType::F32));
            let loss = (y.clone() * heads("d_out").detach())
                .sum()
                .cast(FloatDType::F32)
                + (last.clone() * heads("d_final_state").detach()).sum();
            let results = [("out", values(y)), ("final_state", values(last))];
            for (name, found) in results.into_iter().chain(leaves.gradients(loss)) {
                let is_rounded = case.ends_with("bf16") && !["final_state", "d_g"].contains(&name);
                let rounding = if is_rounded { 2.0_f64.powi(-8) } else { 2e-5 };
                let off = relative(&found, &fixture.values(&of(&format!("ref.{name}"))));
                assert!(off < rounding, "{case} {name}, fused {is_fused}: {off:.1e}");
            }
        }
    }
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Returns operands of two heads that share one of keys.
fn leaves(tokens: usize, device: &Device) -> Leaves {
    let numbers = |uniform| Tensor::<3>::random([2, tokens, 2], uniform, device).require_grad();
    Leaves {
        q: random([2, tokens, 1, 6], device).require_grad(),
        k: random([2, tokens, 1, 6], device).require_grad(),
        v: random([2, tokens, 2, 5], device).require_grad(),
        g: Decays::Heads(numbers(Distribution::Uniform(-2.0, 0.0))),
        beta: numbers(Distribution::Uniform(0.0, 1.0)),
        state: Some(random([2, 2, 6, 5], device).require_grad()),
    }
}

const FROM_STATE: GatedDeltaRuleKey = GatedDeltaRuleKey {
    state: InitialState::Given,
    ..GDN
};

/// The gradients of one result alone, whichever, add up to those of both. With gradient checkpointing too.
#[test]
fn each_result_has_its_gradients() {
    let plain = Device::flex().autodiff();
    for device in [plain.clone(), plain.gradient_checkpointing()] {
        device.seed(5);
        let leaves = leaves(70, &device);
        let (dy, dlast) = (
            random([2, 70, 2, 5], &device),
            random([2, 2, 6, 5], &device),
        );
        let gradients = |of_y: bool, of_last: bool, is_fused: bool| {
            let inputs = leaves.inputs(Lengths::default());
            let (y, last) = run(inputs, FROM_STATE, is_fused);
            let (of, last) = ((y * dy.clone()).sum(), (last * dlast.clone()).sum());
            leaves.gradients(match (of_y, of_last) {
                (true, true) => of + last,
                (true, false) => of,
                _ => last,
            })
        };
        let expected = gradients(true, true, false);
        let [both, of_y, of_last] =
            [(true, true), (true, false), (false, true)].map(|(y, last)| gradients(y, last, true));
        for (place, (name, expected)) in expected.iter().enumerate() {
            let parts = of_y[place].1.iter().zip(&of_last[place].1);
            let sum: Vec<f64> = parts.map(|(a, b)| a + b).collect();
            assert!(relative(&both[place].1, expected) < 1e-5, "{name}");
            assert!(relative(&sum, expected) < 1e-5, "{name}");
            // The last states do not depend on queries.
            let is_zero = of_last[place].1.iter().all(|x| *x == 0.0);
            assert_eq!(is_zero, *name == "d_q", "{name}");
        }
    }
}

/// Results that are used twice, and gradients that other operations add, are those of the reference.
#[test]
fn results_are_part_of_a_graph() {
    let device = Device::flex().autodiff();
    device.seed(6);
    let leaves = leaves(20, &device);
    let gradients = |is_fused: bool| {
        let (y, last) = run(leaves.inputs(Lengths::default()), FROM_STATE, is_fused);
        let mut next = leaves.clone();
        next.state = Some(last.clone());
        // The last state begins the next call, whose values are the results of the first.
        next.v = y.clone().tanh();
        let (second, end) = run(next.inputs(Lengths::default()), FROM_STATE, is_fused);
        let states = last.square().sum() + end.square().sum();
        leaves.gradients(states + second.square().sum() + y.sum())
    };
    for ((name, found), (_, expected)) in gradients(true).iter().zip(gradients(false)) {
        let off = relative(found, &expected);
        assert!(off < 1e-5, "{name}: {off:.1e}");
    }
}

/// Decoding token by token, from the state of the call before, is the sequence.
#[test]
fn tokens_are_the_sequence() {
    let device = Device::flex().autodiff();
    device.seed(7);
    let leaves = leaves(12, &device);
    let (whole, last) = run(leaves.inputs(Lengths::default()), FROM_STATE, true);
    let mut state = leaves.state.clone();
    let mut rows = Vec::new();
    for token in 0..12 {
        let of = |tensor: &Tensor<4>| tensor.clone().narrow(1, token, 1);
        let Decays::Heads(g) = &leaves.g else {
            unreachable!("decays of heads")
        };
        let one = Leaves {
            q: of(&leaves.q),
            k: of(&leaves.k),
            v: of(&leaves.v),
            g: Decays::Heads(g.clone().narrow(1, token, 1)),
            beta: leaves.beta.clone().narrow(1, token, 1),
            state,
        };
        let (y, next) = run(one.inputs(Lengths::default()), FROM_STATE, true);
        rows.push(y);
        state = Some(next);
    }
    let y = Tensor::cat(rows, 1);
    assert!(relative(&values(y), &values(whole)) < 1e-5);
    assert!(relative(&values(state.expect("a state")), &values(last)) < 1e-5);
}

/// Repeats a fourth of the keys, so that each stands four times in a row.
fn repeated(k: Tensor<4>) -> Tensor<4> {
    let [batch, tokens, heads, width] = k.dims();
    let few = tokens.div_ceil(4);
    let k: Tensor<5> = k.narrow(1, 0, few).unsqueeze_dim(2);
    let k = k.expand([batch, few, 4, heads, width]);
    k.reshape([batch, 4 * few, heads, width])
        .narrow(1, 0, tokens)
}

/// Many tokens are computed in chunks by the reference, and a few one by one. Both have the same results and
/// gradients, also where decays are zero and where keys repeat. So has the kernel.
#[test]
fn chunks_are_the_tokens() {
    let device = Device::flex().autodiff();
    device.seed(8);
    for (tokens, decay) in [(17, 1.0), (64, 0.0), (65, 80.0), (150, 3.0)] {
        let wide = |tensor: Tensor<4>| tensor.cast(FloatDType::F64).detach().require_grad();
        let of = leaves(tokens, &device);
        let numbers = |tensor: Tensor<3>| tensor.cast(FloatDType::F64).detach().require_grad();
        let Decays::Heads(g) = of.g else {
            unreachable!("decays of heads")
        };
        let forgets = g.clone().lower_elem(-1.95);
        let g = (g * decay).mask_fill(forgets, f64::NEG_INFINITY);
        let leaves = Leaves {
            q: wide(of.q),
            k: wide(repeated(of.k)),
            v: wide(of.v),
            g: Decays::Heads(numbers(g)),
            beta: numbers(of.beta),
            state: of.state.map(wide),
        };
        let Decays::Heads(g) = &leaves.g else {
            unreachable!("decays of heads")
        };
        let run_in = |size: usize, is_fused: bool| {
            let (mut rows, mut state) = (Vec::new(), leaves.state.clone());
            for start in (0..tokens).step_by(size) {
                let length = size.min(tokens - start);
                let of = |tensor: &Tensor<4>| tensor.clone().narrow(1, start, length);
                let part = Leaves {
                    q: of(&leaves.q),
                    k: of(&leaves.k),
                    v: of(&leaves.v),
                    g: Decays::Heads(g.clone().narrow(1, start, length)),
                    beta: leaves.beta.clone().narrow(1, start, length),
                    state,
                };
                let (y, last) = run(part.inputs(Lengths::default()), FROM_STATE, is_fused);
                rows.push(y);
                state = Some(last);
            }
            let (y, last) = (Tensor::cat(rows, 1), state.expect("a state"));
            let loss = y.clone().sin().sum() + last.clone().cos().sum();
            let mut found = vec![("y", values(y)), ("last", values(last))];
            found.extend(leaves.gradients(loss));
            found
        };
        let expected = run_in(10, false);
        for found in [run_in(tokens, false), run_in(tokens, true)] {
            for ((name, found), (_, expected)) in found.iter().zip(&expected) {
                let off = relative(found, expected);
                assert!(off < 1e-11, "{tokens} tokens, {name}: {off:.1e}");
            }
        }
    }
}

/// Decays and states in a half type have lost digits before the kernel. Without tokens, states stay as they are.
#[test]
fn dtypes_and_sizes() {
    let device = Device::flex().autodiff();
    let half = |leaves: &Leaves, g: DType| {
        let cast = |tensor: &Tensor<4>| tensor.clone().cast(FloatDType::BF16);
        let Decays::Heads(decays) = &leaves.g else {
            unreachable!("decays of heads")
        };
        Leaves {
            q: cast(&leaves.q),
            k: cast(&leaves.k),
            v: cast(&leaves.v),
            g: Decays::Heads(decays.clone().cast(FloatDType::from(g))),
            beta: leaves.beta.clone().cast(FloatDType::BF16),
            state: leaves.state.clone(),
        }
    };
    let leaves_of_few = leaves(3, &device);
    let call = |leaves: &Leaves| {
        let inputs = leaves.inputs(Lengths::default());
        fused(inputs, Settings::default(), FROM_STATE)
    };
    let (y, last) = call(&half(&leaves_of_few, DType::F32)).expect("a kernel");
    assert_eq!((y.dtype(), last.dtype()), (DType::BF16, DType::F32));
    let refused = call(&half(&leaves_of_few, DType::BF16)).map(|_| ());
    assert_eq!(refused, Err(Reason::MixedDtypes));
    let none = leaves(0, &device);
    for is_fused in [true, false] {
        let (y, last) = run(none.inputs(Lengths::default()), FROM_STATE, is_fused);
        assert_eq!(y.dims(), [2, 0, 2, 5]);
        assert_eq!(values(last), values(none.state.clone().expect("a state")));
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let device = Device::flex().autodiff();
    let good = leaves(3, &device);
    let change = |change: &dyn Fn(&mut Leaves)| {
        let mut leaves = good.clone();
        change(&mut leaves);
        leaves.inputs(Lengths::default())
    };
    let heads = |shape| random::<4>(shape, &device);
    let channel = GatedDeltaRuleKey {
        decay: Decay::Channel,
        ..FROM_STATE
    };
    for (inputs, key, expected) in [
        (
            change(&|of| of.k = heads([2, 3, 1, 4])),
            FROM_STATE,
            "k is [2, 3, 1, 4], but q is [2, 3, 1, 6]",
        ),
        (
            change(&|of| of.v = heads([2, 4, 2, 5])),
            FROM_STATE,
            "v is [2, 4, 2, 5], but q is [2, 3, 1, 6]; both must have the same batch size and tokens",
        ),
        (
            change(&|of| {
                of.q = heads([2, 3, 3, 6]);
                of.k = heads([2, 3, 3, 6]);
            }),
            FROM_STATE,
            "the 2 heads of v can't share the 3 of k equally",
        ),
        (
            change(&|of| of.v = heads([2, 3, 2, 0])),
            FROM_STATE,
            "heads of k and v must have elements, but are 6 and 0 wide",
        ),
        (
            change(&|of| of.beta = random([2, 3, 1], &device)),
            FROM_STATE,
            "beta is [2, 3, 1], but must be [2, 3, 2]: batch, tokens, heads of v",
        ),
        (
            change(&|_| ()),
            channel,
            "g is [2, 3, 2], but must be [2, 3, 2, 6] with gated_delta_rule(decay=channel, state=given): batch, \
             tokens, heads of v, width of a key",
        ),
        (
            change(&|of| of.state = Some(heads([2, 2, 5, 6]))),
            FROM_STATE,
            "the state is [2, 2, 5, 6], but must be [2, 2, 6, 5]: sequences, heads of v, width of a key, \
             width of a value",
        ),
        (
            change(&|of| of.state = None),
            FROM_STATE,
            "a state is missing, but the semantics are gated_delta_rule(decay=head, state=given)",
        ),
    ] {
        let expected = format!("Gated delta rule: {expected}");
        let settings = Settings::default();
        assert_eq!(refusal(|| fused(inputs.clone(), settings, key)), expected);
        assert_eq!(refusal(|| reference(inputs, settings, key)), expected);
    }
    let settings = Settings {
        scale: Some(f64::NAN),
    };
    let inputs = good.inputs(Lengths::default());
    assert_eq!(
        refusal(|| fused(inputs, settings, FROM_STATE)),
        "Gated delta rule: the scale is NaN, but must be a finite number in f32"
    );
}
