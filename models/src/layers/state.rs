//! The state of linear attention, kept from one step of decoding to the next.

use burn::tensor::{DType, Tensor};
use burn_kernels::nn::CacheError;

use crate::layers::wide::at_least_f32;

/// The state of a layer of linear attention after some tokens.
#[derive(Clone, Debug)]
pub(crate) struct DeltaState {
    /// The last inputs of the convolution, `[b, K − 1, channels]`.
    pub(crate) inputs: Tensor<3>,
    /// The states of the heads, `[b, heads, key width, value width]`, in at least `f32`.
    pub(crate) heads: Tensor<4>,
}

/// The shapes of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeltaShapes {
    pub(crate) inputs: [usize; 3],
    pub(crate) heads: [usize; 4],
}

impl DeltaState {
    /// Returns the state before the first token, for inputs like `inputs`.
    fn zeros(inputs: &Tensor<3>, shapes: DeltaShapes) -> Self {
        let (device, dtype) = (inputs.device(), inputs.dtype());
        let wide = DType::from(at_least_f32(dtype));
        Self {
            inputs: Tensor::zeros(shapes.inputs, (&device, dtype)),
            heads: Tensor::zeros(shapes.heads, (&device, wide)),
        }
    }

    /// Checks that inputs like `inputs` can go on from this state.
    fn check(&self, inputs: &Tensor<3>, shapes: DeltaShapes) -> Result<(), CacheError> {
        let own = DeltaShapes {
            inputs: self.inputs.dims(),
            heads: self.heads.dims(),
        };
        let (kept, new) = (&self.inputs, inputs);
        if own == shapes && kept.dtype() == new.dtype() && kept.device() == new.device() {
            return Ok(());
        }
        Err(CacheError::Mismatch(format!(
            "the state of linear attention is {:?} on {:?}, of inputs {:?} and heads {:?}, but the tokens need {:?} on \
             {:?}, of inputs {:?} and heads {:?}: it is of another model or batch",
            kept.dtype(),
            kept.device(),
            own.inputs,
            own.heads,
            new.dtype(),
            new.device(),
            shapes.inputs,
            shapes.heads
        )))
    }
}

/// The state of a layer of linear attention, and the number of tokens that it has taken. Unlike keys, a state can't
/// forget its last tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateCache {
    kept: Option<DeltaState>,
    positions: usize,
}

impl StateCache {
    /// Returns the number of tokens that were taken.
    pub(crate) fn positions(&self) -> usize {
        self.positions
    }

    /// Returns the last inputs of the convolution and the states of the heads, if tokens were taken.
    pub(crate) fn kept(&self) -> Option<(Tensor<3>, Tensor<4>)> {
        let kept = self.kept.clone()?;
        Some((kept.inputs, kept.heads))
    }

    /// Forgets all tokens and releases the memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the tokens after the first `positions`, if `positions` is 0 or there are no such tokens. Otherwise
    /// returns `false` and changes nothing.
    pub(crate) fn cut(&mut self, positions: usize) -> bool {
        if positions == 0 {
            self.clear();
        }
        positions >= self.positions
    }

    /// Returns the state of these shapes that inputs like `inputs` go on from.
    ///
    /// # Errors
    /// Returns an error if the kept state does not go with the inputs.
    pub(crate) fn state(
        &self,
        inputs: &Tensor<3>,
        shapes: DeltaShapes,
    ) -> Result<DeltaState, CacheError> {
        let Some(kept) = &self.kept else {
            return Ok(DeltaState::zeros(inputs, shapes));
        };
        kept.check(inputs, shapes)?;
        Ok(kept.clone())
    }

    /// Keeps the state after further tokens.
    pub(crate) fn keep(&mut self, state: DeltaState, tokens: usize) {
        self.kept = Some(state);
        self.positions += tokens;
    }
}
