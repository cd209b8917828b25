//! Loading: finds a toolkit and resolves every function in it.

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bindings::*;
use crate::error::{Attempt, LoadError};
use crate::open::{Libraries, Visibility};
use crate::search::{Search, operator_libraries};
use crate::symbol::{MissingSymbol, Symbol};

/// The functions of CANN that were found, in one table per area.
///
/// Cheap to share behind an `Arc`. Dropping it unloads nothing.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the tables say what they are
pub struct Cann {
    pub runtime: Runtime,
    pub meta: Meta,
    pub norm: Norm,
    pub activation: Activation,
    pub rotary: Rotary,
    pub matmul: Matmul,
    pub grouped_matmul: GroupedMatmul,
    pub moe: Moe,
    pub attention: Attention,
    pub training: Training,
    pub elementwise: Elementwise,
    pub reduce: Reduce,
    pub index: Index,
    pub shape: Shape,
    pub create: Create,
    pub hccl: Hccl,
    folder: PathBuf,
    attempts: Vec<Attempt>,
    emulator: Option<String>,
}

impl Cann {
    /// Loads the toolkit that the environment or the default folders offer (see [`Search::new`]).
    ///
    /// # Errors
    ///
    /// Returns an error if this is not Linux or no folder has a runtime library that can be opened. Every other
    /// missing function is an error only where it is requested.
    pub fn load() -> Result<Self, LoadError> {
        Self::load_from(&Search::of_process())
    }

    /// Loads the first toolkit that `search` finds.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Cann::load`] does.
    pub fn load_from(search: &Search) -> Result<Self, LoadError> {
        if !cfg!(target_os = "linux") {
            return Err(LoadError::Platform {
                os: std::env::consts::OS,
            });
        }
        let hidden: Arc<[String]> = search.hidden.clone().into();
        let mut attempts = Vec::new();
        for folder in &search.folders {
            refuse_stubs(folder)?;
            // CANN 9 has the runtime in libacl_rt.so, behind libascendcl.so.
            let names = ["libascendcl.so", "libacl_rt.so"].map(|name| folder.join(name));
            let runtime = Libraries::open(
                names.iter().map(PathBuf::as_path),
                Visibility::Global,
                &hidden,
            );
            attempts.extend_from_slice(runtime.attempts());
            if runtime.any_opened() {
                return Ok(Self::resolve(folder, &runtime, search, &hidden, attempts));
            }
        }
        Err(LoadError::NoRuntime { attempts })
    }

    /// Returns the folder from which the toolkit was loaded. It is empty if the loader found the toolkit by name.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns every library that was tried, in order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Returns the version of `cann-emulator`, if it was loaded in place of CANN.
    pub fn emulator(&self) -> Option<&str> {
        self.emulator.as_deref()
    }

    /// Returns every function that no library has.
    pub fn missing(&self) -> Vec<MissingSymbol> {
        [
            self.runtime.missing(),
            self.meta.missing(),
            self.norm.missing(),
            self.activation.missing(),
            self.rotary.missing(),
            self.matmul.missing(),
            self.grouped_matmul.missing(),
            self.moe.missing(),
            self.attention.missing(),
            self.training.missing(),
            self.elementwise.missing(),
            self.reduce.missing(),
            self.index.missing(),
            self.shape.missing(),
            self.create.missing(),
            self.hccl.missing(),
        ]
        .concat()
    }

    fn resolve(
        folder: &Path,
        runtime: &Libraries,
        search: &Search,
        hidden: &Arc<[String]>,
        mut attempts: Vec<Attempt>,
    ) -> Self {
        let open = |paths: &[PathBuf], visibility| {
            Libraries::open(paths.iter().map(PathBuf::as_path), visibility, hidden)
        };
        let base = open(&[folder.join("libnnopbase.so")], Visibility::Global);
        let mut paths = search.custom.clone();
        paths.extend(operator_libraries(folder));
        let operators = open(&paths, Visibility::Local);
        let hccl = open(&[folder.join("libhccl.so")], Visibility::Local);
        for libraries in [&base, &operators, &hccl] {
            attempts.extend_from_slice(libraries.attempts());
        }
        Self {
            runtime: Runtime::resolve(runtime),
            // Some versions have the operands' functions only in the operators' library.
            meta: Meta::resolve(&base.and(&operators)),
            norm: Norm::resolve(&operators),
            activation: Activation::resolve(&operators),
            rotary: Rotary::resolve(&operators),
            matmul: Matmul::resolve(&operators),
            grouped_matmul: GroupedMatmul::resolve(&operators),
            moe: Moe::resolve(&operators),
            attention: Attention::resolve(&operators),
            training: Training::resolve(&operators),
            elementwise: Elementwise::resolve(&operators),
            reduce: Reduce::resolve(&operators),
            index: Index::resolve(&operators),
            shape: Shape::resolve(&operators),
            create: Create::resolve(&operators),
            hccl: Hccl::resolve(&hccl),
            folder: folder.to_path_buf(),
            attempts,
            emulator: emulator(runtime),
        }
    }
}

/// Returns the version of the emulator, which exports a function that CANN does not have.
fn emulator(runtime: &Libraries) -> Option<String> {
    // SAFETY: the prototype is the one that the emulator documents.
    let version: Symbol<unsafe extern "C" fn() -> *const c_char> =
        unsafe { runtime.symbol("cannEmulatorVersion") };
    // SAFETY: the function has no requirements and returns a string that is never freed.
    let version = unsafe { CStr::from_ptr(version.get().ok()?()) };
    Some(version.to_string_lossy().into_owned())
}

fn refuse_stubs(folder: &Path) -> Result<(), LoadError> {
    let stubs = folder.components().any(|part| part.as_os_str() == "devlib");
    if stubs {
        Err(LoadError::Stubs {
            folder: folder.to_path_buf(),
        })
    } else {
        Ok(())
    }
}
