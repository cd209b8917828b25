use super::live::Experts;
use crate::__private::{ExpertBiases, ExpertWeights, first_use};
use crate::dispatch::At;
use crate::kernel;
use crate::live::Captured;
use crate::ops::glu;
use crate::ops::moe::Stack;
use crate::ops::moe::experts::{self, GateUp, Projection, Weights};
use crate::semantics::{ExpertBias, MoeExpertsKey};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Int, Tensor};

/// The weights of all experts, with each projection in one tensor. They are fields or parameters, and are read only
/// when a kernel or the reference takes them.
#[derive(Clone, Copy)]
pub struct StackedExperts<'a> {
    gate: &'a dyn ExpertWeights,
    /// The weights of up, `None` if gate and up are in one tensor.
    up: Option<&'a dyn ExpertWeights>,
    down: &'a dyn ExpertWeights,
    /// The biases in the order of the weights, empty if there are none.
    biases: &'a [&'a dyn ExpertBiases],
    /// The parameters in the order of their first use, if that is not their own order.
    first_used: &'a [usize],
    count: Option<usize>,
}

impl<'a> StackedExperts<'a> {
    /// Makes the weights of experts with gate and up in one tensor.
    pub const fn packed(gate_up: &'a dyn ExpertWeights, down: &'a dyn ExpertWeights) -> Self {
        Self {
            gate: gate_up,
            up: None,
            down,
            biases: &[],
            first_used: &[],
            count: None,
        }
    }

    /// Makes the weights of experts with gate and up in two tensors.
    pub const fn separate(
        gate: &'a dyn ExpertWeights,
        up: &'a dyn ExpertWeights,
        down: &'a dyn ExpertWeights,
    ) -> Self {
        Self {
            gate,
            up: Some(up),
            down,
            biases: &[],
            first_used: &[],
            count: None,
        }
    }

    /// Adds a bias for each projection.
    #[must_use]
    pub const fn biases(mut self, biases: &'a [&'a dyn ExpertBiases]) -> Self {
        self.biases = biases;
        self
    }

    /// Sets the order in which parameters are first used. They are numbered by projection, the weights of each before
    /// its biases.
    #[must_use]
    pub const fn first_used(mut self, order: &'a [usize]) -> Self {
        self.first_used = order;
        self
    }

    /// Sets the number of experts that the annotated item states.
    #[must_use]
    pub const fn num_experts(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    /// Initialises the parameters that are not initialised yet, in the order of their first use.
    fn initialise(&self) {
        for operand in self.first_used {
            // Each projection has its weights and then its biases, if there are any.
            let (projection, is_bias) = match self.biases {
                [] => (*operand, false),
                _ => (operand / 2, operand % 2 == 1),
            };
            let mut weights = [Some(self.gate), self.up, Some(self.down)]
                .into_iter()
                .flatten();
            match is_bias {
                true => self.biases[projection].initialise(),
                false => weights
                    .nth(projection)
                    .expect("the attribute numbers the projections")
                    .initialise(),
            }
        }
    }

    #[track_caller]
    pub(crate) fn read(&self) -> Weights {
        self.initialise();
        let mut biases = self.biases.iter();
        let mut read = |weights: &dyn ExpertWeights| Projection {
            weight: weights.expert_weights().into(),
            bias: biases.next().map(|biases| biases.expert_biases().into()),
        };
        let gate = read(self.gate);
        let gate_up = match self.up {
            Some(up) => GateUp::Separate { gate, up: read(up) },
            None => GateUp::Packed(gate),
        };
        let weights = Weights {
            gate_up,
            down: read(self.down),
        };
        if let Some(expected) = self.count {
            same_count(weights.experts(), expected);
        }
        weights
    }
}

/// Returns the number of experts, which must be the number that the annotated item states.
///
/// # Panics
/// Panics if the numbers differ.
#[track_caller]
pub fn same_count(count: usize, expected: usize) -> usize {
    assert!(
        count == expected,
        "npu_fused_moe: there are {count} experts, but `num_experts` is {expected}"
    );
    count
}

/// The projections of one expert of a list. A projection is `None` if it is not a plain `Linear`.
pub struct ListedExpert<'a> {
    gate: Option<&'a Linear>,
    /// The up projection, `None` if gate and up are in one layer.
    up: Option<Option<&'a Linear>>,
    down: Option<&'a Linear>,
}

