//! The messages of a training step on a served device, by its server's log.

use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::server::telemetry::{DrainStatus, TelemetryEvent, TelemetrySubscription};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_kernels::optim::InitFused;
use burn_kernels::policy::{self, Policy};
use kernels_models::CausalLm;

#[path = "../model/mod.rs"]
mod model;

pub use model::config;

/// More events than a step has.
pub const EVENTS: usize = 1 << 18;

/// The parts of a step.
pub const PARTS: [&str; 3] = ["forward", "backward", "AdamW"];

/// The messages of each of the [`PARTS`] of a step of the default Qwen3, under the policies that run kernels and
/// that run none.
pub fn of_a_step(served: &Device, events: TelemetrySubscription) -> [[Count; 3]; 2] {
    let mut messages = Messages(events);
    [Policy::auto(), Policy::reference()].map(|policy| {
        let _scope = policy::scope(policy);
        let device = served.clone().autodiff();
        let mut model = config().init(&device);
        let ids = Tensor::<2, Int>::random([2, 64], Distribution::Uniform(0.0, 255.0), &device);
        let mut optimiser = AdamWConfig::new().init_fused();
        // The second step: the first makes tables and the optimiser's state.
        let mut parts = [Count::default(); 3];
        for _ in 0..2 {
            (model, parts) = step(model, &mut optimiser, &ids, &mut messages);
        }
        parts
    })
}

/// The sum of counts.
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
    let (loss, forward) = messages.of(device, || model.loss(ids.clone(), None).1);
    let (grads, backward) = messages.of(device, || {
        GradientsParams::from_grads(loss.backward(), &model)
    });
    let (model, adamw) = messages.of(device, || optimiser.step(1e-3, model, grads));
    (model, [forward, backward, adamw])
}

/// The messages of the server's log since the last look.
struct Messages(TelemetrySubscription);

/// Messages by what they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Operations.
    pub operations: usize,
    /// Tensors let go of.
    pub drops: usize,
    /// Values read, and waits.
    pub reads: usize,
}

impl Count {
    /// All of them.
    pub fn all(self) -> usize {
        self.operations + self.drops + self.reads
    }
}

impl Messages {
    /// Those of `run`. Uploads are not in the log; a step has none.
    fn of<T>(&mut self, device: &Device, run: impl FnOnce() -> T) -> (T, Count) {
        device.sync().expect("the server answers");
        self.drain();
        let result = run();
        device.sync().expect("the server answers");
        let mut count = self.drain();
        // The one that waits.
        count.reads -= 1;
        (result, count)
    }

    fn drain(&mut self) -> Count {
        let mut seen = Vec::new();
        let DrainStatus::Open { lagged: 0 } = self.0.drain_into(&mut seen) else {
            panic!("events were lost")
        };
        let mut count = Count::default();
        for event in seen {
            match event.as_ref() {
                TelemetryEvent::Op { .. } => count.operations += 1,
                TelemetryEvent::TensorDropped { .. } => count.drops += 1,
                TelemetryEvent::Read { .. } | TelemetryEvent::Sync { .. } => count.reads += 1,
                _ => {}
            }
        }
        count
    }
}
