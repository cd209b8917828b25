//! The part of a call that is compared.

use super::run::Split;
use super::sampling::Width;
use crate::dispatch::Site;
use crate::kernel::{Collect, Operands, Tensors, Visitor};
use crate::registry::Implementation;
use burn::tensor::Tensor;

/// The compared part of a call, with rows of other numbers after it. It is some of the rows if the operation computes
/// each row separately, otherwise the whole call.
pub(super) struct Case<O> {
    pub(super) operands: O,
    pub(super) split: Option<Split>,
    /// True if these are not the operands of the call.
    pub(super) is_sample: bool,
}

impl<O: Operands> Case<O> {
    /// Takes the part of the call that `width` states, if the limits of `implementation` allow it. Otherwise takes the
    /// whole call.
    pub(super) fn of(
        operands: &O,
        width: Width,
        site: &Site,
        implementation: &Implementation,
    ) -> Self {
        let whole = || Self {
            operands: operands.clone(),
            split: None,
            is_sample: false,
        };
        let Width::Rows(rows) = width else {
            return whole();
        };
        let Some(sample) = operands.sample(rows) else {
            return whole();
        };
        let (probed, probes) = sample.clone().with_probes();
        if probes > 0 && takes(site, implementation, &probed) {
            let all = first_axis(&probed);
            let run = all - probes;
            return Self {
                operands: probed,
                split: Some(Split { run, all }),
                is_sample: true,
            };
        }
        match takes(site, implementation, &sample) {
            true => Self {
                operands: sample,
                split: None,
                is_sample: true,
            },
            false => whole(),
        }
    }
}

fn takes<O: Operands>(site: &Site, implementation: &Implementation, operands: &O) -> bool {
    let Some(limits) = implementation.limits else {
        return true;
    };
    let collected = Collect::of(&mut operands.clone());
    limits(&site.spec().key, &collected.tensors()).is_ok()
}

/// Returns the length of the first axis of the first tensor.
fn first_axis<O: Tensors + Clone>(operands: &O) -> usize {
    struct First(Option<usize>);
    impl Visitor for First {
        fn tensor<const D: usize>(&mut self, _: &'static str, tensor: &mut Tensor<D>) {
            self.0.get_or_insert(tensor.dims()[0]);
        }
    }
    let mut first = First(None);
    operands.clone().visit(&mut first);
    first.0.unwrap_or(0)
}

/// Describes a sample in a message.
pub(super) fn describe_sample<O: Tensors + Clone>(operands: &O, split: Option<Split>) -> String {
    let rows = "rows from the first to the last";
    let operands = describe(operands);
    match split.map_or(0, |split| split.all - split.run) {
        0 => format!("{operands}: {rows}"),
        1 => format!("{operands}: {rows}, and behind them a slice of the check's own numbers"),
        more => {
            format!("{operands}: {rows}, and behind them {more} slices of the check's own numbers")
        }
    }
}

/// Returns names, dtypes and shapes for a message.
pub(super) fn describe<O: Tensors + Clone>(operands: &O) -> String {
    struct Named(Vec<String>);
    impl Visitor for Named {
        fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
            let (dtype, shape) = (tensor.dtype().name(), tensor.dims());
            self.0.push(format!("{name} {dtype}{shape:?}"));
        }
    }
    let mut named = Named(Vec::new());
    operands.clone().visit(&mut named);
    named.0.join(", ")
}
