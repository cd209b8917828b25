use super::*;
use crate::fixture::{Fixture, compare, values};
use crate::{Element, Real};
use half::{bf16, f16};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The operands of a test and what its backward pass begins with, in f64. States are `[sequences, K − 1, channels]`.
#[derive(Clone, Default)]
struct Call {
    /// `[batch, tokens, channels]`.
    sizes: [usize; 3],
    width: usize,
    x: Vec<f64>,
    weight: Vec<f64>,
    bias: Option<Vec<f64>>,
    state: Vec<f64>,
    lengths: Option<Vec<usize>>,
    silu: bool,
    dy: Vec<f64>,
    dstate: Vec<f64>,
}

fn numbers(count: usize, seed: usize) -> Vec<f64> {
    let one = |i: usize| ((i * 7919 + seed * 104_729 + i * i % 613) % 2003) as f64 / 700.0 - 1.4;
    (0..count).map(one).collect()
}

impl Call {
    fn new(
        sizes @ [batch, tokens, channels]: [usize; 3],
        width: usize,
        lengths: Option<&[usize]>,
    ) -> Self {
        let states = lengths.map_or(batch, <[usize]>::len) * (width - 1) * channels;
        Self {
            sizes,
            width,
            x: numbers(batch * tokens * channels, 1),
            weight: numbers(channels * width, 2),
            bias: Some(numbers(channels, 3)),
            state: numbers(states, 4),
            lengths: lengths.map(<[usize]>::to_vec),
            silu: true,
            dy: numbers(batch * tokens * channels, 5),
            dstate: numbers(states, 6),
        }
    }

    fn lengths(&self) -> Vec<usize> {
        self.lengths
            .clone()
            .unwrap_or_else(|| vec![self.sizes[1]; self.sizes[0]])
    }

    /// Runs the kernels in a type. Returns the result, the last states, and the gradients of inputs, weights, bias and states.
    fn run<T: Element<Acc = A>, A: Element<Acc = A> + Real>(&self) -> [Vec<f64>; 6] {
        let of = |values: &Vec<f64>| {
            values
                .iter()
                .map(|x| T::round(A::of(*x)))
                .collect::<Vec<T>>()
        };
        let [x, weight, state, dy, dstate] =
            [&self.x, &self.weight, &self.state, &self.dy, &self.dstate].map(of);
        let bias = self.bias.as_ref().map(of);
        let channels = self.sizes[2];
        let of_states = [self.lengths().len(), self.width - 1, channels];
        let operands = Operands {
            x: View::whole(&x, &self.sizes),
            weight: View::whole(&weight, &[channels, self.width]),
            bias: bias.as_ref().map(|bias| View::whole(bias, &[channels])),
            state: Some(View::whole(&state, &of_states)),
            lengths: self.lengths.as_deref(),
            silu: self.silu,
        };
        let found = forward(&operands);
        let dstate = View::whole(&dstate, &of_states);
        let gradients = backward(&operands, &View::whole(&dy, &self.sizes), Some(&dstate));
        [
            &found.y,
            &found.state,
            &gradients.x,
            &gradients.weight,
            &gradients.bias,
            &gradients.state,
        ]
        .map(values)
    }

    /// Returns the result and the last states as the documentation defines them.
    fn defined(&self) -> [Vec<f64>; 2] {
        let [_, _, channels] = self.sizes;
        let before = self.width - 1;
        let (mut y, mut states, mut first) = (Vec::new(), Vec::new(), 0);
        for (sequence, length) in self.lengths().into_iter().enumerate() {
            let state = &self.state[sequence * before * channels..][..before * channels];
            let inputs = [state, &self.x[first * channels..][..length * channels]].concat();
            for at in 0..length * channels {
                let bias = self.bias.as_ref().map_or(0.0, |bias| bias[at % channels]);
                let weights = &self.weight[at % channels * self.width..][..self.width];
                let terms = weights
                    .iter()
                    .enumerate()
                    .map(|(j, w)| w * inputs[at + j * channels]);
                let sum = bias + terms.sum::<f64>();
                y.push(if self.silu {
                    sum / (1.0 + (-sum).exp())
                } else {
                    sum
                });
            }
            states.extend_from_slice(&inputs[length * channels..]);
            first += length;
        }
        [y, states]
    }

