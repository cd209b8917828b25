//! CANN in this process: loaded, initialised and, if asked, finalised.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cann_sys::{Search, errors};

use crate::code::Code;
use crate::device::DeviceInner;
use crate::error::{Error, Result};
use crate::soc::Soc;
use crate::version::Version;

/// Calls a function of CANN that returns a code: looked up, in a span of its own, checked.
///
/// The function's own rules are the caller's to keep, so the macro stands in an `unsafe` block.
macro_rules! call {
    ($cann:expr, $area:ident . $function:ident ( $($argument:expr),* $(,)? )) => {
        match $cann.sys().$area.$function.get() {
            Ok(function) => {
                let _span = tracing::trace_span!("cann", function = stringify!($function)).entered();
                let code = function($($argument),*);
                $cann.check(stringify!($function), code)
            }
            Err(missing) => Err($crate::error::Error::from(missing)),
        }
    };
}
pub(crate) use call;

/// CANN, loaded and initialised. Cheap to clone.
///
/// CANN is one per process: [`Cann::load`] does it once and gives the same one to everybody.
#[derive(Clone, Debug)]
pub struct Cann(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sys: cann_sys::Cann,
    soc: OnceLock<Soc>,
    version: OnceLock<Version>,
    /// How often the host waited for a device.
    waits: AtomicU64,
    devices: Mutex<HashMap<i32, Weak<DeviceInner>>>,
}

/// What CANN's initialisation knows of the whole process.
#[derive(Debug, Default)]
struct Process {
    open_devices: usize,
    finalised: bool,
}

static PROCESS: Mutex<Process> = Mutex::new(Process {
    open_devices: 0,
    finalised: false,
});

const FINALISED: &str = "CANN was finalised: it can't be used again in this process";

