//! Sums of gradients that begin while the backward pass goes on.
//!
//! A pass that computes layers twice delivers the gradients of one layer after the other, those of the last layer first. A
//! parameter that is used in several places gets a gradient from each. In the first step, each rank counts them. From
//! the second step on, a rank takes a gradient for complete when as many parts came as in the step before, and sends it
//! when all gradients before it in the order are sent. The order is the same on all ranks, whatever their shares.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Tensor, TensorData};
use burn_kernels::distributed::{Group, Pending, sum_gradients};
use kernels_models::CausalLm;
use std::collections::{HashMap, HashSet};
use std::mem;

/// The number of elements of a bucket: 25 MB of f32.
pub const BUCKET: usize = 25_000_000 / 4;

/// What a step teaches the next one.
#[derive(Default)]
pub struct Learned {
    /// The parameters that any rank used in the first step, with their elements, those of the last layers first.
    order: Vec<(ParamId, usize)>,
    /// The number of gradients of each parameter in the last batch of this rank.
    parts: HashMap<ParamId, usize>,
}

/// The gradients of a step, of which those that are complete are sent.
pub struct Early<'a> {
    group: &'a Group,
    model: &'a CausalLm,
    learned: &'a mut Learned,
    /// The parameters of the order.
    known: HashSet<ParamId>,
    /// Those whose gradient was taken for complete.
    completed: HashSet<ParamId>,
    bucket_size: usize,
    is_in_last_batch: bool,
    /// The gradients of the batches before the last.
    batches: GradientsAccumulator<CausalLm>,
    /// The gradients that are not complete.
    held: GradientsParams,
    /// The gradients that are complete, and not sent.
    ready: HashMap<ParamId, Vec<f32>>,
    parts: HashMap<ParamId, usize>,
    /// The number of parameters of the order that are in a bucket.
    sent: usize,
    bucket: Vec<f32>,
    started: Vec<Pending>,
    failure: Option<anyhow::Error>,
}

impl<'a> Early<'a> {
    pub fn new(
        group: &'a Group,
        model: &'a CausalLm,
        learned: &'a mut Learned,
        bucket_size: usize,
    ) -> Self {
        Self {
            group,
            model,
            known: learned.order.iter().map(|(id, _)| *id).collect(),
            completed: HashSet::new(),
            learned,
            bucket_size,
            is_in_last_batch: false,
            batches: GradientsAccumulator::new(),
            held: GradientsParams::new(),
            ready: HashMap::new(),
            parts: HashMap::new(),
            sent: 0,
            bucket: Vec::new(),
            started: Vec::new(),
            failure: None,
        }
    }

    /// Adds gradients. Those of the last batch are sent as they are complete.
    pub fn take(&mut self, gradients: GradientsParams, is_last_batch: bool) {
        if !is_last_batch {
            self.batches.accumulate(self.model, gradients);
            return;
        }
        self.begin_last_batch();
        let model = self.model;
        model.visit(&mut Adding {
            gradients,
            early: self,
        });
        while let Some((id, _)) = self.learned.order.get(self.sent)
            && let Some(values) = self.ready.remove(id)
        {
            self.send(&values);
        }
    }

    /// Sends the rest. Returns the sums over all ranks.
    ///
    /// # Errors
    /// Returns an error if the device fails or a rank is lost.
    pub fn finish(mut self) -> anyhow::Result<GradientsParams> {
        self.begin_last_batch();
        // A rank can have no part of the last batch.
        if !self.parts.is_empty() {
            self.learned.parts = mem::take(&mut self.parts);
        }
        if self.learned.order.is_empty() {
            let sums = sum_gradients(self.group, self.model, self.held)?;
            self.learned.order = order(self.model, &sums);
            return Ok(sums);
        }
        let model = self.model;
        let mut flags = self.flags();
        for (id, len) in self.learned.order[self.sent..].to_vec() {
            let values = self.ready.remove(&id).unwrap_or_else(|| vec![0.0; len]);
            self.send(&values);
        }
        self.start();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.group.all_reduce(&mut flags)?;
        let mut sums = Vec::new();
        for started in self.started {
            sums.extend(started.wait()?);
        }
        let mut receiving = Receiving {
            places: HashMap::new(),
            values: sums,
            sums: match flags.pop() {
                // A parameter was not used in the first step, or got more gradients than in the step before.
                Some(1..) => sum_gradients(self.group, model, self.held)?,
                _ => GradientsParams::new(),
            },
        };
        let mut start = 0;
        for ((id, len), used) in self.learned.order.iter().zip(flags) {
            if used > 0 {
                receiving.places.insert(*id, start);
            }
            start += len;
        }
        model.visit(&mut receiving);
        Ok(receiving.sums)
    }

