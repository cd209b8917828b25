//! Gradients of implementations that don't compute any: those of the reference. Also the step of autodiff that functions of
//! packages record.
//!
//! The implementation computes the results without autodiff. Each result is recorded as a step of autodiff. Its
//! backward pass runs the reference on the same operands under autodiff and differentiates it, in f32 for half
//! types. The operands are kept until then; the intermediate tensors of the reference exist only while it runs.

// Without a backend, nothing is dispatched.
#![cfg_attr(not(feature = "cpu"), allow(unused_variables))]

use super::define::operands;
use super::joined::{join, register_joined};
use super::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, traced,
};
use super::{compute_dtype, same_dtype_as};
use crate::kernel::any_rank::flat;
use crate::kernel::erased::{AnyOperands, AnyTensors, ErasedOperands, known};
use crate::kernel::{Collect, Operands, Visitor};
use crate::registry::{Gradient, Implementation};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Backend, Dispatch, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, TensorMetadata,
    backend_extension,
};
use burn::tensor::{DType, Gradients, Tensor};
use std::fmt;
use std::sync::Arc;

/// Runs an implementation that dispatch chose for these operands. Records the gradients of the reference if the
/// implementation has none.
pub(crate) fn launch<O: Operands>(
    operands: O,
    implementation: &'static Implementation,
) -> O::Output {
    match implementation.gradient {
        Gradient::Reference => known(launch_recorded(Box::new(operands), implementation)),
        _ => operands.launch(implementation),
    }
}

/// Does what [`launch`] does with operands of any type.
pub(crate) fn launch_erased(
    operands: AnyOperands,
    implementation: &'static Implementation,
) -> AnyTensors {
    match implementation.gradient {
        Gradient::Reference => launch_recorded(operands, implementation),
        _ => operands.launch(implementation),
    }
}

fn launch_recorded(
    mut operands: AnyOperands,
    implementation: &'static Implementation,
) -> AnyTensors {
    let parents = Collect::of_erased(&*operands).with_autodiff();
    if parents.iter().flatten().next().is_none() {
        return operands.launch(implementation);
    }
    operands.visit(&mut WithoutAutodiff);
    let mut output = operands.copy().launch(implementation);
    output.visit(&mut Record {
        parents: &parents,
        operands: &*operands,
        result: 0,
    });
    output
}

struct WithoutAutodiff;

impl Visitor for WithoutAutodiff {
    fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
        *tensor = flat(tensor).without_autodiff().into_dispatch();
    }
}

/// Records an autodiff step for each result.
struct Record<'a> {
    parents: &'a [Option<DispatchTensor>],
    operands: &'a dyn ErasedOperands,
    result: usize,
}

impl Visitor for Record<'_> {
    fn visit(&mut self, _: &'static str, y: &mut DispatchTensor) {
        let (operands, result) = (self.operands.copy(), self.result);
        self.result += 1;
        let tracked: Vec<bool> = self.parents.iter().map(Option::is_some).collect();
        let pullback = move |dy: DispatchTensor| {
            let gradients = of_reference(operands.copy(), result, dy);
            let gradients = gradients.into_iter().zip(&tracked);
            gradients
                .filter(|(_, tracked)| **tracked)
                .map(|(gradient, _)| gradient)
                .collect()
        };
        let parents = self.parents.iter().flatten().cloned().collect();
        *y = record(parents, y, "the gradient of a reference", pullback);
    }
}

/// Records a result without autodiff as a step of autodiff. `pullback` returns the gradients of the parents, given that of
/// the result. `kernel` is the name of the step in spans.
///
/// # Panics
/// Panics without a parent.
pub(crate) fn record(
    parents: Vec<DispatchTensor>,
    y: &DispatchTensor,
    kernel: &'static str,
    pullback: impl Fn(DispatchTensor) -> Vec<Option<DispatchTensor>> + Send + Sync + 'static,
) -> DispatchTensor {
    // With the parents' strategy of gradient checkpointing: Burn does not mix two.
    let y = DispatchTensor {
        autodiff: parents[0].autodiff,
        ..flat(y).autodiff().into_dispatch()
    };
    let run = Arc::new(pullback);
    <Dispatch as DerivedBackend>::derived(Recorded { parents, y }, Pullback { kernel, run })
}

