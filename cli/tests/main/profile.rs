//! Tests of the parts of a step that the benchmark `profile` puts samples into.

#[path = "../../benches/profile/parts.rs"]
mod parts;

use parts::{Function, Part};

/// Returns the part of a stack, written from the outermost function to the innermost: names, or `name@file`.
fn part(stack: &str) -> Part {
    let function = |text: &str| match text.split_once('@') {
        Some((name, file)) => Function {
            name: name.into(),
            file: Some(file.into()),
        },
        None => Function {
            name: text.into(),
            file: None,
        },
    };
    let functions: Vec<Function> = stack.split(';').rev().map(function).collect();
    Part::of(&functions)
}

/// Inlined functions have names without modules, and generic arguments that name other crates.
#[test]
fn files_go_before_names() {
    for (stack, expected) in [
        (
            "main;glu_backward<burn_flex::backend::Flex>@/here/kernels-runtime/src/ops/glu/cpu.rs;mul@/rust/core/src/ops/arith.rs",
            Part::Rows,
        ),
        (
            "run<f32>@/here/kernels-simd/src/attention/backward.rs;as_slice<f32, alloc::alloc::Global>@/rust/library/alloc/src/vec/mod.rs",
            Part::Attention,
        ),
        (
            "run<f32>@/here/kernels-simd/src/attention/backward.rs;alloc_zeroed@/rust/library/alloc/src/alloc.rs;__memset_avx512_unaligned_erms",
            Part::Allocation,
        ),
        (
            "execute@/registry/rayon-core-1.13.0/src/job.rs;{closure#4}@/registry/gemm-common-0.19.0/src/gemm.rs;_mm512_fmadd_ps@/rust/core_arch/avx512f.rs",
            Part::Products,
        ),
        (
            "wait_until_cold@/registry/rayon-core-1.13.0/src/registry.rs;execute@/registry/rayon-core-1.13.0/src/job.rs;unknown@/else.rs",
            Part::Other,
        ),
    ] {
        assert_eq!(part(stack), expected, "{stack}");
    }
}

#[test]
fn the_innermost_function_of_a_part_decides() {
    for (stack, expected) in [
        (
            "main;burn_flex::ops::matmul::matmul;gemm_f32::microkernel::f32::x4",
            Part::Products,
        ),
        // A worker of Rayon has none of the functions that gave it work.
        (
            "rayon_core::registry::WorkerThread::wait_until_cold;<rayon_core::job::StackJob<L,F,R> as Job>::execute;gemm_common::gemm::gemm_basic",
            Part::Products,
        ),
        (
            "kernels_runtime::ops::attention::site::attention;kernels_simd::attention::forward::Task<T>::run;kernels_simd::product::tiles::multiply;__memcpy_avx512_unaligned_erms",
            Part::Attention,
        ),
        (
            "kernels_simd::glu::forward::forward;pulp::x86::v4::V4::vectorize::imp",
            Part::Rows,
        ),
        (
            "kernels_simd::linear_cross_entropy::chunks::run;kernels_simd::product::tiles::sums::sum",
            Part::Loss,
        ),
        (
            "burn_optim::optim::module::step;kernels_simd::adam_w::step_in",
            Part::Optimiser,
        ),
        (
            "kernels_runtime::ops::glu::autodiff::backward;burn_flex::ops::binary::add;__memmove_avx_unaligned_erms",
            Part::Burn,
        ),
        (
            "burn_flex::ops::binary::add;alloc::raw_vec::finish_grow;malloc;_int_malloc",
            Part::Allocation,
        ),
        (
            "kernels_simd::glu::forward::forward;__GI___libc_free",
            Part::Allocation,
        ),
        (
            "kernels_simd::glu::forward::forward;rayon_core::registry::WorkerThread::wait_until_cold;__GI_sched_yield",
            Part::Idle,
        ),
        ("main;std::time::Instant::now", Part::Other),
        ("", Part::Other),
    ] {
        assert_eq!(part(stack), expected, "{stack}");
    }
}

/// A job that a waiting thread took belongs to nobody who waits.
#[test]
fn a_job_without_names_is_not_that_of_the_thread_that_runs_it() {
    let job = "rayon_core::registry::WorkerThread::wait_until_cold;<rayon_core::job::StackJob<L,F,R> as Job>::execute;pulp::x86::v4::V4::vectorize::imp";
    assert_eq!(part(job), Part::Other);
    let stolen = format!("kernels_simd::glu::forward::forward;{job}");
    assert_eq!(part(&stolen), Part::Other);
}

#[test]
fn every_part_has_a_row_of_its_own() {
    let mut names: Vec<_> = Part::ALL.map(Part::name).into();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Part::ALL.len());
}
