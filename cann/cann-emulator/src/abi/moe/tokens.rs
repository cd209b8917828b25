//! The ends of the experts' rows among sorted experts.

use super::check_operand;
use crate::abi::prelude::*;

/// The most entries: 2²⁴ less one.
const MOST_ENTRIES: usize = (1 << 24) - 1;

operator! { moe: aclnnMoeComputeExpertTokensGetWorkspaceSize, aclnnMoeComputeExpertTokens(
    sorted_experts, num_experts, output
) |operands|
    let sorted = operands.input("sortedExperts", sorted_experts)?;
    let output = operands.output("out", output)?;
    check_dtype("sortedExperts", &sorted, &[ACL_INT32])?;
    ensure!(sorted.rank() == 1 && sorted.count() <= MOST_ENTRIES, ACLNN_ERR_INNER_TILING_ERROR;
        "sortedExperts has the shape {:?}; it takes one axis of at most {MOST_ENTRIES}",
        sorted.shape);
    ensure!((1..=2048).contains(&num_experts), ACLNN_ERR_INNER_TILING_ERROR;
        "numExperts is {num_experts}; it is 1 to 2048");
    let shape = [num_experts as usize];
    check_operand("out", &output, ACL_INT32, &shape, ACLNN_ERR_INNER_TILING_ERROR)?;
    Ok(Arc::new(move |memory, operands| {
        let [sorted, output] = taken(operands);
        let experts = sorted.integers(memory)?;
        ensure!(experts.is_sorted(); "sortedExperts does not ascend");
        let end = |expert| experts.partition_point(|own| *own <= expert) as i64;
        output.store_integers(memory, &(0..num_experts).map(end).collect::<Vec<_>>())
    }))
}
