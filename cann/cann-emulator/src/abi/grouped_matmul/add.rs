//! Products by group that are added to f32: the gradients of weights over several steps.
//!
//! Of each group of rows, `xᵀ · weight` is added to its part of the result. CANN's document names two axes for the
//! result, the groups' rows below each other. Three axes are taken too, as its first sentence has them.

use super::Groups;
use super::product::group_ends;
use crate::abi::prelude::*;
use crate::ops::matmul::{Factor, product};

/// The parameters of both versions. The second has a type of the list.
struct Sum {
    x: *const aclTensor,
    weight: *const aclTensor,
    list: *const aclTensor,
    target: *mut aclTensor,
    transposes: [bool; 2],
    group_type: i64,
    group_list_type: i64,
}

fn matrix(name: &str, tensor: &Tensor) -> Outcome<[usize; 2]> {
    ensure!(tensor.rank() == 2, ACLNN_ERR_INNER_TILING_ERROR;
        "{name} has {} axes; it takes two", tensor.rank());
    Ok([tensor.shape[0], tensor.shape[1]])
}

impl Sum {
    fn check_settings(&self) -> Outcome<()> {
        ensure!(self.transposes == [true, false] && self.group_type == 2;
            "transposeX, transposeWeight and groupType are {:?} and {}; they are true, false and 2",
            self.transposes, self.group_type);
        ensure!(matches!(self.group_list_type, 0 | 1);
            "groupListType is {}; 0 is ends, 1 is counts", self.group_list_type);
        Ok(())
    }

    fn take(&self, operands: &mut Operands) -> Outcome<Work> {
        self.check_settings()?;
        let x = operands.input("x", self.x)?;
        let weight = operands.input("weight", self.weight)?;
        let list = operands.input("groupList", self.list)?;
        let target = operands.output("yRef", self.target)?;
        check_dtype("x", &x, &[ACL_FLOAT16, ACL_BF16])?;
        check_dtype("weight", &weight, &[x.dtype])?;
        check_dtype("groupList", &list, &[ACL_INT64])?;
        check_dtype("yRef", &target, &[ACL_FLOAT])?;
        check_contiguous("yRef", &target)?;
        let ([depth, rows], [inputs, columns]) = (matrix("x", &x)?, matrix("weight", &weight)?);
        let groups = list.count();
        ensure!(
            depth == inputs
                && list.rank() == 1
                && (target.shape == [groups * rows, columns]
                    || target.shape == [groups, rows, columns]),
            ACLNN_ERR_INNER_TILING_ERROR;
            "x is {:?}, weight {:?}, groupList {:?} and yRef {:?}, which do not fit",
            x.shape, weight.shape, list.shape, target.shape
        );
        let as_counts = self.group_list_type == 1;
        Ok(Arc::new(move |memory, operands| {
            let [x, weight, list, target] = taken(operands);
            let ends = group_ends(memory, Groups::Device(list), as_counts, depth)?;
            let x = x.floats(memory)?;
            let (weight, mut sums) = (weight.floats(memory)?, target.floats(memory)?);
            let mut start = 0;
            for (group, end) in ends.into_iter().enumerate() {
                let products = product(
                    Factor::by_columns(&x[start * rows..end * rows]),
                    Factor::by_rows(&weight[start * columns..end * columns]),
                    [rows, end - start, columns],
                );
                let own = &mut sums[group * rows * columns..];
                own.iter_mut()
                    .zip(products)
                    .for_each(|(sum, product)| *sum += product);
                start = end;
            }
            target.store(memory, &sums)
        }))
    }
}

/// Exports a version. The first has ends of groups.
macro_rules! version {
    ($one:ident, $two:ident $(, $list_type:ident)?) => {
        operator! { grouped_matmul: $one, $two(
            x, weight, list, target, transpose_x, transpose_weight, group_type, $($list_type,)?
        ) |operands|
            let list_type: &[i64] = &[$($list_type)?];
            let sum = Sum {
                x, weight, list, target, group_type,
                transposes: [transpose_x, transpose_weight],
                group_list_type: list_type.first().copied().unwrap_or(0),
            };
            sum.take(operands)
        }
    };
}

version! { aclnnGroupedMatmulAddGetWorkspaceSize, aclnnGroupedMatmulAdd }
version! { aclnnGroupedMatmulAddV2GetWorkspaceSize, aclnnGroupedMatmulAddV2, list_type }