/// A lock whose data is consistent between any two statements, so that a panic elsewhere is no harm.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cann {
    /// The CANN of this process: the toolkit that the environment or the default places offer.
    ///
    /// # Errors
    ///
    /// No toolkit was found, or it could not be initialised. The outcome is remembered.
    pub fn load() -> Result<Self> {
        static LOADED: OnceLock<Result<Cann>> = OnceLock::new();
        LOADED
            .get_or_init(|| Self::load_from(&Search::of_process()))
            .clone()
    }

    /// The toolkit that `search` finds, for programs that choose one themselves.
    ///
    /// CANN does not foresee two toolkits in one process.
    ///
    /// # Errors
    ///
    /// As [`Cann::load`].
    pub fn load_from(search: &Search) -> Result<Self> {
        let cann = Self(Arc::new(Inner {
            sys: cann_sys::Cann::load_from(search)?,
            soc: OnceLock::new(),
            version: OnceLock::new(),
            waits: AtomicU64::new(0),
            devices: Mutex::default(),
        }));
        cann.initialise()?;
        Ok(cann)
    }

    fn initialise(&self) -> Result<()> {
        let process = lock(&PROCESS);
        if process.finalised {
            return Err(Error::Lifetime(FINALISED));
        }
        // SAFETY: NULL stands for no configuration; the lock keeps initialisations apart.
        match unsafe { call!(self, runtime.aclInit(std::ptr::null())) } {
            // Somebody else in this process did it, which serves us as well.
            Err(Error::Call { code, .. })
                if code.number() == errors::ACL_ERROR_REPEAT_INITIALIZE =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Ends CANN in this process, for good.
    ///
    /// Nothing does this by itself, least of all a static destructor: CANN's own libraries may be gone
    /// by then. A process that just exits needs it not; profilers and leak reports do.
    ///
    /// # Errors
    ///
    /// Something of a device is still alive (a device, stream, event, buffer or tensor), CANN was
    /// finalised before, or the call failed.
    pub fn finalise(&self) -> Result<()> {
        let mut process = lock(&PROCESS);
        if process.finalised {
            return Err(Error::Lifetime(FINALISED));
        }
        if process.open_devices > 0 {
            return Err(Error::Lifetime(
                "CANN can't be finalised yet: drop all devices, streams, events, buffers and tensors first",
            ));
        }
        // SAFETY: no device is open, so nothing of CANN is in use by this crate; the lock and the mark
        // keep others from opening one.
        unsafe { call!(self, runtime.aclFinalize()) }?;
        process.finalised = true;
        Ok(())
    }

    /// The raw tables, for what this crate does not wrap.
    pub fn sys(&self) -> &cann_sys::Cann {
        &self.0.sys
    }

    /// How many devices there are.
    ///
    /// # Errors
    ///
    /// The driver could not be asked.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: `count` is a place for the answer.
        unsafe { call!(self, runtime.aclrtGetDeviceCount(&mut count)) }?;
        Ok(count)
    }

    /// The versions of the toolkit, as far as it says.
    pub fn version(&self) -> &Version {
        self.0.version.get_or_init(|| Version::of(self))
    }

    /// The kind of processor. Known once a device was opened; [`Soc::unknown`] if CANN does not say.
    pub fn soc(&self) -> Soc {
        if let Some(soc) = self.0.soc.get() {
            return soc.clone();
        }
        match self.soc_name() {
            Some(name) => self.0.soc.get_or_init(|| Soc::from_name(&name)).clone(),
            None => Soc::unknown(),
        }
    }

    fn soc_name(&self) -> Option<String> {
        let function = self.sys().runtime.aclrtGetSocName.get().ok()?;
        // SAFETY: takes nothing and returns NULL or a string that CANN keeps.
        let name = unsafe { function() };
        if name.is_null() {
            return None;
        }
        // SAFETY: as above; it is copied at once.
        Some(
            unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// An error for a code that is not success, with CANN's message of this thread.
    pub(crate) fn check(&self, function: &'static str, code: i32) -> Result<()> {
        if code == errors::ACL_SUCCESS {
            return Ok(());
        }
        Err(Error::Call {
            function,
            code: Code::new(code),
            message: self.recent_message(),
        })
    }

    pub(crate) fn unusable(&self, function: &'static str, what: &'static str) -> Error {
        Error::Unusable {
            function,
            what,
            message: self.recent_message(),
        }
    }

    fn recent_message(&self) -> Option<String> {
        let function = self.sys().runtime.aclGetRecentErrMsg.get().ok()?;
        // SAFETY: takes nothing and returns NULL or a string that holds until this thread's next call.
        let message = unsafe { function() };
        if message.is_null() {
            return None;
        }
        // SAFETY: as above; it is copied at once.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
        let message = message.trim();
        (!message.is_empty()).then(|| message.to_owned())
    }

    /// How often the host waited for a device so far: streams, events and whole devices, those waited for
    /// by the allocator and at the end of streams included. A difference tells whether a stretch of calls
    /// waits.
    pub fn waits(&self) -> u64 {
        self.0.waits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_wait(&self) {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// The device `id`, opened by `open` unless somebody has it already.
    pub(crate) fn shared_device(
        &self,
        id: i32,
        open: impl FnOnce() -> Result<DeviceInner>,
    ) -> Result<Arc<DeviceInner>> {
        let mut devices = lock(&self.0.devices);
        if let Some(device) = devices.get(&id).and_then(Weak::upgrade) {
            return Ok(device);
        }
        let device = Arc::new(open()?);
        devices.insert(id, Arc::downgrade(&device));
        Ok(device)
    }
}

/// A part in the count of open devices: while one lives, CANN is not finalised.
#[derive(Debug)]
pub(crate) struct InUse(());

impl InUse {
    pub(crate) fn new() -> Result<Self> {
        let mut process = lock(&PROCESS);
        if process.finalised {
            return Err(Error::Lifetime(FINALISED));
        }
        process.open_devices += 1;
        Ok(Self(()))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        lock(&PROCESS).open_devices -= 1;
    }
}
