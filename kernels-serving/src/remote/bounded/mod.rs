//! A served backend whose sessions stay within their memory limit.
//!
//! Rust ends the process if an allocation fails, and with it every client's session. A server therefore does not run a
//! backend's operations directly, but those of [`Bounded`]. Each of them computes, from its operands and not from the
//! client's claims, an upper bound of the bytes that it allocates. It is not run if the session, or all sessions of the
//! device together, would hold too much. A refused operation panics, which ends its session like any other failure, and
//! the client can ask for the reason.
//!
//! * `account` counts the memory of a session: each buffer once, with any number of views.
//! * `size` computes the bytes that operations allocate, `fit` has the requirements on their operands, and `table`
//!   assigns both to each operation.
//! * `collective` has the reductions over several devices.
//! * `tensor` has the backend's tensors with the memory that their session is charged for.
//! * `session` gives each thread its session, because Burn runs one on each.
//!
//! The account is an upper bound of results and large intermediates. It does not include the scratch space of single
//! tiles or messages in transit. The sessions of a device therefore get at most three quarters of its memory.

#[macro_use]
mod operation;

mod account;
mod argument;
mod collective;
mod fit;
mod machine;
mod session;
mod size;
mod table;
mod tensor;
mod work;

pub(super) use account::Limits;
pub(crate) use machine::memory as machine_memory;
pub(super) use session::device as of_session;
pub(super) use size::made;
pub use tensor::{Buffer, Held, InMemory, Served};
pub(super) use work::{Operands, Running};

use super::Host;
use burn::backend::ir::{BackendIr, TensorHandle};
use burn::backend::ops::TransactionOps;
use burn::backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor, QuantizedTensor};
use burn::backend::{Backend, BackendTypes, DTypeUsageSet, ExecutionError, GraphUnsupported};
use burn::tensor::DType;
use std::marker::PhantomData;

/// The backend `B` in the form that a server runs.
pub struct Bounded<B>(PhantomData<B>);

impl<B> Clone for Bounded<B> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<B> Default for Bounded<B> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<B> std::fmt::Debug for Bounded<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bounded")
    }
}

impl<B: Host> BackendTypes for Bounded<B> {
    type Device = Served<B::Device>;
    type FloatTensorPrimitive = Held<FloatTensor<B>>;
    type IntTensorPrimitive = Held<IntTensor<B>>;
    type BoolTensorPrimitive = Held<BoolTensor<B>>;
    type QuantizedTensorPrimitive = Held<QuantizedTensor<B>>;
    type GraphPrimitive = GraphUnsupported;
}

impl<B: Host> Backend for Bounded<B> {
    fn name(device: &Device<Self>) -> String {
        B::name(&device.device)
    }

    fn seed(device: &Device<Self>, seed: u64) {
        B::seed(&session::device::<B>(device), seed);
    }

    fn sync(device: &Device<Self>) -> Result<(), ExecutionError> {
        B::sync(&session::device::<B>(device))?;
        B::mistakes().map_or(Ok(()), |mistakes| {
            Err(ExecutionError::with_context(mistakes))
        })
    }

    fn flush(device: &Device<Self>) -> Result<(), ExecutionError> {
        B::flush(&session::device::<B>(device))
    }

    /// Burn's server calls this when a session ends, after it has dropped the session's tensors.
    fn memory_cleanup(device: &Device<Self>) {
        session::end::<B>();
        B::memory_cleanup(&device.device);
    }

    fn dtype_usage(device: &Device<Self>, dtype: DType) -> DTypeUsageSet {
        B::dtype_usage(&device.device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        B::device_count(type_id)
    }
}

// Reads of several tensors are composed of operations.
impl<B: Host> TransactionOps<Self> for Bounded<B> {}

/// Converts between a handle of the backend and one that is charged.
macro_rules! handles {
    ($($into:ident, $from:ident: $kind:ident;)+) => {
        $(fn $into(handle: TensorHandle<Self::Handle>) -> Held<$kind<B>> {
            let TensorHandle { handle, shape } = handle;
            handle.map(|handle| B::$into(TensorHandle { handle, shape }))
        }

        fn $from(tensor: Held<$kind<B>>) -> Self::Handle {
            tensor.map(B::$from)
        })+
    };
}

impl<B: Host> BackendIr for Bounded<B> {
    type Handle = Held<B::Handle>;

    handles! {
        float_tensor, float_tensor_handle: FloatTensor;
        int_tensor, int_tensor_handle: IntTensor;
        bool_tensor, bool_tensor_handle: BoolTensor;
        quantized_tensor, quantized_tensor_handle: QuantizedTensor;
    }
}