impl<'a> ListedExpert<'a> {
    /// Makes an expert with gate and up in one layer.
    pub const fn packed(gate_up: Option<&'a Linear>, down: Option<&'a Linear>) -> Self {
        Self {
            gate: gate_up,
            up: None,
            down,
        }
    }

    /// Makes an expert with gate and up in two layers.
    pub const fn separate(
        gate: Option<&'a Linear>,
        up: Option<&'a Linear>,
        down: Option<&'a Linear>,
    ) -> Self {
        Self {
            gate,
            up: Some(up),
            down,
        }
    }

    /// Returns the projections, `None` for one that is not a plain `Linear`.
    fn layers(self) -> impl Iterator<Item = Option<&'a Linear>> {
        let layers = [Some(self.gate), self.up, Some(self.down)];
        layers.into_iter().flatten()
    }
}

/// Returns whether a kernel may read all layers, and at least one of them is not initialised.
fn is_lazy<'a>(experts: impl Iterator<Item = ListedExpert<'a>>) -> bool {
    let mut found = false;
    for layer in experts.flat_map(ListedExpert::layers) {
        let Some(layer) = layer else {
            return false;
        };
        let mut biases = layer.bias.iter();
        found |= !layer.weight.is_initialized() || biases.any(|bias| !bias.is_initialized());
    }
    found
}

/// The tensors that a body takes: the tokens, their experts and the experts' weights.
type Flowing = (Tensor<2>, Tensor<2, Int>, Tensor<2>);

/// Runs the experts of a site whose weights are stacked.
#[track_caller]
pub fn experts(
    at: At,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: StackedExperts<'_>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Flowing) -> Tensor<2>,
) -> Tensor<2> {
    let _span = at.enter();
    let flowing = (x, indices, routing);
    let is_lazy = || at.runs_body_first();
    let weights = |_| Some(weights.read());
    either(&at, flowing, &is_lazy, &weights, limit, reference)
}

/// Runs the experts of a site that are layers of a list of `count`. A kernel runs only if every
/// projection of `expert(0)`, `expert(1)` and so on is a plain `Linear`.
///
/// The tokens decide which experts a body uses first. The body therefore runs before the kernel while any layer is
/// not initialised. A layer that it did not use has no tokens in this call, and stays uninitialised.
#[track_caller]
#[allow(clippy::too_many_arguments)] // These are the operands of the operation.
pub fn experts_list<'a>(
    at: At,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    count: usize,
    expert: &dyn Fn(usize) -> ListedExpert<'a>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Flowing) -> Tensor<2>,
) -> Tensor<2> {
    let _span = at.enter();
    let flowing = (x, indices, routing);
    let is_lazy = || at.may_repeat() && is_lazy((0..count).map(expert));
    let weights = |unused| listed(count, expert, unused, at.key());
    either(&at, flowing, &is_lazy, &weights, limit, reference)
}

/// Runs `reference` if no kernel takes tensors like `x` or the weights can't be read, and counts that. Otherwise
/// decides again with all tensors, and runs the kernel or the reference.
#[track_caller]
fn either(
    at: &At,
    (x, indices, routing): Flowing,
    is_lazy: &dyn Fn() -> bool,
    weights: &dyn Fn(Unused) -> Option<Weights>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Flowing) -> Tensor<2>,
) -> Tensor<2> {
    let x = x.into_dispatch();
    if !at.peek([&x]).is_fused() {
        at.decide([&x]);
        return reference((Tensor::from_dispatch(x), indices, routing));
    }
    let x = Tensor::from_dispatch(x);
    let unused = match is_lazy() {
        true => {
            let inputs = (
                x.clone().detach(),
                indices.clone(),
                routing.clone().detach(),
            );
            first_use::run(reference, inputs);
            Unused::HasNoTokens
        }
        false => Unused::IsRead,
    };
    let Some(weights) = weights(unused) else {
        let x = x.into_dispatch();
        at.opaque().decide([&x]);
        return reference((Tensor::from_dispatch(x), indices, routing));
    };
    let key = at.key();
    experts::check(&x, &indices, &routing, &weights, limit, key);
    let operands = Experts {
        x,
        told: indices.clone(),
        indices,
        routing,
        weights,
        limit,
        key,
    };
    kernel::either(
        at,
        operands,
        Captured::These(Experts::CAPTURED),
        &mut |experts| reference((experts.x, experts.told, experts.routing)),
    )
}

