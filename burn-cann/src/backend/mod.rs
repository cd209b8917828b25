//! A backend for Burn: its tensor operations on NPUs.
//!
//! [`CannBackend`] implements all of Burn's backend traits and [`burn_ir::BackendIr`]. Burn's own list of
//! backends is closed, so programs reach it through a server of remote devices; or use it directly:
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
//! [`ops`] lists every operation with its [`Path`]: on the device, as a view, composed of others, or on
//! the host. There is one way to the host: operands are copied there, Burn's CPU backend Flex computes, and
//! the result is copied back. Operations of the device take it too, where CANN's operator refuses the
//! operands (f64, say, or a limit). Each such run is counted ([`fallbacks`]), the first of an operation is
//! logged with its reason at level `WARN`, and with `BURN_CANN_FALLBACK=deny` or [`set_fallback`] it is an
//! error, so that no slow path is hidden.
//!
//! # Waiting
//!
//! Operations return before the device has worked. The host waits where data is read and on the way to the
//! host, nowhere else: [`Cann::waits`](crate::Cann::waits) counts.
//!
//! # Types
//!
//! f32, f16, bf16, all integers of 8 to 64 bits, and truth values of one byte. Shapes, types and defaults
//! (f32, i32, native truth values) are those of Flex. f64 is kept on the device; what its operators don't
//! take, such as matrix products, runs on the host, as do most operations on u16, u32 and u64. Quantised
//! tensors are kept as Burn packs them and are computed with on the host.
//!
//! # Errors
//!
//! Burn's operations return no errors: what CANN refuses for good, such as want of memory, is a panic that
//! names operation and cause. Work that fails after its call has returned is told by the next read
//! and by [`sync`](burn_backend::Backend::sync), as an `ExecutionError`. Indices are of that kind: the device
//! finds one that is out of range, where Flex panics at once; CANN does not say what it does then. After such
//! a failure, operations on the device's tensors of before are errors; tensors that are made anew are on a
//! new stream, and sound. A thread with streams of its own ([`own_streams`]) does not share the failures of others.
//!
//! # Memory
//!
//! No result holds what its operation did not write: an empty tensor is zeros, so that the client of a server never
//! sees what another one freed.
//!
//! # What this was run on
//!
//! This project's emulator of CANN, beside Flex. Nothing was run on an Ascend device.

#[macro_use]
mod operation;

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

use burn_backend::distributed::DistributedOps;
use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsage, DTypeUsageSet, ExecutionError, GraphUnsupported,
};
use burn_flex::{Flex, FlexDevice};

pub use device::{CannDevice, close, give_streams_back, install, own_streams};
pub use dtype::burn as burn_dtype;
pub use error::{Error, Result};
pub use fallback::{Fallback, fallback, fallbacks, reset_fallbacks, set_fallback};
pub use operation::{Operation, Path};
pub use tensor::{CannQTensor, CannTensor};
pub use view::copies;

/// Every operation, with the path that it takes and how often it ran on the host.
pub fn ops() -> impl Iterator<Item = &'static Operation> {
    table::all()
}

/// Burn's operations on NPUs.
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

    /// Nothing waits on the host: operations are handed to the device at once.
    fn flush(_device: &CannDevice) -> Result<(), ExecutionError> {
        Ok(())
    }

    /// Gives the allocator's cache back to the device, after its work.
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

    /// The NPUs of this machine; none, which is logged, where there is no CANN.
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

// What several devices do together is composed of operations.
impl DistributedOps<CannBackend> for CannBackend {}
