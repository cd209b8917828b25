//! The launches of the kernels of grouped products, for tensors that are contiguous.

use super::kernels::{self, FactorsLaunch, Last, Moved, SizesLaunch, TILE, UNITS};
use crate::gpu::launch::{
    dim, element_of, uninitialised_as, uninitialised_ints, vector_size, zeros_as,
};
use crate::semantics::ExpertLayout;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::{BufferArg, CubeCount};
use burn_cubecl::tensor::CubeTensor;

/// The largest number of cubes along y and z that every WebGPU device runs.
const MOST_CUBES: usize = 65_535;

/// The largest number of rows: sums of counts up to it, as many as a cube has units, fit in 32 bits.
const MOST_ROWS: usize = 1 << 22;

/// Returns whether kernels multiply this number of rows by the weights of this number of experts, from this width to this
/// one. A gradient has the sizes the other way round.
pub(in crate::ops::moe) fn multiplies(rows: usize, experts: usize, widths: [usize; 2]) -> bool {
    let tiles = rows.div_ceil(TILE) + experts + 1;
    let along = widths
        .iter()
        .all(|width| width.div_ceil(TILE) <= MOST_CUBES);
    let elements = |count: usize, width: &usize| {
        count
            .checked_mul(*width)
            .is_some_and(|elements| elements <= 1 << 31)
    };
    let weights = experts.checked_mul(widths[0]);
    rows <= MOST_ROWS
        && tiles <= MOST_CUBES
        && along
        && widths.iter().all(|width| elements(rows, width))
        && weights.is_some_and(|weights| elements(weights, &widths[1]))
}

/// The rows of each expert, and the tiles that they are divided into, on the device.
pub(in crate::ops::moe) struct Groups {
    /// The first row and the first tile of each group, as [`kernels::plan`] writes them.
    plan: CubeTensor,
    experts: usize,
    rows: usize,
}

impl Groups {
    /// Makes groups of `rows` rows, given the number of each expert's.
    pub(in crate::ops::moe) fn new(counts: &CubeTensor, rows: usize) -> Self {
        let experts = counts.shape()[0];
        let plan = uninitialised_ints(counts, Shape::new([2 * (experts + 2) + 1]));
        // SAFETY: there is a count for each expert, and the plan has two numbers for each, for the rows of nobody and for
        // the ends, and one more.
        unsafe {
            kernels::plan::launch_unchecked(
                &counts.client,
                CubeCount::new_single(),
                dim(UNITS),
                counts.clone().into_buffer_arg(),
                plan.clone().into_buffer_arg(),
                experts,
                rows,
            );
        }
        Self {
            plan,
            experts,
            rows,
        }
    }

    /// Returns what [`kernels::plan`] wrote: the first row of each expert, and more.
    pub(in crate::ops::moe) fn plan(&self) -> &CubeTensor {
        &self.plan
    }
}

/// The sources of rows that are not moved: the slot of each row, of which `choices` share a row of the tensor.
#[derive(Clone, Copy)]
pub(in crate::ops::moe) struct Sources<'a> {
    pub(in crate::ops::moe) slots: &'a CubeTensor,
    pub(in crate::ops::moe) choices: usize,
}

/// Some columns of a tensor of rows.
#[derive(Clone, Copy)]
pub(in crate::ops::moe) struct Columns<'a> {
    tensor: &'a CubeTensor,
    first: usize,
    width: usize,
    /// True if the rows are the sources of others.
    is_source: bool,
}

impl<'a> Columns<'a> {
    /// Takes all columns.
    pub(in crate::ops::moe) fn all(tensor: &'a CubeTensor) -> Self {
        Self {
            tensor,
            first: 0,
            width: tensor.shape()[1],
            is_source: false,
        }
    }

    /// Takes `width` columns from `first` on.
    pub(in crate::ops::moe) fn of(tensor: &'a CubeTensor, first: usize, width: usize) -> Self {
        Self {
            first,
            width,
            ..Self::all(tensor)
        }
    }

    /// States that the rows are the sources of those that are multiplied.
    pub(in crate::ops::moe) fn as_sources(self) -> Self {
        Self {
            is_source: true,
            ..self
        }
    }

    /// Returns the tensor.
    pub(in crate::ops::moe) fn tensor(&self) -> &'a CubeTensor {
        self.tensor
    }

    /// Returns whether the rows are the sources of those that are multiplied.
    pub(in crate::ops::moe) fn is_source(&self) -> bool {
        self.is_source
    }

    /// Returns the first column, their number, and the distance of two rows, which a vector's size has to divide.
    pub(in crate::ops::moe) fn sizes(&self) -> [usize; 3] {
        [self.first, self.width, self.stride()]
    }

    fn stride(&self) -> usize {
        self.tensor.shape()[1]
    }

    fn arg(&self) -> BufferArg {
        arg(self.tensor)
    }
}

fn arg(tensor: &CubeTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}

