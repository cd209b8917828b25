//! A model in training on one or several devices.
//!
//! Each device has the whole model and the whole state of its optimiser. It computes the gradients of its share of the
//! batches, weighted by its targets. The gradients are added up over all devices, parameter by parameter, and each device
//! then takes the same step. So nothing but gradients is sent, at the price of an optimiser's state on each device.

use super::batch::Batch;
#[cfg(feature = "distributed")]
use super::exchange::{
    self,
    early::{self, Early},
    sharded::{self, Share},
};
use super::metrics::Point;
use super::optimiser::{self, AdamW, Optimiser};
use super::plan::Plan;
use super::state::{Progress, Saved, Shared, States, Trainee};
use super::step::{Loss, Mean, Pass};
use crate::output;
use anyhow::{anyhow, bail};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::distributed::{ReduceOperation, all_reduce};
use burn::tensor::{Device, Tensor};
#[cfg(feature = "distributed")]
use burn_kernels::distributed::{Group, sum_gradients};
use std::any::Any;
use std::thread;

/// The copies of a model, one on each device of a plan, in their order.
pub struct Replicas(Vec<Trainee>);

impl Replicas {
    /// Copies a model without an optimiser's state, which is on the first device, to all devices.
    ///
    /// # Errors
    /// Returns an error if the first device fails.
    pub fn new(trainee: Trainee, settings: AdamW, plan: &Plan) -> anyhow::Result<Self> {
        if plan.devices.len() > 1 {
            // Burn's server lets a session wait for ever for a tensor of one that ended.
            plan.device().sync()?;
        }
        let others = plan.devices[1..].iter().map(|device| Trainee {
            model: trainee.model.clone().fork(device),
            optimiser: Optimiser::new(settings),
        });
        let others: Vec<_> = others.collect();
        Ok(Self(std::iter::once(trainee).chain(others).collect()))
    }

    /// Replaces parameters and states on all devices by saved ones.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, or is not of this model.
    pub fn restored(self, saved: &Saved, plan: &Plan) -> anyhow::Result<Self> {
        let devices = plan.devices.iter();
        let restored = self.0.into_iter().zip(devices);
        restored
            .map(|(trainee, device)| saved.restore(trainee, device))
            .collect::<anyhow::Result<_>>()
            .map(Self)
    }

    /// Returns the replicas of the newest state, its place and its points, or those of a new run without a state. Checks
    /// that all ranks run the same kernels and have the same weights.
    ///
    /// # Errors
    /// Returns an error if the state can't be read, or if a rank has other kernels or weights.
    pub fn begun(
        self,
        states: &States,
        plan: &Plan,
    ) -> anyhow::Result<(Self, Progress, Vec<Point>)> {
        let begun = match Shared::newest(states, &plan.ranks)? {
            None => (self, Progress::default(), Vec::new()),
            Some(shared) => {
                let replicas = self.restored(&shared.saved, plan)?;
                let Saved {
                    progress, points, ..
                } = shared.saved;
                if plan.ranks.leads() {
                    output::note(format_args!(
                        "going on after step {} of {}",
                        progress.step, plan.steps
                    ));
                }
                (replicas, progress, points)
            }
        };
        #[cfg(feature = "distributed")]
        let begun = {
            let mut begun = begun;
            if let Some(group) = plan.ranks.group() {
                let Trainee { model, optimiser } = &mut begun.0.0[0];
                exchange::kernels::compare(plan, group)?;
                let digest = exchange::digest(model)?;
                plan.ranks.agree_on_digest("weights of the model", digest)?;
                if plan.ranks.shards() {
                    sharded::divide(model, optimiser, group)?;
                }
            }
            begun
        };
        Ok(begun)
    }

    /// Returns the optimiser with all of its states, if they are divided over the ranks and this is the first.
    ///
    /// # Errors
    /// Returns an error if the device fails or a rank is lost.
    pub fn gathered(&self, plan: &Plan) -> anyhow::Result<Option<Optimiser>> {
        #[cfg(feature = "distributed")]
        if let Some(group) = plan.ranks.group().filter(|_| plan.ranks.shards()) {
            let Trainee { model, optimiser } = self.first();
            return sharded::gathered(model, optimiser, group);
        }
        let _ = plan;
        Ok(None)
    }

