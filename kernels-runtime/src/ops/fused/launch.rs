//! Fused operations on tensors of Burn's dispatch.

use super::record::{OneStep, Record};
use super::{FusedKernel, FusedOp, Internal, Made, Parts};
use crate::semantics::SemanticsKey;
use burn::backend::autodiff::checkpoint::strategy::{
    BalancedCheckpointing, CheckpointStrategy, NoCheckpointing,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, BackendTensor, DispatchAutodiffContext, DispatchTensor,
    DispatchTensorKind, GradientCheckpointingStrategy,
};
use std::any::Any;
use std::fmt;

/// A backend of Burn's dispatch.
pub trait OnDispatch: Backend {
    /// Takes a tensor of this backend.
    ///
    /// # Panics
    /// Panics if it is one of another backend.
    fn unwrap(tensor: DispatchTensorKind) -> BackendTensor<Self>;

    /// Makes a tensor of dispatch.
    fn wrap(tensor: BackendTensor<Self>) -> DispatchTensorKind;
}

#[cfg(any(feature = "cpu", feature = "remote"))]
macro_rules! on_dispatch {
    ($Backend:ident) => {
        impl OnDispatch for burn::backend::$Backend {
            fn unwrap(tensor: DispatchTensorKind) -> BackendTensor<Self> {
                match tensor {
                    DispatchTensorKind::$Backend(tensor) => tensor,
                    other => panic!(
                        "the operands of one call are on several backends, {} and {other:?}",
                        stringify!($Backend)
                    ),
                }
            }

            fn wrap(tensor: BackendTensor<Self>) -> DispatchTensorKind {
                DispatchTensorKind::$Backend(tensor)
            }
        }
    };
}

#[cfg(feature = "cpu")]
on_dispatch!(Flex);
#[cfg(feature = "gpu")]
on_dispatch!(Cube);
#[cfg(feature = "remote")]
on_dispatch!(Remote);

/// Operands as tensors of dispatch.
pub type OfDispatch<O> = <O as FusedOp>::Operands<DispatchTensor, DispatchTensor>;

/// The function that runs the kernel of an operation on a backend, as implementations hold it.
#[derive(Clone, Copy)]
pub struct OpLaunch {
    op: &'static str,
    run: &'static (dyn Any + Send + Sync),
    /// The one key that it computes, if it runs a function of a package.
    key: Option<&'static SemanticsKey>,
}

impl fmt::Debug for OpLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the launch of {}", self.op)
    }
}

/// The backend of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum There {
    #[cfg(feature = "cpu")]
    Flex,
    #[cfg(feature = "gpu")]
    Cube,
    #[cfg(feature = "remote")]
    Remote,
}

/// Returns the backend of a tensor.
///
/// # Panics
/// Panics if it is one that has no kernels.
pub(crate) fn there(kind: &DispatchTensorKind) -> There {
    match kind {
        #[cfg(feature = "cpu")]
        DispatchTensorKind::Flex(_) => There::Flex,
        #[cfg(feature = "gpu")]
        DispatchTensorKind::Cube(_) => There::Cube,
        #[cfg(feature = "remote")]
        DispatchTensorKind::Remote(_) => There::Remote,
        DispatchTensorKind::Autodiff(inner) => there(inner),
        #[allow(unreachable_patterns)] // There may be backends without kernels.
        other => panic!("no kernel runs on the device of {other:?}"),
    }
}

/// Runs the kernel of the backend that the first tensor is on, for operations without an entry in the registry.
macro_rules! run_there {
    ($Op:ident $operands:ident) => {{
        use $crate::ops::fused::{FusedOp, There, there};
        let backend = there(&<$Op as FusedOp>::floats(&$operands)[0].kind);
        match backend {
            #[cfg(feature = "cpu")]
            There::Flex => $crate::ops::fused::run::<$Op, burn::backend::Flex>($operands),
            #[cfg(feature = "gpu")]
            There::Cube => $crate::ops::fused::run::<$Op, burn::backend::Cube>($operands),
            #[cfg(feature = "remote")]
            There::Remote => $crate::ops::fused::run::<$Op, burn::backend::Remote>($operands),
        }
    }};
}
pub(crate) use run_there;

/// The type of that function.
type Run<O> = fn(OfDispatch<O>) -> Made<DispatchTensor>;

/// A function with a state, such as a function of a package.
pub(crate) type Held<O> = Box<dyn Fn(OfDispatch<O>) -> Made<DispatchTensor> + Send + Sync>;

impl OpLaunch {
    /// The launch of an operation on a backend.
    pub const fn of<O: FusedOp, B: FusedKernel<O> + OnDispatch>() -> Self {
        Self::by::<O>(const { &(run::<O, B> as Run<O>) })
    }

    /// The launch of an operation on a backend, whose gradients `R` records.
    pub(crate) const fn recorded<O, B, R>() -> Self
    where
        O: FusedOp,
        B: FusedKernel<O> + OnDispatch,
        R: Recorder<O, B>,
    {
        Self::by::<O>(const { &(run_recorded::<O, B, R> as Run<O>) })
    }

    /// The launch of an operation by a function, such as that of a kernel of another crate.
    pub const fn by<O: FusedOp>(run: &'static fn(OfDispatch<O>) -> Made<DispatchTensor>) -> Self {
        let key = None;
        Self {
            op: O::NAME,
            run,
            key,
        }
    }

    /// The launch of an operation by a function with a state, which computes this key alone.
    #[cfg(feature = "packages")]
    pub(crate) fn holding<O: FusedOp>(run: &'static Held<O>, key: &'static SemanticsKey) -> Self {
        let key = Some(key);
        Self {
            op: O::NAME,
            run,
            key,
        }
    }

