//! The rotary position embedding and its gradient, with the limits of Ascend910B and 910_93.

use crate::abi::prelude::*;
use crate::chip::Chip;
use crate::ops::matmul::{Factor, product};
use crate::ops::rotary::{self, Style};

/// The order of the axes of x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Batch, heads, sequence, width.
    Bnsd,
    /// Batch, sequence, heads, width.
    Bsnd,
    /// Sequence, batch, heads, width.
    Sbnd,
    /// Tokens, heads, width.
    Tnd,
}

/// The lengths of the axes of x, by their meaning.
struct Sizes {
    batch: usize,
    heads: usize,
    sequence: usize,
}

impl Layout {
    fn sizes(self, x: &[usize]) -> Sizes {
        let (batch, heads, sequence) = match self {
            Self::Bnsd => (x[0], x[1], x[2]),
            Self::Bsnd => (x[0], x[2], x[1]),
            Self::Sbnd => (x[1], x[2], x[0]),
            Self::Tnd => (1, x[1], x[0]),
        };
        Sizes {
            batch,
            heads,
            sequence,
        }
    }

    /// Returns the shapes that the tables may have.
    fn tables(self, x: &[usize], style: Style) -> Vec<Vec<usize>> {
        let width = x[x.len() - 1];
        let Sizes {
            batch, sequence, ..
        } = self.sizes(x);
        let (one, by_batch) = match self {
            Self::Bnsd => (vec![1, 1, sequence, width], vec![batch, 1, sequence, width]),
            Self::Bsnd => (vec![1, sequence, 1, width], vec![batch, sequence, 1, width]),
            Self::Sbnd => (vec![sequence, 1, 1, width], vec![sequence, batch, 1, width]),
            Self::Tnd => (vec![sequence, 1, width], vec![sequence, 1, width]),
        };
        match style {
            Style::Half => vec![one, by_batch, x.to_vec()],
            Style::Interleaved => vec![one],
        }
    }

    fn all(rank: usize) -> &'static [Self] {
        match rank {
            4 => &[Self::Bnsd, Self::Bsnd, Self::Sbnd],
            3 => &[Self::Tnd],
            _ => &[],
        }
    }
}

fn style(mode: i64) -> Outcome<Style> {
    match mode {
        0 => Ok(Style::Half),
        1 => Ok(Style::Interleaved),
        2 | 3 => fail!(ACLNN_ERR_INNER_TILING_ERROR;
            "the mode {mode} is Ascend950's; 910B has 0 (half) and 1 (interleaved)"),
        _ => fail!(ACLNN_ERR_INNER_TILING_ERROR;
            "unknown mode {mode}; 0 is half, 1 interleaved"),
    }
}

