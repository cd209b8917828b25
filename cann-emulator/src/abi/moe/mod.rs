//! Moving tokens to experts and back, with gradients, and the choice of experts.

mod gating;
mod permute;

pub use self::gating::*;
pub use self::permute::*;

use cann_sys::meta::*;

use crate::abi::operators;

const FLOATS: [aclDataType; 3] = [ACL_FLOAT16, ACL_BF16, ACL_FLOAT];

operators! { moe:
    aclnnMoeTokenPermuteGetWorkspaceSize, aclnnMoeTokenPermute;
    aclnnMoeTokenPermuteGradGetWorkspaceSize, aclnnMoeTokenPermuteGrad;
    aclnnMoeTokenUnpermuteGetWorkspaceSize, aclnnMoeTokenUnpermute;
    aclnnMoeTokenUnpermuteGradGetWorkspaceSize, aclnnMoeTokenUnpermuteGrad;
    aclnnMoeGatingTopKSoftmaxGetWorkspaceSize, aclnnMoeGatingTopKSoftmax;
    aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize, aclnnMoeGatingTopKSoftmaxV2;
}
