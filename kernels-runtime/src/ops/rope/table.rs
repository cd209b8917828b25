use burn::module::Param;
use burn::tensor::Tensor;

/// A table of cosines or sines: `[s, d]` for all sequences, `[1, s, d]` or `[b, s, d]`, or with
/// an axis for the heads, `[1, 1, s, d]` or `[b, 1, s, d]`; by value, by reference or as a
/// parameter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of a rotary position embedding",
    label = "expected `Tensor<2>` [s, d], `Tensor<3>` [1 or b, s, d], `Tensor<4>` [1 or b, 1, s, d], or a `Param` of one"
)]
pub trait RopeTable {
    /// The table as `[1 or b, s, d]`.
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
        let [b, heads, s, d] = self.dims();
        assert!(
            heads == 1,
            "RoPE: a table of rank 4 has one head, [b, 1, s, d]; this one is [{b}, {heads}, {s}, {d}]"
        );
        self.reshape([b, s, d])
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
