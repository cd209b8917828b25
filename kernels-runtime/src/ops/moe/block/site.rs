use crate::__private::{CorrectionBias, first_use};
use crate::dispatch::{At, Decision};
use crate::kernel::{self, Operands};
use crate::live::{self, Captured, detached};
use crate::mode::Mode;
use crate::ops::moe::chosen;
use crate::ops::moe::router::{self, Among, Routed, Routing, live as live_router, settled};
use crate::ops::operands::refuse;
use crate::ops::reshape;
use crate::registry::FloatType;
use crate::semantics::{MoeBlockKey, RouterKey};
use burn::tensor::{Int, Tensor, activation::sigmoid};

/// A layer of a block, on `[tokens, hidden]`.
type Layer<'a> = &'a dyn Fn(Tensor<2>) -> Tensor<2>;

/// The experts of a block. The arguments are the tokens, their experts and the experts' weights.
type Experts<'a> = &'a dyn Fn(Tensor<2>, Tensor<2, Int>, Tensor<2>) -> Tensor<2>;

/// The layers and numbers of a sparse block.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    gate: Layer<'a>,
    experts: Experts<'a>,
    top_k: usize,
    num_experts: Option<usize>,
    shared: Option<Layer<'a>>,
    shared_gate: Option<Layer<'a>>,
    correction: Option<&'a dyn CorrectionBias>,
    groups: Option<(usize, usize)>,
    scale: f64,
    first_used: &'a [Part],
    /// True if the layers run on copies, for a check.
    is_detached: bool,
}

/// A part of a block that may hold parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The router's projection.
    Router,
    /// The correction of the router's choice.
    Correction,
    /// The experts that the router chooses.
    Experts,
    /// The shared expert, which processes every token.
    Shared,
    /// The gate of the shared expert.
    SharedGate,
}

const ONCE: &str = "the attribute names each part once, and the router before the experts";

impl<'a> Block<'a> {
    /// Makes a block of the router's projection, the experts, and the number of experts that each token chooses.
    pub const fn new(gate: Layer<'a>, experts: Experts<'a>, top_k: usize) -> Self {
        Self {
            gate,
            experts,
            top_k,
            num_experts: None,
            shared: None,
            shared_gate: None,
            correction: None,
            groups: None,
            scale: 1.0,
            first_used: &[
                Part::Router,
                Part::Correction,
                Part::Experts,
                Part::Shared,
                Part::SharedGate,
            ],
            is_detached: false,
        }
    }

    /// Sets the number of experts, if the layer knows it.
    #[must_use]
    pub const fn num_experts(mut self, count: usize) -> Self {
        self.num_experts = Some(count);
        self
    }

    /// Sets an expert that processes every token.
    #[must_use]
    pub const fn shared(mut self, expert: Layer<'a>) -> Self {
        self.shared = Some(expert);
        self
    }

    /// Sets the gate of the shared expert, which returns one number for each token.
    #[must_use]
    pub const fn shared_gate(mut self, gate: Layer<'a>) -> Self {
        self.shared_gate = Some(gate);
        self
    }

    /// Sets the correction of the choice.
    #[must_use]
    pub const fn correction(mut self, bias: &'a dyn CorrectionBias) -> Self {
        self.correction = Some(bias);
        self
    }

    /// Sets the number of groups, and the number of groups that a token chooses from.
    #[must_use]
    pub const fn groups(mut self, groups: usize, chosen: usize) -> Self {
        self.groups = Some((groups, chosen));
        self
    }

