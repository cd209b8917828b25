//! SwiGLU on Flex: one pass, nothing in between is stored.

use super::{SwigluBackend, SwigluKernel};
use crate::cpu::{Element, Kernel, Output, Real, Rows, dispatch_dtype, run};
use crate::dispatch::DeviceKind;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
use crate::semantics::{GluKey, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    device: DeviceKind::Cpu,
    name: "cpu-simd",
    dtypes: &FloatType::ALL,
    gradient: true,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    limits: None,
    launch: Launch::Glu(launch),
    accepts: |key| matches!(key, SemanticsKey::Glu(GluKey::SWIGLU)),
};

fn launch(call: super::Call) -> burn::backend::DispatchTensor {
    match call.operands {
        super::Operands::Separate { gate, up } => super::launch(gate, up, call.key),
        super::Operands::Packed(_) => todo!(),
    }
}

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
    let mut y = Output::<T>::new(gate.layout().shape().clone());
    let (gate, up) = (Rows::<T>::readable(gate), Rows::<T>::readable(up));
    let kernel = Forward {
        gate: Rows::<T>::new(&gate),
        up: Rows::<T>::new(&up),
    };
    let (count, width) = (kernel.gate.count(), kernel.gate.width());
    run(&kernel, count, width, [y.places()], &mut []);
    // SAFETY: `Forward` writes `width` elements for every row, and `run` covers every row.
    unsafe { y.finish() }
}

struct Forward<'a, T> {
    gate: Rows<'a, T>,
    up: Rows<'a, T>,
}

impl<T: Element> Kernel<1> for Forward<'_, T> {
    type Out = T;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [y]: [&mut [MaybeUninit<T>]; 1],
        _: &mut [MaybeUninit<()>],
    ) {
        let width = self.gate.width();
        let inputs = self.gate.range(range.clone()).zip(self.up.range(range));
        for (i, (gate, up)) in inputs.enumerate() {
            let y = &mut y[i * width..(i + 1) * width];
            for ((y, gate), up) in y.iter_mut().zip(gate).zip(up) {
                let a = gate.load();
                y.write(T::round(a * sigmoid(a) * up.load()));
            }
        }
    }
}

fn backward<T: Element>(
    dy: &FlexTensor,
    gate: &FlexTensor,
    up: &FlexTensor,
) -> (FlexTensor, FlexTensor) {
    let shape = gate.layout().shape();
    let mut d_gate = Output::<T>::new(shape.clone());
    let mut d_up = Output::<T>::new(shape.clone());
    let dy = Rows::<T>::readable(dy);
    let (gate, up) = (Rows::<T>::readable(gate), Rows::<T>::readable(up));
    let kernel = Backward {
        dy: Rows::<T>::new(&dy),
        gate: Rows::<T>::new(&gate),
        up: Rows::<T>::new(&up),
    };
    let (count, width) = (kernel.gate.count(), kernel.gate.width());
    let places = [d_gate.places(), d_up.places()];
    run(&kernel, count, width, places, &mut []);
    // SAFETY: `Backward` writes `width` elements of each for every row, and `run` covers every
    // row.
    unsafe { (d_gate.finish(), d_up.finish()) }
}

struct Backward<'a, T> {
    dy: Rows<'a, T>,
    gate: Rows<'a, T>,
    up: Rows<'a, T>,
}

impl<T: Element> Kernel<2> for Backward<'_, T> {
    type Out = T;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [d_gate, d_up]: [&mut [MaybeUninit<T>]; 2],
        _: &mut [MaybeUninit<()>],
    ) {
        let width = self.gate.width();
        let inputs = self
            .dy
            .range(range.clone())
            .zip(self.gate.range(range.clone()))
            .zip(self.up.range(range));
        for (i, ((dy, gate), up)) in inputs.enumerate() {
            let row = i * width..(i + 1) * width;
            let outputs = d_gate[row.clone()].iter_mut().zip(&mut d_up[row]);
            for (((dy, gate), up), (d_gate, d_up)) in dy.iter().zip(gate).zip(up).zip(outputs) {
                let (dy, a) = (dy.load(), gate.load());
                let s = sigmoid(a);
                let slope = s * (T::Acc::ONE + a * (T::Acc::ONE - s));
                d_gate.write(T::round(dy * up.load() * slope));
                d_up.write(T::round(dy * a * s));
            }
        }
    }
}
