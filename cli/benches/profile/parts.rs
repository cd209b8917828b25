//! The parts of a step that a sample can belong to, by the files and names of functions.

/// A part of a step, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The products of projections, forward and backward.
    Products,
    /// Attention, with its own products.
    Attention,
    /// Norms, gated units and rotations.
    Rows,
    /// The loss, with its own products.
    Loss,
    /// The optimiser, with the clipping of gradients.
    Optimiser,
    /// Operations of Burn's CPU backend and of autodiff: element by element, sums, copies.
    Burn,
    /// The allocator: zeroed memory, and the calls with which it asks the system for more.
    Allocation,
    /// Threads that look for work.
    Idle,
    /// Functions of no other part.
    Other,
}

impl Part {
    /// All parts, in order.
    pub const ALL: [Self; 9] = [
        Self::Products,
        Self::Attention,
        Self::Rows,
        Self::Loss,
        Self::Optimiser,
        Self::Burn,
        Self::Allocation,
        Self::Idle,
        Self::Other,
    ];

    /// Returns its row in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Products => "products (`gemm`)",
            Self::Attention => "attention",
            Self::Rows => "norms, units, rotations",
            Self::Loss => "loss",
            Self::Optimiser => "optimiser",
            Self::Burn => "Burn's own operations: element by element, sums, copies",
            Self::Allocation => "allocator, with memory that it zeroes",
            Self::Idle => "threads that look for work",
            Self::Other => "other",
        }
    }

    /// Returns the part of a sample: that of the innermost function that belongs to one.
    pub fn of<'a>(innermost_first: impl IntoIterator<Item = &'a Function>) -> Self {
        let mut in_job = false;
        for function in innermost_first {
            match function.part() {
                // A thread that looks for work runs what it finds there.
                Some(Self::Idle) if in_job => return Self::Other,
                Some(part) => return part,
                None => in_job |= function.is_job(),
            }
        }
        Self::Other
    }
}

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its name, with generic arguments. Names of inlined functions lack their modules.
    pub name: String,
    /// Its file, if it has line tables.
    pub file: Option<String>,
}

impl Function {
    /// Returns the part that the function belongs to. Code that several parts share belongs to none, like copies of
    /// memory, products of one thread and loops over rows: its callers decide.
    fn part(&self) -> Option<Part> {
        if WAITING.iter().any(|word| self.name.contains(word)) {
            return Some(Part::Idle);
        }
        // A name holds those of generic arguments, such as a backend or an allocator, so the file goes first.
        let mut crates = PLACES.iter();
        let found = match &self.file {
            Some(file) => crates.find(|(_, files, _)| files.iter().any(|part| file.contains(part))),
            None => crates.find(|(_, _, names)| names.iter().any(|part| self.name.contains(part))),
        };
        let allocates = || self.allocates().then_some(Part::Allocation);
        found.map(|(part, ..)| *part).or_else(allocates)
    }

    /// Returns whether the function is one of the C library's allocator.
    fn allocates(&self) -> bool {
        // The C library marks its own names.
        let name = self.name.trim_start_matches('_');
        let name = name.strip_prefix("GI_").unwrap_or(name);
        ALLOCATOR.contains(&name.trim_start_matches('_'))
    }

    /// Returns whether the function runs a job of Rayon.
    fn is_job(&self) -> bool {
        let file = self.file.as_deref().unwrap_or_default();
        self.name.contains("rayon_core::job::") || file.ends_with("/src/job.rs")
    }
}

