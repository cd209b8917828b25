//! An optimiser whose states are divided over the ranks of a group: stage 1 of ZeRO (Rajbhandari et al.,
//! arXiv:1910.02054).
//!
//! The elements of all trained parameters, one parameter after the other, are one vector, of which each rank owns a part.
//! A step sums the gradients of each part on its owner, updates the part there, and gathers the parts on all ranks. So
//! each gradient is sent once and each parameter is gathered once, and a rank has the moments of its part alone.

use crate::training::optimiser::Optimiser;
use crate::training::ranks::Ranks;
use anyhow::Context;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{AdamWState, AdaptiveMomentumState, GradientsParams};
use burn::tensor::{Device, Tensor, TensorData};
use burn_kernels::distributed::Group;
use std::collections::HashSet;
use std::ops::Range;

/// The number of elements that are exchanged at once: 25 MB of f32.
const BUCKET: usize = 25_000_000 / 4;

/// Returns the elements of a vector of `count` that a rank owns.
fn owned(count: usize, rank: usize, size: usize) -> Range<usize> {
    let start = |rank| (count as u128 * rank as u128 / size as u128) as usize;
    start(rank)..start(rank + 1)
}

fn common(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// Returns how many elements of a part of the vector each rank owns.
fn counts(part: &Range<usize>, count: usize, size: usize) -> Vec<usize> {
    let of_rank = |rank| common(part, &owned(count, rank, size)).len();
    (0..size).map(of_rank).collect()
}

/// The parts of a vector that are exchanged one after the other.
fn buckets(count: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = (0..count).step_by(BUCKET);
    starts.map(move |start| start..count.min(start + BUCKET))
}

/// The places of parameters in the vector. A parameter in two places of a model counts once.
#[derive(Default)]
struct Places {
    seen: HashSet<ParamId>,
    end: usize,
}

impl Places {
    /// Returns the next range if the parameter is trained and new.
    fn of<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Option<Range<usize>> {
        let base = param.base();
        let is_new = base.is_require_grad() && self.seen.insert(param.id);
        is_new.then(|| {
            let start = self.end;
            self.end += base.shape().num_elements();
            start..self.end
        })
    }
}

/// Returns the number of trained elements of a model.
fn trained<M: Module>(model: &M) -> usize {
    struct Count(Places);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.of(param);
        }
    }
    let mut count = Count(Places::default());
    model.visit(&mut count);
    count.0.end
}

/// The sums of the gradients of this rank's part.
pub struct Share {
    gradients: Vec<f32>,
    /// The trained parameters of which some rank has a gradient, in order.
    used: Vec<bool>,
    own: Range<usize>,
    count: usize,
}

impl Share {
    /// Sums the gradients of all ranks, each part on its owner. A rank without a gradient of a parameter adds zeros.
    ///
    /// # Errors
    /// Returns an error if the device fails or a rank is lost.
    pub fn of<M: Module>(
        model: &M,
        gradients: GradientsParams,
        group: &Group,
    ) -> anyhow::Result<Self> {
        let count = trained(model);
        let own = owned(count, group.rank(), group.size());
        let mut scatter = Scatter {
            places: Places::default(),
            gradients,
            used: Vec::new(),
            group,
            count,
            bucket: Vec::new(),
            sent: 0,
            share: Vec::with_capacity(own.len()),
            failure: None,
        };
        model.visit(&mut scatter);
        if scatter.failure.is_none()
            && let Err(failure) = scatter.send()
        {
            scatter.failure = Some(failure);
        }
        let Scatter {
            mut used,
            share,
            failure,
            ..
        } = scatter;
        failure.map_or(Ok(()), Err)?;
        group.all_reduce(&mut used)?;
        Ok(Self {
            gradients: share,
            used: used.into_iter().map(|ranks| ranks > 0).collect(),
            own,
            count,
        })
    }

    /// Returns the norm of the gradients of all parts, the same on all ranks.
    ///
    /// # Errors
    /// Returns an error if a rank is lost.
    pub fn norm(&self, ranks: &Ranks) -> anyhow::Result<f64> {
        let squares = self.gradients.iter().map(|one| f64::from(*one).powi(2));
        let mut sum = [squares.sum()];
        ranks.sum(&mut sum)?;
        Ok(sum[0].sqrt())
    }

