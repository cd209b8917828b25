use super::Rows;
use crate::registry::Implementation;
use burn::module::Param;
use burn::tensor::Tensor;

/// Something that holds floating-point tensors: the operands of a kernel, or its results.
pub trait Tensors {
    /// Shows every floating-point tensor to the visitor, which may replace it.
    ///
    /// ```
    /// # use burn::tensor::Tensor;
    /// # use kernels_runtime::kernel::{Tensors, Visitor};
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
    /// The order and the names are the same at every call. Tensors of integers and booleans are
    /// not shown: they have no gradient and no precision.
    fn visit(&mut self, visitor: &mut impl Visitor);
}

/// What is done with every tensor of [`Tensors`]. Authors of kernels call it and don't implement it.
pub trait Visitor {
    /// Called with every tensor and its name.
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>);

    /// The same for the tensor of a parameter.
    fn param<const D: usize>(&mut self, name: &'static str, param: &mut Param<Tensor<D>>) {
        let mut tensor = param.val();
        self.tensor(name, &mut tensor);
        *param = Param::initialized(param.id, tensor);
    }
}

/// The operands of one call of a kernel, and what it computes of them.
pub trait Operands: Tensors + Clone + Send + Sync + 'static {
    /// The result: a tensor, a tuple of tensors, or a type of your own.
    type Output: Tensors + Clone;

    /// The definition, composed of plain tensor operations on any backend. Implementations are
    /// verified against it, forward and gradients, computed in f64.
    fn reference(self) -> Self::Output;

    /// Runs an implementation of the kernel, one that dispatch has found for these tensors.
    fn launch(self, implementation: &'static Implementation) -> Self::Output;

    /// The same call on some of its rows, if row `i` of every result depends on row `i` of the
    /// operands alone. Live verification then compares these in place of the whole call, and the
    /// same rows of what the kernel returned: along an axis where the sample's results are shorter,
    /// those that [`Rows`] takes.
    ///
    /// ```
    /// # use burn::tensor::Tensor;
    /// # use kernels_runtime::kernel::Rows;
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
    /// `None`, the default: the whole call is compared.
    fn sample(&self, _rows: Rows) -> Option<Self> {
        None
    }

    /// Appends rows of other numbers along the first axis of every operand that has rows, and says
    /// how many slices they are. They show what the numbers of a run may hide, such as an epsilon
    /// beside large ones. They are judged apart from the others. By default there are none.
    fn with_probes(self) -> (Self, usize) {
        (self, 0)
    }

    /// The same call with its results rounded in another order on half types, and that order's
    /// name, where the key names an order. A body whose results are those of the other order is
    /// told. By default there is none.
    fn in_other_order(&self) -> Option<(Self, &'static str)> {
        None
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
