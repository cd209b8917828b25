use super::{Decays, Inputs, Settings};
use crate::ops::attention::Lengths;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, one_dtype, require};
use crate::ops::{compute_dtype, sequences};
use crate::semantics::{Decay, GatedDeltaRuleKey};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

use kernels_simd::gated_delta::CHUNK;
pub use kernels_simd::gated_delta::Sizes;

const OP: &str = "Gated delta rule";

operation! {
    /// A gated delta rule. The last states are a result besides, and both have gradients. The forward pass keeps the
    /// inverted triangles of the chunks.
    GatedDeltaRule {
        name: "gated_delta_rule",
        title: "Gated delta rule",
        kernel: "npu_fused_gated_delta_rule",
        saved: 1,
        others: 1,
        differentiable: true,
        dtypes: dtypes,
        room: room,
        room_backward: room_backward,
    }
    /// The checked operands of a gated delta rule.
    Operands<T> {
        /// The queries, `[batch, tokens, key heads, key width]`.
        q: One "q",
        /// The keys, with the shape of the queries.
        k: One "k",
        /// The values, `[batch, tokens, heads, value width]`.
        v: One "v",
        /// The logarithms of the decays, `[batch, tokens, heads]`, or `[batch, tokens, heads, key width]`.
        g: One "g",
        /// The rates of the updates, `[batch, tokens, heads]`.
        beta: One "beta",
        /// The states before the first tokens, `[sequences, heads, key width, value width]`.
        state: Maybe "the state" if |of| sequences::has_state(of.key.state),
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The lengths of packed sequences.
        lengths: Lengths,
        /// The variant to compute.
        key: GatedDeltaRuleKey,
    }
}

/// Returns at least the bytes of what a thread holds for a chunk, and of what describes the tasks.
fn room<T: Described>(operands: &Operands<T>) -> usize {
    let sizes = operands.sizes();
    let rows = sum([
        sizes.key_width.saturating_mul(16),
        sizes.value_width.saturating_mul(4),
        8 * CHUNK,
    ]);
    let state = sizes.key_width.saturating_mul(sizes.value_width);
    let numbers = sum([CHUNK.saturating_mul(rows), state]);
    let tasks = sizes.sequences.saturating_mul(sizes.heads);
    held(tasks, numbers, operands.q.dtype())
}

/// Returns what [`room`] does for the backward pass, which also holds the states before all chunks of a group of heads.
fn room_backward<T: Described>(operands: &Operands<T>, _: &Each<bool>) -> usize {
    let sizes = operands.sizes();
    let state = sizes.key_width.saturating_mul(sizes.value_width);
    let rows = sum([
        sizes.key_width.saturating_mul(28),
        sizes.value_width.saturating_mul(8),
        10 * CHUNK,
    ]);
    let token = sizes
        .key_width
        .saturating_add(sizes.value_width.saturating_mul(2));
    let states = (sizes.tokens.div_ceil(CHUNK) + 2).saturating_mul(state);
    let head = states.saturating_add(sizes.tokens.saturating_mul(token));
    let numbers = sum([
        CHUNK.saturating_mul(rows),
        sizes.group().saturating_mul(head),
        state.saturating_mul(2),
    ]);
    let tasks = sizes.sequences.saturating_mul(sizes.key_heads);
    held(tasks, numbers, operands.q.dtype())
}

/// Returns the bytes of some tasks, of which each running one holds some numbers.
fn held(tasks: usize, numbers: usize, dtype: DType) -> usize {
    const BYTES_OF_A_TASK: usize = 512;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let numbers = tasks.min(threads).saturating_mul(numbers);
    let bytes = numbers.saturating_mul(compute_dtype(dtype).size());
    tasks.saturating_mul(BYTES_OF_A_TASK).saturating_add(bytes)
}

fn sum<const N: usize>(numbers: [usize; N]) -> usize {
    numbers.into_iter().fold(0, usize::saturating_add)
}