/// Checks the operands that forward and gradient share.
fn check(x: &Tensor, cos: &Tensor, sin: &Tensor, style: Style) -> Outcome<(Layout, Sizes)> {
    check_dtype("x", x, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
    check_dtype("cos", cos, &[x.dtype])?;
    check_dtype("sin", sin, &[x.dtype])?;
    check_shape("sin", sin, &cos.shape)?;
    ensure!(x.rank() == 4 || x.rank() == 3, ACLNN_ERR_INNER_TILING_ERROR;
        "x has {} axes; it takes 4, or 3 of tokens", x.rank());
    let width = x.shape[x.rank() - 1];
    ensure!(width < 896 && width.is_multiple_of(2), ACLNN_ERR_INNER_TILING_ERROR;
        "a width of {width}; it must be even and less than 896");
    // CANN 9 limits the heads before the sequence. If half a row is a multiple of 32 bytes, the limit depends on the
    // sequence. Otherwise it depends on each core's part of the sequence, and long rows have none.
    let aligned = (width / 2 * tensor::size_of(x.dtype).unwrap_or(1)).is_multiple_of(32);
    let config = state::config()?;
    let cores = Chip::of(&config.soc).map_or(1, |chip| chip.vector_cores as usize);
    let few_heads = |rows: usize, sequence: usize| match config.major() {
        ..9 => true,
        _ if aligned => rows <= 8 * sequence,
        _ => width >= 80 || rows * 2 <= sequence.div_ceil(cores),
    };
    let fits = |layout: &&Layout| {
        let Sizes {
            batch,
            heads,
            sequence,
        } = layout.sizes(&x.shape);
        let small = match style {
            Style::Half => {
                let limited = **layout == Layout::Bnsd;
                batch < 1000 && heads < 1000 && (!limited || few_heads(batch * heads, sequence))
            }
            Style::Interleaved => batch * heads < 1000,
        };
        small && layout.tables(&x.shape, style).contains(&cos.shape)
    };
    let Some(layout) = Layout::all(x.rank()).iter().find(fits) else {
        fail!(ACLNN_ERR_INNER_TILING_ERROR;
            "cos and sin of the shape {:?} don't fit x of {:?} in this mode, or x has too many \
             heads", cos.shape, x.shape)
    };
    Ok((*layout, layout.sizes(&x.shape)))
}

/// Checks the further limits of the gradient. With gradients of the tables there are fewer heads. From CANN 9 on, if
/// each batch has tables of its own, there must be fewer batches than positions.
fn check_gradient(
    dy: &Tensor,
    cos: &Tensor,
    style: Style,
    layout: Layout,
    sizes: &Sizes,
    of_tables: bool,
) -> Outcome<()> {
    let Sizes {
        batch,
        heads,
        sequence,
    } = *sizes;
    ensure!(!of_tables || batch * heads <= 1024, ACLNN_ERR_INNER_TILING_ERROR;
        "{batch} batches of {heads} heads; with gradients of cos and sin at most 1024 in all");
    let own_tables = batch > 1
        && matches!(layout, Layout::Bnsd | Layout::Bsnd)
        && layout.tables(&dy.shape, style).get(1) == Some(&cos.shape);
    ensure!(
        !own_tables || batch < sequence || state::config()?.major() < 9,
        ACLNN_ERR_INNER_TILING_ERROR;
        "{batch} batches with tables of their own over {sequence} places; from CANN 9 on there \
         must be fewer batches than places"
    );
    Ok(())
}

/// Returns a table as a view with the shape of x, by strides of zero on its axes of length 1.
fn broadcast(table: &Tensor, x: &Tensor) -> Tensor {
    let mut wide = table.clone();
    for (axis, length) in x.shape.iter().enumerate() {
        if wide.shape[axis] == 1 && *length != 1 {
            wide.shape[axis] = *length;
            wide.strides[axis] = 0;
        }
    }
    wide
}

/// Sums `values`, which have the shape of x, over the axes in which the table has length 1.
fn summed(values: &[f32], x: &[usize], table: &[usize]) -> Vec<f32> {
    let count: usize = table.iter().product();
    let mut terms = vec![Vec::new(); count];
    for (position, value) in values.iter().enumerate() {
        let (mut rest, mut index, mut stride) = (position, 0, 1);
        for (length, table) in x.iter().zip(table).rev() {
            let at = rest % length;
            rest /= length;
            if *table != 1 {
                index += at * stride;
                stride *= table;
            }
        }
        terms[index].push(*value);
    }
    terms.iter().map(|terms| crate::ops::sum(terms)).collect()
}

/// Takes the operands of the forward operator. A matrix `rotate` replaces the mode's rotation.
fn forward(
    operands: &mut Operands,
    [x, cos, sin]: [*const aclTensor; 3],
    mode: i64,
    rotate: Option<*const aclTensor>,
    output: *const aclTensor,
) -> Outcome<Work> {
    let x = operands.input("x", x)?;
    let (cos, sin) = (operands.input("cos", cos)?, operands.input("sin", sin)?);
    let rotate = match rotate {
        None => None,
        Some(rotate) => operands.optional("rotate", rotate)?,
    };
    let output = operands.output("out", output)?;
    let style = style(mode)?;
    check_dtype("out", &output, &[x.dtype])?;
    check_contiguous("out", &output)?;
    check_shape("out", &output, &x.shape)?;
    check(&x, &cos, &sin, style)?;
    if let Some(rotate) = &rotate {
        let width = x.shape[x.rank() - 1];
        check_dtype("rotate", rotate, &[x.dtype])?;
        check_shape("rotate", rotate, &[width, width])?;
    }
    Ok(Arc::new(move |memory, operands| {
        let (x, cos, sin, rotate, output) = match operands {
            [x, cos, sin, output] => (x, cos, sin, None, output),
            [x, cos, sin, rotate, output] => (x, cos, sin, Some(rotate), output),
            _ => unreachable!("taken above"),
        };
        if x.count() == 0 {
            return Ok(());
        }
        let cos = broadcast(cos, x).floats(memory)?;
        let sin = broadcast(sin, x).floats(memory)?;
        let width = x.shape[x.rank() - 1];
        let values = x.floats(memory)?;
        let rotated = match rotate {
            None => rotary::rotated(&values, width, style),
            Some(matrix) => {
                let matrix = matrix.floats(memory)?;
                let (x, matrix) = (Factor::by_rows(&values), Factor::by_rows(&matrix));
                product(x, matrix, [values.len() / width, width, width])
            }
        };
        output.store(memory, &rotary::rotary(&values, &rotated, &cos, &sin))
    }))
}

operator! { rotary: aclnnRotaryPositionEmbeddingGetWorkspaceSize, aclnnRotaryPositionEmbedding(
    x, cos, sin, mode, output
) |operands|
    forward(operands, [x, cos, sin], mode, None, output)
}

operator! { rotary: aclnnRotaryPositionEmbeddingV2GetWorkspaceSize, aclnnRotaryPositionEmbeddingV2(
    x, cos, sin, mode, rotate, output
) |operands|
    forward(operands, [x, cos, sin], mode, Some(rotate), output)
}

// The operands of the gradient are in the order of its parameters. x may be missing. Then the gradients of the tables
// are not computed, but their tensors must be there.
operator! { rotary:
    aclnnRotaryPositionEmbeddingGradGetWorkspaceSize, aclnnRotaryPositionEmbeddingGrad(
    dy, cos, sin, x, mode, dx, dcos, dsin
) |operands|
    let dy = operands.input("dy", dy)?;
    let (cos, sin) = (operands.input("cos", cos)?, operands.input("sin", sin)?);
    let x = operands.optional("x", x)?;
    let dx = operands.output("dx", dx)?;
    let dcos = operands.output("dcos", dcos)?;
    let dsin = operands.output("dsin", dsin)?;
    let style = style(mode)?;
    let (layout, sizes) = check(&dy, &cos, &sin, style)?;
    check_gradient(&dy, &cos, style, layout, &sizes, x.is_some())?;
    check_dtype("dx", &dx, &[dy.dtype])?;
    check_contiguous("dx", &dx)?;
    check_shape("dx", &dx, &dy.shape)?;
    if let Some(x) = &x {
        check_dtype("x", x, &[dy.dtype])?;
        check_shape("x", x, &dy.shape)?;
        for (name, tensor) in [("dcos", &dcos), ("dsin", &dsin)] {
            check_dtype(name, tensor, &[dy.dtype])?;
            check_contiguous(name, tensor)?;
            check_shape(name, tensor, &cos.shape)?;
        }
    }
    Ok(Arc::new(move |memory, operands| {
        backward(memory, operands, style)
    }))
}

fn backward(memory: &mut Memory, operands: &[Tensor], style: Style) -> Outcome<()> {
    let (dy, cos, sin, x, outputs) = match operands {
        [dy, cos, sin, x, outputs @ ..] if outputs.len() == 3 => (dy, cos, sin, Some(x), outputs),
        [dy, cos, sin, outputs @ ..] => (dy, cos, sin, None, outputs),
        _ => unreachable!("taken in phase one"),
    };
    let [dx, dcos, dsin] = taken(outputs);
    if dy.count() == 0 {
        return Ok(());
    }
    let width = dy.shape[dy.rank() - 1];
    let grads = dy.floats(memory)?;
    let tables = (
        broadcast(cos, dy).floats(memory)?,
        broadcast(sin, dy).floats(memory)?,
    );
    let values = rotary::rotary_grad(&grads, &tables.0, &tables.1, width, style);
    dx.store(memory, &values)?;
    let Some(x) = x else { return Ok(()) };
    let x = x.floats(memory)?;
    let rotated = rotary::rotated(&x, width, style);
    for (table, factors) in [(dcos, x), (dsin, rotated)] {
        let products: Vec<f32> = grads.iter().zip(factors).map(|(dy, x)| dy * x).collect();
        table.store(memory, &summed(&products, &dy.shape, &table.shape))?;
    }
    Ok(())
}
