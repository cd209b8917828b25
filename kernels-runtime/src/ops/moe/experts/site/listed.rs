//! Experts that are layers of a list.

use crate::ops::moe::Stack;
use crate::ops::moe::experts::{GateUp, Projection, Weights};
use crate::ops::operands::refuse;
use crate::semantics::{ExpertBias, MoeExpertsKey};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;

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
pub(super) fn is_lazy<'a>(experts: impl Iterator<Item = ListedExpert<'a>>) -> bool {
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

/// Returns the weights of plain layers, or `None` if a layer is not a plain one.
#[track_caller]
pub(super) fn listed<'a>(
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
        refuse("npu_fused_moe: the list has no experts");
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
        if biases.len() != expected {
            refuse(format_args!(
                "npu_fused_moe: {} of {} {what} projections have a bias, and the attribute says that \
                 {expected} have; write `bias = all` if all have and `bias = none` if none has",
                biases.len(),
                weights.len(),
            ));
        }
        Projection {
            weight: values(&weights, unused).into(),
            bias: (expected > 0).then(|| Stack::from(values(&biases, unused))),
            adapter: None,
            quantised: None,
        }
    }
}

/// The treatment of a parameter that is not initialised.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unused {
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