    /// Returns the model on the first device.
    pub fn first(&self) -> &Trainee {
        &self.0[0]
    }

    /// Returns the model on the first device by value.
    pub fn into_first(mut self) -> Trainee {
        self.0.swap_remove(0)
    }

    /// Waits for all devices, so that a failure of one is known.
    ///
    /// # Errors
    /// Returns an error that names the devices that failed.
    pub fn sync(&self, plan: &Plan) -> anyhow::Result<()> {
        let synced = plan
            .devices
            .iter()
            .map(|device| device.sync().map_err(anyhow::Error::from));
        named(plan, synced.collect()).map(drop)
    }

    /// Takes a step on batches. Returns the trained models, the loss before the step, and the norm of its gradients. If
    /// one of these is not finite, the models are as they were.
    ///
    /// # Errors
    /// Returns an error if a device fails, which then names the device.
    pub fn step(
        self,
        batches: &[Batch],
        plan: &Plan,
        (seed, rate): (u64, f64),
    ) -> anyhow::Result<(Self, Loss, f64)> {
        #[cfg(feature = "distributed")]
        if let Some(group) = plan.ranks.group() {
            return self.step_of_ranks(batches, plan, group, (seed, rate));
        }
        if let [device] = &plan.devices[..] {
            let method = plan.method(device, seed);
            let (trainee, loss, norm) = self.into_first().step(batches, method, rate)?;
            return Ok((Self(vec![trainee]), loss, norm));
        }
        let all = batches.iter().map(Batch::counted).sum();
        let shares = shares(batches, plan.devices.len());
        let computed = on_each(
            plan,
            self.0.into_iter().zip(shares),
            |device, (trainee, share)| {
                let method = plan.method(device, seed);
                let (mean, gradients) = Pass::new(&trainee.model, method).gradients(&share, all)?;
                Ok((trainee, mean, gradients))
            },
        )?;
        let (mut trainees, mut mean, mut gradients) = (Vec::new(), Mean::default(), Vec::new());
        for (trainee, of_share, computed) in computed {
            trainees.push(trainee);
            mean.merge(of_share);
            gradients.push(computed);
        }
        add_up(&trainees[0], &mut gradients, &plan.devices);
        // Burn keeps messages back. A read of one device would wait for ever for the parts that others have not got.
        let flushed = plan.devices.iter();
        let flushed = flushed.map(|device| device.flush().map_err(anyhow::Error::from));
        named(plan, flushed.collect())?;
        let norm = optimiser::norm(&trainees[0].model, &gradients[0]);
        let norm = norm.map_err(|error| anyhow!("{}: {error:#}", plan.names[0]))?;
        let loss = mean.get();
        if !(loss.value.is_finite() && norm.is_finite()) {
            return Ok((Self(trainees), loss, norm));
        }
        let parts = trainees.into_iter().zip(gradients);
        let trainees = on_each(plan, parts, |_, (trainee, gradients)| {
            Ok(trainee.updated(rate, gradients, norm))
        })?;
        Ok((Self(trainees), loss, norm))
    }