/// A product of rows and the weights of their experts.
pub(in crate::ops::moe) struct Product<'a> {
    pub(in crate::ops::moe) x: Columns<'a>,
    pub(in crate::ops::moe) sources: Option<Sources<'a>>,
    /// The weights, `[E, features, inputs]` or `[E, inputs, features]`, as the layout states.
    pub(in crate::ops::moe) weights: &'a CubeTensor,
    pub(in crate::ops::moe) layout: ExpertLayout,
    /// The biases, `[E, features]`.
    pub(in crate::ops::moe) bias: Option<&'a CubeTensor>,
}

impl Product<'_> {
    /// Returns the product, `[rows, features]`, rounded to a dtype.
    pub(in crate::ops::moe) fn of(&self, groups: &Groups, dtype: DType) -> CubeTensor {
        let shape = Shape::new([groups.rows, self.features()]);
        let y = uninitialised_as(self.x.tensor, shape, dtype);
        self.write(groups, Columns::all(&y), false);
        y
    }

    fn features(&self) -> usize {
        let shape = self.weights.shape();
        match self.layout {
            ExpertLayout::Linear => shape[1],
            ExpertLayout::Matmul => shape[2],
        }
    }

    /// Writes the product to columns, or adds it to them if `adds`.
    pub(in crate::ops::moe) fn write(&self, groups: &Groups, y: Columns<'_>, adds: bool) {
        let (inputs, features) = (self.x.width, self.features());
        assert_eq!(y.width, features, "a column for each feature");
        if groups.rows * features == 0 {
            return;
        }
        let sources = self.sources.filter(|_| self.x.is_source);
        let size = vector_size(&[&self.x.sizes()[..], &[features]].concat());
        // Without inputs there is nothing to read, but an argument has to have elements.
        let nothing =
            (inputs == 0).then(|| zeros_as(y.tensor, Shape::new([size]), self.x.tensor.dtype));
        let [x, weights] = [self.x.tensor, self.weights].map(|one| nothing.as_ref().unwrap_or(one));
        let along = |count: usize| u32::try_from(count).expect("`multiplies` has checked it");
        let tiles = groups.rows.div_ceil(TILE) + groups.experts + 1;
        let cubes = CubeCount::Static(along(features.div_ceil(TILE)), along(tiles), 1);
        // SAFETY: `multiplies` has checked the sizes. A tile's rows are those of its group, which the plan keeps within the
        // rows, of which x and the result have each, and a source that is a row of x. Weights have `inputs · features`
        // numbers and biases `features` for each expert. Numbers beyond the rows, the inputs or the features are neither
        // read nor written, and cubes beyond the tiles end at once.
        unsafe {
            kernels::product::launch_unchecked(
                &groups.plan.client,
                cubes,
                dim(UNITS),
                size,
                arg(x),
                sources.map(|sources| arg(sources.slots)).into(),
                arg(weights),
                self.bias.map(arg).into(),
                arg(&groups.plan),
                y.arg(),
                SizesLaunch::new(
                    groups.experts,
                    inputs,
                    features,
                    self.x.stride(),
                    self.x.first,
                    y.stride(),
                    y.first,
                    sources.map_or(1, |sources| sources.choices),
                    f32::NAN,
                ),
                match self.layout {
                    ExpertLayout::Linear => Last::Inputs,
                    ExpertLayout::Matmul => Last::Features,
                },
                adds,
                [self.x.tensor, y.tensor].map(element_of),
            );
        }
    }
}

/// Returns the sum over each expert's rows of the products of both factors, `[E, left, right]`.
pub(in crate::ops::moe) fn outer(
    left: Columns<'_>,
    right: Columns<'_>,
    sources: Option<Sources<'_>>,
    groups: &Groups,
) -> CubeTensor {
    let (experts, dtype) = (groups.experts, left.tensor.dtype);
    let shape = Shape::new([experts, left.width, right.width]);
    if groups.rows == 0 || left.width * right.width == 0 {
        return zeros_as(&groups.plan, shape, dtype);
    }
    let result = uninitialised_as(&groups.plan, shape, dtype);
    let sources = sources.filter(|_| left.is_source || right.is_source);
    let size = vector_size(&[left.sizes(), right.sizes()].concat());
    let along = |count: usize| u32::try_from(count).expect("`multiplies` has checked it");
    let [columns, lines] = [right.width, left.width].map(|width| along(width.div_ceil(TILE)));
    // SAFETY: as in `Product::write`, for both factors, and the result has a number for each pair of columns of each expert.
    unsafe {
        kernels::outer::launch_unchecked(
            &groups.plan.client,
            CubeCount::Static(columns, lines, along(experts)),
            dim(UNITS),
            size,
            left.arg(),
            right.arg(),
            sources.map(|sources| arg(sources.slots)).into(),
            arg(&groups.plan),
            arg(&result),
            FactorsLaunch::new(
                experts,
                left.width,
                right.width,
                left.stride(),
                left.first,
                right.stride(),
                right.first,
                sources.map_or(1, |sources| sources.choices),
                f32::NAN,
            ),
            Moved {
                left: left.is_source,
                right: right.is_source,
            },
            element_of(&result),
        );
    }
    result
}
