//! Gradients of all ranks of a group, summed in buckets.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use kernels_distributed::{Error, Group, Pending};
use std::collections::{HashSet, VecDeque};
use std::fmt::Display;

/// The number of elements of a bucket: 25 MB of f32.
const BUCKET: usize = 25_000_000 / 4;

/// Sums the gradients of a model over all ranks of a group, on which the model is the same but for its values.
///
/// A rank that did not use a parameter adds zeros. A parameter that no rank used has no gradient. Each gradient is sent
/// once, in `f32`, in buckets of 25 MB; a parameter in two places counts once. The sums have the dtypes and devices of the
/// parameters. Divide each rank's loss by the number of all targets, so that the sums are the gradients of the mean.
///
/// # Errors
///
/// If a device fails or a rank is lost. All ranks then get an error that names the rank.
pub fn sum_gradients<M: Module>(
    group: &Group,
    model: &M,
    gradients: GradientsParams,
) -> Result<GradientsParams, Error> {
    let used = used(group, model, &gradients)?;
    let mut sending = Sending {
        places: Places::new(&used),
        gradients,
        group,
        bucket: Vec::new(),
        started: VecDeque::new(),
        failure: None,
    };
    model.visit(&mut sending);
    if let Some(failure) = sending.failure {
        return Err(failure);
    }
    sending.send();
    let mut receiving = Receiving {
        places: Places::new(&used),
        sums: GradientsParams::new(),
        started: sending.started,
        received: Vec::new(),
        taken: 0,
        failure: None,
    };
    model.visit(&mut receiving);
    match receiving.failure {
        Some(error) => Err(error),
        None => Ok(receiving.sums),
    }
}

/// Ends the group, because this rank can't go on.
fn end(group: &Group, reason: &dyn Display) -> Error {
    group.fail(&reason.to_string());
    let ended = group.barrier();
    ended.expect_err("a group that has ended refuses calls")
}

/// Returns, for each parameter in order, whether any rank has a gradient of it.
fn used<M: Module>(
    group: &Group,
    model: &M,
    gradients: &GradientsParams,
) -> Result<Vec<u64>, Error> {
    struct Used<'a> {
        gradients: &'a GradientsParams,
        seen: HashSet<ParamId>,
        flags: Vec<u64>,
    }
    impl ModuleVisitor for Used<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.seen.insert(param.id) {
                let is_used = self.gradients.get::<D>(param.id).is_some();
                self.flags.push(u64::from(is_used));
            }
        }
    }
    let mut used = Used {
        gradients,
        seen: HashSet::new(),
        flags: Vec::new(),
    };
    model.visit(&mut used);
    group.all_reduce(&mut used.flags)?;
    Ok(used.flags)
}

/// The used parameters of a model. A parameter in two places counts once.
struct Places<'a> {
    used: std::slice::Iter<'a, u64>,
    seen: HashSet<ParamId>,
}

impl<'a> Places<'a> {
    fn new(used: &'a [u64]) -> Self {
        Self {
            used: used.iter(),
            seen: HashSet::new(),
        }
    }

    fn has(&mut self, id: ParamId) -> bool {
        self.seen.insert(id) && self.used.next().is_some_and(|count| *count > 0)
    }
}

struct Sending<'a> {
    places: Places<'a>,
    gradients: GradientsParams,
    group: &'a Group,
    bucket: Vec<f32>,
    started: VecDeque<Pending>,
    failure: Option<Error>,
}

impl Sending<'_> {
    fn add(&mut self, mut values: &[f32]) {
        while !values.is_empty() {
            let room = (BUCKET - self.bucket.len()).min(values.len());
            let (now, later) = values.split_at(room);
            self.bucket.extend_from_slice(now);
            values = later;
            if self.bucket.len() == BUCKET {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        if !self.bucket.is_empty() {
            let bucket = std::mem::take(&mut self.bucket);
            self.started.push_back(self.group.start_all_reduce(bucket));
        }
    }
}

impl ModuleVisitor for Sending<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !self.places.has(param.id) || self.failure.is_some() {
            return;
        }
        match self.gradients.remove::<D>(param.id) {
            Some(gradient) => match gradient.try_to_vec_as::<f32>() {
                Ok(values) => self.add(&values),
                Err(error) => self.failure = Some(end(self.group, &error)),
            },
            None => self.add(&vec![0.0; param.base().shape().num_elements()]),
        }
    }
}

struct Receiving<'a> {
    places: Places<'a>,
    sums: GradientsParams,
    started: VecDeque<Pending>,
    received: Vec<f32>,
    /// The number of received elements that are in `sums`.
    taken: usize,
    failure: Option<Error>,
}

impl Receiving<'_> {
    fn take(&mut self, count: usize) -> Result<Vec<f32>, Error> {
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            if self.taken == self.received.len() {
                let next = self.started.pop_front();
                let next = next.expect("as many elements were sent as parameters have");
                self.received = next.wait()?;
                self.taken = 0;
            }
            let end = self.received.len().min(self.taken + count - values.len());
            values.extend_from_slice(&self.received[self.taken..end]);
            self.taken = end;
        }
        Ok(values)
    }
}

impl ModuleVisitor for Receiving<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !self.places.has(param.id) || self.failure.is_some() {
            return;
        }
        let value = param.base();
        match self.take(value.shape().num_elements()) {
            Ok(values) => {
                let data = TensorData::new(values, value.shape());
                let device = value.device().inner();
                let sum = Tensor::<D>::from_data(data, (&device, value.dtype()));
                self.sums.register(param.id, sum);
            }
            Err(error) => self.failure = Some(error),
        }
    }
}
