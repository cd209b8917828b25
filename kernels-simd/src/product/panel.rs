use super::{Gemm, Matrix};
use crate::Element;
use crate::lanes::vectorize;
use std::any::TypeId;
use std::borrow::Cow;

/// Returns whether [`read`] returns the weights without a copy.
pub fn in_place<T: Element>(weights: Matrix<'_, T>) -> bool {
    TypeId::of::<T>() == TypeId::of::<T::Acc>()
        && (weights.input_stride == 1 || weights.feature_stride == 1)
}

/// Returns a panel of weights in the type that products are computed in. If the weights have that type and one of
/// their axes is contiguous, they are not copied. Otherwise returns a copy in `scratch` with the same axis contiguous.
pub fn read<'a, T: Element>(
    weights: Matrix<'a, T>,
    scratch: &'a mut Vec<T::Acc>,
) -> Matrix<'a, T::Acc>
where
    T::Acc: Gemm,
{
    let Matrix {
        inputs, features, ..
    } = weights;
    if in_place(weights)
        && let Some(data) = same::<T, T::Acc>(weights.data)
    {
        return Matrix {
            data,
            inputs,
            features,
            input_stride: weights.input_stride,
            feature_stride: weights.feature_stride,
        };
    }
    // Every element is written below, so the contents of a longer buffer don't matter.
    scratch.resize(inputs * features, Gemm::ZERO);
    let inputs_together = weights.input_stride == 1;
    let load = Load {
        from: weights.data,
        lines: if inputs_together { features } else { inputs },
        length: if inputs_together { inputs } else { features },
        line_stride: if inputs_together {
            weights.feature_stride
        } else {
            weights.input_stride
        },
        stride: if inputs_together {
            1
        } else {
            weights.feature_stride
        },
        to: scratch,
    };
    vectorize(load);
    Matrix {
        data: scratch,
        inputs,
        features,
        input_stride: if inputs_together { 1 } else { features },
        feature_stride: if inputs_together { inputs } else { 1 },
    }
}

/// Returns elements in the type that products are computed in, as a copy if they have another type.
pub fn load<T: Element>(values: &[T]) -> Cow<'_, [T::Acc]>
where
    T::Acc: Gemm,
{
    if let Some(values) = same(values) {
        return Cow::Borrowed(values);
    }
    let mut scratch = vec![<T::Acc as Gemm>::ZERO; values.len()];
    vectorize(Load {
        from: values,
        lines: 1,
        length: values.len(),
        line_stride: 0,
        stride: 1,
        to: &mut scratch,
    });
    Cow::Owned(scratch)
}

/// Returns the elements as those of another type, if the types are the same.
pub fn same<T: Element, A: bytemuck::Pod>(data: &[T]) -> Option<&[A]> {
    (TypeId::of::<T>() == TypeId::of::<A>()).then(|| bytemuck::cast_slice(data))
}

/// The conversion of lines of elements, which need not be contiguous, to contiguous lines.
struct Load<'a, T: Element> {
    from: &'a [T],
    lines: usize,
    length: usize,
    line_stride: usize,
    stride: usize,
    to: &'a mut [T::Acc],
}

impl<T: Element> pulp::WithSimd for Load<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        if self.length == 0 {
            return;
        }
        let lines = self.to.chunks_exact_mut(self.length).take(self.lines);
        for (line, to) in lines.enumerate() {
            let from = &self.from[line * self.line_stride..];
            if self.stride == 1 {
                for (to, from) in to.iter_mut().zip(&from[..self.length]) {
                    *to = from.load();
                }
            } else {
                for (to, from) in to.iter_mut().zip(from.iter().step_by(self.stride)) {
                    *to = from.load();
                }
            }
        }
    }
}