    /// Sets the factor of the routing weights.
    #[must_use]
    pub const fn scale(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    /// Sets the order in which the parts are first used. It must list all parts that exist, and the experts after the
    /// router and its correction.
    #[must_use]
    pub const fn first_used(mut self, parts: &'a [Part]) -> Self {
        self.first_used = parts;
        self
    }

    /// Calls one of the layers.
    fn call<T>(&self, layer: impl FnOnce() -> T) -> T {
        match self.is_detached {
            true => detached::call(layer),
            false => layer(),
        }
    }

    fn bias(&self) -> Option<Tensor<1>> {
        let bias = self.correction.map(CorrectionBias::correction_bias);
        match self.is_detached {
            true => bias.map(Tensor::detach),
            false => bias,
        }
    }

    /// Returns a number that differs between blocks that a body may compute in different ways.
    fn variant(&self) -> u64 {
        let flags = [
            self.top_k == 1,
            self.num_experts == Some(self.top_k),
            self.correction.is_some(),
            self.groups.is_some(),
        ];
        flags
            .iter()
            .fold(0, |bits, flag| bits << 1 | u64::from(*flag))
    }

    /// Returns the router's operands.
    #[track_caller]
    fn router(
        &self,
        logits: Tensor<2>,
        bias: Option<Tensor<1>>,
        key: RouterKey,
    ) -> live_router::Router {
        let experts = logits.dims()[1];
        if let Some(expected) = self.num_experts
            && experts != expected
        {
            refuse(format_args!(
                "npu_fused_moe: the router gives {experts} logits a token, but there are \
                     {expected} experts"
            ));
        }
        let routing = match Routing::new(key, experts, self.top_k)
            .and_then(|routing| match self.groups {
                Some((groups, chosen)) => routing.limited_to_groups(groups, chosen),
                None => Ok(routing),
            })
            .and_then(|routing| routing.scaled(self.scale))
        {
            Ok(routing) => routing,
            Err(error) => refuse(format_args!("npu_fused_moe: {error}")),
        };
        router::check(&logits, bias.as_ref(), &routing);
        live_router::Router {
            logits,
            bias,
            routing,
        }
    }

    /// Computes `experts(x) + shared(x)`, part by part, with the experts that `choose` chooses.
    #[track_caller]
    fn run(
        &self,
        x: &Tensor<2>,
        key: RouterKey,
        choose: impl FnOnce(live_router::Router) -> Routed,
    ) -> Ran {
        let mut choose = Some(choose);
        let (mut logits, mut bias, mut experts) = (None, None, None);
        let (mut shared, mut shared_gate) = (None, None);
        for part in self.first_used {
            match part {
                Part::Router => logits = Some(self.call(|| (self.gate)(x.clone()))),
                Part::Correction => bias = self.bias(),
                Part::Experts => {
                    let (logits, choose) = logits.take().zip(choose.take()).expect(ONCE);
                    let router = self.router(logits, bias.take(), key);
                    let Routed { indices, weights } = choose(router.clone());
                    let logits = router.routing.num_experts();
                    let y = chosen::with(indices, logits, |indices| {
                        self.call(|| (self.experts)(x.clone(), indices, weights))
                    });
                    experts = Some((y, router));
                }
                Part::Shared => {
                    shared = self.shared.map(|expert| self.call(|| expert(x.clone())));
                }
                Part::SharedGate => {
                    shared_gate = self.shared_gate.map(|gate| self.call(|| gate(x.clone())));
                }
            }
        }
        let (y, router) = experts.expect(ONCE);
        let shared = match (shared, shared_gate) {
            (Some(all), Some(gate)) => Some(sigmoid(gate) * all),
            (all, _) => all,
        };
        let y = match shared {
            Some(shared) => y + shared,
            None => y,
        };
        Ran { y, router }
    }

    /// Computes the block with its layers and the router's reference.
    #[track_caller]
    pub(crate) fn composition<const D: usize>(
        &self,
        hidden: Tensor<D>,
        key: MoeBlockKey,
    ) -> Results<D> {
        let (shape, x) = (hidden.dims(), tokens(hidden));
        let ran = self.run(&x, key.router(), |router| router.reference().routed);
        (reshape(ran.y, shape), ran.router.logits)
    }
}

/// The results of a block: its output, and the router's operands.
struct Ran {
    y: Tensor<2>,
    router: live_router::Router,
}

/// The results that a block returns: its output and the router's logits, `[tokens, experts]`.
type Results<const D: usize> = (Tensor<D>, Tensor<2>);

/// Reshapes hidden states to `[tokens, hidden]`.
fn tokens<const D: usize>(hidden: Tensor<D>) -> Tensor<2> {
    let dims = hidden.dims();
    let [before @ .., width] = &dims[..] else {
        refuse("npu_fused_moe: the tokens need an axis of hidden elements");
    };
    let shape = [before.iter().product(), *width];
    reshape(hidden, shape)
}

/// Runs the sparse block of a site. The reference is the user's whole `forward`.
///
/// The choice between the reference and the kernel depends on the input and is made before the layers run, so no
/// path runs them twice. If the router then returns logits that no kernel takes, the router's reference runs.
#[track_caller]
pub fn block<const D: usize>(
    at: At,
    hidden: Tensor<D>,
    block: Block<'_>,
    reference: &mut dyn FnMut(Tensor<D>) -> Results<D>,
) -> (Tensor<D>, Tensor<2>) {
    let _span = at.enter();
    either(&at, hidden, &block, reference)
}

#[track_caller]
fn either<const D: usize>(
    at: &At,
    hidden: Tensor<D>,
    block: &Block<'_>,
    reference: &mut dyn FnMut(Tensor<D>) -> Results<D>,
) -> Results<D> {
    let hidden = hidden.into_dispatch();
    let Decision::Fused(implementation) = at.peek([&hidden]) else {
        at.decide([&hidden]);
        return reference(Tensor::from_dispatch(hidden));
    };
    let mode = Mode::of(&hidden);
    let (hidden, key) = (Tensor::<D>::from_dispatch(hidden), at.key::<MoeBlockKey>());
    if at.runs_body_first() {
        first_use::run(reference, hidden.clone().detach());
    }
    let due = live::composite_is_due(at, mode, &hidden, block.variant());
    let due = due.map(|due| live::Composite {
        x: hidden.clone().into_dispatch(),
        part: live::Compared::Of(match due.width {
            // Only some of these tokens are compared: those whose choice does not depend on rounding.
            live::Width::Rows(rows) => live::Width::Rows(rows.more()),
            live::Width::Whole => live::Width::Whole,
        }),
        due,
    });
    let (shape, x) = (hidden.dims(), tokens(hidden));
    let Ran { y, router } = block.run(&x, key.router(), |router| {
        let mut plain = |router: live_router::Router| router.reference();
        kernel::either(at, router, Captured::These(&[]), &mut plain).routed
    });
    let y = reshape(y, shape);
    if let Some(call) = due {
        let block = &Block {
            is_detached: true,
            ..*block
        };
        let compared = |hidden: &Tensor<D>| {
            let x = tokens(hidden.clone());
            let logits = block.call(|| (block.gate)(x));
            let bias = block.bias();
            Compared::of(&block.router(logits, bias, key.router()), hidden)
        };
        live::composite(
            at.site(),
            implementation,
            call,
            None,
            |hidden| compared(&hidden).only(block.composition(hidden, key)),
            |hidden| {
                let compared = compared(&hidden);
                compared.only(detached::call(|| reference(hidden)))
            },
        );
    }
    (y, router.logits)
}

/// The tokens on which a body is compared with the composition. Their experts are the same, however the body
/// rounds and whichever of equal scores it takes first. The flag is true for these tokens.
struct Compared(Vec<bool>);

impl Compared {
    fn of<const D: usize>(router: &live_router::Router, hidden: &Tensor<D>) -> Self {
        let tolerance = match FloatType::from_dtype(hidden.dtype()) {
            Some(FloatType::F64) => 2.0_f64.powi(-40),
            Some(FloatType::F32) => 2.0_f64.powi(-16),
            _ => 2.0_f64.powi(-5),
        };
        let live_router::Router {
            logits,
            bias,
            routing,
        } = router;
        let settled = settled(logits, bias.as_ref(), routing, Among::Chosen, tolerance);
        Self(settled)
    }

    /// Returns the results with zeros for the other tokens.
    fn only<const D: usize>(&self, (y, logits): Results<D>) -> Results<D> {
        let shape = y.dims();
        let y = tokens(y);
        if y.dims()[0] != self.0.len() {
            // The comparison itself reports a shape that differs from the composition's.
            return (reshape(y, shape), logits);
        }
        let mask = router::mask(&self.0, &y);
        (reshape(y * mask, shape), logits)
    }
}

/// Runs a sparse block with its layers and the router's reference.
#[track_caller]
pub fn block_reference<const D: usize>(
    hidden: Tensor<D>,
    block: Block<'_>,
    key: MoeBlockKey,
) -> (Tensor<D>, Tensor<2>) {
    block.composition(hidden, key)
}
