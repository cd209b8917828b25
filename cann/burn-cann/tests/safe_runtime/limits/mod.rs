//! Tests that every documented limit is refused with its reason. They need no device and no toolkit.

mod cross_entropy;
mod ge_glu;
mod grouped_matmul;
mod moe;
mod norm;
mod processors;
mod rotary;
mod swi_glu;

use burn_cann::ops::{Kind, Refusal};
use burn_cann::{DType, Platform, Soc, Spec, Version};

fn platform() -> Platform {
    Platform {
        soc: Soc::from_name("Ascend910B1"),
        version: Version::new("8.5.0"),
        vector_cores: Some(48),
    }
}

fn nine() -> Platform {
    Platform {
        version: Version::new("9.0.0"),
        ..platform()
    }
}

fn spec(dtype: DType, shape: &[usize]) -> Spec {
    Spec::contiguous(dtype, shape).unwrap()
}

fn f32(shape: &[usize]) -> Spec {
    spec(DType::F32, shape)
}

fn i32(shape: &[usize]) -> Spec {
    spec(DType::I32, shape)
}

fn turned(spec: Spec, one: usize, other: usize) -> Spec {
    let layout = spec.layout.transpose(one, other).unwrap();
    Spec {
        dtype: spec.dtype,
        layout,
    }
}

/// Checks that the operands are refused for a reason of this kind whose text contains `text`.
#[track_caller]
fn refused<T: std::fmt::Debug>(checked: Result<T, Refusal>, kind: Kind, text: &str) {
    let refusal = checked.expect_err("a limit is crossed");
    assert_eq!(refusal.kind(), kind, "{refusal}");
    assert!(refusal.to_string().contains(text), "{refusal}");
}
