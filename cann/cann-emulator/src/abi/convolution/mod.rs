//! Convolutions over one to three axes, also transposed, dilated and in groups, with the limits of Ascend910B.
//!
//! CANN's document does not take f32 with mode 0, which keeps the dtype. It names no mode 4, and for f16 and bf16 no
//! effect of mode 3. Sums are in f32, with the bias, and rounded once.

mod backward;
mod check;

pub use self::backward::*;

use self::check::{Rounding, check_chip, check_input, check_weight, geometry, rounding};
use crate::abi::prelude::*;
use crate::ops::convolution::Geometry;
use crate::ops::matmul::{Factor, product};

/// The settings of a call, on the host.
struct Settings {
    stride: Arc<[i64]>,
    padding: Arc<[i64]>,
    dilation: Arc<[i64]>,
    transposed: bool,
    output_padding: Arc<[i64]>,
    groups: i64,
}

/// The tensors of a call.
struct Tensors {
    input: *const aclTensor,
    weight: *const aclTensor,
    bias: *const aclTensor,
    output: *const aclTensor,
}

/// The work of a call.
struct Convolution {
    geometry: Geometry,
    transposed: bool,
    groups: usize,
    batch: usize,
    /// The channels of a group, of the input and of the output.
    channels: [usize; 2],
    rounding: Rounding,
    biased: bool,
    gives: aclDataType,
}

fn take(
    operands: &mut Operands,
    tensors: &Tensors,
    settings: &Settings,
    cube_math: i8,
) -> Outcome<Work> {
    check_chip()?;
    let input = operands.view("input", tensors.input, FLOATS)?;
    let weight = operands.view("weight", tensors.weight, FLOATS)?;
    let bias = match tensors.bias.is_null() {
        true => operands.optional("bias", tensors.bias)?,
        false => Some(operands.view("bias", tensors.bias, FLOATS)?),
    };
    let dtype = promoted(input.dtype, weight.dtype)?;
    let rounding = rounding(cube_math, dtype)?;
    check_input(&input, settings)?;
    let outputs = check_weight(&input, &weight, settings)?;
    if let Some(bias) = &bias {
        ensure!(bias.dtype == dtype; "bias has another dtype than input and weight");
        check_size("bias", bias, &[outputs])?;
    }
    let geometry = geometry(&input, &weight, settings)?;
    let spatial = input.rank() - 2;
    let own = if settings.transposed {
        geometry.large
    } else {
        geometry.small
    };
    let shape = [&[input.shape[0], outputs], &own[3 - spatial..]].concat();
    let allowed = if settings.transposed {
        &[dtype]
    } else {
        FLOATS
    };
    let output = operands.target("output", tensors.output, allowed)?;
    check::check_format("output", &output)?;
    check_size("output", &output, &shape)?;
    let groups = settings.groups as usize;
    let work = Convolution {
        geometry,
        transposed: settings.transposed,
        groups,
        batch: input.shape[0],
        channels: [input.shape[1] / groups, outputs / groups],
        rounding,
        biased: bias.is_some(),
        gives: dtype,
    };
    Ok(Arc::new(move |memory, operands| work.run(memory, operands)))
}

impl Convolution {
    fn run(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let [input, weight, rest @ ..] = operands else {
            unreachable!("taken above")
        };
        let (x, weight) = (self.read(memory, input)?, self.read(memory, weight)?);
        let (bias, output) = rest.split_at(usize::from(self.biased));
        let bias = bias.first().map(|bias| bias.floats(memory)).transpose()?;
        let [inputs, outputs] = self.channels;
        let side = x.len() / (self.batch * self.groups * inputs).max(1);
        let mut y = Vec::with_capacity(output[0].count());
        for image in 0..self.batch {
            for group in 0..self.groups {
                let at = (image * self.groups + group) * inputs * side;
                let own = group * weight.len() / self.groups;
                let weight = &weight[own..][..weight.len() / self.groups];
                y.extend(self.part(&x[at..][..inputs * side], weight));
            }
        }
        if let Some(bias) = bias {
            let plane = y.len() / (self.batch * self.groups * outputs).max(1);
            for (at, values) in y.chunks_exact_mut(plane.max(1)).enumerate() {
                let bias = bias[at % bias.len()];
                values.iter_mut().for_each(|value| *value += bias);
            }
        }
        output[0].store_values_of(memory, &y, self.gives)
    }

    fn read(&self, memory: &Memory, tensor: &Tensor) -> Outcome<Vec<f32>> {
        let values = tensor.floats(memory)?;
        Ok(match self.rounding {
            Some(rounding) => values.into_iter().map(rounding).collect(),
            None => values,
        })
    }

    /// Returns the values of a group of one image, without the bias.
    fn part(&self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        let [inputs, outputs] = self.channels;
        let (geometry, kernel) = (&self.geometry, self.geometry.kernel_count());
        let small = geometry.small_count();
        if !self.transposed {
            let columns = geometry.columns(x, inputs);
            let (weight, columns) = (Factor::by_rows(weight), Factor::by_rows(&columns));
            return product(weight, columns, [outputs, inputs * kernel, small]);
        }
        // The weight has rows of inputs, and is turned.
        let (weight, x) = (Factor::by_columns(weight), Factor::by_rows(x));
        let columns = product(weight, x, [outputs * kernel, inputs, small]);
        geometry.scattered(&columns, outputs)
    }
}

operator! { matmul: aclnnConvolutionGetWorkspaceSize, aclnnConvolution(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, output,
    cube_math
) |operands|
    let tensors = Tensors { input, weight, bias, output };
    let settings = Settings {
        stride: operands.ints("stride", stride)?,
        padding: operands.ints("padding", padding)?,
        dilation: operands.ints("dilation", dilation)?,
        transposed,
        output_padding: operands.ints("outputPadding", output_padding)?,
        groups,
    };
    take(operands, &tensors, &settings, cube_math)
}