    /// Updates this rank's part of a model by gradients of this norm, and gathers the parts of all ranks.
    ///
    /// # Errors
    /// Returns an error if the device fails or a rank is lost.
    pub fn step<M: Module>(
        self,
        model: M,
        optimiser: &mut Optimiser,
        (rate, norm): (f64, f64),
        (group, device): (&Group, &Device),
    ) -> anyhow::Result<M> {
        let (count, size) = (self.count, group.size());
        let used = self.used.clone();
        let mut update = Update {
            factor: optimiser.factor(norm),
            share: self,
            places: Places::default(),
            number: 0,
            optimiser,
            rate,
            path: Vec::new(),
            updated: Vec::new(),
            failure: None,
        };
        model.visit(&mut update);
        let Update {
            updated,
            failure,
            share: Self { own, .. },
            ..
        } = update;
        failure.map_or(Ok(()), Err)?;
        let mut gather = Gather {
            places: Places::default(),
            used: used.into_iter(),
            values: Vec::new(),
            start: 0,
            buckets: buckets(count),
            all_gather: |bucket: &Range<usize>| {
                let part = common(bucket, &own);
                let part = match part.is_empty() {
                    true => &[],
                    false => &updated[part.start - own.start..part.end - own.start],
                };
                Ok(group.all_gather(part, &counts(bucket, count, size))?)
            },
            device,
            failure: None,
        };
        let model = model.map(&mut gather);
        gather.failure.map_or(Ok(model), Err)
    }
}

struct Scatter<'a> {
    places: Places,
    gradients: GradientsParams,
    used: Vec<u64>,
    group: &'a Group,
    count: usize,
    bucket: Vec<f32>,
    /// The number of elements that were sent.
    sent: usize,
    share: Vec<f32>,
    failure: Option<anyhow::Error>,
}

impl Scatter<'_> {
    fn add(&mut self, mut values: &[f32]) -> anyhow::Result<()> {
        while !values.is_empty() {
            let room = (BUCKET - self.bucket.len()).min(values.len());
            let (now, later) = values.split_at(room);
            self.bucket.extend_from_slice(now);
            values = later;
            if self.bucket.len() == BUCKET {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> anyhow::Result<()> {
        if !self.bucket.is_empty() {
            let part = self.sent..self.sent + self.bucket.len();
            let counts = counts(&part, self.count, self.group.size());
            self.share
                .extend(self.group.reduce_scatter(&self.bucket, &counts)?);
            self.sent = part.end;
            self.bucket.clear();
        }
        Ok(())
    }
}

impl ModuleVisitor for Scatter<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.failure.is_some() {
            return;
        }
        let Some(place) = self.places.of(param) else {
            return;
        };
        let gradient = self.gradients.remove::<D>(param.id);
        self.used.push(u64::from(gradient.is_some()));
        let added = match gradient.map(|gradient| gradient.try_to_vec_as::<f32>()) {
            Some(Ok(values)) => self.add(&values),
            Some(Err(error)) => Err(error.into()),
            None => self.add(&vec![0.0; place.len()]),
        };
        self.failure = added.err();
    }
}

struct Update<'a> {
    share: Share,
    places: Places,
    /// The number of trained parameters so far.
    number: usize,
    optimiser: &'a mut Optimiser,
    rate: f64,
    /// The factor of all gradients, if their norm is too large.
    factor: Option<f64>,
    path: Vec<String>,
    /// The values of this rank's part so far.
    updated: Vec<f32>,
    failure: Option<anyhow::Error>,
}

impl ModuleVisitor for Update<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.failure.is_some() {
            return;
        }
        let Some(place) = self.places.of(param) else {
            return;
        };
        let is_used = self.share.used[self.number];
        self.number += 1;
        let own = common(&place, &self.share.own);
        let mut piece = piece(&param.base().inner(), &place, &own);
        if is_used {
            let start = self.share.own.start;
            let gradient = match own.is_empty() {
                true => Vec::new(),
                false => self.share.gradients[own.start - start..own.end - start].to_vec(),
            };
            let gradient = TensorData::new(gradient, [own.len()]);
            let gradient = Tensor::from_data(gradient, (&piece.device(), piece.dtype()));
            let decays = Optimiser::decays(D, &self.path);
            piece =
                self.optimiser
                    .step_of((self.rate, self.factor, decays), param.id, piece, gradient);
        }
        match piece.try_to_vec_as::<f32>() {
            Ok(values) => self.updated.extend(values),
            Err(error) => self.failure = Some(error.into()),
        }
    }
}

/// Returns the elements of a tensor at `place` that are in `own`.
fn piece<const D: usize>(
    tensor: &Tensor<D>,
    place: &Range<usize>,
    own: &Range<usize>,
) -> Tensor<1> {
    match own.is_empty() {
        true => Tensor::empty([0], (&tensor.device(), tensor.dtype())),
        false => {
            let flat = tensor.clone().reshape([place.len()]);
            flat.narrow(0, own.start - place.start, own.len())
        }
    }
}

struct Gather<'a, B, G> {
    places: Places,
    used: std::vec::IntoIter<bool>,
    /// Gathered values, from the element `start` of the vector on.
    values: Vec<f32>,
    start: usize,
    buckets: B,
    all_gather: G,
    device: &'a Device,
    failure: Option<anyhow::Error>,
}

impl<B, G> Gather<'_, B, G>
where
    B: Iterator<Item = Range<usize>>,
    G: Fn(&Range<usize>) -> anyhow::Result<Vec<f32>>,
{
    fn take(&mut self, place: &Range<usize>) -> anyhow::Result<Vec<f32>> {
        while self.start + self.values.len() < place.end {
            let bucket = self.buckets.next();
            let bucket = bucket.context("the parameters of a model have changed in a step")?;
            self.values.drain(..place.start - self.start);
            self.start = place.start;
            self.values.extend((self.all_gather)(&bucket)?);
        }
        Ok(self.values[place.start - self.start..place.end - self.start].to_vec())
    }
}