/// Returns the weights of plain layers, or `None` if a layer is not a plain one.
#[track_caller]
fn listed<'a>(
    count: usize,
    expert: &dyn Fn(usize) -> ListedExpert<'a>,
    unused: Unused,
    key: MoeExpertsKey,
) -> Option<Weights> {
    let (mut gate, mut up, mut down) = <(Column<'_>, Column<'_>, Column<'_>)>::default();
    for expert in (0..count).map(expert) {
        gate.push(expert.gate?);
        if let Some(layer) = expert.up {
            up.push(layer?);
        }
        down.push(expert.down?);
    }
    let [gate, up, down] = [("gate", gate), ("up", up), ("down", down)].map(|(what, column)| {
        let is_empty = column.weights.is_empty();
        (!is_empty).then(|| column.projection(what, unused, key))
    });
    let (Some(gate), Some(down)) = (gate, down) else {
        panic!("npu_fused_moe: the list has no experts");
    };
    let gate_up = match up {
        Some(up) => GateUp::Separate { gate, up },
        None => GateUp::Packed(gate),
    };
    Some(Weights { gate_up, down })
}

/// One projection of all experts.
#[derive(Default)]
struct Column<'a> {
    weights: Vec<&'a Param<Tensor<2>>>,
    biases: Vec<&'a Param<Tensor<1>>>,
}

impl<'a> Column<'a> {
    fn push(&mut self, layer: &'a Linear) {
        self.weights.push(&layer.weight);
        self.biases.extend(&layer.bias);
    }

    /// Returns the projection. Panics on biases that the attribute does not state, because they would be lost.
    #[track_caller]
    fn projection(self, what: &str, unused: Unused, key: MoeExpertsKey) -> Projection {
        let Self { weights, biases } = self;
        let expected = match key.bias {
            ExpertBias::None => 0,
            ExpertBias::All => weights.len(),
        };
        assert!(
            biases.len() == expected,
            "npu_fused_moe: {} of {} {what} projections have a bias, and the attribute says that \
             {expected} have; write `bias = all` if all have and `bias = none` if none has",
            biases.len(),
            weights.len(),
        );
        Projection {
            weight: values(&weights, unused).into(),
            bias: (expected > 0).then(|| Stack::from(values(&biases, unused))),
        }
    }
}

/// The treatment of a parameter that is not initialised.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unused {
    /// The body did not use the parameter, so no token is routed to its expert. It stays uninitialised, and another
    /// parameter takes its place, which gets no gradient from that.
    HasNoTokens,
    /// The parameter is read, and initialised by that if necessary.
    IsRead,
}

fn values<const D: usize>(params: &[&Param<Tensor<D>>], unused: Unused) -> Vec<Tensor<D>> {
    let mut initialised = params.iter().filter(|param| param.is_initialized());
    let stand_in = match unused {
        Unused::HasNoTokens => initialised.next().map(|param| param.val().detach()),
        Unused::IsRead => None,
    };
    let value = |param: &&Param<Tensor<D>>| match &stand_in {
        Some(stand_in) if !param.is_initialized() => stand_in.clone(),
        _ => param.val(),
    };
    params.iter().map(value).collect()
}

/// Runs [`experts::reference`](experts::reference()) with stacked weights.
#[track_caller]
pub fn experts_reference(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: StackedExperts<'_>,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    experts::reference(x, indices, routing, weights.read(), limit, key)
}

/// Gate and up of one expert's rows, as its projections return them.
pub type UnitInputs = glu::Inputs<2>;

/// Runs [`experts::each`](experts::each()) with `count` layers. `gate_up(e, rows)` and `down(e, hidden)` are
/// the projections of expert `e`, called through their own `forward`.
#[track_caller]
#[allow(clippy::too_many_arguments)] // These are the operands of the operation.
pub fn experts_list_reference(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    count: usize,
    gate_up: &dyn Fn(usize, Tensor<2>) -> UnitInputs,
    down: &dyn Fn(usize, Tensor<2>) -> Tensor<2>,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    let settings = glu::Settings {
        limit,
        sparsity: None,
    };
    experts::each(x, indices, routing, count, |expert, rows| {
        down(
            expert,
            glu::reference(gate_up(expert, rows), settings, key.unit()),
        )
    })
}
