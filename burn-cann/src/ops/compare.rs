//! Comparison by element, of two tensors or a tensor and a scalar. Results are truth values.

use super::table::family;
use super::types::USUAL;

family! {
    /// Comparisons of two tensors.
    Comparison of two;
    /// Whether they are equal. NaN differs from everything.
    Equal equal(a, b => y), elementwise.aclnnEqTensorGetWorkspaceSize, aclnnEqTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// Whether they differ. NaN differs from everything.
    NotEqual not_equal(a, b => y), elementwise.aclnnNeTensorGetWorkspaceSize, aclnnNeTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// Whether the first is greater. NaN differs from everything.
    Greater greater(a, b => y), elementwise.aclnnGtTensorGetWorkspaceSize, aclnnGtTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// Whether the first is not less. NaN differs from everything.
    GreaterEqual greater_equal(a, b => y), elementwise.aclnnGeTensorGetWorkspaceSize, aclnnGeTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// Whether the first is less. NaN differs from everything.
    Lower lower(a, b => y), elementwise.aclnnLtTensorGetWorkspaceSize, aclnnLtTensor: USUAL, Bool,
        [] [] (a, b, y);

    /// Whether the first is not greater. NaN differs from everything.
    LowerEqual lower_equal(a, b => y), elementwise.aclnnLeTensorGetWorkspaceSize, aclnnLeTensor: USUAL, Bool,
        [] [] (a, b, y);
}

family! {
    /// Comparisons with a scalar.
    ComparisonScalar of scalar;
    /// Whether they are equal. NaN differs from everything.
    Equal equal_scalar(x, value => y), elementwise.aclnnEqScalarGetWorkspaceSize, aclnnEqScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// Whether they differ. NaN differs from everything.
    NotEqual not_equal_scalar(x, value => y), elementwise.aclnnNeScalarGetWorkspaceSize, aclnnNeScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// Whether the first is greater. NaN differs from everything.
    Greater greater_scalar(x, value => y), elementwise.aclnnGtScalarGetWorkspaceSize, aclnnGtScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// Whether the first is not less. NaN differs from everything.
    GreaterEqual greater_equal_scalar(x, value => y), elementwise.aclnnGeScalarGetWorkspaceSize, aclnnGeScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// Whether the first is less. NaN differs from everything.
    Lower lower_scalar(x, value => y), elementwise.aclnnLtScalarGetWorkspaceSize, aclnnLtScalar: USUAL, Bool,
        [] [] (x, value, y);

    /// Whether the first is not greater. NaN differs from everything.
    LowerEqual lower_equal_scalar(x, value => y), elementwise.aclnnLeScalarGetWorkspaceSize, aclnnLeScalar: USUAL, Bool,
        [] [] (x, value, y);
}
