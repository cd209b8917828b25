//! Loading of packages.

use crate::binding::{Binding, Call, Workspace};
use crate::call::{Function, OwnError, kept};
use crate::digest::Sum;
use crate::error::Error;
use crate::lock::Lock;
use crate::metadata::Metadata;
use crate::open::{Opened, open_bytes};
use crate::package::Package;
use crate::repository::{Origin, Repository};
use crate::runtime;
use crate::variant::Variant;
use kernels_abi::{PREFIX, SafeCall};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// The reason why a package may run.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// The lock has the package, with the SHA-256 of each file that is opened.
    Lock(&'a Lock),
    /// Somebody named this repository as one whose code may run, whatever it has.
    Repository(&'a Repository),
    /// Somebody named the folder. Only for packages in folders.
    Folder,
}

/// A package that was loaded. It is never unloaded.
#[derive(Debug)]
pub struct Loaded {
    /// The package with its version and id, escaped.
    name: &'static str,
    origin: Origin,
    variant: Variant,
    metadata: Metadata,
    libraries: Vec<Opened>,
    bound: Vec<Bound>,
}

/// An operation with its functions.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The operation of the functions, and the order of their arguments.
    pub binding: Binding,
    /// The function.
    pub forward: Callable,
    /// The function of the gradients, if they are not those of the reference.
    pub backward: Option<Callable>,
}

/// A function with the one that says how much memory it wants.
#[derive(Clone, Copy, Debug)]
pub struct Callable {
    /// The function.
    pub function: Function,
    /// Returns the bytes of the workspace, for the arguments without stream and workspace.
    pub workspace: Option<Function>,
}

impl Package {
    /// Loads the libraries: the very bytes that were read and checked, never again from a file.
    ///
    /// The same bytes are loaded once in a process.
    ///
    /// # Errors
    /// Returns an error if the trust is not one in this package, if the lock has other bytes, if `libtvm_ffi.so` is
    /// needed and not found, or if the system refuses a library. A package of which one library can't be loaded has
    /// no functions.
    ///
    /// # Safety
    /// The code of the package runs in this process, its constructors at once, and nothing confines it. It must be
    /// sound: memory that is not its own stays as it is. The same holds for `libtvm_ffi.so`, if it is opened.
    ///
    /// Each function that `burn-kernels.json` binds to an operation must be correct for every call of the operation
    /// that has these semantics and one of these dtypes, as nobody else checks the arguments:
    /// * they come in the order of the binding, and tensors are contiguous, of any rank and shape that the operation
    ///   accepts;
    /// * null stands for tensors and numbers that are absent, and for gradients that nobody wants;
    /// * a call comes on any thread, and calls come on several threads at once.
    ///
    /// Trust says who answers for that; nothing here can check it.
    pub unsafe fn load(&self, trust: Trust<'_>) -> Result<Loaded, Error> {
        self.check_trust(trust)?;
        let refused = |problem| Error::Refused {
            package: self.to_string(),
            problem,
        };
        // SAFETY: the caller's: TVM-FFI's library is part of the package's code.
        unsafe {
            match self.libraries.iter().any(|library| library.needs_runtime) {
                true => runtime::required()?,
                false => runtime::wanted()?,
            }
        }
        let mut libraries = Vec::new();
        for library in &self.libraries {
            // SAFETY: the caller's.
            let opened = unsafe { open_once(&library.name, &library.sum, &library.bytes) };
            libraries
                .push(opened.map_err(|problem| refused(format!("{}: {problem}", library.name)))?);
        }
        let mut loaded = Loaded {
            name: kept(&self.to_string()),
            origin: self.origin.clone(),
            variant: self.variant.clone(),
            metadata: self.metadata.clone(),
            libraries,
            bound: Vec::new(),
        };
        for binding in &self.bindings {
            loaded.bound.push(Bound {
                forward: loaded.callable(&binding.forward)?,
                backward: binding
                    .backward
                    .as_ref()
                    .map(|call| loaded.callable(call))
                    .transpose()?,
                binding: binding.clone(),
            });
        }
        Ok(loaded)
    }

    /// Checks that the package may run.
    ///
    /// # Errors
    /// Returns an error if not.
    pub fn check_trust(&self, trust: Trust<'_>) -> Result<(), Error> {
        let refused = |problem: String| Error::Refused {
            package: self.to_string(),
            problem,
        };
        match (trust, &self.origin) {
            (Trust::Lock(lock), _) => lock.check(self),
            (Trust::Folder, Origin::Folder(_)) => Ok(()),
            (Trust::Folder, Origin::Repository { .. }) => Err(refused(
                "a package of a hub needs a lock, or trust in its repository".into(),
            )),
            (Trust::Repository(named), Origin::Repository { repository, .. })
                if named == repository =>
            {
                match self.metadata.digest {
                    Some(_) => Ok(()),
                    None => Err(refused(
                        "metadata.json has no digest of the files; lock the package to load it"
                            .into(),
                    )),
                }
            }
            (Trust::Repository(named), _) => Err(refused(format!(
                "the trust is in {named}, and the package is from elsewhere"
            ))),
        }
    }
}

impl Loaded {
    /// Returns the package with its version and id, escaped.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns where the package comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the variant.
    pub fn variant(&self) -> &Variant {
        &self.variant
    }

    /// Returns what the package says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the operations with their functions.
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// Returns a function by its name.
    ///
    /// # Errors
    /// Returns an error if no library has the function, or several have.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        let symbol = format!("{PREFIX}{name}");
        let found = self
            .libraries
            .iter()
            .filter_map(|library| Some((library, library.symbol(&symbol)?)));
        let found: Vec<_> = found.collect();
        let refused = |problem| Error::Refused {
            package: self.name.into(),
            problem,
        };
        let [(library, address)] = found[..] else {
            let shown = crate::metadata::short(name);
            return Err(refused(match found.is_empty() {
                true => format!("the package has no function `{shown}`"),
                false => format!("several libraries of the package have a function `{shown}`"),
            }));
        };
        // SAFETY: functions with this prefix have this type, and libraries are never closed.
        let call = unsafe { std::mem::transmute::<*mut c_void, SafeCall>(address) };
        let own_error = library.symbol("burn_kernels_error").map(|address| {
            // SAFETY: the symbol is a function of this type by the convention of packages.
            unsafe { std::mem::transmute::<*mut c_void, OwnError>(address) }
        });
        Ok(Function {
            name: kept(name),
            package: self.name,
            call,
            own_error,
        })
    }

    fn callable(&self, call: &Call) -> Result<Callable, Error> {
        let workspace = match &call.workspace {
            Some(Workspace::Symbol(symbol)) => Some(self.function(symbol)?),
            _ => None,
        };
        Ok(Callable {
            function: self.function(&call.symbol)?,
            workspace,
        })
    }
}

/// Opens bytes that are not open yet. The same bytes would be a second copy, with a state of its own.
///
/// # Safety
/// The constructors of the library run, and must be sound.
unsafe fn open_once(name: &str, sum: &Sum, bytes: &[u8]) -> Result<Opened, String> {
    static OPEN: Mutex<Option<HashMap<Sum, Opened>>> = Mutex::new(None);
    let mut open = OPEN.lock().unwrap_or_else(|broken| broken.into_inner());
    let open = open.get_or_insert_default();
    if let Some(opened) = open.get(sum) {
        return Ok(*opened);
    }
    // SAFETY: the caller's.
    let opened = unsafe { open_bytes(name, bytes) }?;
    open.insert(*sum, opened);
    Ok(opened)
}
