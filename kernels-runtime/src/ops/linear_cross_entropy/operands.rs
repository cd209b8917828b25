use super::{Gradients, Inputs};
use crate::ops::compute_dtype;
#[cfg(feature = "remote")]
use crate::ops::cross_entropy::BYTES_OF_A_TOKEN;
use crate::ops::cross_entropy::{Settings, loss_of, one_target_each};
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{LinearCrossEntropyKey, LossReduction, OutputLayout, Shift};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

pub(super) const OP: &str = "Linear cross-entropy";

operands! {
    /// The checked operands of a linear cross-entropy. `F` is the type of float tensors, `I` that of integer tensors.
    Operands<F, I>
    floats {
        /// Returns the hidden states, `[tokens, width]`.
        hidden: One,
        /// Returns the weight, `[classes, width]` or `[width, classes]`.
        weight: One,
        /// Returns the bias, `[classes]`.
        bias: Maybe,
    }
    ints {
        /// Returns the class of each token, `[tokens]`.
        targets,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the variant to compute.
        key: LinearCrossEntropyKey,
        /// Returns the sizes of the axes.
        sizes: Sizes,
    }
}

pub use kernels_simd::linear_cross_entropy::{Sizes, Wanted};

/// Returns a bound on the bytes that a kernel on the CPU holds besides the results: the logits of a chunk, copies of
/// its hidden states, each group's share of their gradient, sums for each token and group, and the gradient of the
/// weight before it is rounded.
#[cfg(feature = "remote")]
pub(super) fn room(sizes: Sizes, bytes: usize) -> usize {
    let chunk = sizes.chunk(bytes);
    let logits = chunk.saturating_mul(sizes.classes);
    let shares = chunk
        .saturating_mul(sizes.width)
        .saturating_mul(Sizes::GROUPS + 4);
    let all = sizes.tokens.saturating_add(sizes.classes);
    let gradients = all.saturating_mul(sizes.width.saturating_add(1));
    let numbers = logits.saturating_add(shares).saturating_add(gradients);
    let of_groups = chunk
        .saturating_mul(Sizes::GROUPS + 2)
        .saturating_add(sizes.tokens);
    let of_tokens = of_groups.saturating_mul(BYTES_OF_A_TOKEN);
    numbers.saturating_mul(bytes).saturating_add(of_tokens)
}

impl<F: Described, I: Described> Operands<F, I> {
    /// Makes the operands. The shapes are those of [`Inputs`]; the bias and the cap must be present exactly if the key
    /// has them.
    ///
    /// # Errors
    /// Returns an error if the operands don't match the key, if the shapes don't fit together, if the targets are not
    /// integers, or if a number is out of its range.
    pub fn new(
        hidden: F,
        weight: F,
        bias: Option<F>,
        targets: I,
        settings: Settings,
        key: LinearCrossEntropyKey,
    ) -> Result<Self, Mismatch> {
        settings.check(OP, key.cap, key)?;
        require!(
            bias.is_some() == (key.shift == Shift::Bias),
            "{OP}: a bias is {}, but the semantics are {key}",
            if bias.is_some() { "given" } else { "missing" }
        );
        let [tokens, width] = operands::dims(OP, "the tensor of hidden states", &hidden)?;
        let axes: [usize; 2] = operands::dims(OP, "the weight", &weight)?;
        let [classes, inputs] = match key.layout {
            OutputLayout::OutputMajor => axes,
            OutputLayout::InputMajor => [axes[1], axes[0]],
        };
        require!(
            inputs == width,
            "{OP}: the weight, {axes:?}, takes {inputs} elements with {key}, but hidden states have {width}"
        );
        if let Some(bias) = &bias {
            let [elements] = operands::dims(OP, "the bias", bias)?;
            require!(
                elements == classes,
                "{OP}: the bias has {elements} elements, but there are {classes} classes"
            );
        }
        one_target_each(OP, tokens, &targets)?;
        Ok(Self {
            hidden,
            weight,
            bias,
            targets,
            settings,
            key,
            sizes: Sizes {
                tokens,
                width,
                classes,
            },
        })
    }

