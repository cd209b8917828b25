use crate::ops::moe::router::{Routing, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{Correction, Grouping, MoeBlockKey, RouterKey, SemanticsKey, SharedExpert};
use crate::verify::case::{Case, Computation, Computed, Layout, Variant, vary};

/// A router on `[tokens, experts, choices, 1]`.
#[derive(Clone, Copy)]
struct Router {
    key: RouterKey,
}

/// The number of groups, and the number of groups that a token chooses from.
const GROUPS: (usize, usize) = (4, 2);

const SCALE: f64 = 2.5;

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    all().map(|(variant, shape, layout)| Case::new(variant, shape, layout))
}

/// Returns the routers of all supported models.
fn all() -> impl Iterator<Item = (Router, [usize; 4], Layout)> {
    let ungrouped = vary(RouterKey::DEEPSEEK_V3, |key| key.grouping = Grouping::None);
    let keys = [
        RouterKey::QWEN2_MOE,
        RouterKey::QWEN3_MOE,
        RouterKey::MIXTRAL,
        RouterKey::DEEPSEEK_V2,
        RouterKey::DEEPSEEK_V2_GROUPS,
        RouterKey::DEEPSEEK_V3,
        ungrouped,
        RouterKey::LLAMA4,
        RouterKey::GPT_OSS,
    ];
    let shapes = [[7, 64, 8, 1], [33, 16, 2, 1], [1, 1, 1, 1], [0, 8, 2, 1]];
    let contiguous = shapes.map(|shape| (shape, Layout::Contiguous));
    let strided = [Layout::Transposed, Layout::Sliced].map(|layout| ([5, 24, 3, 1], layout));
    keys.into_iter().flat_map(move |key| {
        let all = contiguous.into_iter().chain(strided);
        // A single expert can't be divided into groups.
        let fits = move |shape: &[usize; 4]| key.grouping == Grouping::None || shape[1] > 1;
        all.filter(move |(shape, _)| fits(shape))
            .map(move |(shape, layout)| (Router { key }, shape, layout))
    })
}

impl Variant for Router {
    fn kernel(&self) -> &'static KernelSpec {
        crate::ops::moe::experts::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        MoeBlockKey::new(self.key, SharedExpert::None).into()
    }

    fn describe(&self, [tokens, experts, choices, _]: [usize; 4], layout: &str) -> String {
        format!("{tokens} tokens, {choices} of {experts} experts{layout}")
    }

    fn compute(
        &self,
        [tokens, experts, choices, _]: [usize; 4],
        at: &Computation<'_>,
    ) -> Result<Vec<Computed>, Reason> {
        let (leaf, logits) = at.leaf("logits", [tokens, experts]);
        let corrected = self.key.correction == Correction::Bias;
        let bias = corrected.then(|| at.plain("bias", [experts]));
        let routing = self.routing(experts, choices);
        let routed = if at.fused {
            fused(logits, bias, &routing)?
        } else {
            reference(logits, bias, &routing)
        };
        let weights = routed.weights;
        let dtype = weights.dtype();
        let dw = at.plain("dw", [tokens, choices]).cast(dtype);
        let grads = (weights.clone() * dw).sum().backward();
        Ok(vec![
            Computed::new("weights", Some(weights)),
            // Indices are compared exactly.
            Computed::new("experts", Some(routed.indices.float()))
                .rounded(0)
                .sum_of(0.0),
            // With one choice, renormalisation cancels the gradient.
            Computed::new("d_logits", leaf.grad(&grads))
                .sum_of(SCALE * at.largest("dw", [tokens, choices])),
        ])
    }
}

impl Router {
    fn routing(self, experts: usize, choices: usize) -> Routing {
        let routing = Routing::new(self.key, experts, choices);
        let routing = match self.key.grouping {
            Grouping::None => routing,
            Grouping::Max | Grouping::TopTwo => {
                routing.and_then(|routing| routing.limited_to_groups(GROUPS.0, GROUPS.1))
            }
        };
        let scaled = routing.and_then(|routing| routing.scaled(SCALE));
        scaled.expect("the numbers of a case fit together")
    }
}
