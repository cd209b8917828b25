use smallvec::SmallVec;

/// The number of tensors of a declared operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One tensor.
    One,
    /// One tensor or none.
    Maybe,
    /// A list of tensors.
    List,
    /// A list of lists of tensors.
    Lists,
}

impl Kind {
    /// Returns `true` for lists, whose tensors share a node of the autodiff graph.
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Self::List | Self::Lists)
    }
}

/// Permission to put operands together without a check. Only this crate has it.
#[derive(Clone, Copy, Debug)]
pub struct Internal(pub(crate) ());

/// Operands that were taken apart.
#[derive(Clone, Debug)]
pub struct Parts<F, I, N> {
    /// The float tensors, in order.
    pub floats: SmallVec<[F; 5]>,
    /// The integer tensors, in order.
    pub ints: SmallVec<[I; 2]>,
    /// The numbers of tensors that the kinds of the operands leave open: 0 or 1 for one that may be missing, the length of
    /// a list, and for a list of lists the number of lists and the length of each.
    pub lengths: SmallVec<[usize; 4]>,
    /// The numbers of the call.
    pub numbers: N,
}

impl<F, I, N> Parts<F, I, N> {
    /// Replaces each tensor by another one of the same shape.
    pub(crate) fn map<G, J>(
        self,
        float: impl FnMut(F) -> G,
        int: impl FnMut(I) -> J,
    ) -> Parts<G, J, N> {
        Parts {
            floats: self.floats.into_iter().map(float).collect(),
            ints: self.ints.into_iter().map(int).collect(),
            lengths: self.lengths,
            numbers: self.numbers,
        }
    }
}

impl<T, N> Parts<T, T, N> {
    /// Replaces each tensor by another one of the same shape, first those of floats.
    #[cfg(any(feature = "gpu", feature = "npu"))]
    pub(crate) fn map_all<U>(self, mut each: impl FnMut(T) -> U) -> Parts<U, U, N> {
        Parts {
            floats: self.floats.into_iter().map(&mut each).collect(),
            ints: self.ints.into_iter().map(&mut each).collect(),
            lengths: self.lengths,
            numbers: self.numbers,
        }
    }
}

/// Reads values of tensors in order, into the form that operands have.
#[derive(Debug)]
pub struct Cursor<'l, V> {
    values: V,
    lengths: std::slice::Iter<'l, usize>,
}

impl<'l, T, V: Iterator<Item = T>> Cursor<'l, V> {
    /// Starts at the first value.
    pub fn new(values: impl IntoIterator<IntoIter = V>, lengths: &'l [usize]) -> Self {
        Self {
            values: values.into_iter(),
            lengths: lengths.iter(),
        }
    }

    /// Reads the value of one tensor.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn one(&mut self) -> T {
        self.values.next().expect("a value for each tensor")
    }

    fn length(&mut self) -> usize {
        *self.lengths.next().expect("a length for each open operand")
    }

    /// Reads the value of a tensor that may be missing.
    pub fn maybe(&mut self) -> Option<T> {
        (self.length() == 1).then(|| self.one())
    }

    /// Reads the values of a list.
    pub fn list(&mut self) -> Vec<T> {
        (0..self.length()).map(|_| self.one()).collect()
    }

    /// Reads the values of a list of lists.
    pub fn lists(&mut self) -> Vec<Vec<T>> {
        (0..self.length()).map(|_| self.list()).collect()
    }
}

/// Returns for each tensor that is there the kind of its operand.
pub(crate) fn parts_of(kinds: &[Kind], lengths: &[usize]) -> SmallVec<[Kind; 5]> {
    let mut lengths = lengths.iter().copied();
    let mut next = || lengths.next().expect("a length for each open operand");
    let mut found = SmallVec::new();
    for &kind in kinds {
        let count = match kind {
            Kind::One => 1,
            Kind::Maybe | Kind::List => next(),
            Kind::Lists => (0..next()).map(|_| next()).sum(),
        };
        found.extend(std::iter::repeat_n(kind, count));
    }
    found
}
