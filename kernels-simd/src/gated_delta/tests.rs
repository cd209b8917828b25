mod calls;

use super::*;
use crate::DType;
use crate::fixture::{Fixture, compare, values};
use calls::{Call, case};
use half::bf16;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Compares every case with the results of a token-by-token program in f64 and its autograd.
#[test]
fn results_and_gradients_are_those_of_the_recurrence() {
    for (file, channels, count) in [("gated_delta", false, 9), ("kda", true, 4)] {
        let fixture = Fixture::open(file);
        let cases = fixture.cases("q");
        assert_eq!(cases.len(), count);
        for name in cases {
            let call = case(&fixture, &name, channels);
            let results = match name.ends_with("bf16") {
                true => call.run::<bf16, f32>(),
                false => call.run::<f32, f32>(),
            };
            let exact = call.run::<f64, f64>();
            for (result, found) in &results.0 {
                if *result == "d_initial_state" && !fixture.has(&format!("{name}.initial_state")) {
                    continue;
                }
                let expected = fixture.f64s(&format!("{name}.ref.{result}"));
                let is_rounded = name.ends_with("bf16") && !["final_state", "d_g"].contains(result);
                let unit = if is_rounded { 2.0_f64.powi(-8) } else { 0.0 };
                compare(found, &expected, 2e-5, unit, &format!("{name} {result}"));
                compare(
                    exact.get(result),
                    &expected,
                    1e-11,
                    0.0,
                    &format!("f64 {name} {result}"),
                );
            }
        }
    }
}

/// Compares sizes around chunks and blocks, and groups of heads, with the definition in f64, and f32 with f64.
#[test]
fn every_size_around_chunks_is_right() {
    for channels in [false, true] {
        for (tokens, heads, widths) in [
            (1, [1, 1], [1, 1]),
            (9, [2, 2], [3, 5]),
            (16, [1, 3], [16, 17]),
            (63, [1, 1], [33, 20]),
            (65, [2, 4], [8, 64]),
            (129, [1, 2], [20, 70]),
            (200, [1, 2], [128, 128]),
        ] {
            let mut call = Call::new([2, tokens], heads, widths, channels);
            // A normalised row of one element is 1 or -1, and its gradient what rounding leaves.
            call.normalise = widths[0] > 1;
            let what = format!("{tokens} tokens, {heads:?} heads, {widths:?} wide, {channels}");
            let (exact, single) = (call.run::<f64, f64>(), call.run::<f32, f32>());
            for (name, expected) in ["out", "final_state"].iter().zip(call.defined()) {
                compare(
                    exact.get(name),
                    &expected,
                    1e-11,
                    0.0,
                    &format!("{what}: {name}"),
                );
            }
            for (name, found) in &single.0 {
                compare(
                    found,
                    exact.get(name),
                    2e-5,
                    0.0,
                    &format!("{what}: {name} in f32"),
                );
            }
        }
    }
}

/// The place of an operand in a call.
type Operand = fn(&mut Call) -> &mut Vec<f64>;

#[test]
fn gradients_are_those_of_differences() {
    const STEP: f64 = 1e-5;
    for channels in [false, true] {
        let call = Call::new([1, 67], [1, 2], [4, 3], channels).packed(&[65, 0, 2]);
        let found = call.run::<f64, f64>();
        let operands: [(&str, Operand); 6] = [
            ("d_q", |call| &mut call.q),
            ("d_k", |call| &mut call.k),
            ("d_v", |call| &mut call.v),
            ("d_g", |call| &mut call.g),
            ("d_beta", |call| &mut call.beta),
            ("d_initial_state", |call| &mut call.state),
        ];
        for (name, operand) in operands {
            let gradient = found.get(name);
            let largest = gradient
                .iter()
                .fold(0.0, |largest: f64, x| largest.max(x.abs()));
            for place in (0..gradient.len()).step_by(7) {
                let moved = |by: f64| {
                    let mut call = call.clone();
                    operand(&mut call)[place] += by;
                    call.loss()
                };
                let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let error = (gradient[place] - slope).abs();
                assert!(
                    error < 1e-7 * largest.max(1.0),
                    "{name} {place}: {slope}, {}",
                    gradient[place]
                );
            }
        }
    }
}

