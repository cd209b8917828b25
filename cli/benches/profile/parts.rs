//! The parts of a step that a sample can belong to, by the names of functions.

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
    /// The allocator and the calls with which it asks the system for memory.
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
            Self::Allocation => "allocator",
            Self::Idle => "threads that look for work",
            Self::Other => "other",
        }
    }

    /// Returns the part of a sample: that of the innermost function that belongs to one.
    pub fn of<'a>(innermost_first: impl IntoIterator<Item = &'a str>) -> Self {
        let mut in_job = false;
        for function in innermost_first {
            match Self::of_function(function) {
                // A thread that looks for work runs what it finds there.
                Some(Self::Idle) if in_job => return Self::Other,
                Some(part) => return part,
                None => in_job |= function.contains("rayon_core::job::"),
            }
        }
        Self::Other
    }

    /// Returns the part that a function belongs to. Code that several parts share belongs to none, like copies of
    /// memory, products of one thread and loops over rows: its callers decide.
    fn of_function(function: &str) -> Option<Self> {
        let is = |(_, words): &&(Self, &[&str])| words.iter().any(|word| function.contains(word));
        NAMES.iter().find(is).map(|(part, _)| *part).or_else(|| {
            // The C library marks its own names.
            let name = function.trim_start_matches('_');
            let name = name.strip_prefix("GI_").unwrap_or(name);
            let name = name.trim_start_matches('_');
            ALLOCATOR.contains(&name).then_some(Self::Allocation)
        })
    }
}

/// Parts of the names of functions. The first line that fits decides: a name may hold those of its generic arguments.
const NAMES: &[(Part, &[&str])] = &[
    (Part::Attention, &["ops::attention::"]),
    (
        Part::Rows,
        &[
            "ops::rms_norm::",
            "ops::add_rms_norm::",
            "ops::layer_norm::",
            "ops::qk_norm_rope::",
            "ops::rope::",
            "ops::glu::",
        ],
    ),
    (
        Part::Loss,
        &["ops::linear_cross_entropy::", "ops::cross_entropy::"],
    ),
    (
        Part::Optimiser,
        &["ops::adam_w::", "burn_kernels::optim::", "burn_optim::"],
    ),
    (
        Part::Products,
        &["gemm_f32::", "gemm_f64::", "gemm_common::", "gemm::"],
    ),
    (
        Part::Burn,
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
        &["alloc::alloc::", "alloc::raw_vec::", "aligned_vec::"],
    ),
    (
        Part::Idle,
        &[
            "WorkerThread::wait_until",
            "rayon_core::sleep::",
            "crossbeam_deque::",
            "crossbeam_epoch::",
            "sched_yield",
        ],
    ),
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