/// Parts of the files of functions, and parts of the names of those without a file. The first line that fits decides.
const PLACES: &[(Part, &[&str], &[&str])] = &[
    (
        Part::Attention,
        &[
            "kernels-runtime/src/ops/attention/",
            "kernels-simd/src/attention/",
        ],
        &["ops::attention::", "kernels_simd::attention::"],
    ),
    (
        Part::Rows,
        &[
            "kernels-runtime/src/ops/rms_norm/",
            "kernels-runtime/src/ops/add_rms_norm/",
            "kernels-runtime/src/ops/layer_norm/",
            "kernels-runtime/src/ops/qk_norm_rope/",
            "kernels-runtime/src/ops/rope/",
            "kernels-runtime/src/ops/glu/",
            "kernels-simd/src/rms_norm/",
            "kernels-simd/src/qk_norm_rope/",
            "kernels-simd/src/rope/",
            "kernels-simd/src/glu/",
            "kernels-simd/src/layer_norm/",
        ],
        &[
            "ops::rms_norm::",
            "ops::add_rms_norm::",
            "ops::layer_norm::",
            "ops::qk_norm_rope::",
            "ops::rope::",
            "ops::glu::",
            "kernels_simd::rms_norm::",
            "kernels_simd::qk_norm_rope::",
            "kernels_simd::rope::",
            "kernels_simd::glu::",
            "kernels_simd::layer_norm::",
        ],
    ),
    (
        Part::Loss,
        &[
            "kernels-runtime/src/ops/linear_cross_entropy/",
            "kernels-runtime/src/ops/cross_entropy/",
            "kernels-simd/src/linear_cross_entropy/",
            "kernels-simd/src/cross_entropy/",
        ],
        &[
            "ops::linear_cross_entropy::",
            "ops::cross_entropy::",
            "kernels_simd::linear_cross_entropy::",
            "kernels_simd::cross_entropy::",
        ],
    ),
    (
        Part::Optimiser,
        &[
            "kernels-runtime/src/ops/adam_w/",
            "kernels-simd/src/adam_w.rs",
            "/src/optim/",
            "/burn-optim-",
        ],
        &[
            "ops::adam_w::",
            "kernels_simd::adam_w::",
            "burn_kernels::optim::",
            "burn_optim::",
        ],
    ),
    (
        Part::Products,
        &[
            "kernels-runtime/src/ops/linear/",
            "kernels-simd/src/linear.rs",
            "/gemm-0",
            "/gemm-common-",
            "/gemm-f32-",
            "/gemm-f64-",
        ],
        &[
            "ops::linear::",
            "kernels_simd::linear::",
            "gemm_f32::",
            "gemm_f64::",
            "gemm_common::",
            "gemm::",
        ],
    ),
    (
        Part::Burn,
        &[
            "/burn-flex-",
            "/burn-autodiff-",
            "/burn-tensor-",
            "/burn-backend-",
            "/burn-std-",
            "/burn-dispatch-",
        ],
        &[
            "burn_flex::",
            "burn_autodiff::",
            "burn_tensor::",
            "burn_backend::",
            "burn_std::",
            "burn_dispatch::",
        ],
    ),
    (
        Part::Allocation,
        &["alloc/src/alloc.rs", "alloc/src/raw_vec/", "/aligned-vec-"],
        &["alloc::alloc::alloc", "alloc::raw_vec::", "aligned_vec::"],
    ),
    (
        Part::Idle,
        &["/src/sleep/", "/crossbeam-deque-", "/crossbeam-epoch-"],
        &[
            "rayon_core::sleep::",
            "crossbeam_deque::",
            "crossbeam_epoch::",
        ],
    ),
];

/// Parts of the names of functions in which a thread of Rayon looks for work, or waits for a lock.
const WAITING: &[&str] = &[
    "sched_yield",
    "wait_until_cold",
    "WorkerThread::wait_until",
    "wait_until<rayon_core::latch::",
    "futex_wait",
];

/// Functions of the allocator and of the system, without underscores before the names.
const ALLOCATOR: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "int_malloc",
    "int_free",
    "int_free_maybe_trim",
    "int_free_merge_chunk",
    "int_free_create_chunk",
    "int_free_consolidate_chunk",
    "int_realloc",
    "int_memalign",
    "malloc_trim",
    "libc_malloc",
    "libc_calloc",
    "libc_realloc",
    "libc_free",
    "libc_memalign",
    "posix_memalign",
    "aligned_alloc",
    "malloc_consolidate",
    "unlink_chunk",
    "sysmalloc",
    "systrim",
    "default_morecore",
    "glibc_morecore",
    "sbrk",
    "brk",
    "mmap",
    "mmap64",
    "munmap",
    "mremap",
    "madvise",
    "mprotect",
    "rust_alloc",
    "rust_dealloc",
    "rust_alloc_zeroed",
    "rust_realloc",
    "rdl_alloc",
    "rdl_dealloc",
];