    /// Returns the common dtype of the float tensors.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let bias = self.bias.as_ref().map(|bias| ("the bias", bias));
        let always = [
            ("the hidden states", &self.hidden),
            ("the weight", &self.weight),
        ];
        operands::one_dtype(OP, always.into_iter().chain(bias))
    }

    /// Returns the shape and dtype of the loss.
    pub(crate) fn result(&self) -> (Shape, DType) {
        loss_of(self.key.reduction, self.sizes.tokens, self.hidden.dtype())
    }

    /// Returns the shapes of the wanted gradients.
    #[cfg(any(feature = "gpu", feature = "remote"))]
    pub(crate) fn shapes(&self, wanted: Wanted) -> Gradients<Shape> {
        let bias = self.bias.as_ref().filter(|_| wanted.bias);
        Gradients {
            hidden: wanted.hidden.then(|| self.hidden.shape()),
            weight: wanted.weight.then(|| self.weight.shape()),
            bias: bias.map(Described::shape),
        }
    }

    /// Checks that gradients are wanted of operands that exist, and returns what is kept for them in the forward pass:
    /// all of them for a mean or a sum, in the type that they are computed in. Without a reduction, that of the hidden
    /// states if it is the only one, because each of its rows has one factor; otherwise the backward pass computes
    /// everything again.
    ///
    /// # Errors
    /// Returns an error if the gradient of a missing bias is wanted.
    pub(crate) fn kept(&self, wanted: Wanted) -> Result<Wanted, Mismatch> {
        self.has(wanted)?;
        Ok(match self.key.reduction {
            LossReduction::Mean | LossReduction::Sum => wanted,
            LossReduction::None => Wanted {
                hidden: wanted.hidden && !wanted.weight && !wanted.bias,
                ..Wanted::default()
            },
        })
    }

    fn has(&self, wanted: Wanted) -> Result<(), Mismatch> {
        require!(
            self.bias.is_some() || !wanted.bias,
            "{OP}: the gradient of a bias is wanted, but {} has none",
            self.key
        );
        Ok(())
    }

    /// Adds `dy`, the gradient of the loss.
    ///
    /// # Errors
    /// Returns an error if `dy` does not have the shape and dtype of the loss, if the gradient of a missing bias is
    /// wanted, or if dtypes differ.
    pub fn backward(self, dy: F, wanted: Wanted) -> Result<Backward<F, I>, Mismatch> {
        self.dtype()?;
        let (shape, wide) = self.result();
        operands::like(OP, ("dy", &dy), ("the loss", &shape, wide))?;
        self.has(wanted)?;
        Ok(Backward {
            operands: self,
            dy,
            wanted,
        })
    }
}

impl Operands<DispatchTensor, DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(inputs: Inputs, settings: Settings, key: LinearCrossEntropyKey) -> Self {
        checked(Self::new(
            inputs.hidden.into_dispatch(),
            inputs.weight.into_dispatch(),
            inputs.bias.map(Tensor::into_dispatch),
            inputs.targets.into_dispatch(),
            settings,
            key,
        ))
    }

    pub(crate) fn into_inputs(self) -> Inputs {
        Inputs {
            hidden: Tensor::from_dispatch(self.hidden),
            weight: Tensor::from_dispatch(self.weight),
            bias: self.bias.map(Tensor::from_dispatch),
            targets: Tensor::from_dispatch(self.targets),
        }
    }
}

backward! {
    /// The operands of the backward pass, if the forward pass kept no gradients.
    Backward<F, I> of Operands<F, I> {
        /// Returns the gradient of the loss.
        dy: F,
    }
    wanted {
        /// Returns the gradients that are wanted.
        wanted: Wanted
    }
}

/// The gradients that the forward pass kept, and the gradient of the loss or the losses, by which they are multiplied.
#[derive(Clone, Debug)]
pub struct Kept<T> {
    gradients: Gradients<T>,
    dy: T,
    dtype: DType,
}

impl<T: Described> Kept<T> {
    /// Makes the operands. The gradients are in the type that `dtype`, the type of the results, is computed in, and so
    /// is `dy`, the gradient of the loss: `[1]`, or `[tokens]` if that of the hidden states is the only gradient.
    ///
    /// # Errors
    /// Returns an error if kernels don't take the dtype, or if a tensor has another one or another shape.
    pub fn new(gradients: Gradients<T>, dy: T, dtype: DType) -> Result<Self, Mismatch> {
        let wide = compute_dtype(operands::float(OP, "a gradient", dtype)?);
        let of_tokens = match &gradients {
            Gradients {
                hidden: Some(hidden),
                weight: None,
                bias: None,
            } if dy.shape() != Shape::new([1]) => {
                let [tokens, _] = operands::dims(OP, "the gradient of hidden states", hidden)?;
                Some(tokens)
            }
            _ => None,
        };
        let loss = Shape::new([of_tokens.unwrap_or(1)]);
        operands::like(OP, ("dy", &dy), ("the loss", &loss, wide))?;
        for gradient in gradients.as_ref().all().flatten() {
            require!(
                gradient.dtype() == wide,
                "{OP}: a gradient is kept in {:?}, but {wide:?} is computed in",
                gradient.dtype()
            );
        }
        Ok(Self {
            gradients,
            dy,
            dtype,
        })
    }
}

impl<T> Kept<T> {
    /// Returns the gradients.
    pub fn gradients(&self) -> &Gradients<T> {
        &self.gradients
    }

    /// Returns the gradient of the loss, `[1]`, or `[tokens]`, one for each row of the gradient.
    pub fn dy(&self) -> &T {
        &self.dy
    }

    /// Returns the dtype of the results.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the gradients and the gradient of the loss.
    pub fn into_parts(self) -> (Gradients<T>, T) {
        (self.gradients, self.dy)
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check(inputs: &Inputs, settings: Settings, key: LinearCrossEntropyKey) -> Sizes {
    let facts = checked(Operands::<Facts, Facts>::new(
        (&inputs.hidden).into(),
        (&inputs.weight).into(),
        inputs.bias.as_ref().map(Into::into),
        (&inputs.targets).into(),
        settings,
        key,
    ));
    facts.sizes
}
