//! The sort of slots by expert.

#[path = "../../../../../../kernels-runtime/src/ops/moe/cube/sort/kernels.rs"]
pub(in crate::ops::moe) mod kernels;

use crate::passes::{Passes, Role, units};
use kernels::{PART, UNITS};

const SLOTS: usize = 4096 * 8;
const EXPERTS: usize = 128;
const PARTS: usize = SLOTS / PART;

/// Launches the sort and its inverse.
pub fn all(passes: &mut Passes) {
    let mut pass = passes.pass("moe sort");
    let indices = pass.buffer(SLOTS, Role::Operand);
    let before = pass.buffer(PARTS * EXPERTS, Role::Between);
    let totals = pass.buffer(EXPERTS, Role::Between);
    let starts = pass.buffer(EXPERTS + 1, Role::Between);
    let counts = pass.buffer(EXPERTS, Role::Result);
    let [rows, slots] = [(); 2].map(|()| pass.buffer(SLOTS, Role::Result));
    let of_experts = units(EXPERTS);
    pass.launch("moe sort count", of_experts, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::count::launch_unchecked(
                client,
                count,
                dim,
                indices.arg(),
                before.arg(),
                SLOTS,
                EXPERTS,
            );
        }
    });
    pass.launch("moe sort add parts", of_experts, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::add_parts::launch_unchecked(
                client,
                count,
                dim,
                before.arg(),
                totals.arg(),
                PARTS,
                EXPERTS,
            );
        }
    });
    pass.launch("moe sort start", UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::start::launch_unchecked(
                client,
                count,
                dim,
                totals.arg(),
                starts.arg(),
                counts.arg(),
                EXPERTS,
                SLOTS,
            );
        }
    });
    pass.launch("moe sort place", PART, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::place::launch_unchecked(
                client,
                count,
                dim,
                indices.arg(),
                starts.arg(),
                before.arg(),
                rows.arg(),
                SLOTS,
                EXPERTS,
            );
        }
    });
    pass.launch("moe sort invert", 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::invert::launch_unchecked(
                client,
                count,
                dim,
                rows.arg(),
                slots.arg(),
                SLOTS,
                SLOTS,
            );
        }
    });
    pass.end();
}
