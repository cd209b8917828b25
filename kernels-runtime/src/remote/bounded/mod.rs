//! A served backend whose sessions hold no more memory than they may.
//!
//! Rust ends the process where an allocation fails, and with it every client's session. So a server does not
//! run a backend's operations themselves but those of [`Bounded`]: each works out, from its operands and not
//! from what the client says, how many bytes it makes at most, and is not run if the session, or all
//! sessions of the device together, would hold too much. A refused operation panics, which ends its session
//! like any other failure, and the client can ask why.
//!
//! * `account` counts what a session holds: each buffer once, however many views of it there are.
//! * `size` has the bytes that operations make, `fit` what they require of their operands, `table` says for each
//!   which.
//! * `tensor` has the backend's tensors with what their session is charged.
//! * `session` gives each thread its session: Burn runs one on each.
//!
//! The account is an upper bound of results and large intermediates, not of scratch space of some tiles, nor
//! of the messages on their way. So the sessions of a device get three quarters of its memory at most.

#[macro_use]
mod operation;

mod account;
mod argument;
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
pub(super) use size::{elements, made};
pub use tensor::{Buffer, Held, InMemory, Served};
pub(super) use work::{Operands, Running};

use super::Host;
use burn::backend::ir::{BackendIr, TensorHandle};
use burn::backend::ops::TransactionOps;
use burn::backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor, QuantizedTensor};
use burn::backend::{
    Backend, BackendTypes, DTypeUsageSet, ExecutionError, GraphUnsupported,
    distributed::DistributedOps,
};
use burn::tensor::DType;
use std::marker::PhantomData;

/// The backend `B` as a server runs it.
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
        B::sync(&session::device::<B>(device))
    }

    fn flush(device: &Device<Self>) -> Result<(), ExecutionError> {
        B::flush(&session::device::<B>(device))
    }

    /// Burn's server does this where a session ends, after it has let go of the session's tensors.
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

// Collectives of several devices are composed of operations, as are reads of several tensors.
impl<B: Host> DistributedOps<Self> for Bounded<B> {}
impl<B: Host> TransactionOps<Self> for Bounded<B> {}

/// A handle of the backend's as one that is charged, and back.
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
