//! The tensors of one custom operation. Their session is charged for them as for those of Burn's operations.

use super::Host;
use super::bounded::{Bounded, Held, Operands, Running, Served, made};
use burn::backend::TensorMetadata;
use burn::backend::ir::{CustomOpIr, HandleContainer, TensorId, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::DType;
use kernels_runtime::__serving::{Made, Tensors, elements};

/// The maximum number of products of rows and weights that exist at the same time.
const PRODUCTS: usize = 3;

/// The session's side of an operation.
pub(super) struct Session<'a, B: Host> {
    handles: &'a mut HandleContainer<Held<B::Handle>>,
    pub(super) device: B::Device,
    running: Running,
    results: Vec<(TensorId, Made<B>)>,
    /// The number of rows of the operands so far, or one for each index.
    rows: usize,
    /// The bytes set aside for products.
    products: usize,
}

impl<'a, B: Host> Session<'a, B> {
    /// Reserves memory for the results that the client expects.
    ///
    /// # Panics
    /// Panics if there is not enough memory.
    pub(super) fn begin(
        handles: &'a mut HandleContainer<Held<B::Handle>>,
        ir: &CustomOpIr,
        device: &Served<B::Device>,
    ) -> Self {
        let device = super::bounded::of_session::<B>(device);
        let results = ir.outputs.iter();
        let results = results.map(|output| made(output.shape.as_slice(), output.dtype));
        let need = results.fold(0, usize::saturating_add);
        Self {
            handles,
            device,
            running: Operands::new(ir.id.to_string()).begin(need),
            results: Vec::new(),
            rows: 0,
            products: 0,
        }
    }

    /// Reserves memory for the products with a weight. Not all of them exist at the same time.
    fn multiply(&mut self, weight: &[usize]) {
        let [.., a, b] = weight else { return };
        let one = made(&[self.rows, *a.max(b)], DType::F32);
        let products = one.saturating_mul(PRODUCTS);
        if let Some(more) = products.checked_sub(self.products) {
            self.running.also(more);
            self.products = products;
        }
    }

    /// Charges the results and makes them available to the client.
    ///
    /// # Panics
    /// Panics if the session then holds more than its limit.
    pub(super) fn end(self) {
        let mut running = self.running;
        running.let_go();
        for (id, made) in self.results {
            match made {
                Made::Float(tensor) => {
                    let tensor = running.charge(tensor);
                    self.handles
                        .register_float_tensor::<Bounded<B>>(&id, tensor);
                }
                Made::Int(tensor) => {
                    let tensor = running.charge(tensor);
                    self.handles.register_int_tensor::<Bounded<B>>(&id, tensor);
                }
            }
        }
        running.finish();
    }
}

impl<B: Host> Tensors<B> for Session<'_, B> {
    fn float(&mut self, input: &TensorIr) -> FloatTensor<B> {
        let tensor = self.handles.get_float_tensor::<Bounded<B>>(input);
        let shape = tensor.shape();
        let rows = shape
            .as_slice()
            .split_last()
            .map_or(1, |(_, rows)| elements(rows));
        self.rows = self.rows.max(rows);
        self.running.open(tensor)
    }

    fn int(&mut self, input: &TensorIr) -> IntTensor<B> {
        let tensor = self.handles.get_int_tensor::<Bounded<B>>(input);
        self.rows = self.rows.max(elements(tensor.shape().as_slice()));
        self.running.open(tensor)
    }

    fn weight(&mut self, input: &TensorIr) -> FloatTensor<B> {
        let tensor = self.handles.get_float_tensor::<Bounded<B>>(input);
        self.multiply(tensor.shape().as_slice());
        self.running.open(tensor)
    }

    fn give(&mut self, id: TensorId, made: Made<B>) {
        self.results.push((id, made));
    }

    fn room(&mut self, bytes: usize) {
        self.running.also(bytes);
    }
}
