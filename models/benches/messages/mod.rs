//! Counts the messages of a training step on a served device, by its server's log.

use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::server::telemetry::{
    DrainStatus, GraphOp, OpClass, TelemetryEvent, TelemetrySubscription,
};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_kernels::optim::InitFused;
use burn_kernels::policy::{self, Policy};
use kernels_models::{CausalLm, ModelConfig};
use std::collections::HashMap;

#[path = "../model/mod.rs"]
mod model;

pub use model::config;

/// The capacity of the log, in events: more than a step has.
pub const EVENTS: usize = 1 << 18;

/// The parts of a step.
pub const PARTS: [&str; 3] = ["forward", "backward", "AdamW"];

/// Counts the messages of each of the [`PARTS`] of a step of a model: with kernels, then without.
pub fn of_a_step(
    config: &ModelConfig,
    served: &Device,
    events: TelemetrySubscription,
) -> [[Count; 3]; 2] {
    let mut messages = Messages {
        events,
        graphs: HashMap::new(),
    };
    [Policy::auto(), Policy::reference()].map(|policy| {
        let _scope = policy::scope(policy);
        let device = served.clone().autodiff();
        let mut model = config.init(&device);
        let last = (config.vocab_size - 1) as f64;
        let ids = Tensor::<2, Int>::random([2, 64], Distribution::Uniform(0.0, last), &device);
        let mut optimiser = AdamWConfig::new().init_fused();
        // Keeps the second step, because the first creates tables and the optimiser's state.
        let mut parts = [Count::default(); 3];
        for _ in 0..2 {
            (model, parts) = step(model, &mut optimiser, &ids, &mut messages);
        }
        parts
    })
}

/// Returns the sum of counts.
pub fn sum(parts: &[Count]) -> Count {
    parts.iter().fold(Count::default(), |sum, part| Count {
        operations: sum.operations + part.operations,
        drops: sum.drops + part.drops,
        reads: sum.reads + part.reads,
    })
}

fn step(
    model: CausalLm,
    optimiser: &mut ModuleOptimizer,
    ids: &Tensor<2, Int>,
    messages: &mut Messages,
) -> (CausalLm, [Count; 3]) {
    let device = &ids.device();
    let (loss, forward) = messages.of(device, || model.training_losses(ids.clone(), None).total);
    let (grads, backward) = messages.of(device, || {
        GradientsParams::from_grads(loss.backward(), &model)
    });
    let (model, adamw) = messages.of(device, || optimiser.step(1e-3, model, grads));
    (model, [forward, backward, adamw])
}

/// The messages in the server's log.
struct Messages {
    events: TelemetrySubscription,
    /// The operations of each graph. Burn's fusion sends operations that recur as a graph, once, and then its name.
    graphs: HashMap<u64, Count>,
}

/// The number of messages of each kind. Those of a graph count each time that it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Operations.
    pub operations: usize,
    /// Released tensors.
    pub drops: usize,
    /// Reads of values, and waits.
    pub reads: usize,
}

impl Count {
    /// Returns the total.
    pub fn all(self) -> usize {
        self.operations + self.drops + self.reads
    }
}

impl Messages {
    /// Counts the messages of `run`. The log has no uploads, and a step makes none.
    fn of<T>(&mut self, device: &Device, run: impl FnOnce() -> T) -> (T, Count) {
        device.sync().expect("the server answers");
        self.drain();
        let result = run();
        device.sync().expect("the server answers");
        let mut count = self.drain();
        // Leaves out the wait above.
        count.reads -= 1;
        (result, count)
    }

    fn drain(&mut self) -> Count {
        let mut seen = Vec::new();
        let DrainStatus::Open { lagged: 0 } = self.events.drain_into(&mut seen) else {
            panic!("events were lost")
        };
        let mut count = Count::default();
        for event in seen {
            match event.as_ref() {
                TelemetryEvent::Op { .. } => count.operations += 1,
                TelemetryEvent::TensorDropped { .. } => count.drops += 1,
                TelemetryEvent::Read { .. } | TelemetryEvent::Sync { .. } => count.reads += 1,
                TelemetryEvent::GraphRegistered { graph, ops, .. } => {
                    self.graphs.insert(graph.0, of_graph(ops));
                }
                TelemetryEvent::GraphExecuted { graph, .. } => {
                    count = sum(&[count, self.graphs[&graph.0]]);
                }
                _ => {}
            }
        }
        count
    }
}

fn of_graph(operations: &[GraphOp]) -> Count {
    let drops = operations.iter().filter(|one| one.kind == OpClass::Drop);
    let drops = drops.count();
    Count {
        operations: operations.len() - drops,
        drops,
        reads: 0,
    }
}
