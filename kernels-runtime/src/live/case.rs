//! The part of a call that is compared.

use super::run::Split;
use super::sampling::Width;
use crate::dispatch::Site;
use crate::kernel::any_rank::sizes;
use crate::kernel::erased::{AnyOperands, ErasedOperands, ErasedTensors};
use crate::kernel::{Collect, Visitor};
use crate::registry::Implementation;
use burn::backend::{DispatchTensor, TensorMetadata};

/// The compared part of a call, with rows of other numbers after it. It is some of the rows if the operation computes
/// each row separately, otherwise the whole call.
pub(super) struct Case {
    pub(super) operands: AnyOperands,
    pub(super) split: Option<Split>,
    /// True if these are not the operands of the call.
    pub(super) is_sample: bool,
}

impl Case {
    /// Takes the part of the call that `width` states, if the limits of `implementation` allow it. Otherwise takes the
    /// whole call.
    pub(super) fn of(
        operands: &dyn ErasedOperands,
        width: Width,
        site: &Site,
        implementation: &Implementation,
    ) -> Self {
        let whole = || Self {
            operands: operands.copy(),
            split: None,
            is_sample: false,
        };
        let Width::Rows(rows) = width else {
            return whole();
        };
        let Some(sample) = operands.sample(rows) else {
            return whole();
        };
        let (probed, probes) = sample.copy().with_probes();
        if probes > 0 && takes(site, implementation, &*probed) {
            let all = first_axis(&*probed);
            let run = all - probes;
            return Self {
                operands: probed,
                split: Some(Split { run, all }),
                is_sample: true,
            };
        }
        match takes(site, implementation, &*sample) {
            true => Self {
                operands: sample,
                split: None,
                is_sample: true,
            },
            false => whole(),
        }
    }
}

fn takes(site: &Site, implementation: &Implementation, operands: &dyn ErasedOperands) -> bool {
    let Some(limits) = implementation.limits else {
        return true;
    };
    let collected = Collect::of_erased(operands);
    limits(&site.spec().key, &collected.tensors()).is_ok()
}

/// Returns the length of the first axis of the first tensor.
fn first_axis(operands: &dyn ErasedOperands) -> usize {
    struct First(Option<usize>);
    impl Visitor for First {
        fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
            self.0.get_or_insert(tensor.shape()[0]);
        }
    }
    let mut first = First(None);
    operands.show(&mut first);
    first.0.unwrap_or(0)
}

/// Describes a sample in a message.
pub(super) fn describe_sample(operands: &dyn ErasedTensors, split: Option<Split>) -> String {
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
pub(super) fn describe(operands: &dyn ErasedTensors) -> String {
    struct Named(Vec<String>);
    impl Visitor for Named {
        fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
            let (dtype, shape) = (tensor.dtype().name(), sizes(tensor));
            self.0.push(format!("{name} {dtype}{shape:?}"));
        }
    }
    let mut named = Named(Vec::new());
    operands.show(&mut named);
    named.0.join(", ")
}
