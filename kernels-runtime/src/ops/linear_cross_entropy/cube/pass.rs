//! A pass over all tokens, chunk by chunk.

use super::kernels::{self, Factors};
use super::matrix::{
    MULTIPLE, add, add_product, dense, part, product, rows_of, turned, write_product,
};
use super::{BYTES, LOGITS, PRODUCT};
use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, element_of, uninitialised, units, vector_size, zeros,
};
use crate::gpu::rows::{self, Parts};
use crate::ops::cross_entropy::cube::kernels::Terms;
use crate::ops::cross_entropy::cube::numbers;
use crate::ops::linear_cross_entropy::{Gradients, Operands, Sizes, Wanted};
use crate::semantics::{LossReduction, OutputLayout};
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::kernel::cast;
use burn_cubecl::tensor::CubeTensor;
use std::ops::Range;

/// Blocks of classes have a multiple of so many, so that a part of a weight in a half type begins where kernels can bind it.
const BLOCK: usize = 2 * MULTIPLE;

/// A call, with its tensors in layouts that kernels read.
pub(super) struct Pass<'a> {
    operands: &'a Operands<CubeTensor, CubeTensor>,
    hidden: CubeTensor,
    /// The weight, `[width, classes]`.
    weight: CubeTensor,
    bias: Option<CubeTensor>,
    classes: CubeTensor,
}

/// The tokens of a chunk, and the gradient of their logits.
struct Slopes {
    tokens: Range<usize>,
    of_logits: CubeTensor,
}

impl<'a> Pass<'a> {
    pub(super) fn new(operands: &'a Operands<CubeTensor, CubeTensor>) -> Self {
        let weight = match operands.key().layout {
            OutputLayout::OutputMajor => turned(operands.weight().clone()),
            OutputLayout::InputMajor => operands.weight().clone(),
        };
        Self {
            hidden: contiguous(operands.hidden().clone()),
            weight: dense(weight),
            bias: operands.bias().cloned().map(contiguous),
            classes: contiguous(operands.targets().clone()),
            operands,
        }
    }

    /// Returns the class of each token.
    pub(super) fn classes(&self) -> &CubeTensor {
        &self.classes
    }

    fn sizes(&self) -> Sizes {
        self.operands.sizes()
    }

    /// Returns the losses of all tokens and, with the factors of their gradients, the wanted gradients, all in f32.
    pub(super) fn run(
        &self,
        factors: Option<CubeTensor>,
        wanted: Wanted,
    ) -> (CubeTensor, Gradients<CubeTensor>) {
        let Sizes { tokens, .. } = self.sizes();
        let losses = uninitialised(&self.hidden, Shape::new([tokens]));
        let factors = factors.map(contiguous);
        let gradients = self.unwritten(wanted);
        for tokens in self.chunks() {
            let hidden = rows_of(&self.hidden, tokens.clone());
            let of_logits = self.logits(hidden);
            self.write_losses(&of_logits, &tokens, factors.clone(), &losses);
            let slopes = Slopes { tokens, of_logits };
            self.write_gradients(&slopes, &gradients);
        }
        (losses, gradients)
    }

    /// Returns the tokens of each chunk.
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> {
        let Sizes {
            tokens, classes, ..
        } = self.sizes();
        let together = (LOGITS / BYTES / classes.max(1) / MULTIPLE).max(1) * MULTIPLE;
        let starts = (0..tokens).step_by(together);
        starts.map(move |start| start..(start + together).min(tokens))
    }

    /// Returns tensors for the wanted gradients: zeros where no product writes.
    fn unwritten(&self, wanted: Wanted) -> Gradients<CubeTensor> {
        let Sizes {
            tokens,
            width,
            classes,
        } = self.sizes();
        let is_empty = tokens * width * classes == 0;
        let matrix = |shape| match is_empty {
            true => zeros(&self.hidden, shape),
            false => uninitialised(&self.hidden, shape),
        };
        let shapes = self.operands.shapes(wanted);
        Gradients {
            hidden: shapes.hidden.map(matrix),
            weight: shapes.weight.map(matrix),
            bias: shapes.bias.map(|shape| zeros(&self.hidden, shape)),
        }
    }

    /// Returns the logits of a chunk, without the bias.
    fn logits(&self, hidden: CubeTensor) -> CubeTensor {
        let [tokens, width] = hidden.shape().dims();
        let classes = self.sizes().classes;
        match width * classes {
            // An argument of a kernel has to have elements.
            0 => zeros(&hidden, Shape::new([tokens, classes.max(1)])),
            _ => product(hidden, self.weight.clone()),
        }
    }

