use super::super::Stack;
use super::Adapter;
use crate::ops::operands::Facts;
use crate::quantized_experts::QuantizedExperts;
use crate::semantics::ExpertLayout;
use burn::backend::DispatchTensor;
use burn::tensor::{Device, Tensor};

/// One projection of all experts.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The weights, two axes for each expert.
    pub weight: Stack<3, 2>,
    /// The biases, one axis for each expert.
    pub bias: Option<Stack<2, 1>>,
    /// The low-rank adapters.
    pub adapter: Option<Adapter>,
    /// The weights in quantised form, if they are. Those of `weight` have then no numbers, but their shape and dtype.
    pub quantised: Option<QuantizedExperts>,
}

impl Projection {
    /// Makes a projection without bias.
    pub fn new(weight: impl Into<Stack<3, 2>>) -> Self {
        Self {
            weight: weight.into(),
            bias: None,
            adapter: None,
            quantised: None,
        }
    }

    /// Adds biases.
    #[must_use]
    pub fn with_bias(self, bias: impl Into<Stack<2, 1>>) -> Self {
        Self {
            bias: Some(bias.into()),
            ..self
        }
    }

    /// Adds low-rank adapters.
    #[must_use]
    pub fn with_adapter(self, adapter: Adapter) -> Self {
        Self {
            adapter: Some(adapter),
            ..self
        }
    }

    /// Applies the projection of one expert to its rows.
    pub(super) fn forward(
        &self,
        expert: usize,
        rows: Tensor<2>,
        layout: ExpertLayout,
    ) -> Tensor<2> {
        let adapted = self.adapter.as_ref();
        let adapted = adapted.map(|adapter| adapter.forward(expert, rows.clone()));
        let out = match &self.quantised {
            Some(weights) => weights.forward(expert, rows),
            None => {
                let weight = self.weight.expert(expert);
                rows.matmul(match layout {
                    ExpertLayout::Linear => weight.transpose(),
                    ExpertLayout::Matmul => weight,
                })
            }
        };
        let out = match &self.bias {
            // Burn's operations don't repeat what has no elements.
            Some(bias) if out.dims()[1] > 0 => out + bias.expert(expert).unsqueeze::<2>(),
            _ => out,
        };
        match adapted {
            Some(adapted) => out + adapted,
            None => out,
        }
    }
}

/// The projections of gate and up.
#[allow(clippy::large_enum_variant)] // There are a few per call: a box would cost more than it saves.
#[derive(Clone, Debug)]
pub enum GateUp {
    /// One projection for both, laid out as the key's `projections` states.
    Packed(Projection),
    /// Two projections of one shape.
    Separate {
        /// The projection of the gate.
        gate: Projection,
        /// The projection that the gate multiplies.
        up: Projection,
    },
}

/// The weights of all experts.
#[derive(Clone, Debug)]
pub struct Weights {
    /// The projections of gate and up.
    pub gate_up: GateUp,
    /// The projection of down.
    pub down: Projection,
}

impl Weights {
    /// Makes weights with gate and up in one projection.
    pub fn packed(gate_up: Projection, down: Projection) -> Self {
        Self {
            gate_up: GateUp::Packed(gate_up),
            down,
        }
    }

    /// Makes weights with gate and up in two projections.
    pub fn separate(gate: Projection, up: Projection, down: Projection) -> Self {
        Self {
            gate_up: GateUp::Separate { gate, up },
            down,
        }
    }

    /// Returns the number of experts.
    pub fn experts(&self) -> usize {
        self.down.weight.experts()
    }

    /// Returns the device of the projection of down.
    pub(super) fn device(&self) -> Device {
        self.down.weight.device()
    }

    /// Returns whether a projection has adapters.
    pub(crate) fn are_adapted(&self) -> bool {
        self.each().any(|one| one.adapter.is_some())
    }

    /// Returns whether a projection is in quantised form, which no kernel for all experts takes.
    pub(crate) fn are_quantised(&self) -> bool {
        self.each().any(|one| one.quantised.is_some())
    }

    /// Returns the projections: gate (with up, if packed), up (if separate) and down.
    pub(super) fn each(&self) -> impl Iterator<Item = &Projection> {
        let (gate, up) = match &self.gate_up {
            GateUp::Packed(gate_up) => (gate_up, None),
            GateUp::Separate { gate, up } => (gate, Some(up)),
        };
        [Some(gate), up, Some(&self.down)].into_iter().flatten()
    }

    /// Returns the weights of some experts, in this order.
    pub(crate) fn of_experts(&self, experts: &[usize]) -> Self {
        let of = |projection: &Projection| Projection {
            weight: projection.weight.of_experts(experts),
            bias: projection
                .bias
                .as_ref()
                .map(|bias| bias.of_experts(experts)),
            adapter: projection
                .adapter
                .as_ref()
                .map(|adapter| adapter.of_experts(experts)),
            quantised: projection
                .quantised
                .as_ref()
                .map(|weights| weights.of_experts(experts)),
        };
        Self {
            gate_up: match &self.gate_up {
                GateUp::Packed(gate_up) => GateUp::Packed(of(gate_up)),
                GateUp::Separate { gate, up } => GateUp::Separate {
                    gate: of(gate),
                    up: of(up),
                },
            },
            down: of(&self.down),
        }
    }

    /// Returns the shapes and dtypes of the groups of [`into_dispatch`](Self::into_dispatch).
    pub(super) fn facts(&self) -> Vec<Vec<Facts>> {
        let (gate, up) = match &self.gate_up {
            GateUp::Packed(gate_up) => (gate_up, None),
            GateUp::Separate { gate, up } => (gate, Some(up)),
        };
        let projections = [Some(gate), up, Some(&self.down)];
        let weights = projections.map(|one| one.map(|one| one.weight.facts()));
        let biases = projections.map(|one| Some(one?.bias.as_ref()?.facts()));
        let groups = weights.into_iter().chain(biases);
        groups.map(Option::unwrap_or_default).collect()
    }

    /// Returns the projections gate (with up, if packed), up (if separate) and down.
    fn projections(self) -> [Option<Projection>; 3] {
        match self.gate_up {
            GateUp::Packed(gate_up) => [Some(gate_up), None, Some(self.down)],
            GateUp::Separate { gate, up } => [Some(gate), Some(up), Some(self.down)],
        }
    }

    /// Returns three groups of weights, then three groups of biases. Missing groups are empty. Adapters are left out.
    pub(super) fn into_dispatch(self) -> Vec<Vec<DispatchTensor>> {
        let parts = |one: Projection| {
            (
                one.weight.into_dispatch(),
                one.bias.map(Stack::into_dispatch),
            )
        };
        let projections = self
            .projections()
            .map(|one| one.map(parts).unwrap_or_default());
        let (weights, biases): (Vec<_>, Vec<_>) = projections.into_iter().unzip();
        let biases = biases.into_iter().map(Option::unwrap_or_default);
        weights.into_iter().chain(biases).collect()
    }
}
