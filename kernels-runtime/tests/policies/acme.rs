//! Kernels and sites as another crate would define them. The kernels return their input, so that a test sees if one
//! ran. None of them is right.

use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{Device, Tensor};
use kernels_runtime::__private::{At, declare_site, rms_norm};
use kernels_runtime::declare_kernel;
use kernels_runtime::dispatch::{DeviceKinds, Query, Reason, TensorType};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::mapping::{self, Mapping};
use kernels_runtime::ops::fused::{Made, OfDispatch, OpLaunch};
use kernels_runtime::ops::rms_norm::{self, RmsNorm};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::{
    CapabilityRange, FloatType, Gradient, Implementation, KernelSpec, Launch, Site,
};
use kernels_runtime::semantics::{RmsNormKey, Rounding, SemanticsKey};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const BASE: Implementation = Implementation {
    device: DeviceKinds::CPU,
    name: "acme",
    dtypes: &[FloatType::F32],
    gradient: Gradient::Kernel,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    accepts: |key| {
        matches!(
            key,
            SemanticsKey::RmsNorm(RmsNormKey {
                rounding: Rounding::Llama,
                ..
            })
        )
    },
    limits: None,
    operators: None,
    launch: Launch::RmsNorm(rms_norm::Launch(OpLaunch::by::<RmsNorm>(
        &(returned as fn(_) -> _),
    ))),
};

fn returned(operands: OfDispatch<RmsNorm>) -> Made<DispatchTensor> {
    Made::new(operands.into_parts().0)
}

macro_rules! norms {
    ($($name:ident = $id:literal: [$($implementation:expr),* $(,)?];)+) => {
        $(declare_kernel! {
            /// A norm of another crate.
            pub static $name = KernelSpec {
                id: $id,
                op: "rms_norm",
                version: 1,
                summary: "a norm of another crate",
                implementations: &[$($implementation),*],
            };
        })+
    };
}

norms! {
    NORM = "acme_norm": [BASE];
    NO_GRADIENT = "acme_no_gradient": [Implementation { gradient: Gradient::None, ..BASE }];
    BARRIER = "acme_barrier": [Implementation { fusion_barrier: true, ..BASE }];
    NEWER = "acme_newer": [Implementation { capability: CapabilityRange::new(9, 9), ..BASE }];
    RANDOM = "acme_random": [
        Implementation { name: "random", deterministic: false, ..BASE },
        Implementation { name: "steady", ..BASE },
    ];
    LIMITED = "acme_limited": [
        Implementation { name: "even", limits: Some(even), ..BASE },
        Implementation { name: "short", limits: Some(short), ..BASE },
    ];
    ELSEWHERE = "acme_elsewhere": [Implementation { device: DeviceKinds::NPU, ..BASE }];
}

/// Accepts only even rows.
fn even(_: &SemanticsKey, tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    match tensors[0].shape()[1] % 2 {
        0 => Ok(()),
        _ => Err(Reason::Shape),
    }
}

/// Accepts only rows of at most four elements.
fn short(_: &SemanticsKey, tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    match tensors[0].shape()[1] {
        0..=4 => Ok(()),
        _ => Err(Reason::Layout),
    }
}

macro_rules! sites {
    ($($name:ident = $item:literal, $kernel:literal, $layer:expr, $rounding:ident;)+) => {
        $(declare_site! {
            static $name = {
                kernel: $kernel,
                item: $item,
                form: Form::Function,
                key: SemanticsKey::RmsNorm(RmsNormKey {
                    rounding: Rounding::$rounding,
                    ..RmsNormKey::LLAMA
                }),
                key_json: r#"{"op":"rms_norm"}"#,
                layer: $layer,
            }
        })+
    };
}

sites! {
    LLAMA = "Norm::forward", "npu_fused_rmsnorm", Some("RMSNorm"), Llama;
    GEMMA = "GemmaNorm::forward", "npu_fused_rmsnorm", Some("GemmaRMSNorm"), Gemma;
    LIMITED_SITE = "Limited::forward", "acme_limited", None, Llama;
    RANDOM_SITE = "Random::forward", "acme_random", None, Llama;
    NEWER_SITE = "Newer::forward", "acme_newer", None, Llama;
}

pub fn llama() -> &'static Site {
    &LLAMA
}

pub fn gemma() -> &'static Site {
    &GEMMA
}

pub fn limited() -> &'static Site {
    &LIMITED_SITE
}

pub fn random() -> &'static Site {
    &RANDOM_SITE
}

pub fn newer() -> &'static Site {
    &NEWER_SITE
}

/// Returns a query for a call on the CPU without a gradient.
pub fn inference(dtype: FloatType) -> Query {
    let mode = kernels_runtime::dispatch::Mode::Inference;
    Query::new(&Device::flex(), TensorType::Float(dtype), mode)
}

/// Returns a query for a call on the CPU with a gradient.
pub fn training(dtype: FloatType) -> Query {
    let mode = kernels_runtime::dispatch::Mode::Training;
    Query::new(&Device::flex(), TensorType::Float(dtype), mode)
}

/// Describes the path of a call.
pub fn path(site: &'static Site, query: Query) -> String {
    use kernels_runtime::dispatch::Decision;
    match site.decide(query) {
        Decision::Fused(implementation) => implementation.name.to_owned(),
        Decision::Reference(reason) => reason.name().to_owned(),
    }
}

/// Runs a norm of rows of `n` twos. Returns `true` if the kernel ran, which returns them, and `false` if the reference
/// ran, which returns sevens.
pub fn is_fused(site: &'static Site, n: usize) -> bool {
    // Neither of them computes a norm.
    let _unverified = live::scope(Sampling::off());
    let device = Device::flex();
    let x = Tensor::<2>::full([1, n], 2.0, &device);
    let weight = Tensor::<1>::ones([n], &device);
    let y = rms_norm(
        At::new(site),
        x,
        &|| Some(weight.clone()),
        1e-6,
        None,
        &mut |x| x.zeros_like() + 7.0,
    );
    let first: f32 = y.slice([0..1, 0..1]).into_scalar();
    first == 2.0
}

/// Locks policies and mappings, which all tests of the process share, and takes back what another test set.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    mapping::replace(Mapping::new());
    mapping::revert();
    policy::install(Policy::auto());
    guard
}
