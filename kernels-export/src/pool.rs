//! The threads of the host: the OpenMP pool that is in the process, which is PyTorch's in Python.
//!
//! The pool is entered through `GOMP_parallel`, which GCC's and LLVM's OpenMP have. So work takes as many threads as the
//! host says, in Python by `torch.set_num_threads`, and no thread waits for a processor that another one of the host's
//! holds. Without OpenMP in the process, the calling thread does all work. So it does in every process but the one that
//! loaded this library: in a forked child, OpenMP's threads are gone, and the pool would wait for them forever.

use crate::call::Quiet;
use kernels_simd::threads::{Pool, use_pool};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Once, OnceLock};

/// The process that loaded this library, 0 where nothing says which.
static PROCESS: AtomicU32 = AtomicU32::new(0);

extern "C" fn loaded() {
    PROCESS.store(std::process::id(), Relaxed);
}

/// The system calls this function when it loads the library: a host may fork before its first call.
// SAFETY: the section holds pointers to functions of this type, which may be called before all else of the library.
#[cfg(unix)]
#[used]
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__DATA,__mod_init_func")
)]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static LOADED: extern "C" fn() = loaded;

/// Uses the pool of the host from now on.
pub(crate) fn join() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if PROCESS.load(Relaxed) == 0 {
            loaded();
        }
        let pool = Pool { threads, run };
        use_pool(pool).expect("nothing else in this library uses a pool");
    });
}

type Body = unsafe extern "C" fn(*mut c_void);

/// The functions of OpenMP.
#[derive(Clone, Copy)]
struct OpenMp {
    parallel: unsafe extern "C" fn(Body, *mut c_void, c_uint, c_uint),
    max_threads: unsafe extern "C" fn() -> c_int,
    in_parallel: unsafe extern "C" fn() -> c_int,
}

fn openmp() -> Option<OpenMp> {
    static FOUND: OnceLock<Option<OpenMp>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let [parallel, max_threads, in_parallel] =
            [c"GOMP_parallel", c"omp_get_max_threads", c"omp_in_parallel"].map(symbol);
        // SAFETY: these symbols are functions of these types in every OpenMP library that has them.
        unsafe {
            Some(OpenMp {
                parallel: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(Body, *mut c_void, c_uint, c_uint),
                >(parallel?),
                max_threads: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(
                    max_threads?,
                ),
                in_parallel: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(
                    in_parallel?,
                ),
            })
        }
    });
    found.filter(|_| PROCESS.load(Relaxed) == std::process::id())
}

/// Returns a symbol of the libraries that are open in the process.
#[cfg(unix)]
pub(crate) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Elsewhere, libraries are not searched by name alone.
#[cfg(not(unix))]
pub(crate) fn symbol(_: &CStr) -> Option<*mut c_void> {
    None
}

/// Returns the number of threads that work may use: 1 in work that OpenMP's threads share already.
fn threads() -> usize {
    // SAFETY: these functions have no requirements.
    openmp().map_or(1, |openmp| unsafe {
        match (openmp.in_parallel)() {
            0 => usize::try_from((openmp.max_threads)()).unwrap_or(1),
            _ => 1,
        }
    })
}

fn run(work: &(dyn Fn() + Sync)) {
    unsafe extern "C" fn body(work: *mut c_void) {
        let _quiet = Quiet::new();
        // SAFETY: `run` passes a pointer to a function that lives until all threads have returned.
        unsafe { (*work.cast::<&(dyn Fn() + Sync)>())() }
    }
    let Some(openmp) = openmp() else {
        return work();
    };
    let mut work = work;
    // SAFETY: `parallel` returns after all calls of `body`, which don't unwind, because `Pool::run` is given functions that
    // don't panic. They only read the reference. With 0, the number of threads is the host's.
    unsafe { (openmp.parallel)(body, std::ptr::from_mut(&mut work).cast(), 0, 0) }
}
