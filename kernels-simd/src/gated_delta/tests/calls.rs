//! Calls that the tests make, in a type and by the definition.

use super::super::*;
use crate::fixture::{Fixture, values};
use crate::{Element, Real};

/// Numbers between -1 and 1 that look random.
pub(super) fn numbers(count: usize, seed: usize) -> Vec<f64> {
    let one = |i: usize| ((i * 7919 + seed * 104_729 + i * i % 613) % 2003) as f64 / 1001.0 - 1.0;
    (0..count).map(one).collect()
}

/// The operands of a test and what its backward pass begins with, all in f64, and the sizes of the call.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) sizes: Sizes,
    pub(super) q: Vec<f64>,
    pub(super) k: Vec<f64>,
    pub(super) v: Vec<f64>,
    pub(super) g: Vec<f64>,
    pub(super) beta: Vec<f64>,
    pub(super) state: Vec<f64>,
    pub(super) dy: Vec<f64>,
    pub(super) dstate: Vec<f64>,
    pub(super) lengths: Option<Vec<usize>>,
    pub(super) normalise: bool,
}

/// The results of a call: the result, the last states and the gradients.
pub(super) struct Results(pub(super) Vec<(&'static str, Vec<f64>)>);

impl Call {
    /// Makes a call of rows of `tokens`, `[key heads, heads]`, and `[key width, value width]`.
    pub(super) fn new(
        [batch, tokens]: [usize; 2],
        [key_heads, heads]: [usize; 2],
        [key_width, value_width]: [usize; 2],
        channels: bool,
    ) -> Self {
        let decays = if channels { key_width } else { 1 };
        let rows = batch * tokens;
        let states = numbers(batch * heads * key_width * value_width, 6);
        let rate = |x: f64| 1.0 / (1.0 + (-2.0 * x).exp());
        Self {
            sizes: Sizes {
                batch,
                tokens,
                key_heads,
                heads,
                key_width,
                value_width,
                decays,
                sequences: batch,
            },
            q: numbers(rows * key_heads * key_width, 1),
            k: numbers(rows * key_heads * key_width, 2),
            v: numbers(rows * heads * value_width, 3),
            // Heads of little and of strong decay.
            g: (numbers(rows * heads * decays, 4).iter().enumerate())
                .map(|(i, x)| -(x + 1.0) * [0.02, 0.3, 4.0][i / decays % 3])
                .collect(),
            beta: numbers(rows * heads, 5).into_iter().map(rate).collect(),
            dy: numbers(rows * heads * value_width, 7),
            dstate: states.iter().map(|x| 0.3 - x).collect(),
            state: states,
            lengths: None,
            normalise: true,
        }
    }

    /// Packs sequences of these lengths.
    pub(super) fn packed(mut self, lengths: &[usize]) -> Self {
        let of_state = self.state.len() / self.sizes.sequences;
        self.sizes.sequences = lengths.len();
        self.state = numbers(of_state * lengths.len(), 8);
        self.dstate = numbers(of_state * lengths.len(), 9);
        self.lengths = Some(lengths.to_vec());
        self
    }

    pub(super) fn scale(&self) -> f64 {
        (self.sizes.key_width as f64).powf(-0.5)
    }

    /// Runs the kernels in a type, whose numbers are of type `A`.
    pub(super) fn run<T: Element<Acc = A>, A: Element<Acc = A> + Real>(&self) -> Results {
        let of = |values: &[f64]| {
            values
                .iter()
                .map(|x| T::round(A::of(*x)))
                .collect::<Vec<T>>()
        };
        let wide = |values: &[f64]| values.iter().map(|x| A::of(*x)).collect::<Vec<A>>();
        let [q, k, v, beta, dy] = [&self.q, &self.k, &self.v, &self.beta, &self.dy].map(|x| of(x));
        let [g, state, dstate] = [&self.g, &self.state, &self.dstate].map(|x| wide(x));
        let sizes = self.sizes;
        let Sizes {
            batch,
            tokens,
            heads,
            ..
        } = sizes;
        let of_keys = [batch, tokens, sizes.key_heads, sizes.key_width];
        let of_values = [batch, tokens, heads, sizes.value_width];
        let of_decays = [batch, tokens, heads, sizes.decays];
        let of_decays = if sizes.decays == 1 {
            &of_decays[..3]
        } else {
            &of_decays
        };
        let operands = Operands {
            q: View::whole(&q, &of_keys),
            k: View::whole(&k, &of_keys),
            v: View::whole(&v, &of_values),
            g: View::whole(&g, of_decays),
            beta: View::whole(&beta, &[batch, tokens, heads]),
            state: Some(View::whole(&state, &sizes.states())),
            lengths: self.lengths.as_deref(),
            scale: self.scale(),
            normalise: self.normalise,
        };
        assert_eq!(super::sizes(&operands), sizes);
        let found = forward(&operands, true);
        let without = forward(&operands, false);
        if tokens > recurrent::FEW && self.lengths.is_none() {
            let bits = |of: &Values| values(of).into_iter().map(f64::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(&without.y), bits(&found.y));
            assert_eq!(bits(&without.state), bits(&found.state));
        }
        let inverses = found.inverses.as_ref().expect("they are wanted");
        let inverses: Vec<A> = values(inverses).into_iter().map(A::of).collect();
        let gradients = backward(
            &operands,
            &Ends {
                dy: View::whole(&dy, &of_values),
                dstate: Some(View::whole(&dstate, &sizes.states())),
                inverses: View::whole(&inverses, &sizes.inverses()),
            },
        );
        Results(vec![
            ("out", values(&found.y)),
            ("final_state", values(&found.state)),
            ("d_q", values(&gradients.q)),
            ("d_k", values(&gradients.k)),
            ("d_v", values(&gradients.v)),
            ("d_g", values(&gradients.g)),
            ("d_beta", values(&gradients.beta)),
            ("d_initial_state", values(&gradients.state)),
        ])
    }

    /// Computes the result and the last states token by token, as the documentation defines them.
    pub(super) fn defined(&self) -> [Vec<f64>; 2] {
        let Sizes {
            batch,
            tokens,
            key_heads,
            heads,
            key_width,
            value_width,
            decays,
            ..
        } = self.sizes;
        let whole = vec![tokens; batch];
        let lengths = self.lengths.as_ref().unwrap_or(&whole);
        let norm = |row: &[f64]| {
            let squares = row.iter().map(|x| x * x).sum::<f64>();
            let factor = if self.normalise {
                1.0 / (squares + EPSILON).sqrt()
            } else {
                1.0
            };
            row.iter().map(|x| x * factor).collect::<Vec<_>>()
        };
        let (mut y, mut states) = (vec![0.0; self.v.len()], self.state.clone());
        let mut first = 0;
        for (sequence, length) in lengths.iter().enumerate() {
            for head in 0..heads {
                let len = key_width * value_width;
                let state = &mut states[(sequence * heads + head) * len..][..len];
                for token in first..first + length {
                    let of_keys = (token * key_heads + head / (heads / key_heads)) * key_width;
                    let q = norm(&self.q[of_keys..][..key_width]);
                    let k = norm(&self.k[of_keys..][..key_width]);
                    let at = token * heads + head;
                    let v = &self.v[at * value_width..][..value_width];
                    for (channel, row) in state.chunks_exact_mut(value_width).enumerate() {
                        let decay = self.g[at * decays + channel % decays].exp();
                        row.iter_mut().for_each(|x| *x *= decay);
                    }
                    for column in 0..value_width {
                        let along = |row: &[f64], state: &[f64]| -> f64 {
                            (0..key_width)
                                .map(|d| row[d] * state[d * value_width + column])
                                .sum()
                        };
                        let change = self.beta[at] * (v[column] - along(&k, state));
                        for d in 0..key_width {
                            state[d * value_width + column] += k[d] * change;
                        }
                        y[at * value_width + column] = self.scale() * along(&q, state);
                    }
                }
            }
            first += length;
        }
        [y, states]
    }

    /// Returns the sum of results times their gradients.
    pub(super) fn loss(&self) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let [y, states] = self.defined();
        dot(&y, &self.dy) + dot(&states, &self.dstate)
    }
}

impl Results {
    pub(super) fn get(&self, name: &str) -> &[f64] {
        let found = self.0.iter().find(|(found, _)| *found == name);
        &found.expect("a result").1
    }
}

/// Reads a case of a fixture.
pub(super) fn case(fixture: &Fixture, name: &str, channels: bool) -> Call {
    let get = |tensor: &str| fixture.f64s(&format!("{name}.{tensor}"));
    let shape = |tensor: &str| fixture.shape(&format!("{name}.{tensor}"));
    let (of_q, of_v) = (shape("q"), shape("v"));
    let has = |tensor: &str| fixture.has(&format!("{name}.{tensor}"));
    let lengths = has("cu_seqlens").then(|| {
        let ends = get("cu_seqlens");
        ends.windows(2)
            .map(|pair| (pair[1] - pair[0]) as usize)
            .collect::<Vec<_>>()
    });
    let dstate = get("d_final_state");
    Call {
        sizes: Sizes {
            batch: of_q[0],
            tokens: of_q[1],
            key_heads: of_q[2],
            heads: of_v[2],
            key_width: of_q[3],
            value_width: of_v[3],
            decays: if channels { of_q[3] } else { 1 },
            sequences: lengths.as_ref().map_or(of_q[0], Vec::len),
        },
        q: get("q"),
        k: get("k"),
        v: get("v"),
        g: get("g"),
        beta: get("beta"),
        state: match has("initial_state") {
            true => get("initial_state"),
            false => vec![0.0; dstate.len()],
        },
        dy: get("d_out"),
        dstate,
        lengths,
        normalise: !name.contains("plain"),
    }
}
