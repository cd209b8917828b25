//! The gradients of a convolution.
//!
//! A convolution multiplies a matrix, the weight, by the columns of its large side and gives the small side; a transposed
//! one multiplies the turned weight by the small side and adds the columns to the large side. So the gradient of the weight
//! is the product of the small side and the columns of the large side in both cases.

use super::Settings;
use super::check::{
    Rounding, check_chip, check_format, check_input, check_weight, geometry, rounding,
};
use crate::abi::layer_norm::wanted;
use crate::abi::prelude::*;
use crate::ops::convolution::Geometry;
use crate::ops::matmul::{Factor, product};
use crate::ops::sum;

/// The tensors of a call.
struct Tensors {
    d_output: *const aclTensor,
    input: *const aclTensor,
    weight: *const aclTensor,
    bias_sizes: *const aclIntArray,
    mask: *const aclBoolArray,
    d_input: *const aclTensor,
    d_weight: *const aclTensor,
    d_bias: *const aclTensor,
}

/// The work of a call.
struct Backward {
    geometry: Geometry,
    transposed: bool,
    groups: usize,
    batch: usize,
    /// The channels of a group, of the input and of the output.
    channels: [usize; 2],
    rounding: Rounding,
    wanted: [bool; 3],
    gives: aclDataType,
}

fn take(
    operands: &mut Operands,
    tensors: &Tensors,
    settings: &Settings,
    cube_math: i8,
) -> Outcome<Work> {
    check_chip()?;
    let d_output = operands.view("gradOutput", tensors.d_output, FLOATS)?;
    let input = operands.view("input", tensors.input, FLOATS)?;
    let weight = operands.view("weight", tensors.weight, FLOATS)?;
    let dtype = promoted(promoted(d_output.dtype, input.dtype)?, weight.dtype)?;
    let rounding = rounding(cube_math, dtype)?;
    check_input(&input, settings)?;
    let outputs = check_weight(&input, &weight, settings)?;
    let geometry = geometry(&input, &weight, settings)?;
    let spatial = input.rank() - 2;
    let own = match settings.transposed {
        true => geometry.large,
        false => geometry.small,
    };
    let shape = [&[input.shape[0], outputs], &own[3 - spatial..]].concat();
    check_format("gradOutput", &d_output)?;
    check_size("gradOutput", &d_output, &shape)?;
    let wanted = wanted(tensors.mask)?;
    for (name, tensor, like, wanted) in [
        ("gradInput", tensors.d_input, &input, wanted[0]),
        ("gradWeight", tensors.d_weight, &weight, wanted[1]),
    ] {
        if wanted {
            let tensor = operands.target(name, tensor, FLOATS)?;
            check_format(name, &tensor)?;
            check_size(name, &tensor, &like.shape)?;
        }
    }
    if wanted[2] {
        let sizes = operands.ints("biasSizes", tensors.bias_sizes)?;
        ensure!(sizes[..] == [outputs as i64];
            "biasSizes is {sizes:?}; the output has {outputs} channels");
        let tensor = operands.target("gradBias", tensors.d_bias, FLOATS)?;
        check_size("gradBias", &tensor, &[outputs])?;
    }
    let groups = settings.groups as usize;
    let work = Backward {
        geometry,
        transposed: settings.transposed,
        groups,
        batch: input.shape[0],
        channels: [input.shape[1] / groups, outputs / groups],
        rounding,
        wanted,
        gives: dtype,
    };
    Ok(Arc::new(move |memory, operands| work.run(memory, operands)))
}

impl Backward {
    fn run(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let mut operands = Present::of(operands);
        let d_output = operands.needed();
        let dy = self.read(memory, d_output)?;
        let x = self.read(memory, operands.needed())?;
        let weight = self.read(memory, operands.needed())?;
        let outputs = self.channels[1];
        let mut d_input = Vec::with_capacity(x.len());
        let mut d_weight = vec![0.0; weight.len()];
        let parts = self.batch * self.groups;
        let (x_part, dy_part) = (x.len() / parts.max(1), dy.len() / parts.max(1));
        let w_part = weight.len() / self.groups;
        for part in 0..parts {
            let own = part % self.groups * w_part;
            let x = &x[part * x_part..][..x_part];
            let dy = &dy[part * dy_part..][..dy_part];
            let (dx, dw) = self.part(x, dy, &weight[own..][..w_part]);
            d_input.extend(dx);
            let sums = &mut d_weight[own..][..w_part];
            sums.iter_mut().zip(dw).for_each(|(sum, more)| *sum += more);
        }
        let channels = self.groups * outputs;
        let plane = dy.len() / (self.batch * channels).max(1);
        // The bias is not a factor, so its gradient is not rounded before it is summed.
        let exact = d_output.floats(memory)?;
        let of_channel = |channel: usize| {
            let images = (0..self.batch).flat_map(|image| {
                exact[(image * channels + channel) * plane..][..plane]
                    .iter()
                    .copied()
            });
            sum(&images.collect::<Vec<f32>>())
        };
        let d_bias: Vec<f32> = (0..channels).map(of_channel).collect();
        for (wanted, values) in self.wanted.into_iter().zip([d_input, d_weight, d_bias]) {
            if let Some(output) = operands.next(wanted) {
                output.store_values_of(memory, &values, self.gives)?;
            }
        }
        Ok(())
    }

    fn read(&self, memory: &Memory, tensor: &Tensor) -> Outcome<Vec<f32>> {
        let values = tensor.floats(memory)?;
        Ok(match self.rounding {
            Some(rounding) => values.into_iter().map(rounding).collect(),
            None => values,
        })
    }

    /// Returns the gradients of input and weight of a group of one image.
    fn part(&self, x: &[f32], dy: &[f32], weight: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let [inputs, outputs] = self.channels;
        let (small, kernel) = (self.geometry.small_count(), self.geometry.kernel_count());
        let (rows, large_channels, small_side, large_side) = match self.transposed {
            false => (outputs, inputs, dy, x),
            true => (inputs, outputs, x, dy),
        };
        let width = large_channels * kernel;
        let columns = self.geometry.columns(large_side, large_channels);
        let d_weight = product(
            Factor::by_rows(small_side),
            Factor::by_columns(&columns),
            [rows, small, width],
        );
        let d_input = match self.transposed {
            false => {
                let (weight, dy) = (Factor::by_columns(weight), Factor::by_rows(dy));
                let d_columns = product(weight, dy, [width, rows, small]);
                self.geometry.scattered(&d_columns, inputs)
            }
            true => {
                let (weight, columns) = (Factor::by_rows(weight), Factor::by_rows(&columns));
                product(weight, columns, [rows, width, small])
            }
        };
        (d_input, d_weight)
    }
}

operator! { matmul: aclnnConvolutionBackwardGetWorkspaceSize, aclnnConvolutionBackward(
    d_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
    groups, mask, cube_math, d_input, d_weight, d_bias
) |operands|
    let tensors = Tensors { d_output, input, weight, bias_sizes, mask, d_input, d_weight, d_bias };
    let settings = Settings {
        stride: operands.ints("stride", stride)?,
        padding: operands.ints("padding", padding)?,
        dilation: operands.ints("dilation", dilation)?,
        transposed,
        output_padding: operands.ints("outputPadding", output_padding)?,
        groups: i64::from(groups),
    };
    take(operands, &tensors, &settings, cube_math)
}
