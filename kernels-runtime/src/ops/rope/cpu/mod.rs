//! Rotary position embedding on Flex: one pass over the heads, read in whatever order attention
//! left them and written in the order it wants them.

mod order;

use super::check::rotary_width;
use super::{Call, RopeBackend, RopeKernel};
use crate::cpu::{Element, Kernel, Output, Rows, dispatch_dtype, run};
use crate::dispatch::DeviceKind;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, SemanticsKey, TableLayout};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{Dispatch, DispatchTensor, Flex, Shape};
use order::{Backward, Direction, Forward, Halves, Neighbours, Once, Places, Table};
use std::marker::PhantomData;
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
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
};

fn launch(call: Call) -> (DispatchTensor, DispatchTensor) {
    let Call {
        q,
        k,
        cos,
        sin,
        key,
    } = call;
    let q = <Dispatch as RopeBackend>::rope(q, cos.clone(), sin.clone(), key);
    let k = <Dispatch as RopeBackend>::rope(k, cos, sin, key);
    (q, k)
}

impl RopeBackend for Flex {
    fn rope(x: FlexTensor, cos: FlexTensor, sin: FlexTensor, key: RopeKey) -> FlexTensor {
        Self::rope_forward(x, cos, sin, key)
    }
}

impl RopeKernel for Flex {
    fn rope_forward(x: FlexTensor, cos: FlexTensor, sin: FlexTensor, key: RopeKey) -> FlexTensor {
        rotate::<Forward>(&x, &cos, &sin, key)
    }

    fn rope_backward(dy: FlexTensor, cos: FlexTensor, sin: FlexTensor, key: RopeKey) -> FlexTensor {
        rotate::<Backward>(&dy, &cos, &sin, key)
    }
}

/// Rotates `x`, or turns the gradient of the result into that of `x`.
fn rotate<D: Direction>(
    x: &FlexTensor,
    cos: &FlexTensor,
    sin: &FlexTensor,
    key: RopeKey,
) -> FlexTensor {
    dispatch_dtype!(x.dtype(), T => {
        if cos.dtype() == x.dtype() {
            by_key::<T, T, D>(x, cos, sin, key)
        } else {
            by_key::<T, <T as Element>::Acc, D>(x, cos, sin, key)
        }
    })
}

/// `T` is what heads hold, `U` what tables do.
fn by_key<T: Element, U: Element<Acc = T::Acc>, D: Direction>(
    x: &FlexTensor,
    cos: &FlexTensor,
    sin: &FlexTensor,
    key: RopeKey,
) -> FlexTensor {
    let rotate = match (key.style, key.table) {
        (RopeStyle::Half, TableLayout::Pairs) => in_order::<T, U, D, Halves, Halves, Once>,
        (RopeStyle::Half, _) => in_order::<T, U, D, Halves, Halves, Halves>,
        (RopeStyle::Interleaved, TableLayout::Neighbours) => {
            in_order::<T, U, D, Neighbours, Neighbours, Neighbours>
        }
        (RopeStyle::Interleaved, _) => in_order::<T, U, D, Neighbours, Neighbours, Once>,
        (RopeStyle::InterleavedToHalf, TableLayout::Pairs) => {
            in_order::<T, U, D, D::ReadToHalf, D::WriteToHalf, Once>
        }
        (RopeStyle::InterleavedToHalf, _) => {
            in_order::<T, U, D, D::ReadToHalf, D::WriteToHalf, Halves>
        }
    };
    rotate(x, cos, sin, key)
}

/// A table `[1 or b, s, w]` seen with an axis for the heads.
fn per_head(table: &FlexTensor, shape: &Shape, head_layout: HeadLayout) -> Layout {
    let layout = table.layout();
    let [batch, row, element] = *layout.strides() else {
        unreachable!("the shapes were checked")
    };
    let batch = if layout.shape()[0] == 1 { 0 } else { batch };
    let mut sizes = shape.to_vec();
    sizes[3] = layout.shape()[2];
    let strides = match head_layout {
        HeadLayout::Bnsd => vec![batch, 0, row, element],
        HeadLayout::Bsnd => vec![batch, row, 0, element],
    };
    Layout::new(Shape::from(sizes), strides, layout.start_offset())
}

/// Reads pairs in the order `R`, writes them in the order `W`, with tables in the order `O`.
fn in_order<T, U, D, R, W, O>(
    x: &FlexTensor,
    cos: &FlexTensor,
    sin: &FlexTensor,
    key: RopeKey,
) -> FlexTensor
where
    T: Element,
    U: Element<Acc = T::Acc>,
    D: Direction,
    R: Places,
    W: Places,
    O: Table,
{
    let shape = x.layout().shape();
    let mut y = Output::<T>::new(shape.clone());
    let readable = Rows::<T>::readable(x);
    let (cos, sin) = (Rows::<U>::readable(cos), Rows::<U>::readable(sin));
    let kernel = Rotate::<T, U, (D, R, W, O)> {
        x: Rows::new(&readable),
        cos: Rows::with_layout(&cos, &per_head(&cos, shape, key.layout)),
        sin: Rows::with_layout(&sin, &per_head(&sin, shape, key.layout)),
        rotated: rotary_width(cos.layout().shape()[2], key.table),
        order: PhantomData,
    };
    let (count, width) = (kernel.x.count(), kernel.x.width());
    run(&kernel, count, width, [y.places()], &mut []);
    // SAFETY: `check` made the rotated width even and at most the row's, so pairs and rest cover a
    // row: `Rotate` writes `width` elements for every row, and `run` covers every row.
    unsafe { y.finish() }
}

struct Rotate<'a, T, U, Order> {
    x: Rows<'a, T>,
    cos: Rows<'a, U>,
    sin: Rows<'a, U>,
    /// How many elements of a row are rotated; the rest is copied.
    rotated: usize,
    order: PhantomData<Order>,
}

impl<T, U, D, R, W, O> Kernel<1> for Rotate<'_, T, U, (D, R, W, O)>
where
    T: Element,
    U: Element<Acc = T::Acc>,
    D: Direction,
    R: Places,
    W: Places,
    O: Table,
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
        let tables = self
            .cos
            .range(range.clone())
            .zip(self.sin.range(range.clone()));
        for (i, (x, (cos, sin))) in self.x.range(range).zip(tables).enumerate() {
            let (y, y_rest) = y[i * width..(i + 1) * width].split_at_mut(self.rotated);
            let (x, x_rest) = x.split_at(self.rotated);
            let angles = O::pairs(cos).zip(O::pairs(sin));
            for ((x, (cos, sin)), [y1, y2]) in R::pairs(x).zip(angles).zip(W::places(y)) {
                let [r1, r2] = D::turn(x.map(T::load), cos.map(U::load), sin.map(U::load));
                y1.write(T::round(r1));
                y2.write(T::round(r2));
            }
            for (y, x) in y_rest.iter_mut().zip(x_rest) {
                y.write(*x);
            }
        }
    }
}