    /// Writes the losses of a chunk, and with factors the gradient of its logits in their place.
    fn write_losses(
        &self,
        logits: &CubeTensor,
        tokens: &Range<usize>,
        factors: Option<CubeTensor>,
        losses: &CubeTensor,
    ) {
        let (classes, settings) = (self.sizes().classes, self.operands.settings());
        let size = vector_size(&[classes]);
        let vectors = classes / size;
        let units = units(vectors);
        let of = match (&factors, self.operands.key().reduction) {
            (None, _) => Factors::None,
            (Some(_), LossReduction::None) => Factors::Each,
            (Some(_), LossReduction::Mean | LossReduction::Sum) => Factors::Shared,
        };
        let bias = self.bias.clone().filter(|_| vectors > 0);
        let bias = bias.map(CubeTensor::into_buffer_arg);
        // SAFETY: there are `vectors` vectors of logits for each token of the chunk, and as many of the bias. Classes and
        // losses have a number for each token of the call, which the chunk is a part of, and so have factors if each token has
        // its own. A class is below the number of elements of the vectors, as `of_targets` makes them. A cube touches the
        // numbers of its token alone, and cubes beyond the tokens end at once.
        unsafe {
            kernels::losses::launch_unchecked(
                &logits.client,
                cubes(logits, tokens.len()),
                dim(units),
                size,
                logits.clone().into_buffer_arg(),
                bias.into(),
                self.classes.clone().into_buffer_arg(),
                factors.map(CubeTensor::into_buffer_arg).into(),
                losses.clone().into_buffer_arg(),
                numbers(tokens.len(), vectors, settings),
                tokens.start,
                Terms::of(settings),
                of,
                units,
                element_of(&self.hidden),
            );
        }
    }

    /// Writes the gradients of a chunk, and adds them to those of the chunks before.
    fn write_gradients(&self, slopes: &Slopes, gradients: &Gradients<CubeTensor>) {
        let Sizes { width, classes, .. } = self.sizes();
        if let (Some(bias), 1..) = (&gradients.bias, classes) {
            slopes.add_bias(bias);
        }
        if width * classes == 0 {
            return;
        }
        if let Some(hidden) = &gradients.hidden {
            self.write_hidden(slopes, &part(hidden, 0, slopes.tokens.clone()));
        }
        if let Some(weight) = &gradients.weight {
            let (of_logits, hidden) = (slopes.of_logits.clone(), self.counted(&slopes.tokens));
            let (left, right) = match self.operands.key().layout {
                OutputLayout::OutputMajor => (turned(of_logits), hidden),
                OutputLayout::InputMajor => (turned(hidden), of_logits),
            };
            match slopes.tokens.start {
                0 => write_product(left, right, weight.clone()),
                _ => add_product(&left, &right, weight, PRODUCT / BYTES),
            }
        }
    }

    /// Writes the gradient of the hidden states of a chunk: the sum of the products with the weights of some classes at a time,
    /// as numbers in f32. The gradients of logits, which a half type might not hold, are multiplied as they are.
    fn write_hidden(&self, slopes: &Slopes, rows: &CubeTensor) {
        for classes in self.blocks() {
            let of_logits = part(&slopes.of_logits, 1, classes.clone());
            let weight = cast(part(&self.weight, 1, classes.clone()), DType::F32);
            match classes.start {
                0 => write_product(of_logits, turned(weight), rows.clone()),
                _ => add_product(&of_logits, &turned(weight), rows, PRODUCT / BYTES),
            }
        }
    }

    /// Returns the classes whose weights are in memory as numbers in f32 together: all of them if they are such numbers.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let Sizes { width, classes, .. } = self.sizes();
        let together = match self.weight.dtype {
            DType::F32 => classes,
            _ => (PRODUCT / BYTES / width / BLOCK).max(1) * BLOCK,
        };
        let starts = (0..classes).step_by(together);
        starts.map(move |start| start..(start + together).min(classes))
    }

    /// Returns the hidden states of a chunk in f32, with zeros for those of ignored tokens.
    fn counted(&self, tokens: &Range<usize>) -> CubeTensor {
        let width = self.sizes().width;
        let counted = uninitialised(&self.hidden, Shape::new([tokens.len(), width]));
        let size = vector_size(&[width]);
        let vectors = width / size;
        let all = tokens.len() * vectors;
        let (cubes, dim) = cubes_of(&self.hidden, units(all), all);
        // SAFETY: the hidden states have `vectors` vectors for each token of the call, the copy for each of the chunk, and
        // there is a class for each token of the call. Units beyond the vectors of the chunk end at once.
        unsafe {
            kernels::counted::launch_unchecked(
                &self.hidden.client,
                cubes,
                dim,
                size,
                self.hidden.clone().into_buffer_arg(),
                self.classes.clone().into_buffer_arg(),
                counted.clone().into_buffer_arg(),
                tokens.start,
                tokens.len(),
                vectors,
                element_of(&self.hidden),
            );
        }
        counted
    }
}

impl Slopes {
    /// Adds to the gradient of the bias.
    fn add_bias(&self, bias: &CubeTensor) {
        let [classes] = bias.shape().dims();
        let parts = Parts::of(self.tokens.len());
        let sums = uninitialised(bias, Shape::new([parts.count, classes]));
        let size = vector_size(&[classes]);
        let vectors = classes / size;
        let (cubes, dim) = parts.cubes(vectors);
        // SAFETY: there are `vectors` vectors of slopes for each token of the chunk, and of sums for each part. Units beyond
        // the vectors end at once, and a part ends with the tokens.
        unsafe {
            kernels::sum_parts::launch_unchecked(
                &bias.client,
                cubes,
                dim,
                size,
                self.of_logits.clone().into_buffer_arg(),
                sums.clone().into_buffer_arg(),
                self.tokens.len(),
                parts.rows,
                vectors,
            );
        }
        add(bias, rows::sum(sums));
    }
}
