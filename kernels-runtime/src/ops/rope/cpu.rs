//! Rotary position embedding on Flex: one pass over the heads, read in whatever order attention
//! left them and written in the order it wants them.

use super::{RopeBackend, RopeKernel};
use crate::cpu::{Element, Kernel, Output, Rows, dispatch_dtype, run};
use crate::dispatch::DeviceKind;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
use crate::semantics::{RopeKey, SemanticsKey};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{Flex, Shape};
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
    launch: Launch::Rope(launch),
    accepts: |key| matches!(key, SemanticsKey::Rope(RopeKey::LLAMA)),
};

fn launch(call: super::Call) -> (burn::backend::DispatchTensor, burn::backend::DispatchTensor) {
    super::launch(call.q, call.k, call.cos, call.sin, call.key)
}

impl RopeBackend for Flex {
    fn rope(x: FlexTensor, cos: FlexTensor, sin: FlexTensor, key: RopeKey) -> FlexTensor {
        Self::rope_forward(x, cos, sin, key)
    }
}

impl RopeKernel for Flex {
    fn rope_forward(x: FlexTensor, cos: FlexTensor, sin: FlexTensor, _: RopeKey) -> FlexTensor {
        dispatch_dtype!(x.dtype(), T => rotate::<T>(&x, &cos, &sin, |[x1, x2], [c1, c2], [s1, s2]| {
            [x1 * c1 - x2 * s1, x2 * c2 + x1 * s2]
        }))
    }

    fn rope_backward(dy: FlexTensor, cos: FlexTensor, sin: FlexTensor, _: RopeKey) -> FlexTensor {
        dispatch_dtype!(dy.dtype(), T => rotate::<T>(&dy, &cos, &sin, |[d1, d2], [c1, c2], [s1, s2]| {
            [d1 * c1 + d2 * s2, d2 * c2 - d1 * s1]
        }))
    }
}

/// A table `[1 or b, s, d]` seen as `[b, h, s, d]`.
fn per_head(table: &FlexTensor, shape: &Shape) -> Layout {
    let layout = table.layout();
    let [batch, row, element] = *layout.strides() else {
        unreachable!("the shapes were checked")
    };
    let batch = if layout.shape()[0] == 1 { 0 } else { batch };
    Layout::new(
        shape.clone(),
        vec![batch, 0, row, element],
        layout.start_offset(),
    )
}

/// Rotates the halves of every row: `pair` gets the elements `i` and `i + d/2` of the row and of
/// the two tables.
fn rotate<T: Element>(
    x: &FlexTensor,
    cos: &FlexTensor,
    sin: &FlexTensor,
    pair: impl Fn([T::Acc; 2], [T::Acc; 2], [T::Acc; 2]) -> [T::Acc; 2] + Sync,
) -> FlexTensor {
    let shape = x.layout().shape();
    let mut y = Output::<T>::new(shape.clone());
    let readable = Rows::<T>::readable(x);
    let (cos, sin) = (Rows::<T>::readable(cos), Rows::<T>::readable(sin));
    let kernel = Rotate {
        x: Rows::<T>::new(&readable),
        cos: Rows::<T>::with_layout(&cos, &per_head(&cos, shape)),
        sin: Rows::<T>::with_layout(&sin, &per_head(&sin, shape)),
        pair,
    };
    let (count, width) = (kernel.x.count(), kernel.x.width());
    run(&kernel, count, width, [y.places()], &mut []);
    // SAFETY: `check` made the width even, so the halves cover a row: `Rotate` writes `width`
    // elements for every row, and `run` covers every row.
    unsafe { y.finish() }
}

struct Rotate<'a, T, P> {
    x: Rows<'a, T>,
    cos: Rows<'a, T>,
    sin: Rows<'a, T>,
    pair: P,
}

impl<T, P> Kernel<1> for Rotate<'_, T, P>
where
    T: Element,
    P: Fn([T::Acc; 2], [T::Acc; 2], [T::Acc; 2]) -> [T::Acc; 2] + Sync,
{
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
        let width = self.x.width();
        let half = width / 2;
        let tables = self
            .cos
            .range(range.clone())
            .zip(self.sin.range(range.clone()));
        for (i, (x, (cos, sin))) in self.x.range(range).zip(tables).enumerate() {
            let (y1, y2) = y[i * width..(i + 1) * width].split_at_mut(half);
            let (x1, x2) = x.split_at(half);
            let ((c1, c2), (s1, s2)) = (cos.split_at(half), sin.split_at(half));
            let first = x1.iter().zip(c1).zip(s1).zip(y1);
            let second = x2.iter().zip(c2).zip(s2).zip(y2);
            for ((((x1, c1), s1), y1), (((x2, c2), s2), y2)) in first.zip(second) {
                let [r1, r2] = (self.pair)(
                    [x1.load(), x2.load()],
                    [c1.load(), c2.load()],
                    [s1.load(), s2.load()],
                );
                y1.write(T::round(r1));
                y2.write(T::round(r2));
            }
        }
    }
}
