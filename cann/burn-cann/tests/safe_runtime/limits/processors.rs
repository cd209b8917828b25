//! Tests of processors whose limits this crate does not know.

use super::*;
use burn_cann::ops::cross_entropy::Reduction;
use burn_cann::ops::{cross_entropy, grouped_matmul, moe, rms_norm, swi_glu};

#[test]
fn other_processors() {
    for name in ["Ascend310P3", "Ascend910A", "Ascend950PR", "Unheard"] {
        let other = Platform {
            soc: Soc::from_name(name),
            ..platform()
        };
        let x = f32(&[2, 4]);
        refused(
            rms_norm::check(&other, &x, &f32(&[4]), 1e-6),
            Kind::Platform,
            name,
        );
        refused(
            rms_norm::check_add(&other, &x, &x, &f32(&[4]), 1e-6),
            Kind::Platform,
            name,
        );
        let rstd = f32(&[2, 1]);
        refused(
            rms_norm::check_grad(&other, &x, &x, &rstd, &f32(&[4])),
            Kind::Platform,
            name,
        );
        refused(swi_glu::check(&other, &x, 1), Kind::Platform, name);
        refused(
            swi_glu::check_grad(&other, &f32(&[2, 2]), &x, 1),
            Kind::Platform,
            name,
        );
        refused(
            moe::check_permute(&other, &x, &i32(&[2]), None),
            Kind::Platform,
            name,
        );
        refused(moe::check_gating(&other, &x, None, 1), Kind::Platform, name);
        let (targets, each) = (spec(DType::I64, &[2]), Reduction::None);
        refused(
            cross_entropy::check(&other, &x, &targets, None, each, 0.0),
            Kind::Platform,
            name,
        );
        refused(
            cross_entropy::check_grad(&other, &f32(&[2]), &x, &targets, None, each),
            Kind::Platform,
            name,
        );
        let (weight, list) = (f32(&[1, 4, 3]), spec(DType::I64, &[1]));
        refused(
            grouped_matmul::check(&other, &x, &weight, &list, None),
            Kind::Platform,
            name,
        );
    }
}
