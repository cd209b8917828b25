//! Elementwise comparisons, of two tensors or of a tensor and a scalar. Results are booleans.

use super::table::family;
use super::types::{NUMBERS, USUAL};

family! {
    /// Comparisons of two tensors.
    Comparison of two;
    /// `a == b`. NaN equals nothing.
    Equal equal(a, b => y), elementwise.aclnnEqTensorGetWorkspaceSize, aclnnEqTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// `a != b`. NaN differs from everything.
    NotEqual not_equal(a, b => y), elementwise.aclnnNeTensorGetWorkspaceSize, aclnnNeTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// `a > b`. False if one is NaN.
    Greater greater(a, b => y), elementwise.aclnnGtTensorGetWorkspaceSize, aclnnGtTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// `a >= b`. False if one is NaN. CANN does not compare booleans so.
    GreaterEqual greater_equal(a, b => y), elementwise.aclnnGeTensorGetWorkspaceSize, aclnnGeTensor: NUMBERS, Bool,
        [] [] (a, b, y);

    /// `a < b`. False if one is NaN.
    Lower lower(a, b => y), elementwise.aclnnLtTensorGetWorkspaceSize, aclnnLtTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// `a <= b`. False if one is NaN.
    LowerEqual lower_equal(a, b => y), elementwise.aclnnLeTensorGetWorkspaceSize, aclnnLeTensor: USUAL, Bool,
        [] [] (a, b, y);
}

family! {
    /// Comparisons with a scalar.
    ComparisonScalar of scalar;
    /// `x == value`. NaN equals nothing.
    Equal equal_scalar(x, value => y), elementwise.aclnnEqScalarGetWorkspaceSize, aclnnEqScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// `x != value`. NaN differs from everything.
    NotEqual not_equal_scalar(x, value => y), elementwise.aclnnNeScalarGetWorkspaceSize, aclnnNeScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// `x > value`. False if one is NaN.
    Greater greater_scalar(x, value => y), elementwise.aclnnGtScalarGetWorkspaceSize, aclnnGtScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// `x >= value`. False if one is NaN.
    GreaterEqual greater_equal_scalar(x, value => y), elementwise.aclnnGeScalarGetWorkspaceSize, aclnnGeScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// `x < value`. False if one is NaN.
    Lower lower_scalar(x, value => y), elementwise.aclnnLtScalarGetWorkspaceSize, aclnnLtScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// `x <= value`. False if one is NaN.
    LowerEqual lower_equal_scalar(x, value => y), elementwise.aclnnLeScalarGetWorkspaceSize, aclnnLeScalar: USUAL, Bool,
        [] [] (x, value, y);
}