    /// Takes a step on this rank's share of the batches, with the gradients of all ranks.
    #[cfg(feature = "distributed")]
    fn step_of_ranks(
        self,
        batches: &[Batch],
        plan: &Plan,
        group: &Group,
        (seed, rate): (u64, f64),
    ) -> anyhow::Result<(Self, Loss, f64)> {
        let trainee = self.into_first();
        let all = batches.iter().map(Batch::counted).sum();
        let share = Batch::of_rank(batches, group.rank(), group.size());
        let (device, model) = (plan.device(), &trainee.model);
        let pass = Pass::new(model, plan.method(device, seed)).shared(group);
        // Between the layers of a mixture of experts, ranks add up choices, and a rank without a share does so at another time.
        let overlaps = plan.gradient_checkpointing && !plan.ranks.shards() && !model.is_sparse();
        let (mean, gradients) = match overlaps {
            true => {
                let mut learned = plan.ranks.learned();
                let mut early = Early::new(group, model, &mut learned, early::BUCKET);
                let take = |gradients, is_last| early.take(gradients, is_last);
                let mean = pass.each_gradient(&share, all, take)?;
                (mean, early.finish()?)
            }
            false => pass.gradients(&share, all)?,
        };
        drop(pass);
        let loss = mean.of_all(&plan.ranks)?.get();
        if plan.ranks.shards() {
            let share = Share::of(model, gradients, group)?;
            let norm = share.norm(&plan.ranks)?;
            let trainee = match loss.value.is_finite() && norm.is_finite() {
                true => {
                    let Trainee {
                        model,
                        mut optimiser,
                    } = trainee;
                    let how = (rate, norm);
                    let model = share.step(model, &mut optimiser, how, (group, device))?;
                    Trainee { model, optimiser }
                }
                false => trainee,
            };
            return Ok((Self(vec![trainee]), loss, norm));
        }
        let gradients = match overlaps {
            true => gradients,
            false => sum_gradients(group, model, gradients)?,
        };
        // All ranks decide by the same bits, whatever their machines.
        let mut norm = [optimiser::norm(model, &gradients)?];
        group.broadcast(&mut norm, 0)?;
        let [norm] = norm;
        let trainee = match loss.value.is_finite() && norm.is_finite() {
            true => trainee.updated(rate, gradients, norm),
            false => trainee,
        };
        Ok((Self(vec![trainee]), loss, norm))
    }
}

/// Returns the batches of each device. A share without a target has no loss, and is left out.
fn shares(batches: &[Batch], count: usize) -> Vec<Vec<Batch>> {
    let mut shares = vec![Vec::new(); count];
    for batch in batches {
        let parts = shares.iter_mut().zip(batch.shares(count));
        for (share, part) in parts.filter(|(_, part)| part.targets() > 0) {
            share.push(part);
        }
    }
    shares
}

/// Runs `work` for each device, in threads of their own, because reads wait.
fn on_each<T: Send, R: Send>(
    plan: &Plan,
    parts: impl Iterator<Item = T>,
    work: impl Fn(&Device, T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let done = thread::scope(|scope| {
        let work = &work;
        let parts = plan.devices.iter().zip(parts);
        let threads: Vec<_> = parts
            .map(|(device, part)| scope.spawn(move || work(device, part)))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panic| bail!("{}", message(panic.as_ref()))))
            .collect()
    });
    named(plan, done)
}

/// Returns the results of all devices, or an error with those of each device that failed.
fn named<R>(plan: &Plan, done: Vec<anyhow::Result<R>>) -> anyhow::Result<Vec<R>> {
    let (mut results, mut failures) = (Vec::new(), Vec::new());
    for (name, done) in plan.names.iter().zip(done) {
        match done {
            Ok(result) => results.push(result),
            Err(error) => failures.push(format!("{name}: {error:#}")),
        }
    }
    match failures[..] {
        [] => Ok(results),
        _ => bail!("training on several devices ended; {}", failures.join("; ")),
    }
}

/// Returns the text of a panic, by which Burn reports failures.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it failed without a message")
}

/// Adds up the gradients of all devices, parameter by parameter. A device whose share did not use a parameter adds zeros.
fn add_up(first: &Trainee, gradients: &mut [GradientsParams], devices: &[Device]) {
    let devices: Vec<Device> = devices
        .iter()
        .map(|device| device.clone().inner())
        .collect();
    first.model.visit(&mut Sum { gradients, devices });
}

struct Sum<'a> {
    gradients: &'a mut [GradientsParams],
    devices: Vec<Device>,
}

impl ModuleVisitor for Sum<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let parts = self.gradients.iter_mut();
        let parts: Vec<Option<Tensor<D>>> = parts.map(|all| all.remove(param.id)).collect();
        let Some(known) = parts.iter().flatten().next() else {
            return;
        };
        let (shape, dtype) = (known.shape(), known.dtype());
        for (rank, part) in parts.into_iter().enumerate() {
            let zeros = || Tensor::zeros(shape.clone(), (&self.devices[rank], dtype));
            let part = part.unwrap_or_else(zeros);
            let sum = all_reduce(part, ReduceOperation::Sum, self.devices.clone());
            self.gradients[rank].register(param.id, sum.resolve());
        }
    }
}