    fn loss(&self) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let [y, states] = self.defined();
        dot(&y, &self.dy) + dot(&states, &self.dstate)
    }
}

/// Exchanges the last two axes.
fn turned(values: &[f64], [rows, columns]: [usize; 2]) -> Vec<f64> {
    let matrices = values.chunks_exact((rows * columns).max(1));
    let turned = |matrix: &[f64]| {
        let places =
            (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
        places.map(|place| matrix[place]).collect::<Vec<_>>()
    };
    matrices.flat_map(turned).collect()
}

/// Compares every case with transformers' formula in f64 and its autograd. Its states have `K` inputs, of which it never reads
/// the first; what the gradient of this one adds to others is taken out.
#[test]
fn results_and_gradients_are_those_of_transformers() {
    let fixture = Fixture::open("causal_conv");
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 14);
    for name in cases {
        let get = |tensor: &str| fixture.f64s(&format!("{name}.{tensor}"));
        let has = |tensor: &str| fixture.has(&format!("{name}.{tensor}"));
        let (of_x, of_state) = (
            fixture.shape(&format!("{name}.x")),
            fixture.shape(&format!("{name}.d_final_state")),
        );
        let [batch, channels, tokens] = of_x[..] else {
            panic!("{of_x:?}")
        };
        let width = of_state[2];
        let state = |values: &[f64]| {
            let kept = values
                .chunks_exact(width)
                .flat_map(|row| &row[1..])
                .copied()
                .collect::<Vec<_>>();
            turned(&kept, [channels, width - 1])
        };
        let of_tokens = |values: &[f64]| turned(values, [channels, tokens]);
        let dstate = get("d_final_state");
        let call = Call {
            sizes: [batch, tokens, channels],
            width,
            x: of_tokens(&get("x")),
            weight: get("weight"),
            bias: has("bias").then(|| get("bias")),
            state: match has("state") {
                true => state(&get("state")),
                false => vec![0.0; of_state[0] * (width - 1) * channels],
            },
            lengths: has("cu_seqlens").then(|| {
                let ends = get("cu_seqlens");
                ends.windows(2)
                    .map(|pair| (pair[1] - pair[0]) as usize)
                    .collect()
            }),
            silu: !name.contains("plain"),
            dy: of_tokens(&get("d_y")),
            dstate: state(&dstate),
        };
        let mut dx = of_tokens(&get("ref.d_x"));
        let mut first = 0;
        for (sequence, length) in call.lengths().into_iter().enumerate() {
            if let Some(token) = length.checked_sub(width) {
                for channel in 0..channels {
                    dx[(first + token) * channels + channel] -=
                        dstate[(sequence * channels + channel) * width];
                }
            }
            first += length;
        }
        let (found, unit) = match &name[name.len() - 4..] {
            "bf16" => (call.run::<bf16, f32>(), 2.0_f64.powi(-8)),
            ".f16" => (call.run::<f16, f32>(), 2.0_f64.powi(-11)),
            _ => (call.run::<f32, f32>(), 0.0),
        };
        let expected = [
            ("y", of_tokens(&get("ref.y"))),
            ("final_state", state(&get("ref.final_state"))),
            ("d_x", dx),
            ("d_weight", get("ref.d_weight")),
        ];
        for ((result, expected), found) in expected.iter().zip(&found) {
            compare(found, expected, 2e-6, unit, &format!("{name} {result}"));
        }
        if call.bias.is_some() {
            compare(
                &found[4],
                &get("ref.d_bias"),
                2e-6,
                unit,
                &format!("{name} d_bias"),
            );
        }
    }
}

#[test]
fn every_width_and_size_is_right() {
    for (sizes, width, lengths) in [
        ([1, 1, 1], 2, None),
        ([2, 9, 5], 3, None),
        ([2, 3, 257], 8, None),
        ([1, 300, 513], 4, None),
        ([2, 20, 33], 5, Some(&[1, 19, 4, 0, 16][..])),
    ] {
        for silu in [false, true] {
            let mut call = Call::new(sizes, width, lengths);
            call.silu = silu;
            let (exact, single) = (call.run::<f64, f64>(), call.run::<f32, f32>());
            let what = format!("{sizes:?}, {width}");
            for (found, expected) in exact.iter().zip(call.defined()) {
                compare(found, &expected, 1e-13, 0.0, &what);
            }
            for (found, expected) in single.iter().zip(&exact) {
                compare(found, expected, 2e-6, 0.0, &what);
            }
        }
    }
}

