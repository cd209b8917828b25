//! Low-rank adapters of projections of experts.

use super::super::Stack;
use crate::low_rank::LowRankExperts;
use crate::ops::same_dtype_as;
use crate::semantics::ExpertLayout;
use burn::tensor::Tensor;

/// Low-rank adapters of one projection of all experts: `scale · (x · a_e) · b_e` is added to the result for the rows `x`
/// of expert `e`. The factors may have a wider dtype than the weights; their products are then in that dtype.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The first factors, `[E, inputs, rank]`.
    pub a: Tensor<3>,
    /// The second factors, `[E, rank, outputs]`.
    pub b: Tensor<3>,
    /// The factor of their products.
    pub scale: f64,
}

impl From<&LowRankExperts> for Adapter {
    fn from(adapter: &LowRankExperts) -> Self {
        Self {
            a: adapter.a.val(),
            b: adapter.b.val(),
            scale: adapter.scale,
        }
    }
}

impl Adapter {
    /// Returns what the adapter of one expert adds to the result for its rows.
    pub(super) fn forward(&self, expert: usize, rows: Tensor<2>) -> Tensor<2> {
        let of = |factors: &Tensor<3>| Stack::<3, 2>::from(factors.clone()).expert(expert);
        self.compute(rows, |x, factors| x.matmul(of(factors)))
    }

    /// Returns what the adapters add to the result for the rows `x`, with a function that multiplies rows by factors.
    pub(super) fn compute(
        &self,
        x: Tensor<2>,
        product: impl Fn(Tensor<2>, &Tensor<3>) -> Tensor<2>,
    ) -> Tensor<2> {
        let dtype = x.dtype();
        // The factor goes where elements are fewest.
        let inner = product(same_dtype_as(x, self.a.dtype()), &self.a).mul_scalar(self.scale);
        same_dtype_as(product(inner, &self.b), dtype)
    }

    /// Returns the adapters of some experts, in this order, detached from their graph.
    pub(super) fn of_experts(&self, experts: &[usize]) -> Self {
        let of = |factors: &Tensor<3>| {
            let factors = factors.clone().detach();
            let each = experts.iter().map(|e| factors.clone().narrow(0, *e, 1));
            Tensor::cat(each.collect(), 0)
        };
        Self {
            a: of(&self.a),
            b: of(&self.b),
            scale: self.scale,
        }
    }

    /// Checks that the adapters are those of experts with weights of this shape.
    ///
    /// # Panics
    /// Panics if they are not.
    #[track_caller]
    pub(super) fn check(&self, experts: usize, weight: [usize; 2], layout: ExpertLayout) {
        let [inputs, outputs] = match layout {
            ExpertLayout::Linear => [weight[1], weight[0]],
            ExpertLayout::Matmul => weight,
        };
        let (a, b) = (self.a.dims(), self.b.dims());
        let rank = a[2];
        assert!(
            a == [experts, inputs, rank] && b == [experts, rank, outputs],
            "experts: the factors of the adapters are {a:?} and {b:?}, but {experts} experts of {inputs} inputs and \
             {outputs} outputs need [{experts}, {inputs}, r] and [{experts}, r, {outputs}]"
        );
        assert!(
            self.a.dtype() == self.b.dtype(),
            "experts: the factors of the adapters have two dtypes"
        );
    }
}
