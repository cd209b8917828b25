//! A call on the thread of the device: the sizes and places that the kernels need, and the forward pass.

use super::kernels::{self, Form, Heads, NumbersLaunch, StridesLaunch};
use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, element_of, filled, uninitialised, uninitialised_as, units,
    vector_size, with_rows, zeros, zeros_as,
};
use crate::ops::attention::{Operands, Sizes};
use crate::semantics::{HeadLayout, ScoreCap};
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::{Bytes, DType};
use burn_cubecl::cubecl::prelude::{BufferArg, CubeCount, ElemType, TensorArg};
use burn_cubecl::tensor::CubeTensor;

/// The most units that go over a row of values.
const MOST_UNITS: usize = 32;

/// A call, with its tensors in layouts that kernels read.
pub(super) struct Call {
    pub(super) operands: Operands<CubeTensor>,
    /// The first key that each query sees and the end of those.
    pub(super) ranges: CubeTensor,
    /// The number of sequences whose queries see different keys.
    sequences_of_ranges: usize,
    /// The number of elements of a vector.
    pub(super) size: usize,
}

impl Call {
    pub(super) fn new(operands: Operands<CubeTensor>) -> Self {
        Self::with(operands, [])
    }

    /// Makes a call whose vectors also fit into other tensors.
    pub(super) fn with<const N: usize>(
        operands: Operands<CubeTensor>,
        others: [&CubeTensor; N],
    ) -> Self {
        let operands = operands.map(|tensor| match tensor.shape().num_dims() {
            4 => with_rows(tensor),
            _ => contiguous(tensor),
        });
        let ranges = ranges(&operands);
        let [q, k, v] = [operands.q(), operands.k(), operands.v()];
        let size = [q, k, v].into_iter().chain(others).flat_map(|tensor| {
            let strides = [0, 1, 2].map(|axis| stride(tensor, axis));
            strides.into_iter().chain([tensor.shape()[3]])
        });
        let size = vector_size(&size.collect::<Vec<_>>());
        let sequences_of_ranges = match operands.visible().is_one_for_all() {
            true => 1,
            false => operands.sizes().batch,
        };
        Self {
            ranges: numbers_on(operands.q(), ranges),
            sequences_of_ranges,
            size,
            operands,
        }
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.operands.sizes()
    }

    /// Returns the type of the elements.
    pub(super) fn element(&self) -> ElemType {
        element_of(self.operands.q())
    }

    /// Returns true if results are rounded.
    pub(super) fn is_rounded(&self) -> bool {
        self.operands.q().dtype != DType::F32
    }

    /// Returns true if there is nothing to sum.
    pub(super) fn is_empty(&self) -> bool {
        self.operands.result().num_elements() * self.sizes().keys == 0
    }

    /// Returns the number of rows of queries of a head of keys.
    pub(super) fn rows(&self) -> usize {
        self.sizes().queries * self.sizes().group()
    }

    /// Returns what the variants of the kernels depend on.
    pub(super) fn heads(&self) -> Heads {
        let Sizes {
            width, value_width, ..
        } = self.sizes();
        Heads {
            size: self.size,
            width,
            value_width,
            group: self.sizes().group(),
            is_capped: self.operands.key().cap == ScoreCap::Tanh,
        }
    }

    /// Returns a cube for each block of `rows` rows of each head of keys.
    pub(super) fn cubes(&self, rows: usize, form: Form) -> CubeCount {
        let Sizes {
            batch, kv_heads, ..
        } = self.sizes();
        let blocks = rows.div_ceil(form.rows());
        cubes(self.operands.q(), blocks * kv_heads * batch)
    }

    /// Returns a cube for each query of each head.
    pub(super) fn cubes_of_queries(&self) -> CubeCount {
        let Sizes { batch, heads, .. } = self.sizes();
        cubes(self.operands.q(), batch * heads * self.sizes().queries)
    }

    /// Returns the number of units that go over a row of values.
    pub(super) fn units(&self) -> usize {
        units(self.sizes().value_width / self.size).min(MOST_UNITS)
    }

    pub(super) fn arguments(&self) -> [TensorArg; 3] {
        let operands = &self.operands;
        [operands.q(), operands.k(), operands.v()].map(|tensor| tensor.clone().into_tensor_arg())
    }

    pub(super) fn bias(&self) -> Option<BufferArg> {
        Some(self.operands.bias()?.clone().into_buffer_arg())
    }

    /// Returns the numbers of the kernels, for these tensors as far as a kernel has them.
    pub(super) fn numbers(&self, places: Places<'_>) -> NumbersLaunch {
        let (operands, settings) = (&self.operands, self.operands.settings());
        let Sizes {
            batch,
            kv_heads,
            queries,
            keys,
            width,
            value_width,
            ..
        } = self.sizes();
        let strides = |tensor: Option<&CubeTensor>| self.strides(tensor);
        let bias = operands
            .bias()
            .map_or([0; 3], |bias| [0, 1, 2].map(|axis| stride(bias, axis)));
        let ranges = match self.sequences_of_ranges {
            1 => 0,
            _ => 2 * queries,
        };
        NumbersLaunch::new(
            batch,
            kv_heads,
            queries,
            keys,
            width / self.size,
            value_width / self.size,
            settings.scale_of(width) as f32,
            settings.cap.unwrap_or(1.0) as f32,
            f32::NEG_INFINITY,
            ranges,
            strides(Some(operands.q())),
            strides(Some(operands.k())),
            strides(Some(operands.v())),
            StridesLaunch::new(bias[0], bias[1], bias[2]),
            strides(places.dy),
            strides(places.y),
            strides(places.dq),
            strides(places.dk),
            strides(places.dv),
        )
    }