/// The place of an operand in a call.
type Operand = fn(&mut Call) -> &mut Vec<f64>;

#[test]
fn gradients_are_those_of_differences() {
    const STEP: f64 = 1e-5;
    let call = Call::new([1, 11, 3], 4, Some(&[2, 1, 0, 8]));
    let found = call.run::<f64, f64>();
    let operands: [(usize, Operand); 4] = [
        (2, |call| &mut call.x),
        (3, |call| &mut call.weight),
        (4, |call| call.bias.as_mut().expect("a bias")),
        (5, |call| &mut call.state),
    ];
    for (result, operand) in operands {
        for (place, gradient) in found[result].iter().enumerate() {
            let moved = |by: f64| {
                let mut call = call.clone();
                operand(&mut call)[place] += by;
                call.loss()
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            assert!(
                (gradient - slope).abs() < 1e-8,
                "{result} {place}: {gradient}, not {slope}"
            );
        }
    }
}

/// Decodes token by token: each call begins with the state of the one before.
#[test]
fn steps_are_the_sequence() {
    let call = Call::new([2, 12, 40], 4, None);
    let [expected, last] = call.defined();
    let row = 40;
    let mut one = Call::new([2, 1, row], 4, None);
    one.state.clone_from(&call.state);
    for token in 0..12 {
        let part = |all: &[f64]| {
            [0, 12]
                .map(|first| all[(first + token) * row..][..row].to_vec())
                .concat()
        };
        one.x = part(&call.x);
        let [y, state, ..] = one.run::<f64, f64>();
        compare(&y, &part(&expected), 1e-13, 0.0, &format!("token {token}"));
        one.state = state;
    }
    assert_eq!(one.state, last);
}

#[test]
fn calls_without_elements_have_none() {
    for sizes in [[2, 0, 5], [0, 3, 5], [2, 3, 0]] {
        let call = Call::new(sizes, 4, None);
        let [y, state, dx, ..] = call.run::<f32, f32>();
        assert!(y.is_empty() && dx.is_empty(), "{sizes:?}");
        assert_eq!(state.len(), call.state.len());
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    static DATA: [f32; 512] = [0.0; 512];
    let view = |sizes: &[usize]| View::whole(&DATA[..sizes.iter().product()], sizes);
    let said = |change: &dyn Fn(&mut Operands<'_>)| {
        let mut operands = Operands {
            x: view(&[2, 5, 6]),
            weight: view(&[6, 4]),
            bias: None,
            state: None,
            lengths: None,
            silu: true,
        };
        change(&mut operands);
        let call = AssertUnwindSafe(|| forward(&operands));
        *catch_unwind(call)
            .expect_err("it is refused")
            .downcast::<String>()
            .expect("a sentence")
    };
    for (expected, change) in [
        (
            "inputs of sizes [5, 6]",
            &(|o: &mut Operands<'_>| o.x = view(&[5, 6])) as &dyn Fn(&mut Operands<'_>),
        ),
        ("weights of sizes [6] are not", &|o| o.weight = view(&[6])),
        ("are not 2 to 8 for each of 6 channels", &|o| {
            o.weight = view(&[5, 4])
        }),
        ("are not 2 to 8 for each of 6 channels", &|o| {
            o.weight = view(&[6, 9])
        }),
        ("are not 2 to 8 for each of 6 channels", &|o| {
            o.weight = view(&[6, 1])
        }),
        ("a bias of sizes [5]", &|o| o.bias = Some(view(&[5]))),
        ("states of sizes [2, 4, 6] are not [2, 3, 6]", &|o| {
            o.state = Some(view(&[2, 4, 6]))
        }),
        ("don't fill row 1 of 5 tokens", &|o| {
            o.lengths = Some(&[5, 4])
        }),
    ] {
        let said = said(change);
        assert!(said.contains(expected), "{said}, not {expected}");
    }
}
