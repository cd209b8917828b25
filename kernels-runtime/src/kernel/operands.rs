use super::Rows;
use crate::registry::Implementation;
use burn::backend::DispatchTensor;
use burn::module::Param;
use burn::tensor::Tensor;

/// A value that contains floating-point tensors: the operands of a kernel, or its results.
pub trait Tensors {
    /// Passes every floating-point tensor to the visitor, which may replace it.
    ///
    /// ```
    /// # extern crate kernels_runtime as burn_kernels;
    /// # use burn::tensor::Tensor;
    /// # use burn_kernels::kernel::{Tensors, Visitor};
    /// struct Operands<const D: usize> {
    ///     x: Tensor<D>,
    ///     cap: f64,
    /// }
    ///
    /// impl<const D: usize> Tensors for Operands<D> {
    ///     fn visit(&mut self, visitor: &mut impl Visitor) {
    ///         visitor.tensor("x", &mut self.x);
    ///     }
    /// }
    /// ```
    ///
    /// The order and the names must be the same in every call. Tensors of integers and booleans are not passed, because
    /// they have no gradient and no precision.
    fn visit(&mut self, visitor: &mut impl Visitor);
}

/// A function that is applied to every tensor of [`Tensors`]. Authors of kernels call it and don't implement it.
pub trait Visitor {
    /// Visits a tensor of any rank with its name.
    fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor);

    /// Visits a tensor with its name.
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>)
    where
        Self: Sized,
    {
        // A second handle of the tensor lives only until its visit ends.
        let mut erased = tensor.clone().into_dispatch();
        self.visit(name, &mut erased);
        *tensor = Tensor::from_dispatch(erased);
    }

    /// Visits the tensor of a parameter.
    fn param<const D: usize>(&mut self, name: &'static str, param: &mut Param<Tensor<D>>)
    where
        Self: Sized,
    {
        let mut tensor = param.val();
        self.tensor(name, &mut tensor);
        *param = Param::initialized(param.id, tensor);
    }
}

/// The operands of one call of a kernel, and the computation on them.
pub trait Operands: Tensors + Clone + Send + Sync + 'static {
    /// The result: a tensor, a tuple of tensors, or a type of your own.
    type Output: Tensors + Clone;

    /// Computes the definition, composed of plain tensor operations on any backend. Implementations are verified
    /// against it, forward and gradients, in f64. Where terms of a result or a gradient may cancel, mark them by
    /// [`rounded`](super::rounded), so that what their roundings leave does not count as a mistake.
    fn reference(self) -> Self::Output;

    /// Runs an implementation of the kernel that dispatch chose for these tensors.
    fn launch(self, implementation: &'static Implementation) -> Self::Output;

    /// Returns the same call on some of its rows, if row `i` of every result depends only on row `i` of the operands.
    /// Live verification then compares these rows in place of the whole call. It also compares the same rows of the
    /// kernel's result: along each axis where the sample's results are shorter, the rows that [`Rows`] takes.
    ///
    /// ```
    /// # extern crate kernels_runtime as burn_kernels;
    /// # use burn::tensor::Tensor;
    /// # use burn_kernels::kernel::Rows;
    /// # #[derive(Clone)]
    /// # struct SoftCap<const D: usize> {
    /// #     x: Tensor<D>,
    /// #     cap: f64,
    /// # }
    /// # impl<const D: usize> SoftCap<D> {
    /// fn sample(&self, rows: Rows) -> Option<Self> {
    ///     let x = rows.of(&self.x);
    ///     Some(Self { x, ..self.clone() })
    /// }
    /// # }
    /// ```
    ///
    /// The default is `None`: the whole call is compared.
    fn sample(&self, _rows: Rows) -> Option<Self> {
        None
    }

    /// Returns `true` if [`sample`](Self::sample) takes the first rows along each axis in place of those that [`Rows`]
    /// takes, for operations in which a row depends on those before it. The default is `false`.
    fn samples_prefix(&self) -> bool {
        false
    }

    /// Returns `true` if the result of a [`sample`](Self::sample) is not a part of the whole call's, as the mean of some
    /// rows is not. Live verification then compares the kernel, the body and the reference on the sample alone. The
    /// default is `false`.
    fn samples_apart(&self) -> bool {
        false
    }

    /// Returns the largest sum of magnitudes of terms that an element of a result comes from, where these may be much larger
    /// than the result, as the logits of a small loss are. Live verification allows a kernel 16 roundings of f32 (of f64 in
    /// f64) of it in addition, if it is finite. It asks operands in f64. The default is 0: the results are as large as
    /// their terms, or their elements are so many that the reference's largest error shows what the terms cost.
    fn terms(&self) -> f64 {
        0.0
    }

    /// Returns the size of the terms that an element of the gradient of an operand comes from, for an upstream gradient
    /// of ones, where these may be much larger than the gradient. It is used as [`terms`](Self::terms) is, and the
    /// default is 0 as well.
    fn gradient_terms(&self, operand: &str) -> f64 {
        let _ = operand;
        0.0
    }

    /// Returns a number that differs between calls that a body may compute in different ways, though their tensors have the
    /// same names, dtypes and ranks, such as calls with and without a list of lengths. Live verification checks the first
    /// call of each such kind. The default is 0.
    fn variant(&self) -> u64 {
        0
    }

    /// Appends rows of other numbers along the first axis of every operand that has rows, and returns the number of
    /// these rows. They reveal mistakes that the numbers of a run may hide, such as a wrong epsilon, which has no
    /// effect on large numbers. They are judged separately. By default, no rows are appended.
    fn with_probes(self) -> (Self, usize) {
        (self, 0)
    }

    /// Returns the same call with its results rounded in another order on half types, and the name of that order, if
    /// the key states an order. Live verification reports a body whose results follow the other order. The default is
    /// `None`.
    fn in_other_order(&self) -> Option<(Self, &'static str)> {
        None
    }

    /// Returns the number that is added to a variance or a mean square, if the kernel has one. Live verification names
    /// it, and the one that a body uses, where they differ. The default is `None`.
    fn epsilon(&self) -> Option<f64> {
        None
    }

    /// Returns the same call with another [`epsilon`](Self::epsilon). The default is `None`.
    fn with_epsilon(&self, _epsilon: f64) -> Option<Self> {
        None
    }
}

/// A tensor of any rank.
impl Tensors for DispatchTensor {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.visit("y", self);
    }
}

impl<const D: usize> Tensors for Tensor<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("y", self);
    }
}

impl<const A: usize, const B: usize> Tensors for (Tensor<A>, Tensor<B>) {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("y.0", &mut self.0);
        visitor.tensor("y.1", &mut self.1);
    }
}

impl<const A: usize, const B: usize, const C: usize> Tensors for (Tensor<A>, Tensor<B>, Tensor<C>) {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("y.0", &mut self.0);
        visitor.tensor("y.1", &mut self.1);
        visitor.tensor("y.2", &mut self.2);
    }
}
