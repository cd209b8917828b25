use smallvec::SmallVec;

/// The results of a forward pass.
#[derive(Clone, Debug)]
pub struct Made<F, I = F> {
    /// The result.
    pub y: F,
    /// Other results, which have no gradient unless the operation is declared as differentiable in them.
    pub others: SmallVec<[F; 2]>,
    /// The results of integers.
    pub ints: SmallVec<[I; 1]>,
    /// The tensors that the backward pass needs besides the operands.
    pub saved: SmallVec<[F; 2]>,
}

impl<F, I> Made<F, I> {
    /// Makes a result without anything else.
    pub fn new(y: F) -> Self {
        Self {
            y,
            others: SmallVec::new(),
            ints: SmallVec::new(),
            saved: SmallVec::new(),
        }
    }

    /// Adds the tensors that the backward pass needs.
    #[must_use]
    pub fn saving(mut self, saved: impl IntoIterator<Item = F>) -> Self {
        self.saved.extend(saved);
        self
    }

    /// Adds other results.
    #[must_use]
    pub fn and(mut self, others: impl IntoIterator<Item = F>) -> Self {
        self.others.extend(others);
        self
    }

    /// Adds a result of integers.
    #[must_use]
    pub fn and_ints(mut self, ints: I) -> Self {
        self.ints.push(ints);
        self
    }

    /// Replaces each tensor by another one of the same shape.
    pub(crate) fn map<G, J>(
        self,
        mut float: impl FnMut(F) -> G,
        int: impl FnMut(I) -> J,
    ) -> Made<G, J> {
        Made {
            y: float(self.y),
            others: self.others.into_iter().map(&mut float).collect(),
            ints: self.ints.into_iter().map(int).collect(),
            saved: self.saved.into_iter().map(float).collect(),
        }
    }
}
