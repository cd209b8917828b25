//! Rotary position embedding.

#[path = "../../../../../kernels-runtime/src/ops/rope/cube/kernels.rs"]
pub(in crate::ops) mod kernels;

use crate::passes::{Passes, Role};
use cubecl::prelude::TensorArg;
use kernels::{Order, Places, SizesLaunch};

const TOKENS: usize = 4096;
const HEADS: usize = 32;
const WIDTH: usize = 128;
const ALL: usize = TOKENS * HEADS * WIDTH;
const UNITS: usize = 256;

/// Launches the pass of every style, forward and back, on transposed heads.
pub fn all(passes: &mut Passes) {
    let (halves, neighbours, same) = (Places::Halves, Places::Neighbours, Places::Same);
    for (name, read, write, table) in [
        ("halves", halves, halves, halves),
        ("neighbours", neighbours, neighbours, neighbours),
        ("neighbours to halves", neighbours, halves, same),
        ("halves to neighbours", halves, neighbours, same),
    ] {
        for (direction, is_backward) in [("forward", false), ("backward", true)] {
            let order = Order {
                read,
                write,
                table,
                is_backward,
                tokens_last: true,
            };
            one(passes, &format!("rope {direction} {name}"), order);
        }
    }
}

fn one(passes: &mut Passes, name: &str, order: Order) {
    let mut pass = passes.pass(name);
    let (size, elements) = (pass.size(), [pass.element(); 2]);
    let columns = match order.table {
        Places::Same => WIDTH / 2,
        Places::Halves | Places::Neighbours => WIDTH,
    };
    let x = pass.buffer(ALL, Role::Operand);
    let [cos, sin] = [(); 2].map(|()| pass.buffer(TOKENS * columns, Role::Operand));
    let y = pass.buffer(ALL, Role::Result);
    let strides = [ALL, WIDTH, HEADS * WIDTH];
    pass.launch(name, UNITS, |client, count, dim| {
        let in_vectors = strides.iter().map(|stride| stride / size).collect();
        let sizes = SizesLaunch::new(
            ALL / 2 / size,
            HEADS,
            TOKENS,
            in_vectors,
            WIDTH / 2 / size,
            0,
            columns / size,
            0,
            0,
        );
        let [a, b, c] = strides;
        let shape = [1, HEADS, TOKENS, WIDTH];
        // SAFETY: nothing runs.
        unsafe {
            let x = TensorArg::from_raw_parts(x.handle(), [a, b, c, 1].into(), shape.into());
            kernels::rotate::launch_unchecked(
                client,
                count,
                dim,
                size,
                x,
                cos.arg(),
                sin.arg(),
                y.arg(),
                sizes,
                order,
                elements,
            );
        }
    });
    pass.end();
}
