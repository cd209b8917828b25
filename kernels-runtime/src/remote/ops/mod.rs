//! The operations: how each is sent by a client and run by a server, side by side.

mod adam_w;
mod experts;
mod glu;
mod grouped_matmul;
mod permute;
mod rms_norm;
mod rope;
mod router;
mod source;
mod talk;
mod weights;

pub(super) use source::{Source, load, look};
pub(super) use talk::{declaration, failure};

use super::Host;
use super::bounded::Bounded;
use super::call::{self, Call};
use super::files::Files;
use super::wire::Malformed;
use crate::dispatch::KernelOp;
use crate::ops::adam_w::AdamWBackend;
use crate::ops::glu::GluKernel;
use crate::ops::moe::experts::ExpertsKernel;
use crate::ops::moe::grouped_matmul::GroupedMatmulKernel;
use crate::ops::moe::permute::PermuteKernel;
use crate::ops::moe::router::RouterKernel;
use crate::ops::rms_norm::RmsNormKernel;
use crate::ops::rope::RopeKernel;
use burn_remote::server::CustomOpRegistry;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

type Handler<B> = fn(&mut Call<'_, B>) -> Result<(), Malformed>;

/// The kernels of a backend that a server offers. A backend adds those that it has.
pub struct Kernels<B: Host> {
    registry: CustomOpRegistry<Bounded<B>>,
    offered: Vec<KernelOp>,
}

impl<B: Host> std::fmt::Debug for Kernels<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels")
            .field("offered", &self.offered)
            .finish_non_exhaustive()
    }
}

impl<B: Host> Kernels<B> {
    pub(super) fn new() -> Self {
        Self {
            registry: CustomOpRegistry::new(),
            offered: Vec::new(),
        }
    }

    /// RMSNorm.
    pub fn rms_norm(mut self) -> Self
    where
        B: RmsNormKernel,
    {
        self.offered.push(KernelOp::RmsNorm);
        self.handle(rms_norm::FORWARD, rms_norm::forward)
            .handle(rms_norm::BACKWARD, rms_norm::backward)
    }

    /// Gated linear units.
    pub fn glu(mut self) -> Self
    where
        B: GluKernel,
    {
        self.offered.push(KernelOp::Glu);
        self.handle(glu::FORWARD, glu::forward)
            .handle(glu::BACKWARD, glu::backward)
    }

    /// Rotary position embedding.
    pub fn rope(mut self) -> Self
    where
        B: RopeKernel,
    {
        self.offered.push(KernelOp::Rope);
        self.handle(rope::FORWARD, rope::forward)
            .handle(rope::BACKWARD, rope::backward)
    }

    /// The experts of a mixture.
    pub fn experts(mut self) -> Self
    where
        B: ExpertsKernel,
    {
        self.offered.push(KernelOp::Experts);
        self.handle(experts::FORWARD, experts::forward)
            .handle(experts::BACKWARD, experts::backward)
    }

    /// Products of rows grouped by expert.
    pub fn grouped_matmul(mut self) -> Self
    where
        B: GroupedMatmulKernel,
    {
        self.offered.push(KernelOp::GroupedMatmul);
        self.handle(grouped_matmul::FORWARD, grouped_matmul::forward)
            .handle(grouped_matmul::BACKWARD, grouped_matmul::backward)
    }

    /// Moving tokens to the rows of experts and back.
    pub fn permute(mut self) -> Self
    where
        B: PermuteKernel,
    {
        self.offered.push(KernelOp::Permute);
        self.handle(permute::SORT, permute::sort_slots)
            .handle(permute::SPREAD, permute::spread)
            .handle(permute::SUM, permute::sum_rows)
            .handle(permute::WEIGH, permute::weigh_rows)
            .handle(permute::WEIGH_D_ROWS, permute::weigh_rows_d_rows)
            .handle(permute::WEIGH_BACKWARD, permute::weigh_rows_backward)
    }

    /// The router of a mixture.
    pub fn router(mut self) -> Self
    where
        B: RouterKernel,
    {
        self.offered.push(KernelOp::Router);
        self.handle(router::FORWARD, router::forward)
            .handle(router::BACKWARD, router::backward)
    }

    /// Steps of AdamW.
    pub fn adam_w(mut self) -> Self
    where
        B: AdamWBackend,
    {
        self.offered.push(KernelOp::AdamW);
        self.handle(adam_w::STEP, adam_w::step)
    }

    /// Every kernel there is.
    pub fn all(self) -> Self
    where
        B: RmsNormKernel
            + GluKernel
            + RopeKernel
            + ExpertsKernel
            + GroupedMatmulKernel
            + PermuteKernel
            + RouterKernel
            + AdamWBackend,
    {
        self.rms_norm()
            .glu()
            .rope()
            .experts()
            .grouped_matmul()
            .permute()
            .router()
            .adam_w()
    }

    fn handle(mut self, id: &'static str, handler: Handler<B>) -> Self {
        self.registry.register(id, move |handles, ir, device| {
            call::run::<B>(handles, ir, device, handler);
        });
        self
    }

    /// Adds what every server of this crate has: it says what it is, why a session ended, and reads
    /// weights.
    pub(super) fn finish(
        mut self,
        open: Arc<AtomicUsize>,
        files: Files,
    ) -> CustomOpRegistry<Bounded<B>> {
        talk::register(&mut self.registry, self.offered, open);
        source::register(&mut self.registry, files);
        self.registry
    }
}
