//! The tensors of a direct call, with their ranks.

/// Defines the tensors with their ranks, and the conversions to operands and back.
macro_rules! inputs {
    ([] $($rest:tt)*) => {};
    (
        [$Inputs:ident $($D:ident)?]
        $Operands:ident<$($Dispatch:ident),+>
        [$( [$($tensor_doc:meta)*] $tensor:ident $kind:ident $rank:tt, )*]
        [$( [$($int_doc:meta)*] $int:ident $int_rank:tt, )*]
        [$( $number:ident $Number:ty )*]
    ) => {
        /// The tensors of one call.
        #[derive(Clone, Debug)]
        pub struct $Inputs $(<const $D: usize>)? {
            $( $(#[$tensor_doc])* pub $tensor: $crate::ops::fused::kinds::kind!(input $kind $rank), )*
            $( $(#[$int_doc])* pub $int: burn::tensor::Tensor<$int_rank, burn::tensor::Int>, )*
        }

        impl $Operands<$(burn::backend::$Dispatch),+> {
            /// # Panics
            /// Panics if [`new`](Self::new) returns an error.
            #[track_caller]
            pub(crate) fn of $(<const $D: usize>)? (
                inputs: $Inputs $(<$D>)?,
                $( $number: $Number, )*
            ) -> Self {
                $crate::ops::operands::checked(Self::new(
                    $( $crate::ops::fused::kinds::kind!(to_dispatch $kind (inputs.$tensor)), )*
                    $( inputs.$int.into_dispatch(), )*
                    $( $number, )*
                ))
            }

            pub(crate) fn into_inputs $(<const $D: usize>)? (self) -> $Inputs $(<$D>)? {
                $Inputs {
                    $( $tensor: $crate::ops::fused::kinds::kind!(from_dispatch $kind (self.$tensor)), )*
                    $( $int: burn::tensor::Tensor::from_dispatch(self.$int), )*
                }
            }
        }

        impl $(<const $D: usize>)? $Inputs $(<$D>)? {
            /// Panics if [`Operands::new`] would return an error. Returns the shapes and dtypes as operands.
            #[track_caller]
            #[allow(clippy::too_many_arguments)] // They are what the operation has.
            #[allow(dead_code)] // Operations with later tensors check these too.
            pub(crate) fn checked(
                &self,
                $( $number: $Number, )*
            ) -> $crate::ops::fused::inputs::facts!($Operands $($Dispatch)+) {
                $crate::ops::operands::checked($Operands::new(
                    $( $crate::ops::fused::kinds::kind!(facts $kind (&self.$tensor)), )*
                    $( (&self.$int).into(), )*
                    $( $number, )*
                ))
            }
        }
    };
}
pub(crate) use inputs;

/// The operands of facts.
macro_rules! facts {
    ($Operands:ident $One:ident) => { $Operands<$crate::ops::operands::Facts> };
    ($Operands:ident $One:ident $Two:ident) => {
        $Operands<$crate::ops::operands::Facts, $crate::ops::operands::Facts>
    };
}
pub(crate) use facts;
