//! Generic bodies: each instance is checked.

use super::random;
use crate::counting::alone;
use burn::tensor::activation::{gelu, silu};
use burn::tensor::{Device, Tensor};
use burn_kernels::{fused_kernel, live};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The activation of a generic layer.
trait Bend {
    fn bend(gate: Tensor<2>) -> Tensor<2>;
}

enum Right {}

enum Wrong {}

impl Bend for Right {
    fn bend(gate: Tensor<2>) -> Tensor<2> {
        silu(gate)
    }
}

impl Bend for Wrong {
    fn bend(gate: Tensor<2>) -> Tensor<2> {
        gelu(gate)
    }
}

struct Unit<T>(PhantomData<T>);

impl<T: Bend> Unit<T> {
    #[fused_kernel("npu_fused_swiglu")]
    fn unit(&self, gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
        T::bend(gate) * up
    }
}

#[fused_kernel("npu_fused_swiglu")]
fn bent_by<const WRONG: bool>(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    let gate = match WRONG {
        true => Wrong::bend(gate),
        false => Right::bend(gate),
    };
    gate * up
}

/// A generic item is one site, whose body may be right for one type and wrong for another.
#[test]
fn each_instance_of_a_generic_body_is_checked() {
    let _alone = alone();
    live::reset();
    let x = || random([3, 24], &Device::flex());
    for _ in 0..2 {
        Unit::<Right>(PhantomData).unit(x(), x());
        bent_by::<false>(x(), x());
    }
    let rows = live::report().rows;
    let checked: Vec<_> = rows.iter().map(|row| row.checked).collect();
    assert_eq!(checked, [1, 1], "{}", live::report());
    type Call = fn(Tensor<2>, Tensor<2>) -> Tensor<2>;
    let wrong: Call = |gate, up| Unit::<Wrong>(PhantomData).unit(gate, up);
    for call in [wrong, bent_by::<true>] {
        let panic = catch_unwind(AssertUnwindSafe(|| call(x(), x())));
        let panic = panic.expect_err("the first use of this instance is refused");
        let said = *panic.downcast::<String>().expect("a message");
        assert!(said.contains("failed: the annotated body"), "{said}");
    }
    live::reset();
}
