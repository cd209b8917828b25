use super::{FusedOp, parts_of};
#[cfg(any(feature = "gpu", feature = "npu"))]
use super::{Internal, Parts};
use crate::ops::Mismatch;
use crate::ops::operands::{Described, integers, like, require};
use burn::backend::Shape;
use smallvec::SmallVec;
use std::fmt;

/// The checked operands of a backward pass.
pub struct Backward<O: FusedOp, F, I = F> {
    operands: O::Operands<F, I>,
    lengths: SmallVec<[usize; 4]>,
    dy: F,
    others: SmallVec<[F; 1]>,
    saved: SmallVec<[F; 2]>,
    ints: SmallVec<[I; 1]>,
    wanted: O::Each<bool>,
}

impl<O: FusedOp, F, I> fmt::Debug for Backward<O, F, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backward")
            .field("operation", &O::NAME)
            .finish_non_exhaustive()
    }
}

impl<O: FusedOp, F, I> Backward<O, F, I> {
    /// Returns the operands of the forward pass.
    pub fn operands(&self) -> &O::Operands<F, I> {
        &self.operands
    }

    /// Returns the gradient of the result.
    pub fn dy(&self) -> &F {
        &self.dy
    }

    /// Returns the gradients of the other results, or nothing if these have none.
    pub fn others(&self) -> &[F] {
        &self.others
    }

    /// Returns the tensors that the forward pass kept, in the order of its declaration.
    ///
    /// # Panics
    /// Panics if that is another number of tensors.
    pub fn saved<const N: usize>(&self) -> &[F; N] {
        let saved = self.saved.as_slice();
        saved
            .try_into()
            .expect("as many tensors as the operation declares")
    }

    /// The same, however many there are.
    #[cfg(feature = "gpu")]
    pub(crate) fn all_saved(&self) -> &[F] {
        &self.saved
    }

    /// Returns the integers that the forward pass returned.
    pub fn ints(&self) -> &[I] {
        &self.ints
    }

    /// Returns a flag for each gradient: true if it is wanted.
    pub fn wanted(&self) -> &O::Each<bool> {
        &self.wanted
    }

    /// Asks for other gradients.
    pub(crate) fn wanting(self, wanted: O::Each<bool>) -> Self {
        Self { wanted, ..self }
    }

    pub(crate) fn lengths(&self) -> SmallVec<[usize; 4]> {
        self.lengths.clone()
    }

    /// Replaces the operands by others of the same float tensors.
    #[cfg(feature = "gpu")]
    pub(crate) fn with_operands(
        self,
        replace: impl FnOnce(O::Operands<F, I>) -> O::Operands<F, I>,
    ) -> Self {
        Self {
            operands: replace(self.operands),
            ..self
        }
    }

    /// Takes everything apart.
    #[cfg(any(feature = "gpu", feature = "npu"))]
    pub(crate) fn pieces(self) -> Pieces<F, I, O::Numbers> {
        Pieces {
            wanted: O::values(self.wanted, &self.lengths),
            parts: O::into_parts(self.operands),
            given: Given {
                dy: self.dy,
                others: self.others,
                saved: self.saved,
                ints: self.ints,
            },
        }
    }

    /// Puts operands together again that were checked when they were taken apart.
    #[cfg(any(feature = "gpu", feature = "npu"))]
    pub(crate) fn of_pieces(pieces: Pieces<F, I, O::Numbers>) -> Self {
        let lengths = pieces.parts.lengths.clone();
        Self {
            wanted: O::each(pieces.wanted, &lengths),
            lengths,
            operands: O::from_parts(pieces.parts, Internal(())),
            dy: pieces.given.dy,
            others: pieces.given.others,
            saved: pieces.given.saved,
            ints: pieces.given.ints,
        }
    }

    /// Takes the operands apart: those of the forward pass, the gradient of the result, what was kept, and what is wanted.
    #[allow(clippy::type_complexity)] // It is all that there is.
    pub fn into_parts(
        self,
    ) -> (
        O::Operands<F, I>,
        F,
        SmallVec<[F; 2]>,
        SmallVec<[I; 1]>,
        O::Each<bool>,
    ) {
        (self.operands, self.dy, self.saved, self.ints, self.wanted)
    }
}

/// The tensors of a backward pass besides the operands.
#[derive(Clone, Debug)]
pub struct Given<F, I = F> {
    /// The gradient of the result.
    pub dy: F,
    /// The gradients of the other results. There are none if the operation has none.
    pub others: SmallVec<[F; 1]>,
    /// The tensors that the forward pass kept.
    pub saved: SmallVec<[F; 2]>,
    /// The integers that the forward pass returned.
    pub ints: SmallVec<[I; 1]>,
}

impl<F, I> Given<F, I> {
    /// The gradient of the result, where the forward pass kept nothing.
    pub fn new(dy: F) -> Self {
        Self {
            dy,
            others: SmallVec::new(),
            saved: SmallVec::new(),
            ints: SmallVec::new(),
        }
    }

    /// Adds the gradients of the other results.
    #[must_use]
    pub fn and(mut self, others: impl IntoIterator<Item = F>) -> Self {
        self.others.extend(others);
        self
    }

    /// Adds what the forward pass kept.
    #[must_use]
    pub fn saving(mut self, saved: impl IntoIterator<Item = F>) -> Self {
        self.saved.extend(saved);
        self
    }
}