#[test]
fn packed_sequences_are_single_ones() {
    for channels in [false, true] {
        let lengths = [3, 70, 0, 7];
        let call = Call::new([1, 80], [1, 2], [8, 16], channels).packed(&lengths);
        let packed = call.run::<f32, f32>();
        let (mut first, of_state) = (0, call.state.len() / lengths.len());
        for (sequence, length) in lengths.into_iter().enumerate() {
            let part = |all: &[f64]| {
                let width = all.len() / 80;
                all[first * width..(first + length) * width].to_vec()
            };
            let state = |all: &[f64]| all[sequence * of_state..][..of_state].to_vec();
            let mut one = Call::new([1, length], [1, 2], [8, 16], channels);
            (one.q, one.k, one.v) = (part(&call.q), part(&call.k), part(&call.v));
            (one.g, one.beta, one.dy) = (part(&call.g), part(&call.beta), part(&call.dy));
            (one.state, one.dstate) = (state(&call.state), state(&call.dstate));
            for (name, found) in one.run::<f32, f32>().0 {
                let expected = match name.contains("state") {
                    true => state(packed.get(name)),
                    false => part(packed.get(name)),
                };
                assert_eq!(found, expected, "{name} of {length} tokens");
            }
            first += length;
        }
    }
}

/// Returns the part of a tensor of 40 tokens that belongs to one token.
fn of_token<'a>(all: &'a [f32], sizes: &[usize], token: usize) -> View<'a> {
    let row: usize = sizes[2..].iter().product();
    let inner = (2..sizes.len()).map(|axis| sizes[axis + 1..].iter().product::<usize>());
    let strides: Vec<isize> = [row * 40, row]
        .into_iter()
        .chain(inner)
        .map(|stride| stride as isize)
        .collect();
    View::of(all, sizes, &strides, token * row)
}

/// Decodes token by token, the states changed in place, and compares with one call.
#[test]
fn steps_are_the_sequence() {
    for (channels, widths) in [(false, [16, 70]), (true, [8, 16]), (false, [3, 81])] {
        let call = Call::new([2, 40], [2, 4], widths, channels);
        let [expected, last] = call.defined();
        let sizes = call.sizes;
        let [mut state, q, k, v, g, beta] =
            [&call.state, &call.q, &call.k, &call.v, &call.g, &call.beta]
                .map(|all| all.iter().map(|x| *x as f32).collect::<Vec<_>>());
        for token in 0..sizes.tokens {
            let key_sizes = [2, 1, 2, sizes.key_width];
            let value_sizes = [2, 1, 4, sizes.value_width];
            let decay_sizes = [2, 1, 4, sizes.decays];
            let decay_sizes = &decay_sizes[..if channels { 4 } else { 3 }];
            let operands = Operands {
                q: of_token(&q, &key_sizes, token),
                k: of_token(&k, &key_sizes, token),
                v: of_token(&v, &value_sizes, token),
                g: of_token(&g, decay_sizes, token),
                beta: of_token(&beta, &[2, 1, 4], token),
                state: None,
                lengths: None,
                scale: call.scale(),
                normalise: true,
            };
            let y = values(&step(&operands, SliceMut::of(&mut state)));
            let row = 4 * sizes.value_width;
            for (batch, y) in y.chunks_exact(row).enumerate() {
                let expected = &expected[(batch * 40 + token) * row..][..row];
                compare(y, expected, 2e-5, 0.0, &format!("token {token}"));
            }
        }
        let state: Vec<f64> = state.into_iter().map(f64::from).collect();
        compare(&state, &last, 2e-5, 0.0, "the last states");
    }
}

#[test]
fn results_dont_depend_on_the_number_of_threads() {
    let call = Call::new([2, 70], [2, 4], [16, 16], false);
    let results = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().expect("threads can be started");
        pool.install(|| call.run::<f32, f32>().0)
    });
    assert_eq!(results[0], results[1]);
}

