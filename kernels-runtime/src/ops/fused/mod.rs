//! Operations as their declarations describe them.
//!
//! `operation!` declares an operation: its tensors, whether each is always there, and its numbers. The
//! operands, the gradients, the wire format and the autodiff step follow from it, and are the same code for every operation:
//!
//! * [`FusedOp`]: what generic code knows of an operation;
//! * [`FusedKernel`]: the kernels of one backend, forward and backward;
//! * [`run`]: runs them on tensors of Burn's dispatch, with autodiff or without;
//! * `record`: the step of autodiff;
//! * `remote`: the client and the server's handlers.
//!
//! An operation adds its arithmetic, the check of its shapes, and its reference.

mod backward;
pub(crate) mod declare;
pub(crate) mod flags;
pub(crate) mod inputs;
pub(crate) mod kinds;
mod launch;
mod made;
#[cfg(feature = "remote")]
pub(crate) mod packaged;
mod parts;
pub(crate) mod record;
#[cfg(feature = "remote")]
pub(crate) mod remote;
mod results;

#[cfg(feature = "gpu")]
pub(crate) use backward::Pieces;
pub use backward::{Backward, Given};
#[cfg(feature = "packages")]
pub(crate) use launch::Held;
pub use launch::{OfDispatch, OnDispatch, OpLaunch, run};
pub(crate) use launch::{There, run_there, there};
pub use made::Made;
pub(crate) use parts::{Cursor, parts_of};
pub use parts::{Internal, Kind, Parts};

use crate::ops::Mismatch;
use crate::ops::operands::{Described, checked};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Shape};
use burn::tensor::DType;
use serde::Serialize;
use serde::de::DeserializeOwned;
use smallvec::SmallVec;
use std::fmt::Debug;

/// The shape and dtype of a tensor that does not exist yet.
pub type Like = (Shape, DType);

/// A tensor that a forward pass keeps for the backward pass.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The name in sentences, such as `the mean`.
    pub name: &'static str,
    /// The shape and dtype.
    pub like: Like,
    /// The permitted difference from that shape.
    pub extent: Extent,
}

/// The difference that a backend's tensor may have from the one that the operation describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Nothing.
    Shape,
    /// Nothing, unless the tensor is empty, `[0]`, because the backend keeps nothing. Its backward pass has to check that.
    ShapeOrNothing,
    /// The axes. There are as many elements.
    Elements,
    /// The number of rows, which may be smaller. The backend's backward pass has to check that.
    AtMost,
}

impl Saved {
    fn new(name: &'static str, like: Like, extent: Extent) -> Self {
        Self { name, like, extent }
    }

    /// Describes a tensor of exactly this shape.
    pub fn in_shape(name: &'static str, like: Like) -> Self {
        Self::new(name, like, Extent::Shape)
    }

    /// Describes a tensor of exactly this shape, or an empty one, `[0]`, if a backend keeps nothing.
    pub fn or_nothing(name: &'static str, like: Like) -> Self {
        Self::new(name, like, Extent::ShapeOrNothing)
    }

    /// Describes a tensor of exactly this many elements. Backends may differ in axes of one element.
    pub fn exactly(name: &'static str, like: Like) -> Self {
        Self::new(name, like, Extent::Elements)
    }

    /// Describes a tensor of which a backend may keep fewer rows, whose number its backward pass has to check.
    pub fn at_most(name: &'static str, like: Like) -> Self {
        Self::new(name, like, Extent::AtMost)
    }

    /// Returns `true` if a tensor is one that a backend keeps.
    pub(crate) fn fits(&self, found: &impl Described) -> bool {
        let ((shape, dtype), of_found) = (&self.like, found.shape());
        let in_extent = match self.extent {
            Extent::Shape => of_found == *shape,
            Extent::ShapeOrNothing => of_found == *shape || of_found.as_slice() == [0],
            Extent::Elements => of_found.num_elements() == shape.num_elements(),
            Extent::AtMost => backward::has_rows_of(&of_found, shape),
        };
        in_extent && found.dtype() == *dtype
    }
}