/// The operands of a backward pass that were taken apart.
#[cfg(any(feature = "gpu", feature = "npu"))]
#[derive(Clone, Debug)]
pub(crate) struct Pieces<F, I, N> {
    pub(crate) parts: Parts<F, I, N>,
    given: Given<F, I>,
    pub(crate) wanted: SmallVec<[bool; 5]>,
}

#[cfg(any(feature = "gpu", feature = "npu"))]
impl<T, N> Pieces<T, T, N> {
    /// Replaces each integer tensor by another one of the same shape.
    #[cfg(feature = "gpu")]
    pub(crate) fn map_ints(self, mut each: impl FnMut(T) -> T) -> Self {
        Self {
            given: Given {
                ints: self.given.ints.into_iter().map(&mut each).collect(),
                ..self.given
            },
            parts: self.parts.map(|tensor| tensor, each),
            wanted: self.wanted,
        }
    }

    /// Replaces each tensor by another one of the same shape.
    pub(crate) fn map_all<U>(self, mut each: impl FnMut(T) -> U) -> Pieces<U, U, N> {
        Pieces {
            parts: self.parts.map_all(&mut each),
            given: Given {
                dy: each(self.given.dy),
                others: self.given.others.into_iter().map(&mut each).collect(),
                saved: self.given.saved.into_iter().map(&mut each).collect(),
                ints: self.given.ints.into_iter().map(&mut each).collect(),
            },
            wanted: self.wanted,
        }
    }
}

/// Returns whether a tensor has rows like those of another one, and not more of them.
pub(super) fn has_rows_of(found: &Shape, most: &Shape) -> bool {
    match (found.as_slice(), most.as_slice()) {
        ([rows, row @ ..], [most, of @ ..]) => rows <= most && row == of,
        _ => false,
    }
}

impl<O: FusedOp, F: Described, I: Described> Backward<O, F, I> {
    /// Adds what the forward pass gave to its operands, with a flag for each float tensor whose gradient is wanted.
    ///
    /// # Errors
    /// Returns an error if the dtypes of the operands differ, if a tensor does not have the shape and dtype that it has by
    /// the operands, or if there are more flags than tensors.
    pub fn new(
        operands: O::Operands<F, I>,
        given: Given<F, I>,
        wanted: &[bool],
    ) -> Result<Self, Mismatch> {
        O::dtype(&operands)?;
        let title = O::TITLE;
        let mut results = O::results(&operands).into_iter();
        let (shape, dtype) = results.next().expect("an operation has a result");
        like(title, ("dy", &given.dy), ("the result", &shape, dtype))?;
        let others: SmallVec<[_; 1]> = results.by_ref().take(O::OTHERS).collect();
        let gradients = if O::DIFFERENTIABLE { O::OTHERS } else { 0 };
        require!(
            given.others.len() == gradients,
            "{title}: {gradients} other results have gradients, but {} are given",
            given.others.len()
        );
        for ((shape, dtype), found) in others.iter().zip(&given.others) {
            let result = ("that result", shape, *dtype);
            like(title, ("the gradient of another result", found), result)?;
        }
        let saved = O::saved(&operands);
        require!(
            saved.len() == given.saved.len() && results.len() == given.ints.len(),
            "{title}: the forward pass keeps {} tensors and returns {} of integers, but {} and {} are given",
            saved.len(),
            results.len(),
            given.saved.len(),
            given.ints.len()
        );
        for (saved, found) in saved.iter().zip(&given.saved) {
            let (name, (shape, dtype)) = (saved.name, &saved.like);
            require!(
                saved.fits(found),
                "{title}: {name} is {:?} of {:?}, but must be like {:?} of {dtype:?}",
                found.shape().as_slice(),
                found.dtype(),
                shape.as_slice()
            );
        }
        for ((shape, _), found) in results.zip(&given.ints) {
            integers(title, "the integers of the result", found.dtype())?;
            require!(
                found.shape() == shape,
                "{title}: the integers of the result are {:?}, but must be {:?}",
                found.shape().as_slice(),
                shape.as_slice()
            );
        }
        let lengths = O::lengths(&operands);
        let tensors = parts_of(O::KINDS, &lengths).len();
        require!(
            wanted.len() == tensors,
            "{title}: {} gradients are wanted or not, but there are {tensors} tensors",
            wanted.len()
        );
        Ok(Self {
            wanted: O::each(wanted.iter().copied(), &lengths),
            lengths,
            operands,
            dy: given.dy,
            others: given.others,
            saved: given.saved,
            ints: given.ints,
        })
    }

    /// Checks the gradient of the first operand by other operations, to which that of this one is added.
    ///
    /// # Errors
    /// Returns an error if it does not have the shape and dtype of the first operand, or if the gradient of that is not
    /// wanted, so that the sum would be lost.
    pub(crate) fn check_before(&self, before: &F) -> Result<(), Mismatch> {
        let title = O::TITLE;
        let wanted = O::values(self.wanted.clone(), &self.lengths);
        require!(
            wanted.first() == Some(&true),
            "{title}: a gradient of the first operand is given, but that of this operation is not wanted"
        );
        let first = O::floats(&self.operands)[0];
        like(
            title,
            ("a gradient of the first operand", before),
            ("the first operand", &first.shape(), first.dtype()),
        )
    }
}
