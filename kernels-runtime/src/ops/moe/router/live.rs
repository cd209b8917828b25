//! The operands of a router as live verification checks them.

use super::{Among, Routed, Routing, mask, reference, settled};
use crate::kernel::{Operands, Rows, Tensors, Visitor, noise_size};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::registry::Implementation;
use burn::tensor::{DType, Device, Tensor};

/// The operands of a router.
#[derive(Clone)]
pub(crate) struct Router {
    pub(crate) logits: Tensor<2>,
    /// The correction of the choice, which has no gradient.
    pub(crate) bias: Option<Tensor<1>>,
    pub(crate) routing: Routing,
}

impl Tensors for Router {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("logits", &mut self.logits);
    }
}

impl Operands for Router {
    type Output = Choice;

    fn reference(mut self) -> Choice {
        // The reference may run on another device, to which only visited tensors are moved.
        let device = self.logits.device();
        self.bias = self.bias.map(|bias| near(bias, &device));
        let of = self.clone();
        let routed = reference(self.logits, self.bias, &self.routing);
        Choice { routed, of }
    }

    fn launch(self, implementation: &'static Implementation) -> Choice {
        let of = self.clone();
        let operands = super::Operands::of(self.logits, self.bias, &self.routing);
        let routed = Routed::from(super::Router::run(operands, implementation));
        Choice { routed, of }
    }

    fn sample(&self, rows: Rows) -> Option<Self> {
        Some(Self {
            logits: rows.more().of(&self.logits),
            ..self.clone()
        })
    }
}

/// Returns a tensor without a gradient on the device, or the tensor itself if it is there.
fn near(tensor: Tensor<1>, device: &Device) -> Tensor<1> {
    match tensor.device().inner() == device.clone().inner() {
        true => tensor,
        false => Tensor::from_data(tensor.to_data(), (device, tensor.dtype())),
    }
}

/// The choice of a router, and the operands that it was made from.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) routed: Routed,
    of: Router,
}

impl Tensors for Choice {
    /// Visits the weights and experts of the tokens whose choice no rounding changes, and zeros for other tokens. Under
    /// noise, tokens whose choice it may change have infinite results and gradients: any choice is right.
    fn visit(&mut self, visitor: &mut impl Visitor) {
        let dtype = self.routed.weights.dtype();
        let mut weights = self.routed.weights.clone();
        let mut experts = self.routed.indices.clone().float().cast(dtype);
        if let Some(mask) = self.mask() {
            weights = weights * mask.clone();
            experts = experts * mask;
        }
        if let Some(noise) = noise_size() {
            let open = self.settled(2.0 * noise).equal_elem(0.0);
            let any = weights.zeros_like().mask_fill(open, f64::INFINITY);
            let all = same_dtype_as(self.of.logits.clone().sum_dim(1), dtype);
            weights = weights + all * any.clone();
            experts = experts + any;
        }
        visitor.tensor("weights", &mut weights);
        visitor.tensor("experts", &mut experts);
    }
}

impl Choice {
    /// Returns a mask of the tokens, `[tokens, 1]`, if experts are compared by their scores, which are rounded. Logits
    /// are compared without rounding, so they need no mask.
    fn mask(&self) -> Option<Tensor<2>> {
        if self.of.routing.chooses_by_logits() {
            return None;
        }
        Some(self.settled(match compute_dtype(self.of.logits.dtype()) {
            DType::F64 => 2.0_f64.powi(-44),
            _ => 2.0_f64.powi(-18),
        }))
    }