/// A fused operation. `operation!` implements it.
pub trait FusedOp: Copy + Debug + Send + Sync + 'static {
    /// The name, as servers and kernels state it, such as `layer_norm`.
    const NAME: &'static str;
    /// The name of the forward pass in messages to servers and in streams of Burn's fusion.
    const FORWARD: &'static str;
    /// The name of the backward pass.
    const BACKWARD: &'static str;
    /// The name in sentences, such as `LayerNorm`.
    const TITLE: &'static str;
    /// The id of the kernel, which spans of its gradient have.
    const KERNEL: &'static str;
    /// The kinds of the float tensors, in order.
    const KINDS: &'static [Kind];
    /// The names of the float tensors, in order, as the declaration has them.
    const TENSORS: &'static [&'static str];
    /// The number of integer tensors.
    const INTS: usize;
    /// The number of tensors that the forward pass keeps for the backward pass.
    const SAVED: usize;
    /// The number of float results besides the first.
    const OTHERS: usize;
    /// True if gradients flow through these other results too.
    const DIFFERENTIABLE: bool;
    /// True if a graph with gradient checkpointing computes the result again in place of keeping it.
    const RECOMPUTED: bool;
    /// True if kernels add the gradient of the first operand that other operations have computed to their own.
    const ADDS: bool;
    /// False for an operation without a backward pass of its own: an optimiser's step, or one whose gradients are steps of
    /// other operations.
    const HAS_GRADIENT: bool;

    /// The checked operands, with float tensors `F` and integer tensors `I`.
    type Operands<F, I>;
    /// A value for each float tensor.
    type Each<T>: Clone
    where
        T: Clone;
    /// The numbers of a call.
    type Numbers: Clone + Debug + Send + Sync + Serialize + DeserializeOwned + 'static;

    /// Takes operands apart.
    fn into_parts<F, I>(operands: Self::Operands<F, I>) -> Parts<F, I, Self::Numbers>;

    /// Puts operands together that were taken apart, without a check.
    fn from_parts<F, I>(
        parts: Parts<F, I, Self::Numbers>,
        internal: Internal,
    ) -> Self::Operands<F, I>;

    /// Returns the float tensors, in order.
    fn floats<F, I>(operands: &Self::Operands<F, I>) -> SmallVec<[&F; 5]>;

    /// Returns the bytes that kernels need besides operands and results, as far as they can't be derived from those.
    fn room<F: Described, I: Described>(operands: &Self::Operands<F, I>) -> usize;

    /// As [`room`](Self::room), for the backward pass.
    fn room_backward<F: Described, I: Described>(
        operands: &Self::Operands<F, I>,
        wanted: &Self::Each<bool>,
    ) -> usize;

    /// Returns the [lengths](Parts::lengths) of operands.
    fn lengths<F, I>(operands: &Self::Operands<F, I>) -> SmallVec<[usize; 4]>;

    /// Checks that the operands go together.
    ///
    /// # Errors
    /// Returns an error that names the operation and the operand.
    fn check<F: Described, I: Described>(operands: &Self::Operands<F, I>) -> Result<(), Mismatch>;

    /// Returns the dtype of the float tensors.
    ///
    /// # Errors
    /// Returns an error if kernels don't take their dtypes together.
    fn dtype<F: Described, I: Described>(
        operands: &Self::Operands<F, I>,
    ) -> Result<DType, Mismatch>;

    /// Describes the results: those of floats, then those of integers.
    fn results<F: Described, I: Described>(operands: &Self::Operands<F, I>) -> SmallVec<[Like; 2]>;

    /// Describes what the forward pass keeps for the backward pass besides the operands.
    fn saved<F: Described, I: Described>(operands: &Self::Operands<F, I>) -> SmallVec<[Saved; 2]>;

    /// Returns `true` if the backward pass reads the float tensor at this place, given which gradients are wanted. One that
    /// it does not read has the shape and dtype of the result, whose gradient then stands in its place.
    fn keeps(place: usize, wanted: &Self::Each<bool>) -> bool;

    /// Gives each float tensor that is there its value, in order, and those that are missing the default.
    fn each<T: Clone + Default>(
        values: impl IntoIterator<Item = T>,
        lengths: &[usize],
    ) -> Self::Each<T>;

    /// Returns the values of the tensors that are there, in order.
    fn values<T: Clone>(each: Self::Each<T>, lengths: &[usize]) -> SmallVec<[T; 5]>;
}

/// The operands of a call as tensors of a backend.
pub type Tensors<O, B> = <O as FusedOp>::Operands<FloatTensor<B>, IntTensor<B>>;

/// The results of a forward pass on a backend.
pub type MadeOn<B> = Made<FloatTensor<B>, IntTensor<B>>;

/// The operands of a backward pass as tensors of a backend.
pub type BackwardOn<O, B> = Backward<O, FloatTensor<B>, IntTensor<B>>;

/// The gradients of the float tensors. Those that are not wanted may be missing.
pub type Gradients<O, B> = <O as FusedOp>::Each<Option<FloatTensor<B>>>;

/// The kernels of an operation on a backend, forward and backward.
pub trait FusedKernel<O: FusedOp>: Backend {
    /// Returns the results and, if gradients are `wanted`, what the backward pass needs of the forward pass.
    ///
    /// # Panics
    /// Panics if kernels don't take the dtypes of the operands.
    fn forward(operands: Tensors<O, Self>, wanted: Option<&O::Each<bool>>) -> MadeOn<Self>;

    /// Returns the wanted gradients. By default, the operation has none, as an optimiser's step.
    ///
    /// # Panics
    /// Panics as [`forward`](Self::forward) does, and if the operation has no gradients.
    fn backward(_: BackwardOn<O, Self>) -> Gradients<O, Self> {
        panic!("{} has no gradients", O::TITLE)
    }

    /// Returns the wanted gradients. `before`, the gradient of the first operand by other operations, is added to that of
    /// this one.
    ///
    /// # Panics
    /// Panics if `before` is not like the first operand, or if its gradient is not wanted.
    fn backward_added(
        backward: BackwardOn<O, Self>,
        before: FloatTensor<Self>,
    ) -> Gradients<O, Self> {
        checked(backward.check_before(&before));
        let lengths = backward.lengths();
        let gradients = O::values(Self::backward(backward), &lengths);
        let mut before = Some(before);
        let gradients = gradients.into_iter().map(|gradient| match before.take() {
            Some(before) => gradient.map(|gradient| Self::float_add(gradient, before)),
            None => gradient,
        });
        O::each(gradients, &lengths)
    }
}
