//! Made from `include/cann/*.h` by `tests/bindings/bindings.rs`.

// The names are CANN's; what they mean stands in the headers.
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs
)]
#![allow(unused_imports)] // every area can use the types of the areas below it

#[doc = "Handles, dtypes and formats: `include/cann/types.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod types;
#[doc = "Error codes of the runtime: `include/cann/errors.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod errors;
#[doc = "Devices, memory, streams and events: `include/cann/runtime.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod runtime;
#[doc = "Operands and executors: `include/cann/meta.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod meta;
#[doc = "RMS norm and layer norm: `include/cann/norm.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod norm;
#[doc = "Gated linear units, activations and softmax: `include/cann/activation.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod activation;
#[doc = "Rotary position embeddings: `include/cann/rotary.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod rotary;
#[doc = "Matrix products: `include/cann/matmul.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod matmul;
#[doc = "Matrix products by group: `include/cann/grouped_matmul.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod grouped_matmul;
#[doc = "Routing of tokens to experts and back: `include/cann/moe.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod moe;
#[doc = "Flash attention: `include/cann/attention.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod attention;
#[doc = "Losses and optimisers: `include/cann/training.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod training;
#[doc = "Arithmetic by element: `include/cann/elementwise.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod elementwise;
#[doc = "Reductions, sorting and counting: `include/cann/reduce.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod reduce;
#[doc = "Selecting, scattering and embedding rows: `include/cann/index.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod index;
#[doc = "Copies, conversions and moves: `include/cann/shape.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod shape;
#[doc = "Filling a tensor: `include/cann/create.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod create;
#[doc = "Operators by name, whose functions are not loaded: `include/cann/compile.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod compile;
#[doc = "Kernels given as binaries, whose functions are not loaded: `include/cann/kernel.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod kernel;
#[doc = "Reports to the profiler, whose functions are not loaded: `include/cann/profiling.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod profiling;
#[doc = "Collective communication between devices: `include/cann/hccl.h`."]
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod hccl;

pub use self::{
    activation::Activation, attention::Attention, create::Create, elementwise::Elementwise,
    grouped_matmul::GroupedMatmul, hccl::Hccl, index::Index, matmul::Matmul, meta::Meta, moe::Moe,
    norm::Norm, reduce::Reduce, rotary::Rotary, runtime::Runtime, shape::Shape, training::Training,
};

/// The functions of all areas.
pub fn all_names() -> Vec<&'static str> {
    [
        Runtime::NAMES,
        Meta::NAMES,
        Norm::NAMES,
        Activation::NAMES,
        Rotary::NAMES,
        Matmul::NAMES,
        GroupedMatmul::NAMES,
        Moe::NAMES,
        Attention::NAMES,
        Training::NAMES,
        Elementwise::NAMES,
        Reduce::NAMES,
        Index::NAMES,
        Shape::NAMES,
        Create::NAMES,
        Hccl::NAMES,
    ]
    .concat()
}
