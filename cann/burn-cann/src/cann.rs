//! CANN in this process: loading, initialisation and, on request, finalisation.

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

/// Looks up a function of CANN that returns a code, calls it in a span of its own and checks the code.
///
/// The macro stands in an `unsafe` block: the caller keeps the function's own rules.
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
/// A process has one CANN: [`Cann::load`] loads it once and returns the same one to every caller.
#[derive(Clone, Debug)]
pub struct Cann(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sys: cann_sys::Cann,
    soc: OnceLock<Soc>,
    version: OnceLock<Version>,
    /// The number of times that the host waited for a device.
    waits: AtomicU64,
    devices: Mutex<HashMap<i32, Weak<DeviceInner>>>,
}

/// The state of CANN's initialisation, which is one for the whole process.
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

/// Locks a mutex whose data is consistent between any two statements, so that a panic elsewhere does no harm.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cann {
    /// Loads the CANN of this process, from the toolkit that the environment or the default folders offer.
    ///
    /// # Errors
    ///
    /// Returns an error if no toolkit was found or it could not be initialised. The outcome is remembered.
    pub fn load() -> Result<Self> {
        static LOADED: OnceLock<Result<Cann>> = OnceLock::new();
        LOADED
            .get_or_init(|| Self::load_from(&Search::of_process()))
            .clone()
    }

    /// Loads the toolkit that `search` finds, for programs that choose one themselves.
    ///
    /// CANN is not made for two toolkits in one process.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Cann::load`] does.
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
        // SAFETY: NULL stands for no configuration, and the lock keeps two initialisations apart.
        match unsafe { call!(self, runtime.aclInit(std::ptr::null())) } {
            // Another part of this process has initialised CANN, which is enough.
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
    /// Nothing calls this by itself. A static destructor could not, because CANN's own libraries may be gone by then.
    /// A process that just exits does not need it; profilers and leak reports do.
    ///
    /// # Errors
    ///
    /// Returns an error if something of a device is still alive (a device, stream, event, buffer or tensor), if CANN
    /// was finalised before, or if the call fails.
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
        // SAFETY: no device is open, so this crate uses nothing of CANN. The lock and the mark keep others from
        // opening one.
        unsafe { call!(self, runtime.aclFinalize()) }?;
        process.finalised = true;
        Ok(())
    }

    /// Returns the raw function tables, for functions that this crate does not wrap.
    pub fn sys(&self) -> &cann_sys::Cann {
        &self.0.sys
    }

    /// Returns the number of devices.
    ///
    /// # Errors
    ///
    /// Returns an error if the driver does not answer.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: `count` is a place for the answer.
        unsafe { call!(self, runtime.aclrtGetDeviceCount(&mut count)) }?;
        Ok(count)
    }

    /// Returns the version of the toolkit, as far as the toolkit reports it.
    pub fn version(&self) -> &Version {
        self.0.version.get_or_init(|| Version::of(self))
    }

    /// Returns the kind of processor. It is known once a device was opened, and [`Soc::unknown`] if CANN does not
    /// report it.
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
        // SAFETY: the function takes no arguments and returns NULL or a string that CANN keeps.
        let name = unsafe { function() };
        if name.is_null() {
            return None;
        }
        // SAFETY: as above; the string is copied at once.
        Some(
            unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// Returns an error for every code but success, with CANN's message for this thread.
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
        // SAFETY: the function takes no arguments and returns NULL or a string that is valid until this thread's next
        // call.
        let message = unsafe { function() };
        if message.is_null() {
            return None;
        }
        // SAFETY: as above; the string is copied at once.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
        let message = message.trim();
        (!message.is_empty()).then(|| message.to_owned())
    }

    /// Returns the number of times that the host has waited for a device. Waits for streams, events and whole devices
    /// count, also those of the allocator and at the end of a stream. The difference of two numbers shows whether the
    /// calls between them waited.
    pub fn waits(&self) -> u64 {
        self.0.waits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_wait(&self) {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns device `id`, which `open` opens unless it is open already.
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

/// A share in the count of open devices. CANN is not finalised while one exists.
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