/// Gives a number that was computed without autodiff its gradients, those of a gradient of the number of 1. Each is in the dtype
/// of its tensor or a wider one, and rounded once, when it was multiplied by the gradient of the number. So a loss that is computed
/// in parts needs the graph of one part at a time.
///
/// # Panics
/// Panics if a gradient does not have the shape of its tensor.
pub fn with_gradients<const D: usize>(
    number: Tensor<1>,
    known: Vec<(Tensor<D>, Tensor<D>)>,
) -> Tensor<1> {
    let (tensors, gradients): (Vec<_>, Vec<_>) = known.into_iter().unzip();
    let pairs = tensors.iter().zip(&gradients);
    let mut shapes = pairs.map(|(tensor, gradient)| (tensor.dims(), gradient.dims()));
    if let Some((of, found)) = shapes.find(|(of, found)| of != found) {
        panic!("a tensor of shape {of:?} has no gradient of shape {found:?}");
    }
    if tensors.is_empty() {
        return number;
    }
    let dtypes: Vec<DType> = tensors.iter().map(|tensor| tensor.dtype()).collect();
    let pullback = move |dy: DispatchTensor| {
        let each = gradients.iter().zip(&dtypes);
        let each = each.map(|(gradient, dtype)| {
            let dy = same_dtype_as(flat(&dy), gradient.dtype()).reshape([1; D]);
            let product = gradient.clone() * dy;
            Some(same_dtype_as(product, *dtype).into_dispatch())
        });
        each.collect()
    };
    let parents = tensors.into_iter().map(Tensor::into_dispatch).collect();
    let number = number.into_dispatch();
    Tensor::from_dispatch(record(parents, &number, "known gradients", pullback))
}

/// Returns the gradients of the operands, given the gradient of one of the results.
fn of_reference(
    mut operands: AnyOperands,
    result: usize,
    dy: DispatchTensor,
) -> Vec<Option<DispatchTensor>> {
    let mut leaves = Leaves(Vec::new());
    operands.visit(&mut leaves);
    let mut y = operands.copy().reference();
    let mut loss = Loss {
        dy: Some(dy),
        left: result,
        gradients: None,
    };
    y.visit(&mut loss);
    let mut taken = Taken {
        of: loss.gradients,
        dtypes: leaves.0.into_iter(),
        gradients: Vec::new(),
    };
    operands.show(&mut taken);
    taken.gradients
}

/// Makes each operand a leaf of a new graph, in the type that references compute in. Collects the original types
/// in the order of the operands.
struct Leaves(Vec<DType>);

impl Visitor for Leaves {
    fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
        let dtype = tensor.dtype();
        self.0.push(dtype);
        let wide = same_dtype_as(flat(tensor), compute_dtype(dtype));
        *tensor = wide.autodiff().require_grad().into_dispatch();
    }
}

/// Runs the backward pass of one result.
struct Loss {
    dy: Option<DispatchTensor>,
    /// The number of results that are still to come before it.
    left: usize,
    gradients: Option<Gradients>,
}

impl Visitor for Loss {
    fn visit(&mut self, _: &'static str, y: &mut DispatchTensor) {
        let y = flat(y);
        if self.left == 0
            && let Some(dy) = self.dy.take()
            && y.is_tracked()
        {
            // The gradient of this sum with respect to `y` is `dy`.
            let dy = same_dtype_as(flat(&dy), y.dtype());
            self.gradients = Some((y * dy).sum().backward());
        }
        self.left = self.left.saturating_sub(1);
    }
}

struct Taken {
    of: Option<Gradients>,
    dtypes: std::vec::IntoIter<DType>,
    gradients: Vec<Option<DispatchTensor>>,
}

impl Visitor for Taken {
    fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
        let dtype = self.dtypes.next().expect("a dtype for each operand");
        let gradient = self.of.as_ref().and_then(|of| flat(tensor).grad(of));
        let gradient = gradient.map(|gradient| same_dtype_as(gradient, dtype));
        self.gradients.push(gradient.map(Tensor::into_dispatch));
    }
}