/// Returns the dtype of queries, keys, values and rates. Decays and states have that of the computation.
fn dtypes<T: Described>(operands: &Operands<T>) -> Result<DType, Mismatch> {
    let Operands { q, k, v, beta, .. } = operands;
    let dtype = one_dtype(OP, [("q", q), ("k", k), ("v", v), ("beta", beta)])?;
    let wide = compute_dtype(dtype);
    let others = [("g", Some(&operands.g)), ("the state", operands.state())];
    for (name, tensor) in others {
        let Some(tensor) = tensor else { continue };
        require!(
            tensor.dtype() == wide,
            "{OP}: {name} is {:?}, but must be {wide:?}, because q is {dtype:?}",
            tensor.dtype()
        );
    }
    Ok(dtype)
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let [q, k, v] = [("q", &self.q), ("k", &self.k), ("v", &self.v)]
            .map(|(name, tensor)| operands::dims::<4>(OP, name, tensor));
        let ([batch, tokens, key_heads, key_width], k, v) = (q?, k?, v?);
        let [v_batch, v_tokens, heads, value_width] = v;
        let q = [batch, tokens, key_heads, key_width];
        require!(k == q, "{OP}: k is {k:?}, but q is {q:?}");
        require!(
            [v_batch, v_tokens] == [batch, tokens],
            "{OP}: v is {v:?}, but q is {q:?}; both must have the same batch size and tokens"
        );
        require!(
            heads == 0 || (key_heads > 0 && heads.is_multiple_of(key_heads)),
            "{OP}: the {heads} heads of v can't share the {key_heads} of k equally"
        );
        require!(
            key_heads == 0 || heads > 0,
            "{OP}: k has {key_heads} heads, but v has none"
        );
        require!(
            key_width > 0 && value_width > 0,
            "{OP}: heads of k and v must have elements, but are {key_width} and {value_width} wide"
        );
        let each = [batch, tokens, heads];
        let (beta, g) = (self.beta.shape(), self.g.shape());
        require!(
            beta.as_slice() == each,
            "{OP}: beta is {:?}, but must be {each:?}: batch, tokens, heads of v",
            beta.as_slice()
        );
        let of_channels = [batch, tokens, heads, key_width];
        let (expected, axes) = match self.key.decay {
            Decay::Head => (&each[..], "batch, tokens, heads of v"),
            Decay::Channel => (
                &of_channels[..],
                "batch, tokens, heads of v, width of a key",
            ),
        };
        require!(
            g.as_slice() == expected,
            "{OP}: g is {:?}, but must be {expected:?} with {}: {axes}",
            g.as_slice(),
            self.key
        );
        if let Some(scale) = self.settings.scale {
            require!(
                (scale as f32).is_finite(),
                "{OP}: the scale is {scale}, but must be a finite number in f32"
            );
        }
        sequences::check(OP, (&self.lengths, self.key.lengths), [batch, tokens])?;
        sequences::check_states(OP, &self.sizes().states())?;
        if let Some(state) = &self.state {
            let found: [usize; 4] = operands::dims(OP, "the state", state)?;
            let expected = self.sizes().states();
            require!(
                found == expected,
                "{OP}: the state is {found:?}, but must be {expected:?}: sequences, heads of v, width of \
                 a key, width of a value"
            );
        }
        Ok(())
    }

    /// Returns the sizes of the axes.
    pub fn sizes(&self) -> Sizes {
        let [batch, tokens, key_heads, key_width] = self.q.shape().dims();
        let [_, _, heads, value_width] = self.v.shape().dims();
        Sizes {
            batch,
            tokens,
            key_heads,
            heads,
            key_width,
            value_width,
            decays: match self.key.decay {
                Decay::Head => 1,
                Decay::Channel => key_width,
            },
            sequences: sequences::count(&self.lengths, batch),
        }
    }

    fn results(&self) -> [Like; 2] {
        let states = Shape::new(self.sizes().states());
        let dtype = self.q.dtype();
        [(self.v.shape(), dtype), (states, compute_dtype(dtype))]
    }

    fn saved(&self) -> [Saved; 1] {
        let shape = Shape::new(self.sizes().inverses());
        let like = (shape, compute_dtype(self.q.dtype()));
        [Saved::in_shape("the inverted triangles", like)]
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(inputs: Inputs, settings: Settings, key: GatedDeltaRuleKey) -> Self {
        checked(Self::new(
            inputs.q.into_dispatch(),
            inputs.k.into_dispatch(),
            inputs.v.into_dispatch(),
            match inputs.g {
                Decays::Heads(g) => g.into_dispatch(),
                Decays::Channels(g) => g.into_dispatch(),
            },
            inputs.beta.into_dispatch(),
            inputs.state.map(Tensor::into_dispatch),
            settings,
            inputs.lengths,
            key,
        ))
    }

    pub(crate) fn into_inputs(self) -> Inputs {
        Inputs {
            q: Tensor::from_dispatch(self.q),
            k: Tensor::from_dispatch(self.k),
            v: Tensor::from_dispatch(self.v),
            g: match self.key.decay {
                Decay::Head => Decays::Heads(Tensor::from_dispatch(self.g)),
                Decay::Channel => Decays::Channels(Tensor::from_dispatch(self.g)),
            },
            beta: Tensor::from_dispatch(self.beta),
            state: self.state.map(Tensor::from_dispatch),
            lengths: self.lengths,
        }
    }
}

/// Returns the operands' facts. Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check(
    inputs: &Inputs,
    settings: Settings,
    key: GatedDeltaRuleKey,
) -> Operands<Facts> {
    checked(Operands::new(
        Facts::from(&inputs.q),
        Facts::from(&inputs.k),
        Facts::from(&inputs.v),
        match &inputs.g {
            Decays::Heads(g) => Facts::from(g),
            Decays::Channels(g) => Facts::from(g),
        },
        Facts::from(&inputs.beta),
        inputs.state.as_ref().map(Facts::from),
        settings,
        inputs.lengths.clone(),
        key,
    ))
}
