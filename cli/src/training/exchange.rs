//! Gradients of all ranks of a group, added up in buckets.

use anyhow::Context;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use burn_kernels::distributed::{Group, Pending};
use sha2::{Digest, Sha256};
use std::collections::{HashSet, VecDeque};

/// The number of elements of a bucket: 25 MB of f32.
const BUCKET: usize = 25_000_000 / 4;

/// Adds up the gradients of all ranks. A rank whose share did not use a parameter adds zeros. A parameter that no rank
/// used has no gradient. Each gradient is sent once, in f32. The sums are on `device`.
///
/// # Errors
/// Returns an error if the device fails or a rank is lost.
pub fn add_up<M: Module>(
    model: &M,
    gradients: GradientsParams,
    group: &Group,
    device: &Device,
) -> anyhow::Result<GradientsParams> {
    let used = used(model, &gradients, group)?;
    let mut sending = Sending {
        places: Places::new(&used),
        gradients,
        group,
        bucket: Vec::new(),
        started: VecDeque::new(),
        failure: None,
    };
    model.visit(&mut sending);
    let Sending {
        bucket,
        mut started,
        failure,
        ..
    } = sending;
    failure.map_or(Ok(()), Err)?;
    if !bucket.is_empty() {
        started.push_back(group.start_all_reduce(bucket));
    }
    let mut receiving = Receiving {
        places: Places::new(&used),
        sums: GradientsParams::new(),
        started,
        received: Vec::new(),
        taken: 0,
        device: device.clone().inner(),
        failure: None,
    };
    model.visit(&mut receiving);
    match receiving.failure {
        Some(error) => Err(error),
        None => Ok(receiving.sums),
    }
}

/// Returns a digest of all parameters of a model.
///
/// # Errors
/// Returns an error if the device fails.
pub fn digest<M: Module>(model: &M) -> anyhow::Result<[u8; 32]> {
    struct Bits {
        digest: Sha256,
        failure: Option<anyhow::Error>,
    }
    impl ModuleVisitor for Bits {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            match param.val().without_autodiff().try_into_data() {
                Ok(data) => self.digest.update(data.as_bytes()),
                Err(error) => self.failure = Some(error.into()),
            }
        }
    }
    let mut bits = Bits {
        digest: Sha256::new(),
        failure: None,
    };
    model.visit(&mut bits);
    match bits.failure {
        Some(error) => Err(error),
        None => Ok(bits.digest.finalize().into()),
    }
}

/// Returns, for each parameter in order, whether any rank has a gradient of it.
fn used<M: Module>(
    model: &M,
    gradients: &GradientsParams,
    group: &Group,
) -> anyhow::Result<Vec<u64>> {
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
    failure: Option<anyhow::Error>,
}

impl Sending<'_> {
    fn add(&mut self, mut values: &[f32]) {
        while !values.is_empty() {
            let room = (BUCKET - self.bucket.len()).min(values.len());
            let (now, later) = values.split_at(room);
            self.bucket.extend_from_slice(now);
            values = later;
            if self.bucket.len() == BUCKET {
                let full = std::mem::take(&mut self.bucket);
                self.started.push_back(self.group.start_all_reduce(full));
            }
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
                Err(error) => self.failure = Some(error.into()),
            },
            None => self.add(&vec![0.0; param.val().shape().num_elements()]),
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
    device: Device,
    failure: Option<anyhow::Error>,
}

impl Receiving<'_> {
    fn take(&mut self, count: usize) -> anyhow::Result<Vec<f32>> {
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            if self.taken == self.received.len() {
                let next = self.started.pop_front();
                self.received = next.context("a sum of gradients is missing")?.wait()?;
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
        let value = param.val();
        match self.take(value.shape().num_elements()) {
            Ok(values) => {
                let data = TensorData::new(values, value.shape());
                let sum = Tensor::<D>::from_data(data, (&self.device, value.dtype()));
                self.sums.register(param.id, sum);
            }
            Err(error) => self.failure = Some(error),
        }
    }
}

#[cfg(test)]
mod tests;
