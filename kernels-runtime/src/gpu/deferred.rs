use super::MOST_ELEMENTS;
use crate::device::computes_in;
use crate::ops::Described;
use burn::backend::fusion::client::GlobalFusionClient;
use burn::backend::fusion::custom::{
    CustomOpIr, HandleContainer, OperationFn, OperationIr, StreamId, TensorIr,
};
use burn::backend::fusion::{FusionBackend, FusionRuntime};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchDevice, Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

type Runtime = <CubeBackend as FusionBackend>::FusionRuntime;
type Container = HandleContainer<<Runtime as FusionRuntime>::FusionHandle>;

/// The shape and dtype of a result.
pub(crate) type Like = (Shape, DType);

/// Describes a result that has the shape and dtype of a tensor.
pub(crate) fn like(tensor: &impl Described) -> Like {
    (tensor.shape(), tensor.dtype())
}

/// The float types that kernels take.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// An operation that runs when Burn's fusion comes to it.
pub(crate) struct Deferred {
    id: &'static str,
    inputs: Vec<TensorIr>,
    client: GlobalFusionClient<Runtime>,
}

/// An operand of a deferred operation.
#[derive(Clone, Debug)]
pub(crate) struct Operand(TensorIr);

/// The tensors of a deferred operation, when it runs.
pub(crate) struct Resolve<'a>(&'a mut Container);

impl Deferred {
    /// Starts an operation on the device of a tensor. `id` names it where Burn shows its stream.
    pub(crate) fn new(id: &'static str, on: &FloatTensor<Cube>) -> Self {
        Self {
            id,
            inputs: Vec::new(),
            client: on.client.clone(),
        }
    }

    /// Adds an operand.
    ///
    /// # Panics
    /// Panics if kernels don't take its dtype or can't count its elements, or the device does not compute in it.
    pub(crate) fn operand(&mut self, tensor: FloatTensor<Cube>) -> Operand {
        let dtype = TensorMetadata::dtype(&tensor);
        assert!(
            dtype == DType::I32 || FLOATS.contains(&dtype),
            "{}: kernels for GPUs take {FLOATS:?}, not {dtype:?}",
            self.id
        );
        assert!(
            computes_in(&DispatchDevice::Cube(tensor.device()), dtype),
            "{}: this device does not compute in {dtype:?}",
            self.id
        );
        let elements = TensorMetadata::shape(&tensor).num_elements();
        assert!(
            elements <= MOST_ELEMENTS,
            "{}: kernels for GPUs can't count {elements} elements",
            self.id
        );
        let ir = tensor.into_ir();
        self.inputs.push(ir.clone());
        Operand(ir)
    }

    /// Puts the operation into the stream, and returns its results.
    ///
    /// `run` computes as many tensors as there are `results`, on the thread of the device.
    pub(crate) fn results(
        self,
        results: impl IntoIterator<Item = Like>,
        run: impl Fn(&mut Resolve<'_>) -> Vec<CubeTensor> + Send + Sync + 'static,
    ) -> impl Iterator<Item = FloatTensor<Cube>> {
        let results = results.into_iter().map(|(shape, dtype)| {
            TensorIr::uninit(self.client.create_empty_handle(), shape, dtype)
        });
        let outputs: Vec<TensorIr> = results.collect();
        let described = outputs.clone();
        let operation = OperationFn(move |handles: &mut Container| {
            let tensors = run(&mut Resolve(handles));
            assert_eq!(
                tensors.len(),
                described.len(),
                "as many results as were described"
            );
            for (tensor, ir) in tensors.into_iter().zip(&described) {
                assert_described(&tensor, ir);
                handles.register_float_tensor::<CubeBackend>(&ir.id, tensor);
            }
            Ok(())
        });
        let ir = CustomOpIr::new(self.id, &self.inputs, &outputs);
        let registered =
            self.client
                .register(StreamId::current(), OperationIr::Custom(ir), operation);
        registered.into_iter()
    }
}

impl Resolve<'_> {
    /// Returns the tensor of an operand.
    ///
    /// # Panics
    /// Panics if it is not the tensor that was checked.
    pub(crate) fn tensor(&mut self, operand: Operand) -> CubeTensor {
        let tensor = self.0.get_float_tensor::<CubeBackend>(&operand.0);
        assert_described(&tensor, &operand.0);
        tensor
    }
}

impl Described for Operand {
    fn shape(&self) -> Shape {
        self.0.shape.clone()
    }

    fn dtype(&self) -> DType {
        self.0.dtype
    }
}

fn assert_described(tensor: &CubeTensor, ir: &TensorIr) {
    let (shape, dtype) = like(tensor);
    assert!(
        shape == ir.shape && dtype == ir.dtype,
        "a tensor of {:?} of {:?} is {:?} of {dtype:?} at its launch",
        ir.shape.as_slice(),
        ir.dtype,
        shape.as_slice()
    );
}
