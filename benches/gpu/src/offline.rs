//! A device that compiles kernels to CUDA code and runs nothing. It has no memory: buffers are names with a size.

use cubecl::ir::{
    DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties, TargetProperties,
    features::Plane,
};
use cubecl_common::bytes::Bytes;
use cubecl_common::device::{DeviceId, DeviceService, ServerUtilitiesHandle, ServiceId};
use cubecl_common::profile::{ProfileDuration, TimingMethod};
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
use cubecl_cpp::target::Cuda;
use cubecl_environment::backtrace::BackTrace;
use cubecl_environment::future::DynFut;
use cubecl_environment::stream::StreamId;
use cubecl_runtime::client::Client;
use cubecl_runtime::compiler::Compiler;
use cubecl_runtime::dry_run::LaunchMode;
use cubecl_runtime::kernel::{CubeKernel, define_kernel};
use cubecl_runtime::logging::ServerLogger;
use cubecl_runtime::memory_management::{
    ManagedMemoryHandle, MemoryAllocationMode, StreamMemoryReport,
};
use cubecl_runtime::server::{
    BufferBinding, CopyDescriptor, CubeCount, Handle, IoError, KernelArguments, KernelResource,
    MemoryLayout, MemoryLayoutDescriptor, MemoryLayoutPolicy, ProfileError, ProfilingToken, Server,
    ServerCommunication, ServerError, ServerStorage, ServerUtilities,
};
use cubecl_runtime::storage::{ComputeStorage, ManagedResource, StorageHandle, StorageId};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};

const DEVICE: DeviceId = DeviceId {
    type_id: 0,
    index_id: 0,
};

/// A compiled kernel and the bytes of its buffers.
pub struct Launched {
    pub source: String,
    /// The bytes of shared memory.
    pub shared: usize,
    pub bytes: u64,
}

/// The device.
pub struct Offline {
    pub client: Client,
    launches: Receiver<Result<Launched, String>>,
}

impl Offline {
    pub fn new() -> Self {
        let (sender, launches) = mpsc::channel();
        LAUNCHES
            .set(Mutex::new(sender))
            .expect("there is one device");
        Self {
            client: Client::load::<Nothing>(DEVICE),
            launches,
        }
    }

    /// Waits for the last launch, and returns it.
    ///
    /// # Panics
    /// Panics if it did not compile.
    pub fn launched(&self, name: &str) -> Launched {
        // A client collects launches before it gives them to the device.
        self.client.flush().expect("the device is there");
        let launched = self.launches.try_recv().expect("the kernel was launched");
        launched.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// Names a buffer.
pub fn buffer(bytes: u64) -> Handle {
    Handle::new(ServiceId::of::<Nothing>(DEVICE), StreamId::current(), bytes)
}

/// The way back from the thread of the device.
static LAUNCHES: OnceLock<Mutex<Sender<Result<Launched, String>>>> = OnceLock::new();

/// The device's server.
#[derive(Debug)]
struct Nothing {
    utilities: Arc<ServerUtilities>,
}

/// Returns the properties of a GPU that CUDA's runtime reports. None of them depends on the architecture here.
fn properties() -> DeviceProperties {
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 1024,
        max_shared_memory_size: 99 * 1024,
        max_cube_count: (i32::MAX as u32, 65_535, 65_535),
        max_units_per_cube: 1024,
        max_cube_dim: (1024, 1024, 64),
        num_streaming_multiprocessors: None,
        num_cpu_cores: None,
        last_level_cache_size: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        max_vector_size: 16,
        cube_mma_reserved_shared_memory: 0,
    };
    let identity = DeviceIdentity {
        name: "none".into(),
        fingerprint: "offline".into(),
        physical: None,
    };
    let memory = MemoryDeviceProperties::new(1 << 34, 512);
    let mut properties = DeviceProperties::new(
        Default::default(),
        memory,
        hardware,
        TimingMethod::Device,
        identity,
    );
    cubecl_cpp::register_supported_types(&mut properties);
    properties.features.plane.insert(Plane::Ops);
    properties
}

fn compiled(kernel: &dyn CubeKernel, bindings: &KernelArguments) -> Result<Launched, String> {
    let mut options = CompilationOptions::default();
    // As CUDA's runtime sets them for all of the architectures.
    options.supports_features.fast_math = true;
    options.supports_features.grid_constants = true;
    let definition = define_kernel(kernel).map_err(|error| error.to_string())?;
    let compiled = CppCompiler::<Cuda>::default().compile(definition, &options);
    let compiled = compiled.map_err(|error| error.to_string())?;
    let bytes = bindings.resources.iter().map(|resource| match resource {
        KernelResource::Buffer(buffer) => buffer.size_in_used(),
        KernelResource::TensorMap(map) => map.binding.size_in_used(),
    });
    Ok(Launched {
        shared: compiled.shared_memory_size,
        source: compiled.source,
        bytes: bytes.sum(),
    })
}

impl Server for Nothing {
    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        _: CubeCount,
        bindings: KernelArguments,
        _: StreamId,
        _: LaunchMode,
    ) {
        let launches = LAUNCHES.get().expect("the device is made with it");
        let launches = launches.lock().expect("no thread panics with it");
        launches
            .send(compiled(&*kernel, &bindings))
            .expect("the main thread waits");
    }