    /// Returns the one key that it computes, if it runs a function of a package.
    pub(crate) const fn key(&self) -> Option<&'static SemanticsKey> {
        self.key
    }

    /// Returns the operation's name.
    pub const fn op(&self) -> &'static str {
        self.op
    }

    /// Runs it, or returns `None` if it is that of another operation.
    pub(crate) fn run<O: FusedOp>(&self, operands: OfDispatch<O>) -> Option<Made<DispatchTensor>> {
        if let Some(run) = self.run.downcast_ref::<Run<O>>() {
            return Some(run(operands));
        }
        let run = self.run.downcast_ref::<Held<O>>()?;
        Some(run(operands))
    }
}

/// Runs the kernel of a backend on tensors of dispatch, and records its gradient if a tensor has autodiff enabled.
///
/// Tensors on a served device are sent there, whatever the backend.
///
/// # Panics
/// Panics if a tensor is on another backend, if kernels don't take the dtypes of the tensors, or if a tensor has autodiff
/// enabled, but the operation has no gradient.
pub fn run<O: FusedOp, B: FusedKernel<O> + OnDispatch>(
    operands: OfDispatch<O>,
) -> Made<DispatchTensor> {
    run_recorded::<O, B, OneStep>(operands)
}

/// Runs the kernel of a backend, or, if the tensors are on a served device, that of the server.
fn run_recorded<O: FusedOp, B: FusedKernel<O> + OnDispatch, R: Recorder<O, B>>(
    operands: OfDispatch<O>,
) -> Made<DispatchTensor> {
    let parts = O::into_parts(operands);
    #[cfg(feature = "remote")]
    if let Some(first) = parts.floats.first().or(parts.ints.first())
        && is_served(&first.kind)
    {
        return run_on::<O, burn::backend::Remote, R>(parts);
    }
    run_on::<O, B, R>(parts)
}

#[cfg(feature = "remote")]
fn is_served(kind: &DispatchTensorKind) -> bool {
    match kind {
        DispatchTensorKind::Remote(_) => true,
        DispatchTensorKind::Autodiff(inner) => is_served(inner),
        _ => false,
    }
}

/// Records on a backend and, in builds that have them, on served devices.
#[cfg(feature = "remote")]
pub(crate) trait Recorder<O: FusedOp, B: FusedKernel<O>>:
    Record<O, B> + Record<O, burn::backend::Remote>
{
}

#[cfg(feature = "remote")]
impl<O, B, R> Recorder<O, B> for R
where
    O: FusedOp,
    B: FusedKernel<O>,
    R: Record<O, B> + Record<O, burn::backend::Remote>,
{
}

#[cfg(not(feature = "remote"))]
pub(crate) use super::record::Record as Recorder;

fn run_on<O: FusedOp, B: FusedKernel<O> + OnDispatch, R: Record<O, B>>(
    parts: Parts<DispatchTensor, DispatchTensor, O::Numbers>,
) -> Made<DispatchTensor> {
    let all = parts.floats.iter().chain(&parts.ints);
    let context = all.fold(DispatchAutodiffContext::Disabled, |context, tensor| {
        context.merge(tensor.autodiff)
    });
    match context {
        DispatchAutodiffContext::Disabled => {
            let parts = parts.map(|tensor| B::unwrap(tensor.kind).float(), int::<B>);
            let made = B::forward(O::from_parts(parts, Internal(())), None);
            wrapped::<B, _>(made, context, |tensor| {
                B::wrap(BackendTensor::Float(tensor))
            })
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Balanced) => {
            recorded::<O, B, R, BalancedCheckpointing>(parts, context)
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Disabled) => {
            recorded::<O, B, R, NoCheckpointing>(parts, context)
        }
    }
}

fn recorded<O, B, R, C>(
    parts: Parts<DispatchTensor, DispatchTensor, O::Numbers>,
    context: DispatchAutodiffContext,
) -> Made<DispatchTensor>
where
    O: FusedOp,
    B: FusedKernel<O> + OnDispatch,
    R: Record<O, B>,
    C: CheckpointStrategy,
{
    let made = R::record::<C>(parts.map(autodiff::<B, C>, int::<B>));
    wrapped::<B, _>(made, context, |tensor| {
        DispatchTensorKind::Autodiff(B::wrap(BackendTensor::Autodiff(tensor)).into())
    })
}

/// Returns the tensor with autodiff. One without is a constant.
fn autodiff<B: OnDispatch, C: CheckpointStrategy>(
    tensor: DispatchTensor,
) -> FloatTensor<Autodiff<B, C>> {
    match tensor.kind {
        DispatchTensorKind::Autodiff(inner) => B::unwrap(*inner).autodiff(),
        kind => <Autodiff<B, C> as AutodiffBackend>::from_inner(B::unwrap(kind).float()),
    }
}

fn int<B: OnDispatch>(tensor: DispatchTensor) -> IntTensor<B> {
    B::unwrap(tensor.kind).int()
}

fn wrapped<B: OnDispatch, F>(
    made: Made<F, IntTensor<B>>,
    autodiff: DispatchAutodiffContext,
    float: impl Fn(F) -> DispatchTensorKind,
) -> Made<DispatchTensor> {
    let of_dispatch = |kind| DispatchTensor { kind, autodiff };
    made.map(
        |tensor| of_dispatch(float(tensor)),
        |ints| of_dispatch(B::wrap(BackendTensor::Int(ints))),
    )
}