    /// Returns the distances of sequences, heads and positions of a tensor, in vectors.
    fn strides(&self, tensor: Option<&CubeTensor>) -> StridesLaunch {
        let [head, position] = match self.operands.key().layout {
            HeadLayout::Bnsd => [1, 2],
            HeadLayout::Bsnd => [2, 1],
        };
        let of = |axis| tensor.map_or(0, |tensor| stride(tensor, axis) / self.size);
        StridesLaunch::new(of(0), of(head), of(position))
    }

    /// Returns the result and `lse`.
    pub(super) fn forward(&self) -> [CubeTensor; 2] {
        let q = self.operands.q();
        let (shape, (of_lse, _)) = (self.operands.result(), self.operands.lse());
        if self.is_empty() {
            let lse = match of_lse.num_elements() {
                0 => zeros(q, of_lse),
                _ => filled(q, of_lse, f32::NEG_INFINITY),
            };
            return [zeros_as(q, shape, q.dtype), lse];
        }
        let y = uninitialised_as(q, shape, q.dtype);
        let lse = uninitialised(q, of_lse);
        self.write_sinks(&lse);
        let rows = self.rows();
        let form = self.heads().results(rows);
        let [q_rows, k_rows, v_rows] = self.arguments();
        let places = Places {
            y: Some(&y),
            ..Places::default()
        };
        // SAFETY: rows of queries, keys and values are `vectors` or `value_vectors` vectors long and begin where the strides
        // say, at multiples of a vector, because its size divides each stride. Kernels read the rows that the sizes of the
        // call count, and the range of each is within the keys, by the checks of the operands. The bias has a number for each
        // pair, or strides of 0. The result and `lse` have a place for each row, with a sink in that of `lse` if the call has
        // sinks, and cubes beyond the rows end at once.
        unsafe {
            kernels::forward::launch_unchecked(
                &q.client,
                self.cubes(rows, form),
                dim(form.units()),
                self.size,
                q_rows,
                k_rows,
                v_rows,
                self.bias().into(),
                self.ranges.clone().into_buffer_arg(),
                y.clone().into_buffer_arg(),
                lse.clone().into_buffer_arg(),
                self.numbers(places),
                form,
                self.operands.sinks().is_some(),
                self.element(),
            );
        }
        [y, lse]
    }

    /// Writes the sinks in the places of `lse`, if there are any.
    fn write_sinks(&self, lse: &CubeTensor) {
        let Some(sinks) = self.operands.sinks() else {
            return;
        };
        let Sizes { heads, queries, .. } = self.sizes();
        let count = lse.shape().num_elements();
        let (cubes, dim) = cubes_of(lse, units(count), count);
        // SAFETY: there is a sink for each head, and a number of `lse` for each query of each head. Units beyond them
        // end at once.
        unsafe {
            kernels::sinks_first::launch_unchecked(
                &lse.client,
                cubes,
                dim,
                sinks.clone().into_buffer_arg(),
                lse.clone().into_buffer_arg(),
                heads,
                queries,
                count,
                self.element(),
            );
        }
    }
}

/// The tensors of a kernel besides the operands.
#[derive(Clone, Copy, Default)]
pub(super) struct Places<'a> {
    pub(super) dy: Option<&'a CubeTensor>,
    pub(super) y: Option<&'a CubeTensor>,
    pub(super) dq: Option<&'a CubeTensor>,
    pub(super) dk: Option<&'a CubeTensor>,
    pub(super) dv: Option<&'a CubeTensor>,
}

/// Returns the distance of neighbours on an axis, 0 if there are none.
fn stride(tensor: &CubeTensor, axis: usize) -> usize {
    match tensor.shape()[axis] {
        1 => 0,
        _ => tensor.meta.strides()[axis],
    }
}

/// Returns the first key that each query sees and the end of those, for one sequence if they are the same for all.
fn ranges(operands: &Operands<CubeTensor>) -> Vec<u32> {
    let (sizes, visible) = (operands.sizes(), operands.visible());
    let sequences = match visible.is_one_for_all() {
        true => 1,
        false => sizes.batch,
    };
    let place = |key: usize| u32::try_from(key).expect("limits count keys in 24 bits");
    let mut ranges = Vec::with_capacity(2 * sequences * sizes.queries);
    for sequence in 0..sequences {
        for query in 0..sizes.queries {
            let seen = visible.of(sequence, query);
            ranges.extend([place(seen.start), place(seen.end)]);
        }
    }
    ranges
}

/// Returns a tensor of numbers on the device of another one.
fn numbers_on(on: &CubeTensor, numbers: Vec<u32>) -> CubeTensor {
    let shape = Shape::new([numbers.len()]);
    let handle = on.client.create(Bytes::from_elems(numbers));
    CubeTensor::new_contiguous(
        on.client.clone(),
        on.device.clone(),
        shape,
        handle,
        DType::U32,
    )
}
