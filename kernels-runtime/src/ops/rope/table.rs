use burn::module::Param;
use burn::tensor::Tensor;

/// A table of cosines or sines: `[s, w]` for all sequences, `[1, s, w]` or `[b, s, w]`, or with
/// an axis for the heads, `[1 or b, 1, s, w]` or `[1 or b, s, 1, w]`; by value, by reference or as
/// a parameter. Its [layout](crate::semantics::TableLayout) defines its width and the order of its elements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of a rotary position embedding",
    label = "expected `Tensor<2>` [s, d], `Tensor<3>` [1 or b, s, d], `Tensor<4>` [1 or b, 1, s, d], or a `Param` of one"
)]
pub trait RopeTable {
    /// Returns the table as `[1 or b, s, d]`.
    fn rows(self) -> Tensor<3>;
}

impl RopeTable for Tensor<2> {
    fn rows(self) -> Tensor<3> {
        self.unsqueeze()
    }
}

impl RopeTable for Tensor<3> {
    fn rows(self) -> Tensor<3> {
        self
    }
}

impl RopeTable for Tensor<4> {
    fn rows(self) -> Tensor<3> {
        let heads = match self.dims() {
            [_, 1, _, _] => 1,
            [_, _, 1, _] => 2,
            other => panic!(
                "RoPE: a table of rank 4 has one head, [b, 1, s, w] or [b, s, 1, w]; this one is \
                 {other:?}"
            ),
        };
        self.squeeze_dim(heads)
    }
}

impl<const D: usize> RopeTable for &Tensor<D>
where
    Tensor<D>: RopeTable,
{
    fn rows(self) -> Tensor<3> {
        self.clone().rows()
    }
}

impl<const D: usize> RopeTable for Param<Tensor<D>>
where
    Tensor<D>: RopeTable,
{
    fn rows(self) -> Tensor<3> {
        self.val().rows()
    }
}

impl<const D: usize> RopeTable for &Param<Tensor<D>>
where
    Tensor<D>: RopeTable,
{
    fn rows(self) -> Tensor<3> {
        self.val().rows()
    }
}