operands! {
    /// A result and the operands that it was computed from.
    Recorded<T> {
        /// Returns the operands with autodiff enabled.
        parents: List,
        /// Returns the result, which has no autodiff step yet.
        y: One,
    }
    numbers {}
}

/// A function that returns the gradients of the parents, given the gradient of the result.
#[derive(Clone)]
pub struct Pullback {
    kernel: &'static str,
    run: Arc<dyn Fn(DispatchTensor) -> Vec<Option<DispatchTensor>> + Send + Sync>,
}

impl fmt::Debug for Pullback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pullback")
    }
}

/// A result and its operands as tensors of a backend.
pub type RecordedTensors<B> = Recorded<FloatTensor<B>>;

/// The operation of a Burn backend that attaches the gradients of a reference to a result.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait DerivedBackend: Backend {
    /// Returns the result.
    fn derived(
        #[extension_type] tensors: RecordedTensors<Self>,
        pullback: Pullback,
    ) -> FloatTensor<Self>;
}

/// A backend that Burn's dispatch supports.
trait Dispatched: Backend {
    fn into_dispatch(tensor: FloatTensor<Self>) -> DispatchTensorKind;

    fn from_dispatch(tensor: DispatchTensor) -> FloatTensor<Self>;
}

#[cfg(any(feature = "cpu", feature = "remote"))]
macro_rules! dispatched {
    ($Backend:ident) => {
        impl DerivedBackend for burn::backend::$Backend {
            fn derived(tensors: RecordedTensors<Self>, _: Pullback) -> FloatTensor<Self> {
                tensors.y
            }
        }

        impl Dispatched for burn::backend::$Backend {
            fn into_dispatch(tensor: FloatTensor<Self>) -> DispatchTensorKind {
                DispatchTensorKind::$Backend(burn::backend::BackendTensor::Float(tensor))
            }

            fn from_dispatch(tensor: DispatchTensor) -> FloatTensor<Self> {
                match tensor.kind {
                    DispatchTensorKind::$Backend(tensor) => tensor.float(),
                    _ => unreachable!("a gradient is where its operand is"),
                }
            }
        }
    };
}

#[cfg(feature = "cpu")]
dispatched!(Flex);
#[cfg(feature = "gpu")]
dispatched!(Cube);
#[cfg(feature = "remote")]
dispatched!(Remote);

#[derive(Debug)]
struct Derived;

impl<B: Dispatched> Step<B, 1> for Derived {
    /// The parents, and the function that computes their gradients.
    type State = (Vec<Option<NodeId>>, Pullback);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let (nodes, pullback) = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        let [joint] = ops.parents;
        let gradients = (pullback.run)(DispatchTensor {
            kind: B::into_dispatch(dy.clone()),
            autodiff: DispatchAutodiffContext::Disabled,
        });
        let gradients = gradients
            .into_iter()
            .map(|gradient| gradient.map(B::from_dispatch));
        let tracked = nodes.into_iter().zip(gradients);
        let (nodes, gradients): (Vec<_>, Vec<_>) = tracked
            .filter_map(|(node, gradient)| Some((node?, gradient)))
            .unzip();
        register_joined::<B>(grads, joint.map(|node| node.id), nodes, gradients, &dy);
    }
}

impl<B: Dispatched, C: CheckpointStrategy> DerivedBackend for Autodiff<B, C> {
    fn derived(tensors: RecordedTensors<Self>, pullback: Pullback) -> FloatTensor<Self> {
        let joined = join::<B, C>(&tensors.parents);
        // A parent that is not tracked gets no gradient.
        let node = |parent: &FloatTensor<Self>| parent.is_tracked().then(|| parent.node().id());
        let nodes = tensors.parents.iter().map(node).collect();
        let y = tensors.y.into_primitive();
        match traced(Derived, pullback.kernel)
            .prepare::<C>([joined.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((nodes, pullback), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }
}
