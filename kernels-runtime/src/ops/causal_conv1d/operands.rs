use crate::ops::attention::Lengths;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::ops::sequences;
use crate::semantics::{CausalConv1dKey, Shift};
use burn::backend::Shape;
use kernels_simd::causal_conv::WIDTHS;

const OP: &str = "Causal convolution";

operation! {
    /// A short causal convolution of channels. The last inputs are a result besides, and both have gradients.
    CausalConv1d {
        name: "causal_conv1d",
        title: "Causal convolution",
        kernel: "npu_fused_causal_conv1d",
        saved: 0,
        others: 1,
        differentiable: true,
        room: room,
        room_backward: room_backward,
    }
    /// The checked operands of a short causal convolution.
    Operands<T> {
        /// The inputs, `[batch, tokens, channels]`.
        x: One "x",
        /// The weights, `[channels, K]`. The last belongs to the token itself.
        weight: One "the weight",
        /// The bias, `[channels]`.
        bias: Maybe "the bias" if |of| of.key.shift == Shift::Bias,
        /// The inputs before the first tokens, `[sequences, K − 1, channels]`.
        state: Maybe "the state" if |of| sequences::has_state(of.key.state),
    }
    numbers {
        /// The lengths of packed sequences.
        lengths: Lengths,
        /// The variant to compute.
        key: CausalConv1dKey,
    }
}

/// Returns the number of tasks of a call: each has up to 256 channels of a sequence.
fn tasks<T: Described>(operands: &Operands<T>) -> usize {
    let Sizes {
        channels,
        sequences,
        ..
    } = operands.sizes();
    sequences.saturating_mul(channels.div_ceil(256))
}

/// Returns at least the bytes of what describes the tasks.
fn room<T: Described>(operands: &Operands<T>) -> usize {
    tasks(operands).saturating_mul(512)
}

/// Returns at least the bytes of the sums of all tasks, which have nine rows of 256 channels in f64 and f32.
fn room_backward<T: Described>(operands: &Operands<T>, _: &Each<bool>) -> usize {
    tasks(operands).saturating_mul(9 * 256 * 12 + 512)
}

/// The sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of rows of the batch.
    pub batch: usize,
    /// The number of tokens of a row.
    pub tokens: usize,
    /// The number of channels.
    pub channels: usize,
    /// The number of weights of a channel, `K`.
    pub width: usize,
    /// The number of sequences.
    pub sequences: usize,
}

impl Sizes {
    /// Returns the shape of the result.
    pub fn result(self) -> [usize; 3] {
        [self.batch, self.tokens, self.channels]
    }

    /// Returns the shape of the states.
    pub fn states(self) -> [usize; 3] {
        [self.sequences, self.width - 1, self.channels]
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let [batch, tokens, channels] = operands::dims(OP, "x", &self.x)?;
        let [weights, width] = operands::dims(OP, "the weight", &self.weight)?;
        require!(
            weights == channels,
            "{OP}: the weight is {:?}, but x has {channels} channels",
            [weights, width]
        );
        require!(
            WIDTHS.contains(&width),
            "{OP}: a channel has {width} weights, but must have {} to {}",
            WIDTHS.start(),
            WIDTHS.end()
        );
        if let Some(bias) = &self.bias {
            let [elements] = operands::dims(OP, "the bias", bias)?;
            require!(
                elements == channels,
                "{OP}: the bias has {elements} elements, but x has {channels} channels"
            );
        }
        sequences::check(OP, (&self.lengths, self.key.lengths), [batch, tokens])?;
        sequences::check_states(OP, &self.sizes().states())?;
        if let Some(state) = &self.state {
            let (found, expected) = (
                operands::dims(OP, "the state", state)?,
                self.sizes().states(),
            );
            require!(
                found == expected,
                "{OP}: the state is {found:?}, but must be {expected:?}: sequences, weights of a channel minus \
                 one, channels"
            );
        }
        Ok(())
    }

    /// Returns the sizes of the axes.
    pub fn sizes(&self) -> Sizes {
        let [batch, tokens, channels] = self.x.shape().dims();
        let [_, width] = self.weight.shape().dims();
        Sizes {
            batch,
            tokens,
            channels,
            width,
            sequences: sequences::count(&self.lengths, batch),
        }
    }

    fn results(&self) -> [Like; 2] {
        let sizes = self.sizes();
        [sizes.result(), sizes.states()].map(|shape| (Shape::new(shape), self.x.dtype()))
    }

    fn saved(&self) -> [Saved; 0] {
        []
    }
}