    /// Completes what is held of the order. Returns whether this rank used each parameter of the order, and at the end
    /// the number of parameters that it used besides.
    fn flags(&mut self) -> Vec<u64> {
        let model = self.model;
        model.visit(&mut Completing { early: self });
        let order = self.learned.order.iter().enumerate();
        let used = order.map(|(at, (id, _))| at < self.sent || self.ready.contains_key(id));
        used.map(u64::from)
            .chain([self.held.len() as u64])
            .collect()
    }

    fn begin_last_batch(&mut self) {
        if !self.is_in_last_batch {
            self.is_in_last_batch = true;
            self.held = self.batches.grads();
        }
    }

    /// Returns the number of sums that have begun.
    #[cfg(test)]
    pub fn begun(&self) -> usize {
        self.started.len()
    }

    /// Adds the next parameter of the order to a bucket.
    fn send(&mut self, mut values: &[f32]) {
        self.sent += 1;
        while !values.is_empty() {
            let room = (self.bucket_size - self.bucket.len()).min(values.len());
            self.bucket.extend_from_slice(&values[..room]);
            values = &values[room..];
            if self.bucket.len() == self.bucket_size {
                self.start();
            }
        }
    }

    fn start(&mut self) {
        if !self.bucket.is_empty() {
            let bucket = mem::take(&mut self.bucket);
            self.started.push(self.group.start_all_reduce(bucket));
        }
    }

    /// Takes a gradient for complete.
    fn complete<const D: usize>(&mut self, id: ParamId, gradient: Tensor<D>) {
        self.completed.insert(id);
        match gradient.try_to_vec_as::<f32>() {
            Ok(values) => drop(self.ready.insert(id, values)),
            Err(error) => self.fail(error.into()),
        }
    }

    fn fail(&mut self, error: anyhow::Error) {
        if self.failure.is_none() {
            self.group.fail(&crate::output::chain(&error));
            self.failure = Some(error);
        }
    }
}

/// Returns the parameters with a gradient, from the last to the first.
fn order(model: &CausalLm, gradients: &GradientsParams) -> Vec<(ParamId, usize)> {
    struct Used<'a>(&'a GradientsParams, HashSet<ParamId>, Vec<(ParamId, usize)>);
    impl ModuleVisitor for Used<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id)
                && self.1.insert(param.id)
            {
                self.2.push((param.id, gradient.shape().num_elements()));
            }
        }
    }
    let mut used = Used(gradients, HashSet::new(), Vec::new());
    model.visit(&mut used);
    used.2.reverse();
    used.2
}

/// Adds gradients to those that are held.
struct Adding<'a, 'b> {
    gradients: GradientsParams,
    early: &'a mut Early<'b>,
}

impl ModuleVisitor for Adding<'_, '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (early, id) = (&mut *self.early, param.id);
        let Some(mut gradient) = self.gradients.remove::<D>(id) else {
            return;
        };
        let parts = early.parts.entry(id).or_default();
        *parts += 1;
        let (parts, expected) = (*parts, early.learned.parts.get(&id).copied());
        if let Some(before) = early.held.remove::<D>(id) {
            gradient = before + gradient;
        }
        match expected.filter(|_| early.known.contains(&id)) {
            Some(expected) if parts == expected => early.complete(id, gradient),
            // More than in the step before. What is complete is sent, or will be: the rest is summed at the end.
            _ => early.held.register(id, gradient),
        }
    }
}

/// Completes the gradients of known parameters that are held.
struct Completing<'a, 'b> {
    early: &'a mut Early<'b>,
}

impl ModuleVisitor for Completing<'_, '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let early = &mut *self.early;
        let is_complete = early.completed.contains(&param.id);
        if early.known.contains(&param.id)
            && !is_complete
            && let Some(gradient) = early.held.remove::<D>(param.id)
        {
            early.complete(param.id, gradient);
        }
    }
}

/// Makes gradients of sums.
struct Receiving {
    /// The first element of each parameter.
    places: HashMap<ParamId, usize>,
    values: Vec<f32>,
    sums: GradientsParams,
}

impl ModuleVisitor for Receiving {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(start) = self.places.remove(&param.id) {
            let value = param.base();
            let values = self.values[start..start + value.shape().num_elements()].to_vec();
            let data = TensorData::new(values, value.shape());
            let device = value.device().inner();
            let mut sum = Tensor::<D>::from_data(data, (&device, value.dtype()));
            if let Some(rest) = self.sums.remove::<D>(param.id) {
                sum = sum + rest;
            }
            self.sums.register(param.id, sum);
        }
    }
}