    /// Returns ones for the tokens whose choice stays the same if scores are off by `tolerance`, `[tokens, 1]`.
    fn settled(&self, tolerance: f64) -> Tensor<2> {
        let Router {
            logits,
            bias,
            routing,
        } = &self.of;
        let settled = settled(logits, bias.as_ref(), routing, Among::Order, tolerance);
        mask(&settled, &self.routed.weights)
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::kernel::any_rank::flat;
    use crate::live::{VerifyError, verify};
    use crate::ops::fused::{Made, OpLaunch};
    use crate::ops::moe::router;
    use crate::registry::Launch;
    use crate::semantics::RouterKey;
    use burn::backend::DispatchTensor;
    use burn::tensor::{Distribution, Int};

    type Call = router::Operands<DispatchTensor>;
    type Run = fn(Call) -> Made<DispatchTensor>;

    /// Runs the kernel of the CPU.
    fn right(call: Call) -> Made<DispatchTensor> {
        router::Router::run(call, &router::IMPLEMENTATION)
    }

    /// Chooses the experts that score worst.
    fn worst(call: Call) -> Made<DispatchTensor> {
        let mut first = true;
        // The first tensor is the logits.
        right(call.map(|tensor| match std::mem::take(&mut first) {
            true => (-Tensor::<2>::from_dispatch(tensor)).into_dispatch(),
            false => tensor,
        }))
    }

    /// Chooses the right experts, but with the weights of those that score worst.
    fn weights_of_others(call: Call) -> Made<DispatchTensor> {
        Made {
            y: worst(call.clone()).y,
            ..right(call)
        }
    }

    /// Returns the right weights with the next experts.
    fn others(call: Call) -> Made<DispatchTensor> {
        let made = right(call);
        let next = Tensor::<2, Int>::from_dispatch(made.ints[0].clone()).add_scalar(1);
        Made::new(made.y).and_ints(next.into_dispatch())
    }

    fn check(run: Run, router: &Router) -> Result<f64, VerifyError> {
        let run: &'static Run = Box::leak(Box::new(run));
        let launch = router::Launch(OpLaunch::by::<router::Router>(run));
        let implementation = Implementation {
            launch: Launch::MoeBlock(launch),
            ..router::IMPLEMENTATION
        };
        verify(Box::leak(Box::new(implementation)), router)
    }

    fn router(key: RouterKey) -> Router {
        let device = Device::flex().autodiff();
        let random = |shape| Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device);
        let logits: Tensor<2> = random([21, 16]);
        let routing = Routing::new(key, 16, 3).expect("numbers that fit together");
        Router {
            logits,
            bias: None,
            routing,
        }
    }

    #[test]
    fn a_router_that_chooses_or_weighs_otherwise_is_found() {
        let plain = router(RouterKey::QWEN3_MOE);
        let grouped = router(RouterKey::DEEPSEEK_V3);
        let device = grouped.logits.device();
        let grouped = Router {
            bias: Some(Tensor::random([16], Distribution::Default, &device)),
            routing: grouped
                .routing
                .limited_to_groups(4, 2)
                .expect("four groups"),
            ..grouped
        };
        for router in [&plain, &grouped] {
            check(right, router).expect("the kernel is right");
            for wrong in [worst, weights_of_others, others] {
                let error = check(wrong, router).expect_err("it is not");
                assert!(matches!(error, VerifyError::Differs { .. }), "{error}");
            }
        }
    }

    /// Checks a token whose scores are equal in f32, but not in f64.
    #[test]
    fn a_choice_that_rounding_decides_is_not_compared() {
        let device = Device::flex();
        let key = RouterKey {
            grouping: crate::semantics::Grouping::None,
            ..RouterKey::DEEPSEEK_V3
        };
        let router = Router {
            logits: Tensor::from_floats([[0.0, 1e-7, -3.0], [2.0, 0.0, -3.0]], &device),
            bias: Some(Tensor::from_floats([0.0; 3], &device)),
            routing: Routing::new(key, 3, 1).expect("numbers that fit together"),
        };
        check(right, &router).expect("the second token is right");
        let mut choice = router.reference();
        let mut seen = Seen(Vec::new());
        choice.visit(&mut seen);
        assert_eq!(seen.0[0], [0.0, 1.0]);
    }

    struct Seen(Vec<Vec<f32>>);

    impl Visitor for Seen {
        fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
            let values = flat(tensor).into_data().iter::<f32>().collect();
            self.0.push(values);
        }
    }
}
