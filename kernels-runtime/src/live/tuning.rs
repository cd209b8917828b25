//! The measurement of a call for a policy that tunes: the kernel and the body once each, on copies of the operands.

use super::check::{Body, Captured, message};
use super::detached;
use crate::context;
use crate::kernel::Visitor;
use crate::kernel::any_rank::flat;
use crate::kernel::erased::{AnyOperands, AnyTensors, ErasedOperands, ErasedTensors};
use crate::ops::derived;
use crate::registry::Implementation;
use crate::tune::{Class, Times, Turn};
use burn::backend::DispatchTensor;
use burn::tensor::{Device, FloatDType, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Runs an implementation for the program, after it was measured beside the body.
#[track_caller]
pub(super) fn measured(
    class: &'static Class,
    implementation: &'static Implementation,
    operands: AnyOperands,
    captured: Captured,
    body: Body<'_>,
) -> AnyTensors {
    if let Some(turn) = class.turn() {
        measure(turn, implementation, &*operands, captured, body);
    }
    derived::launch_erased(operands, implementation)
}

fn measure(
    turn: Turn<'_>,
    implementation: &'static Implementation,
    operands: &dyn ErasedOperands,
    captured: Captured,
    body: Body<'_>,
) {
    if captured.reaches_into_a_graph(operands) {
        turn.keep("its body captures a tensor that is computed under autodiff");
        return;
    }
    if is_reduced(operands) {
        turn.keep("Burn adds up gradients over several devices in each backward pass");
        return;
    }
    // Annotated sites inside the body are neither counted nor tuned, because the program did not call them.
    let _uncounted = context::uncounted();
    let kernel = || {
        time(operands, captured, |operands| {
            derived::launch_erased(operands, implementation)
        })
    };
    let reference = || {
        time(operands, captured, |operands| {
            detached::call(|| body(operands))
        })
    };
    let begins_with_reference = turn.begins_with_reference();
    // An unfinished result is dropped.
    let times = catch_unwind(AssertUnwindSafe(|| match begins_with_reference {
        true => {
            let reference = reference();
            Some((kernel()?, reference?))
        }
        false => Some((kernel()?, reference()?)),
    }));
    match times {
        Ok(Some((kernel, reference))) => turn.enter(Times { kernel, reference }),
        Ok(None) => turn.keep("its body captures parameters of a type that is not a `Module`"),
        Err(panic) => turn.keep(&format!(
            "it panics on copies of its operands: {}",
            message(&*panic)
        )),
    }
}

/// Returns the time of a computation on copies of the operands, forward and, if its results are tracked, backward. Returns
/// `None` if a backward pass might reach the program's leaves.
fn time(
    own: &dyn ErasedOperands,
    captured: Captured,
    compute: impl FnOnce(AnyOperands) -> AnyTensors,
) -> Option<Duration> {
    let (operands, device) = Copies::of(own);
    // Leaves that nobody holds would get no gradient.
    let leaves = operands.copy();
    wait(&device);
    let started = Instant::now();
    let (mut results, detached) = detached::Copies::during(|| compute(operands));
    wait(&device);
    let forward = started.elapsed();
    if detached.is_incomplete() && captured.tracks(own) {
        return None;
    }
    let mut sum = Sum(None);
    results.visit(&mut sum);
    let Sum(Some(loss)) = sum else {
        return Some(forward);
    };
    wait(&device);
    let started = Instant::now();
    let gradients = loss.backward();
    wait(&device);
    let backward = started.elapsed();
    drop((gradients, leaves));
    Some(forward + backward)
}

/// Returns `true` if a backward pass from copies of the operands would take part in Burn's reduction of gradients over
/// several devices. The others would wait for it, and the program's own pass would be one too many.
fn is_reduced(operands: &dyn ErasedTensors) -> bool {
    struct Reduced {
        is_tracked: bool,
        is_distributed: bool,
    }
    impl Visitor for Reduced {
        fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
            let tensor = flat(tensor);
            if tensor.is_tracked() {
                self.is_tracked = true;
                self.is_distributed |= tensor.is_distributed();
            }
        }
    }
    let mut reduced = Reduced {
        is_tracked: false,
        is_distributed: false,
    };
    operands.show(&mut reduced);
    reduced.is_distributed || reduced.is_tracked && reduces()
}

/// Returns `true` if a reduction of gradients is under way for remote devices.
#[cfg(feature = "remote")]
fn reduces() -> bool {
    use burn::backend::{Remote, distributed::get_distributed_sync_client};
    get_distributed_sync_client::<Remote>().is_some()
}

#[cfg(not(feature = "remote"))]
const fn reduces() -> bool {
    false
}

fn wait(device: &Device) {
    device
        .sync()
        .unwrap_or_else(|error| panic!("the device failed: {error}"));
}

/// A visitor that replaces tensors by copies that are detached from the program's graph, and finds their device. The copies
/// are of the same layout, because it decides much of the time, and share the program's memory.
struct Copies {
    device: Option<Device>,
}

impl Copies {
    fn of(operands: &dyn ErasedOperands) -> (AnyOperands, Device) {
        let mut copies = operands.copy();
        let mut visitor = Self { device: None };
        copies.visit(&mut visitor);
        (copies, visitor.device.expect("a call has a tensor"))
    }
}

impl Visitor for Copies {
    fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
        let own = flat(tensor);
        self.device.get_or_insert_with(|| own.device());
        let copy = own.clone().detach();
        // The kernel computes the gradients that the body does, and no others.
        let copy = match own.is_tracked() {
            true => copy.require_grad(),
            false => copy,
        };
        *tensor = copy.into_dispatch();
    }
}

/// A visitor that adds up the tracked results. In f32, results of several dtypes can be added. The sum may overflow,
/// because only its gradient is used.
struct Sum(Option<Tensor<1>>);

impl Visitor for Sum {
    fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
        let tensor = flat(tensor);
        if !tensor.is_tracked() {
            return;
        }
        let part = tensor.sum().cast(FloatDType::F32);
        self.0 = Some(match self.0.take() {
            Some(sum) => sum + part,
            None => part,
        });
    }
}
