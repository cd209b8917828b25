//! A backend for Burn that runs tensor operations on NPUs.
//!
//! [`CannBackend`] implements all of Burn's backend traits and [`burn_ir::BackendIr`]. Burn's own list of backends is
//! closed, so programs reach it through a server of remote devices. It can also be used directly:
//!
//! ```no_run
//! use burn_backend::{TensorData, read_sync, ops::FloatTensorOps};
//! use burn_cann::backend::{CannBackend, CannDevice};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = CannDevice::open(0)?;
//! let x = CannBackend::float_from_data(TensorData::from([[1.0f32, 2.0], [3.0, 4.0]]), &device);
//! let y = CannBackend::float_matmul(x.clone(), x);
//! println!("{}", read_sync(CannBackend::float_into_data(y))?);
//! # Ok(())
//! # }
//! ```
//!
//! # Paths
//!
//! [`ops`] lists every operation with its [`Path`]: on the device, as a view, composed of others, or on the host. On
//! the way to the host, operands are copied there, Burn's CPU backend Flex computes, and the result is copied back.
//! Operations of the device also run there if CANN's operator refuses the operands, because of f64 or a limit, for
//! example.
//!
//! No slow path is hidden. Every run on the host is counted ([`fallbacks`]), and the first of each operation is logged
//! with its reason at level `WARN`. With `BURN_CANN_FALLBACK=deny` or [`set_fallback`], it is an error.
//!
//! # Waiting
//!
//! Operations return before the device has done the work. The host waits only when data is read and on the way to the
//! host; [`Cann::waits`](crate::Cann::waits) counts the waits.
//!
//! # Dtypes
//!
//! The backend has f32, f16, bf16, all integers of 8 to 64 bits, and booleans of one byte. Shapes, dtypes and defaults
//! (f32, i32, native booleans) are those of Flex. f64 is stored on the device, but operations whose operator does not
//! take it, such as matrix products, run on the host. So do most operations on u16, u32 and u64. Quantised tensors are
//! stored as Burn packs them, and the host computes with them.
//!
//! # Errors
//!
//! Burn's operations return no errors. A final refusal of CANN, such as lack of memory, is a panic that names the
//! operation and the cause.
//!
//! Work that fails after its call has returned is reported as an `ExecutionError` by the next read and by
//! [`sync`](burn_backend::Backend::sync). An index out of range is such a failure, since only the device sees it,
//! while Flex panics at once; CANN does not document what the device does. After such a failure, operations on the
//! device's earlier tensors are errors. New tensors are on a new stream, and sound. A thread with streams of its own
//! ([`own_streams`]) does not share the failures of others.
//!
//! # Memory
//!
//! No result holds memory that its operation did not write. An empty tensor is zeros, so the client of a server never
//! sees what another client freed.
//!
//! # Several NPUs
//!
//! [`all_reduce`] adds up the tensors of several NPUs of this process over HCCL, or computes their mean. It is Burn's
//! operation of the same name. A lost NPU is an error of the others ([`Group`](crate::Group)).
//!
//! # Where this has run
//!
//! The backend has run on this project's emulator of CANN, compared with Flex. It has not run on an Ascend device.
//!
//! # Structure
//!
//! `table/` has one line per operation, with its signature and path. A macro makes the method and its entry in [`ops`]
//! from this line, so the list always agrees with the methods. `native/` passes Burn's arguments to the operators and
//! may decline; `view` only changes strides. Declined operations, and those without an operator, run on the host
//! (`fallback`); `host` carries their operands and results. Tests run every operation as a generic function on this
//! backend and on Flex, and compare the paths with the list.

#[macro_use]
mod operation;

mod collective;
mod device;
mod dtype;
mod error;
mod fallback;
mod host;
mod ir;
mod native;
mod table;
mod tensor;
mod transfer;
mod view;

use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsage, DTypeUsageSet, ExecutionError, GraphUnsupported,
};
use burn_flex::{Flex, FlexDevice};

pub use collective::{all_reduce, join_party};
pub use device::{CannDevice, close, give_streams_back, install, own_streams};
pub use dtype::burn as burn_dtype;
pub use error::{Error, Result};
pub use fallback::{Fallback, fallback, fallbacks, reset_fallbacks, set_fallback};
pub use operation::{Operation, Path};
pub use tensor::{CannQTensor, CannTensor};
pub use view::copies;

/// Returns every operation, with the path that it takes and its number of runs on the host.
pub fn ops() -> impl Iterator<Item = &'static Operation> {
    table::all()
}

/// The backend that runs Burn's operations on NPUs.
#[derive(Debug, Clone, Copy, Default)]
pub struct CannBackend;

impl BackendTypes for CannBackend {
    type Device = CannDevice;
    type FloatTensorPrimitive = CannTensor;
    type IntTensorPrimitive = CannTensor;
    type BoolTensorPrimitive = CannTensor;
    type QuantizedTensorPrimitive = CannQTensor;
    type GraphPrimitive = GraphUnsupported;
}

impl Backend for CannBackend {
    fn name(_device: &CannDevice) -> String {
        "cann".to_owned()
    }

    /// Seeds the generator of all devices of this process and that of the host.
    fn seed(_device: &CannDevice, seed: u64) {
        native::random::seed(seed);
        Flex::seed(&FlexDevice, seed);
    }

    fn sync(device: &CannDevice) -> Result<(), ExecutionError> {
        device.synchronise().map_err(|error| {
            ExecutionError::with_context(format!("{device:?} did not finish its work: {error}"))
        })
    }

    /// Does nothing, because operations are handed to the device at once.
    fn flush(_device: &CannDevice) -> Result<(), ExecutionError> {
        Ok(())
    }

    /// Gives the allocator's cache back to the device, once the work is done.
    fn memory_cleanup(device: &CannDevice) {
        let released = device
            .stream()
            .and_then(|stream| Ok(stream.device().release_cache()?));
        if let Err(error) = released {
            tracing::error!(?device, %error, "cached memory was not released");
        }
    }

    fn dtype_usage(_device: &CannDevice, dtype: DType) -> DTypeUsageSet {
        match dtype {
            DType::QFloat(_) => Flex::dtype_usage(&FlexDevice, dtype),
            DType::Flex32 => DTypeUsageSet::empty(),
            other if dtype::device(other).is_ok() => DTypeUsage::Storage | DTypeUsage::Arithmetic,
            _ => DTypeUsageSet::empty(),
        }
    }

    /// Returns the number of NPUs of this machine. Without CANN it logs the error and returns 0.
    fn device_count(_type_id: u16) -> usize {
        CannDevice::all().map_or_else(
            |error| {
                tracing::warn!(%error, "NPUs could not be counted");
                0
            },
            |devices| devices.len(),
        )
    }
}
