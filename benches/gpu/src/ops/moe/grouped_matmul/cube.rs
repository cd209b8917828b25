//! Grouped products.

#[path = "../../../../../../kernels-runtime/src/ops/moe/grouped_matmul/cube/kernels.rs"]
mod kernels;

use crate::passes::{Buffer, Pass, Passes, Role};
use cubecl::ir::FloatKind;
use cubecl::prelude::{BufferArg, ElemType};
use kernels::{FactorsLaunch, Last, Moved, SizesLaunch, UNITS};

const CHOICES: usize = 8;
const ROWS: usize = 4096 * CHOICES;
const EXPERTS: usize = 128;
const INPUTS: usize = 2048;
const FEATURES: usize = 1536;
const GROUPS: usize = 2 * (EXPERTS + 2) + 1;

/// Launches the plan, the product with both orders of the weights, and the gradient of the weights: alone, and as the experts
/// of a mixture have them.
pub fn all(passes: &mut Passes) {
    plan(passes.pass("grouped_matmul plan"));
    for (name, last) in [("linear", Last::Inputs), ("matmul", Last::Features)] {
        for (of, way) in [
            ("", Way::Alone),
            (" of slots", Way::OfSlots),
            (" added", Way::Added),
        ] {
            let name = format!("grouped_matmul {name}{of}");
            product(passes.pass(&name), last, way);
        }
    }
    outer(passes.pass("grouped_matmul weights"), false);
    outer(passes.pass("grouped_matmul weights of slots"), true);
}

/// A way to use a product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Alone,
    /// Rows come from the tokens of slots, and there are biases.
    OfSlots,
    /// The result is in f32 and added to another one.
    Added,
}

fn arg(buffer: &Option<Buffer>) -> Option<BufferArg> {
    buffer.as_ref().map(Buffer::arg)
}

fn plan(mut pass: Pass<'_>) {
    if pass.is_half() {
        // Integers alone.
        return;
    }
    let counts = pass.numbers(EXPERTS, Role::Operand);
    let groups = pass.numbers(GROUPS, Role::Result);
    let name = pass.name();
    pass.launch(&name, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::plan::launch_unchecked(
                client,
                count,
                dim,
                counts.arg(),
                groups.arg(),
                EXPERTS,
                ROWS,
            );
        }
    });
    pass.end();
}

fn product(mut pass: Pass<'_>, last: Last, way: Way) {
    let (size, element) = (pass.size(), pass.element());
    let choices = if way == Way::OfSlots { CHOICES } else { 1 };
    let x = pass.buffer(ROWS / choices * INPUTS, Role::Operand);
    let weights = pass.buffer(EXPERTS * INPUTS * FEATURES, Role::Operand);
    let slots = (way == Way::OfSlots).then(|| pass.numbers(ROWS, Role::Operand));
    let bias = (way == Way::OfSlots).then(|| pass.buffer(EXPERTS * FEATURES, Role::Operand));
    let groups = pass.numbers(GROUPS, Role::Operand);
    let (y, of_result) = match way {
        Way::Added => (
            pass.numbers(ROWS * FEATURES, Role::Changed),
            ElemType::Float(FloatKind::F32),
        ),
        Way::Alone | Way::OfSlots => (pass.buffer(ROWS * FEATURES, Role::Result), element),
    };
    let sizes = SizesLaunch::new(
        EXPERTS,
        INPUTS,
        FEATURES,
        INPUTS,
        0,
        FEATURES,
        0,
        choices,
        f32::NAN,
    );
    let name = pass.name();
    pass.launch(&name, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::product::launch_unchecked(
                client,
                count,
                dim,
                size,
                x.arg(),
                arg(&slots).into(),
                weights.arg(),
                arg(&bias).into(),
                groups.arg(),
                y.arg(),
                sizes,
                last,
                way == Way::Added,
                [element, of_result],
            );
        }
    });
    pass.end();
}

fn outer(mut pass: Pass<'_>, of_slots: bool) {
    let (size, element) = (pass.size(), pass.element());
    let choices = if of_slots { CHOICES } else { 1 };
    let left = pass.buffer(ROWS * FEATURES, Role::Operand);
    let right = pass.buffer(ROWS / choices * INPUTS, Role::Operand);
    let slots = of_slots.then(|| pass.numbers(ROWS, Role::Operand));
    let groups = pass.numbers(GROUPS, Role::Operand);
    let result = pass.buffer(EXPERTS * INPUTS * FEATURES, Role::Result);
    let sizes = FactorsLaunch::new(
        EXPERTS,
        FEATURES,
        INPUTS,
        FEATURES,
        0,
        INPUTS,
        0,
        choices,
        f32::NAN,
    );
    let moved = Moved {
        left: false,
        right: of_slots,
    };
    let name = pass.name();
    pass.launch(&name, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::outer::launch_unchecked(
                client,
                count,
                dim,
                size,
                left.arg(),
                right.arg(),
                arg(&slots).into(),
                groups.arg(),
                result.arg(),
                sizes,
                moved,
                element,
            );
        }
    });
    pass.end();
}