/// A head that forgets all with a decay of zero, whose logarithm is infinite, has the same results and gradients as one whose
/// decay is very small. A gate that is NaN makes what follows NaN, and nothing of other heads.
#[test]
fn gates_at_their_ends() {
    for channels in [false, true] {
        let call = Call::new([1, 70], [1, 2], [8, 8], channels);
        let with = |g: f64| {
            let mut call = call.clone();
            let decays = call.sizes.decays;
            call.g[20 * 2 * decays..][..decays].fill(g);
            call.run::<f32, f32>()
        };
        let (smallest, none) = (with(-1e4), with(f64::NEG_INFINITY));
        for (name, found) in &none.0 {
            compare(found, smallest.get(name), 1e-6, 0.0, name);
        }
        let nan = with(f64::NAN);
        for (name, width) in [("out", 8), ("d_v", 8)] {
            let heads = nan.get(name).chunks_exact(width).enumerate();
            for (at, row) in heads {
                let (token, head) = (at / 2, at % 2);
                if head == 1 {
                    assert!(row.iter().all(|x| x.is_finite()), "{name} of another head");
                } else if name == "out" && token >= 20 {
                    assert!(row.iter().all(|x| x.is_nan()), "{name} of token {token}");
                }
            }
        }
        assert!(nan.get("final_state")[..64].iter().all(|x| x.is_nan()));
    }
}

#[test]
fn calls_without_tokens_change_nothing() {
    let call = Call::new([2, 0], [1, 2], [4, 4], false);
    let found = call.run::<f32, f32>();
    assert!(found.get("out").is_empty() && found.get("d_g").is_empty());
    let state: Vec<f64> = call.state.iter().map(|x| f64::from(*x as f32)).collect();
    assert_eq!(found.get("final_state"), state);
    for (batch, heads) in [(0, [1, 2]), (2, [0, 0])] {
        let call = Call::new([batch, 3], heads, [4, 4], true);
        assert!(call.run::<f32, f32>().get("final_state").is_empty());
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    static DATA: [f32; 4096] = [0.0; 4096];
    let view = |sizes: &[usize]| View::whole(&DATA[..sizes.iter().product()], sizes);
    let operands = || Operands {
        q: view(&[1, 5, 2, 4]),
        k: view(&[1, 5, 2, 4]),
        v: view(&[1, 5, 4, 3]),
        g: view(&[1, 5, 4]),
        beta: view(&[1, 5, 4]),
        state: None,
        lengths: None,
        scale: 1.0,
        normalise: false,
    };
    let said = |change: &dyn Fn(&mut Operands<'_>)| {
        let mut operands = operands();
        change(&mut operands);
        let call = AssertUnwindSafe(|| forward(&operands, true));
        *catch_unwind(call)
            .expect_err("it is refused")
            .downcast::<String>()
            .expect("a sentence")
    };
    for (expected, change) in [
        (
            "are not heads of tokens",
            &(|o: &mut Operands<'_>| o.q = view(&[5, 2, 4])) as &dyn Fn(&mut Operands<'_>),
        ),
        ("don't go together", &|o| o.k = view(&[1, 5, 2, 3])),
        ("don't go together", &|o| o.v = view(&[1, 6, 4, 3])),
        (
            "3 heads of values can't share 2 heads of keys equally",
            &|o| o.v = view(&[1, 5, 3, 3]),
        ),
        ("must have elements, but are 4 and 0 wide", &|o| {
            o.v = view(&[1, 5, 4, 0])
        }),
        ("decays of sizes [1, 5, 4, 3]", &|o| {
            o.g = view(&[1, 5, 4, 3])
        }),
        ("rates of sizes [1, 5, 2]", &|o| o.beta = view(&[1, 5, 2])),
        ("states of sizes [2, 4, 4, 3] are not [1, 4, 4, 3]", &|o| {
            o.state = Some(view(&[2, 4, 4, 3]))
        }),
        ("don't fill row 0 of 5 tokens", &|o| {
            o.lengths = Some(&[2, 2])
        }),
        ("don't fill row 0 of 5 tokens", &|o| {
            o.lengths = Some(&[2, 4])
        }),
        ("are more than 1 rows of 5 tokens", &|o| {
            o.lengths = Some(&[2, 3, 1])
        }),
    ] {
        let said = said(change);
        assert!(said.contains(expected), "{said}, not {expected}");
    }
    assert_eq!(operands().q.dtype(), DType::F32);
}