    fn initialize_memory(
        &mut self,
        _: ManagedMemoryHandle,
        _: u64,
        _: StreamId,
    ) -> Result<(), ServerError> {
        Err(no_memory())
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.utilities.clone()
    }

    fn read(
        &mut self,
        _: Vec<CopyDescriptor>,
        _: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        Box::pin(async { Err(no_memory()) })
    }

    fn write(&mut self, _: Vec<(CopyDescriptor, Bytes)>, _: StreamId) {
        panic!("{}", no_memory());
    }

    fn sync(&mut self, _: Vec<BufferBinding>, _: StreamId) -> DynFut<Result<(), ServerError>> {
        Box::pin(async { Ok(()) })
    }

    fn check(&mut self, _: Vec<BufferBinding>, _: StreamId) -> Result<(), ServerError> {
        Err(no_memory())
    }

    fn flush(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, _: StreamId) -> Option<StreamMemoryReport> {
        None
    }

    fn memory_cleanup(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn start_profile(&mut self, _: StreamId) -> Result<ProfilingToken, ServerError> {
        Err(no_memory())
    }

    fn end_profile(
        &mut self,
        _: StreamId,
        _: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        Err(ProfileError::NotRegistered {
            backtrace: BackTrace::capture(),
        })
    }

    fn allocation_mode(&mut self, _: MemoryAllocationMode, _: StreamId) {}
}

fn no_memory() -> ServerError {
    ServerError::Generic {
        reason: "this device compiles kernels, and has no memory".into(),
        backtrace: BackTrace::capture(),
    }
}

impl ServerCommunication for Nothing {}

impl DeviceService for Nothing {
    fn init(device: DeviceId) -> Self {
        let (utilities, _) = ServerUtilities::init(
            ServiceId::of::<Self>(device),
            "offline",
            properties(),
            TargetProperties::default(),
            Arc::new(ServerLogger::default()),
            NoLayouts,
        );
        Self {
            utilities: Arc::new(utilities),
        }
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.utilities.clone()
    }
}

struct NoLayouts;

impl MemoryLayoutPolicy for NoLayouts {
    fn apply(
        &self,
        _: ServiceId,
        _: StreamId,
        _: &[MemoryLayoutDescriptor],
    ) -> (Handle, Vec<MemoryLayout>) {
        panic!("{}", no_memory());
    }
}

/// The storage of no memory.
struct NoStorage;

impl ServerStorage for Nothing {
    type Storage = NoStorage;

    fn get_resource(
        &mut self,
        _: BufferBinding,
        _: StreamId,
    ) -> Result<ManagedResource<()>, ServerError> {
        Err(no_memory())
    }
}

impl ComputeStorage for NoStorage {
    type Resource = ();

    fn alignment(&self) -> usize {
        512
    }

    fn get(&mut self, _: &StorageHandle) -> Result<(), IoError> {
        Err(unsupported())
    }

    fn alloc(&mut self, _: u64) -> Result<StorageHandle, IoError> {
        Err(unsupported())
    }

    fn dealloc(&mut self, _: StorageId) {}

    fn flush(&mut self) {}

    fn bytes_allocated(&self) -> u64 {
        0
    }
}

fn unsupported() -> IoError {
    IoError::UnsupportedIoOperation {
        backtrace: BackTrace::capture(),
    }
}
