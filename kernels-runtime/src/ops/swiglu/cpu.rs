//! SwiGLU on Flex: one pass, nothing in between is stored.

use super::{SwigluBackend, SwigluKernel};
use crate::cpu::{Element, Output, Real, Rows, dispatch_dtype, run};
use crate::dispatch::DeviceKind;
use crate::registry::{FloatType, Implementation};
use crate::semantics::{Activation, GluKey, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use std::mem::MaybeUninit;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    device: DeviceKind::Cpu,
    name: "cpu-simd",
    dtypes: &FloatType::ALL,
    gradient: true,
    accepts: |key| {
        matches!(
            key,
            SemanticsKey::Glu(GluKey {
                activation: Activation::Silu
            })
        )
    },
};

impl SwigluBackend for Flex {
    fn swiglu(gate: FlexTensor, up: FlexTensor, key: GluKey) -> FlexTensor {
        Self::swiglu_forward(gate, up, key)
    }
}

impl SwigluKernel for Flex {
    fn swiglu_forward(gate: FlexTensor, up: FlexTensor, _: GluKey) -> FlexTensor {
        dispatch_dtype!(gate.dtype(), T => forward::<T>(&gate, &up))
    }

    fn swiglu_backward(
        dy: FlexTensor,
        gate: FlexTensor,
        up: FlexTensor,
        _: GluKey,
    ) -> (FlexTensor, FlexTensor) {
        dispatch_dtype!(gate.dtype(), T => backward::<T>(&dy, &gate, &up))
    }
}

/// The logistic function. Where `e^-a` overflows it is 0, as it should.
#[inline(always)]
fn sigmoid<A: Real>(a: A) -> A {
    A::ONE / (A::ONE + (-a).exp())
}

fn forward<T: Element>(gate: &FlexTensor, up: &FlexTensor) -> FlexTensor {
    let shape = gate.layout().shape().clone();
    let (gate, up) = (Rows::<T>::readable(gate), Rows::<T>::readable(up));
    let (gate, up) = (Rows::<T>::new(&gate), Rows::<T>::new(&up));
    let width = gate.width();
    let mut y = Output::<T>::new(shape);
    run(
        gate.count(),
        width,
        [(y.places(), width)],
        &mut [] as &mut [MaybeUninit<()>],
        |range, [y], _| {
            let rows = gate.range(range.clone()).zip(up.range(range));
            for (i, (gate, up)) in rows.enumerate() {
                let y = &mut y[i * width..(i + 1) * width];
                for ((y, gate), up) in y.iter_mut().zip(gate).zip(up) {
                    let a = gate.load();
                    y.write(T::round(a * sigmoid(a) * up.load()));
                }
            }
        },
    );
    // SAFETY: the kernel writes `width` elements for every row, and `run` covers every row.
    unsafe { y.finish() }
}

fn backward<T: Element>(
    dy: &FlexTensor,
    gate: &FlexTensor,
    up: &FlexTensor,
) -> (FlexTensor, FlexTensor) {
    let shape = gate.layout().shape().clone();
    let dy = Rows::<T>::readable(dy);
    let (gate, up) = (Rows::<T>::readable(gate), Rows::<T>::readable(up));
    let dy = Rows::<T>::new(&dy);
    let (gate, up) = (Rows::<T>::new(&gate), Rows::<T>::new(&up));
    let width = gate.width();
    let mut d_gate = Output::<T>::new(shape.clone());
    let mut d_up = Output::<T>::new(shape);
    run(
        gate.count(),
        width,
        [(d_gate.places(), width), (d_up.places(), width)],
        &mut [] as &mut [MaybeUninit<()>],
        |range, [d_gate, d_up], _| {
            let rows = dy
                .range(range.clone())
                .zip(gate.range(range.clone()))
                .zip(up.range(range));
            for (i, ((dy, gate), up)) in rows.enumerate() {
                let places = i * width..(i + 1) * width;
                let outputs = d_gate[places.clone()].iter_mut().zip(&mut d_up[places]);
                for (((dy, gate), up), (d_gate, d_up)) in dy.iter().zip(gate).zip(up).zip(outputs) {
                    let (dy, a, b): (T::Acc, T::Acc, T::Acc) = (dy.load(), gate.load(), up.load());
                    let s = sigmoid(a);
                    let slope = s * (T::Acc::ONE + a * (T::Acc::ONE - s));
                    d_gate.write(T::round(dy * b * slope));
                    d_up.write(T::round(dy * a * s));
                }
            }
        },
    );
    // SAFETY: the kernel writes `width` elements of each for every row, and `run` covers every
    // row.
    unsafe { (d_gate.finish(), d_up.finish()) }
}
