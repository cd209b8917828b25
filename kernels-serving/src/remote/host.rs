//! Backends that can be served with kernels.

use super::bounded::{InMemory, machine_memory};
use super::{Identity, Kernels, ServeError, ServeOptions, Server};
use burn::backend::Flex;
use burn::backend::distributed::ReduceOperation;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use kernels_runtime::__serving::{F64_KERNELS, cpu_capability, processor};
use kernels_runtime::dispatch::DeviceKind;

/// The bytes of a device that sessions may hold by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// The limit of one session, in bytes.
    pub session: usize,
    /// The limit of all sessions of the device together, in bytes.
    pub all: usize,
}

/// A backend whose devices can be served together with kernels for them.
///
/// Its tensors provide the memory that they hold, so that the memory of a session can be limited.
pub trait Host:
    BackendIr<
        FloatTensorPrimitive: InMemory,
        IntTensorPrimitive: InMemory,
        BoolTensorPrimitive: InMemory,
        QuantizedTensorPrimitive: InMemory,
    >
{
    /// Returns the facts about a device.
    fn identity(device: &Self::Device) -> Identity;

    /// Adds the kernels that the backend has.
    fn kernels(kernels: Kernels<Self>) -> Kernels<Self>;

    /// Returns the part of a device's memory that sessions may hold. Returns `None` if it is not known.
    fn memory(device: &Self::Device) -> Option<MemoryLimits>;

    /// Returns the device for the use of one session. The actions of the session on it do not affect other sessions. It
    /// is called on the session's thread, before the first operation.
    fn begin(device: &Self::Device) -> Self::Device {
        device.clone()
    }

    /// Ends the use of the device by a session. Work that the session left unfinished, such as data that is being sent,
    /// may still exist. It is called on the session's thread with the device that [`begin`](Self::begin) returned.
    fn end(_device: &Self::Device) {}

    /// Tells the backend the client of this thread's session, as a number that all sessions of the client's connection
    /// have. Only these reduce tensors together. It is called on the session's thread, for all devices of a client before
    /// one of them reduces.
    fn join_party(_device: &Self::Device, _party: u64) {}

    /// Adds up the tensors of several devices, or computes their mean. The session of each device calls it with its own
    /// tensor.
    ///
    /// # Errors
    /// Returns the reason if the devices can't reduce together, which is the default.
    fn reduce_together(
        _tensor: FloatTensor<Self>,
        _operation: ReduceOperation,
        _devices: &[Self::Device],
    ) -> Result<FloatTensor<Self>, String> {
        Err("only NPUs reduce tensors together, and this is not an NPU; use one device".to_owned())
    }

    /// Returns the errors that the device found in the numbers of this session's operations since the last call. It is
    /// called on the session's thread after every read and synchronisation.
    fn mistakes() -> Option<String> {
        None
    }

    /// Starts a server without opening the devices. The implementations of this crate repeat the body, so that their
    /// servers are compiled here, once, and not in each program.
    #[doc(hidden)]
    fn start(
        devices: Vec<Self::Device>,
        options: ServeOptions,
        kernels: Kernels<Self>,
    ) -> Result<Server, ServeError> {
        Server::start_unopened::<Self>(devices, options, kernels)
    }
}

impl Host for Flex {
    fn identity(_: &Self::Device) -> Identity {
        Identity {
            kind: DeviceKind::Cpu,
            capability: cpu_capability(),
            f64: F64_KERNELS,
            name: processor(),
            facts: Vec::new(),
        }
    }

    fn kernels(kernels: Kernels<Self>) -> Kernels<Self> {
        kernels.all()
    }

    /// Returns half of the memory of this machine or of this process's control group for a session, and three quarters
    /// for all sessions.
    fn memory(_: &Self::Device) -> Option<MemoryLimits> {
        machine_memory().map(|memory| MemoryLimits {
            session: memory / 2,
            all: memory / 4 * 3,
        })
    }

    fn start(
        devices: Vec<Self::Device>,
        options: ServeOptions,
        kernels: Kernels<Self>,
    ) -> Result<Server, ServeError> {
        Server::start_unopened::<Self>(devices, options, kernels)
    }
}
