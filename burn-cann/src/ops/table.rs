//! Families of operators of one signature, as tables of facts.

use super::Checked;
use super::check::{self, Named};
use super::types::is_float;
use crate::call::Scalar;
use crate::dtype::DType;
use crate::soc::Platform;
use crate::tensor::Spec;

/// The result's type.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    /// The operands'.
    Same,
    /// Truth values.
    Bool,
    /// f32 of integers, else the operands'.
    Float,
}

/// What is known of an operator.
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

    /// Of one tensor.
    pub(super) fn one(&self, platform: &Platform, x: Named<'_>) -> Checked<Spec> {
        check::processor(platform, self.name)?;
        check::view(x, self.takes)?;
        self.result(x.1.dtype, x.1.shape())
    }

    /// Of a tensor and a scalar.
    pub(super) fn scalar(&self, platform: &Platform, x: Named<'_>, value: Scalar) -> Checked<Spec> {
        let result = self.one(platform, x)?;
        check::scalar("the scalar", value, x.1.dtype)?;
        Ok(result)
    }

    /// Of two tensors, broadcast.
    pub(super) fn two(&self, platform: &Platform, a: Named<'_>, b: Named<'_>) -> Checked<Spec> {
        check::processor(platform, self.name)?;
        check::view(a, self.takes)?;
        check::view(b, &[a.1.dtype])?;
        self.result(a.1.dtype, check::broadcast(a, b)?)
    }
}

/// A family: an enumeration of its operators, their facts and a function each.
///
/// `of` says what operands there are; the rest of an entry is what [`aclnn`](super::aclnn) needs, with the
/// operands' and the result's names.
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
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// CANN's name of it.
            pub fn name(self) -> &'static str {
                self.facts().name
            }

            /// The types that it takes.
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

/// Any operator of a family, by its name in the enumeration.
macro_rules! family_run {
    (one $family:ident, $($variant:ident $function:ident),+) => {
        impl $family {
            /// What it makes of `x`.
            ///
            /// # Errors
            ///
            /// Why CANN would refuse.
            pub fn check(self, platform: &crate::Platform, x: &crate::Spec) -> super::Checked<crate::Spec> {
                self.facts().one(platform, ("x", x))
            }

            /// Its result.
            ///
            /// # Errors
            ///
            /// Refused by [`Self::check`], or a call failed.
            pub fn run(self, stream: &crate::Stream, x: &crate::Tensor) -> crate::Result<crate::Tensor> {
                match self { $(Self::$variant => $function(stream, x),)+ }
            }
        }
    };
    (two $family:ident, $($variant:ident $function:ident),+) => {
        impl $family {
            /// What it makes of `a` and `b`: of one type, of shapes that broadcast.
            ///
            /// # Errors
            ///
            /// Why CANN would refuse.
            pub fn check(
                self,
                platform: &crate::Platform,
                a: &crate::Spec,
                b: &crate::Spec,
            ) -> super::Checked<crate::Spec> {
                self.facts().two(platform, ("a", a), ("b", b))
            }

            /// Its result.
            ///
            /// # Errors
            ///
            /// Refused by [`Self::check`], or a call failed.
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
            /// What it makes of `x` and `value`: a float only beside floats.
            ///
            /// # Errors
            ///
            /// Why CANN would refuse.
            pub fn check(
                self,
                platform: &crate::Platform,
                x: &crate::Spec,
                value: crate::Scalar,
            ) -> super::Checked<crate::Spec> {
                self.facts().scalar(platform, ("x", x), value)
            }

            /// Its result.
            ///
            /// # Errors
            ///
            /// Refused by [`Self::check`], or a call failed.
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

/// The function of one operator of a family.
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
        #[doc = concat!("Refused by [`", stringify!($family), "::check`], or a call failed.")]
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
        #[doc = concat!("Refused by [`", stringify!($family), "::check`], or a call failed.")]
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
