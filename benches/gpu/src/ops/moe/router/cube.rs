//! The routers of a mixture.

#[path = "../../../../../../kernels-runtime/src/ops/moe/router/cube/kernels.rs"]
mod kernels;

use crate::passes::{Pass, Passes, Role, units};
use crate::semantics::{Grouping, Renormalise, Scoring};
use cubecl::prelude::BufferArg;
use kernels::{NumbersLaunch, Terms};

const TOKENS: usize = 4096;
const EXPERTS: usize = 128;
const CHOICES: usize = 8;
const GROUPS: usize = 8;

/// Launches both passes of a softmax, and those of sigmoids with a correction within groups.
pub fn all(passes: &mut Passes) {
    let softmax = Terms {
        scoring: Scoring::Softmax,
        by_logits: true,
        grouping: Grouping::None,
        renormalise: Renormalise::Sum,
    };
    let sigmoid = Terms {
        scoring: Scoring::Sigmoid,
        by_logits: false,
        grouping: Grouping::TopTwo,
        renormalise: Renormalise::Sum,
    };
    forward(passes.pass("router forward softmax"), softmax);
    grouped(passes.pass("router forward in groups"), sigmoid);
    backward(passes.pass("router backward softmax"), softmax);
    backward(passes.pass("router backward sigmoid"), sigmoid);
}

fn numbers(groups: usize) -> NumbersLaunch {
    let size = EXPERTS / groups;
    NumbersLaunch::new(TOKENS, EXPERTS, CHOICES, size, 1.0, f32::INFINITY, f32::NAN)
}

fn forward(mut pass: Pass<'_>, terms: Terms) {
    let logits = pass.buffer(TOKENS * EXPERTS, Role::Operand);
    let weights = pass.buffer(TOKENS * CHOICES, Role::Result);
    let indices = pass.numbers(TOKENS * CHOICES, Role::Result);
    let name = pass.name();
    let (units, element) = (units(EXPERTS), pass.element());
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::choose::launch_unchecked(
                client,
                count,
                dim,
                logits.arg(),
                None::<BufferArg>.into(),
                None::<BufferArg>.into(),
                weights.arg(),
                indices.arg(),
                numbers(1),
                terms,
                units,
                [element; 2],
            );
        }
    });
    pass.end();
}

fn grouped(mut pass: Pass<'_>, terms: Terms) {
    let logits = pass.buffer(TOKENS * EXPERTS, Role::Operand);
    let bias = pass.numbers(EXPERTS, Role::Operand);
    let [scores, open] = [(); 2].map(|()| pass.numbers(TOKENS * GROUPS, Role::Between));
    let weights = pass.buffer(TOKENS * CHOICES, Role::Result);
    let indices = pass.numbers(TOKENS * CHOICES, Role::Result);
    let (units, element) = (units(EXPERTS), pass.element());
    pass.launch("router groups", units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::score_groups::launch_unchecked(
                client,
                count,
                dim,
                logits.arg(),
                Some(bias.arg()).into(),
                scores.arg(),
                numbers(GROUPS),
                terms,
                units,
                element,
            );
        }
    });
    pass.launch("router open groups", 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::open_groups::launch_unchecked(
                client,
                count,
                dim,
                scores.arg(),
                open.arg(),
                TOKENS * GROUPS,
                GROUPS,
                GROUPS / 2,
            );
        }
    });
    let name = pass.name();
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::choose::launch_unchecked(
                client,
                count,
                dim,
                logits.arg(),
                Some(bias.arg()).into(),
                Some(open.arg()).into(),
                weights.arg(),
                indices.arg(),
                numbers(GROUPS),
                terms,
                units,
                [element; 2],
            );
        }
    });
    pass.end();
}

fn backward(mut pass: Pass<'_>, terms: Terms) {
    let dw = pass.buffer(TOKENS * CHOICES, Role::Operand);
    let indices = pass.numbers(TOKENS * CHOICES, Role::Operand);
    let logits = pass.buffer(TOKENS * EXPERTS, Role::Operand);
    let d_logits = pass.buffer(TOKENS * EXPERTS, Role::Result);
    let name = pass.name();
    let (units, element) = (units(EXPERTS), pass.element());
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::backward::launch_unchecked(
                client,
                count,
                dim,
                dw.arg(),
                logits.arg(),
                indices.arg(),
                d_logits.arg(),
                numbers(1),
                terms,
                units,
                [element; 2],
            );
        }
    });
    pass.end();
}