impl<B, G> ModuleMapper for Gather<'_, B, G>
where
    B: Iterator<Item = Range<usize>>,
    G: Fn(&Range<usize>) -> anyhow::Result<Vec<f32>>,
{
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failure.is_some() {
            return param;
        }
        let Some(place) = self.places.of(&param) else {
            return param;
        };
        let is_used = self.used.next().unwrap_or(false);
        match self.take(&place) {
            Ok(values) if is_used => {
                let (id, tensor, mapper) = param.consume();
                let data = TensorData::new(values, tensor.shape());
                let updated = Tensor::from_data(data, (self.device, tensor.dtype()));
                Param::from_mapped_value(id, updated.require_grad(), mapper)
            }
            Ok(_) => param,
            Err(failure) => {
                self.failure = Some(failure);
                param
            }
        }
    }
}

/// Divides the states of an optimiser that every rank has as a whole, as after reading them. Each rank keeps its part.
///
/// # Errors
/// Returns an error if the device fails.
pub fn divide<M: Module>(
    model: &M,
    optimiser: &mut Optimiser,
    group: &Group,
) -> anyhow::Result<()> {
    struct Divide<'a> {
        places: Places,
        own: Range<usize>,
        optimiser: &'a mut Optimiser,
        failure: Option<anyhow::Error>,
    }
    impl Divide<'_> {
        fn divide<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> anyhow::Result<()> {
            let Some(place) = self.places.of(param) else {
                return Ok(());
            };
            let Some(state) = self.optimiser.state::<D>(param.id) else {
                return Ok(());
            };
            let momentum = &state.momentum;
            let own = common(&place, &self.own);
            // A view would keep the whole moment alive.
            let part = |moment: &Tensor<D>| {
                let part = piece(moment, &place, &own).try_into_data();
                part.map(|part| Tensor::from_data(part, (&moment.device(), moment.dtype())))
            };
            let part = AdaptiveMomentumState::new(
                momentum.time,
                part(&momentum.moment_1)?,
                part(&momentum.moment_2)?,
            );
            let part = AdamWState::<1>::new(part);
            self.optimiser.set_state(param.id, part);
            Ok(())
        }
    }
    impl ModuleVisitor for Divide<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.failure.is_none() {
                self.failure = self.divide(param).err();
            }
        }
    }
    let mut divide = Divide {
        places: Places::default(),
        own: owned(trained(model), group.rank(), group.size()),
        optimiser,
        failure: None,
    };
    model.visit(&mut divide);
    divide.failure.map_or(Ok(()), Err)
}

/// Returns an optimiser with the whole states of all parameters on the first rank, and nothing on the others. They are
/// gathered one parameter at a time.
///
/// # Errors
/// Returns an error if the device fails or a rank is lost.
pub fn gathered<M: Module>(
    model: &M,
    optimiser: &Optimiser,
    group: &Group,
) -> anyhow::Result<Option<Optimiser>> {
    struct Collect<'a> {
        places: Places,
        count: usize,
        group: &'a Group,
        optimiser: &'a Optimiser,
        whole: Optimiser,
        failure: Option<anyhow::Error>,
    }
    impl Collect<'_> {
        fn moment<const D: usize>(
            &self,
            part: &Tensor<1>,
            place: &Range<usize>,
            param: &Tensor<D>,
        ) -> anyhow::Result<Tensor<D>> {
            let values = part.try_to_vec_as::<f32>()?;
            let counts = counts(place, self.count, self.group.size());
            let values = self.group.all_gather(&values, &counts)?;
            let data = TensorData::new(values, param.shape());
            Ok(Tensor::from_data(data, (&param.device(), part.dtype())))
        }

        fn add<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> anyhow::Result<()> {
            let Some(place) = self.places.of(param) else {
                return Ok(());
            };
            let Some(state) = self.optimiser.state::<1>(param.id) else {
                return Ok(());
            };
            let (momentum, base) = (&state.momentum, param.base().inner());
            let first = self.moment(&momentum.moment_1, &place, &base)?;
            let second = self.moment(&momentum.moment_2, &place, &base)?;
            if self.group.rank() == 0 {
                let whole = AdaptiveMomentumState::new(momentum.time, first, second);
                self.whole.set_state(param.id, AdamWState::new(whole));
            }
            Ok(())
        }
    }
    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.failure.is_none() {
                self.failure = self.add(param).err();
            }
        }
    }
    let mut collect = Collect {
        places: Places::default(),
        count: trained(model),
        group,
        optimiser,
        whole: optimiser.without_states(),
        failure: None,
    };
    model.visit(&mut collect);
    match collect.failure {
        Some(failure) => Err(failure),
        None => Ok((group.rank() == 0).then_some(collect.whole)),
    }
}
