//! Tables of operators that share a signature.

use super::Checked;
use super::check::{self, Named};
use super::types::is_float;
use crate::call::Scalar;
use crate::dtype::DType;
use crate::soc::Platform;
use crate::tensor::Spec;

/// The dtype of an operator's result.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    /// The dtype of the operands.
    Same,
    /// Booleans.
    Bool,
    /// f32 for integers, else the dtype of the operands.
    Float,
}

/// The facts about an operator.
pub(super) struct Facts {
    pub(super) name: &'static str,
    pub(super) takes: &'static [DType],
    pub(super) gives: Gives,
}

impl Facts {
    fn result(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Checked<Spec> {
        let dtype = match self.gives {
            Gives::Same => dtype,
            Gives::Bool => DType::Bool,
            Gives::Float if is_float(dtype) => dtype,
            Gives::Float => DType::F32,
        };
        Ok(Spec::contiguous(dtype, shape)?)
    }

    /// Checks an operator of one tensor and returns the spec of its result.
    pub(super) fn one(&self, platform: &Platform, x: Named<'_>) -> Checked<Spec> {
        check::processor(platform, self.name)?;
        check::view(x, self.takes)?;
        self.result(x.1.dtype, x.1.shape())
    }

    /// Checks an operator of a tensor and a scalar and returns the spec of its result.
    pub(super) fn scalar(&self, platform: &Platform, x: Named<'_>, value: Scalar) -> Checked<Spec> {
        let result = self.one(platform, x)?;
        check::scalar("the scalar", value, x.1.dtype)?;
        Ok(result)
    }

    /// Checks an operator of two tensors, which broadcast, and returns the spec of its result.
    pub(super) fn two(&self, platform: &Platform, a: Named<'_>, b: Named<'_>) -> Checked<Spec> {
        check::processor(platform, self.name)?;
        check::view(a, self.takes)?;
        check::view(b, &[a.1.dtype])?;
        self.result(a.1.dtype, check::broadcast(a, b)?)
    }
}

/// Defines a family: an enumeration of its operators, with the facts and a function of each.
///
/// `of` names the kind of operands. The rest of an entry is what [`aclnn`](super::aclnn) needs, with the names of the
/// operands and of the result.
macro_rules! family {
    (
        $(#[$meta:meta])* $family:ident of $kind:ident;
        $(
            $(#[$doc:meta])*
            $variant:ident $function:ident($($operand:ident),+ => $out:ident),
            $area:ident.$one:ident, $two:ident: $takes:expr, $gives:ident,
            [$($constants:tt)*] [$($attributes:tt)*] ($($call:tt)*);
        )+
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $family {
            $($(#[$doc])* $variant,)+
        }

        impl $family {
            /// All operators of the family.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns CANN's name of the operator.
            pub fn name(self) -> &'static str {
                self.facts().name
            }

            /// Returns the dtypes that the operator takes.
            pub fn takes(self) -> &'static [crate::DType] {
                self.facts().takes
            }

            fn facts(self) -> super::table::Facts {
                match self {
                    $(Self::$variant => super::table::Facts {
                        name: stringify!($two),
                        takes: $takes,
                        gives: super::table::Gives::$gives,
                    },)+
                }
            }
        }

        $(super::table::family_function! {
            $kind $family, $(#[$doc])* $variant $function($($operand),+ => $out),
            $area.$one, $two, [$($constants)*] [$($attributes)*] ($($call)*)
        })+

        super::table::family_run! { $kind $family, $($variant $function),+ }
    };
}
pub(super) use family;

/// Defines the methods that check and run any operator of a family.
macro_rules! family_run {
    (one $family:ident, $($variant:ident $function:ident),+) => {
        impl $family {
            /// Checks `x` and returns the spec of the result.
            ///
            /// # Errors
            ///
            /// Returns a refusal if CANN does not take the operands.
            pub fn check(self, platform: &crate::Platform, x: &crate::Spec) -> super::Checked<crate::Spec> {
                self.facts().one(platform, ("x", x))
            }

            /// Runs the operator and returns its result.
            ///
            /// # Errors
            ///
            /// Returns an error if [`Self::check`] refuses the operands or a call fails.
            pub fn run(self, stream: &crate::Stream, x: &crate::Tensor) -> crate::Result<crate::Tensor> {
                match self { $(Self::$variant => $function(stream, x),)+ }
            }
        }
    };
    (two $family:ident, $($variant:ident $function:ident),+) => {
        impl $family {
            /// Checks `a` and `b` and returns the spec of the result. They have the same dtype, and their shapes
            /// broadcast.
            ///
            /// # Errors
            ///
            /// Returns a refusal if CANN does not take the operands.
            pub fn check(
                self,
                platform: &crate::Platform,
                a: &crate::Spec,
                b: &crate::Spec,
            ) -> super::Checked<crate::Spec> {
                self.facts().two(platform, ("a", a), ("b", b))
            }

            /// Runs the operator and returns its result.
            ///
            /// # Errors
            ///
            /// Returns an error if [`Self::check`] refuses the operands or a call fails.
            pub fn run(
                self,
                stream: &crate::Stream,
                a: &crate::Tensor,
                b: &crate::Tensor,
            ) -> crate::Result<crate::Tensor> {
                match self { $(Self::$variant => $function(stream, a, b),)+ }
            }
        }
    };
    (scalar $family:ident, $($variant:ident $function:ident),+) => {
        impl $family {
            /// Checks `x` and `value` and returns the spec of the result. The scalar may be a float only if `x` has
            /// floats.
            ///
            /// # Errors
            ///
            /// Returns a refusal if CANN does not take the operands.
            pub fn check(
                self,
                platform: &crate::Platform,
                x: &crate::Spec,
                value: crate::Scalar,
            ) -> super::Checked<crate::Spec> {
                self.facts().scalar(platform, ("x", x), value)
            }

            /// Runs the operator and returns its result.
            ///
            /// # Errors
            ///
            /// Returns an error if [`Self::check`] refuses the operands or a call fails.
            pub fn run(
                self,
                stream: &crate::Stream,
                x: &crate::Tensor,
                value: impl Into<crate::Scalar>,
            ) -> crate::Result<crate::Tensor> {
                match self { $(Self::$variant => $function(stream, x, value),)+ }
            }
        }
    };
}
pub(super) use family_run;

/// Defines the function of one operator of a family.
macro_rules! family_function {
    (
        scalar $family:ident, $(#[$doc:meta])* $variant:ident
        $function:ident($x:ident, $value:ident => $out:ident),
        $area:ident.$one:ident, $two:ident,
        [$($constants:tt)*] [$($attributes:tt)*] ($($call:tt)*)
    ) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("Returns an error if [`", stringify!($family), "::check`] refuses the operands, or if a call fails.")]
        pub fn $function(
            stream: &crate::Stream,
            $x: &crate::Tensor,
            $value: impl Into<crate::Scalar>,
        ) -> crate::Result<crate::Tensor> {
            let $value = $value.into();
            let spec = $family::$variant.check(stream.device().platform(), $x.spec(), $value)?;
            let result = crate::Tensor::like(stream, &spec)?;
            if spec.is_empty() {
                return Ok(result);
            }
            let $out = &result;
            super::aclnn::aclnn!(
                stream, $area.$one, $two, tensors [$x, $out],
                constants [$value: scalar = crate::call::Constant::Scalar($value), $($constants)*],
                attributes [$($attributes)*], call($($call)*), result.clone(),
            )
        }
    };
    (
        $tensors:ident $family:ident, $(#[$doc:meta])* $variant:ident
        $function:ident($($x:ident),+ => $out:ident),
        $area:ident.$one:ident, $two:ident,
        [$($constants:tt)*] [$($attributes:tt)*] ($($call:tt)*)
    ) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("Returns an error if [`", stringify!($family), "::check`] refuses the operands, or if a call fails.")]
        pub fn $function(stream: &crate::Stream, $($x: &crate::Tensor),+) -> crate::Result<crate::Tensor> {
            let spec = $family::$variant.check(stream.device().platform(), $($x.spec()),+)?;
            let result = crate::Tensor::like(stream, &spec)?;
            if spec.is_empty() {
                return Ok(result);
            }
            let $out = &result;
            super::aclnn::aclnn!(
                stream, $area.$one, $two, tensors [$($x,)+ $out],
                constants [$($constants)*], attributes [$($attributes)*], call($($call)*),
                result.clone(),
            )
        }
    };
}
pub(super) use family_function;
