//! Soft capping of logits, `y = cap · tanh(x / cap)` per element (Gemma 2, arXiv:2408.00118).
//!
//! The gradient is `dx = dy / cosh²(x / cap)`. Unlike `1 − tanh²`, it loses no digits where `y` is near the cap.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Tensor, TensorData};
use burn_kernels::kernel::{
    self, CapabilityRange, CustomKey, DeviceKinds, FloatType, Gradient, Implementation, KernelSpec,
    Launch, Rows, SemanticsKey, Tensors, Visitor, declare_kernel,
};

/// The id of the kernel in policies and reports.
pub const ID: &str = "acme_soft_cap";

/// The semantics key: the operation, with every setting that changes its result.
pub const KEY: CustomKey = CustomKey::new("soft_cap", &[("function", "tanh")]);

declare_kernel! {
    /// The kernel `acme_soft_cap`.
    pub static KERNEL = KernelSpec {
        id: ID,
        op: KEY.op(),
        version: 1,
        summary: "Soft capping in one pass, with its gradient",
        implementations: &[Implementation {
            device: DeviceKinds::CPU,
            name: "acme-cpu",
            dtypes: &[FloatType::F32],
            gradient: Gradient::Kernel,
            deterministic: true,
            fusion_barrier: false,
            capability: CapabilityRange::ANY,
            accepts: |key| matches!(key, SemanticsKey::Custom(key) if *key == KEY),
            limits: None,
            operators: None,
            launch: Launch::Custom,
        }],
    };
}

/// The operands, named like the parameters of the annotated function.
#[derive(Clone, Debug)]
pub struct Operands<const D: usize> {
    /// The logits, of any shape.
    pub x: Tensor<D>,
    /// The bound of the results' absolute values.
    pub cap: f64,
}

impl<const D: usize> Tensors for Operands<D> {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("x", &mut self.x);
    }
}

impl<const D: usize> kernel::Operands for Operands<D> {
    type Output = Tensor<D>;

    fn reference(self) -> Tensor<D> {
        self.x.div_scalar(self.cap).tanh().mul_scalar(self.cap)
    }

    fn launch(self, _: &'static Implementation) -> Tensor<D> {
        let y = <Dispatch as SoftCapBackend>::soft_cap(self.x.into_dispatch(), self.cap);
        Tensor::from_dispatch(y)
    }

    /// Returns a few rows of the operands for live verification. Rows don't depend on each other.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let (x, cap) = (rows.of(&self.x), self.cap);
        Some(Self { x, cap })
    }
}

/// The operation on a Burn backend, with and without autodiff.
#[backend_extension(Flex, Autodiff)]
pub trait SoftCapBackend: Backend {
    /// Returns the result, with the shape and dtype of `x`.
    fn soft_cap(x: FloatTensor<Self>, cap: f64) -> FloatTensor<Self>;
}

impl SoftCapBackend for Flex {
    fn soft_cap(x: FlexTensor, cap: f64) -> FlexTensor {
        let (shape, cap) = (x.layout().shape().clone(), cap as f32);
        let x = x.to_contiguous();
        let x = x.as_slice::<f32>().expect("f32, as it is registered");
        let y = x.iter().map(|x| cap * (x / cap).tanh()).collect();
        FlexTensor::from_data(TensorData::new::<f32, _>(y, shape))
    }
}

#[derive(Debug)]
struct SoftCap;

impl<B: Backend> Backward<B, 1> for SoftCap {
    /// The operand and the cap.
    type State = (NodeId, f64);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, kept: &mut Checkpointer) {
        let (x, cap) = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            let x = B::float_div_scalar(kept.retrieve_node_output(x), cap.into());
            let cosh = B::float_cosh(x);
            let dx = B::float_div(B::float_div(dy, cosh.clone()), cosh);
            grads.register::<B>(node.id, dx);
        }
    }
}

impl<B: SoftCapBackend, C: CheckpointStrategy> SoftCapBackend for Autodiff<B, C> {
    fn soft_cap(x: FloatTensor<Self>, cap: f64) -> FloatTensor<Self> {
        let run = |x: FloatTensor<Self>| B::soft_cap(x.into_primitive(), cap);
        match SoftCap.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), cap);
                prep.finish(state, run(x))
            }
            OpsKind::UnTracked(prep) => prep.finish(run(x)),
        }
    }
}
