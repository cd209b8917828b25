//! The declaration of an operation.

/// Declares an operation: see [`ops::fused`](super). From the list of its tensors and numbers come
///
/// * the operands, whose only constructor `new` checks that a tensor is there exactly if its condition (`if`) holds, and then
///   calls the method `check`;
/// * `Each`, a value for each float tensor, in which flags and gradients have names;
/// * `Inputs`, the tensors with their ranks, if the declaration gives ranks;
/// * the implementation of [`FusedOp`](super::FusedOp).
///
/// A float tensor is `One` tensor, `Maybe` one, a `List` or `Lists` of them. Its text is its name in sentences. The operands
/// have the methods `check`, `results` and `saved`, as [`FusedOp`](super::FusedOp) describes them, and `dtype`.
///
/// Tensors that most calls don't have may be `later` ones, each `Maybe` there. They are no parameters of `new` and no fields of
/// `Inputs`, so that callers don't change where an operation gets another one: `with_later` takes them too.
///
/// `others` results besides the first have no gradient, unless the declaration says `differentiable: true`.
macro_rules! operation {
    (
        $(#[$op_doc:meta])*
        $Op:ident {
            name: $name:literal,
            title: $title:literal,
            kernel: $kernel:literal,
            saved: $saved:literal
            $(, $flag:ident: $value:expr)* $(,)?
        }
        $( inputs $Inputs:ident $(<$D:ident>)? )?
        $(#[$doc:meta])+
        $Operands:ident<T> {
            $(
                $(#[$tensor_doc:meta])*
                $tensor:ident: $kind:ident $(<$rank:tt>)? $said:literal $(if $present:expr)?,
            )*
        }
        $( later {
            $( $(#[$later_doc:meta])* $later:ident $later_said:literal if $later_present:expr, )+
        } )?
        numbers { $( $(#[$number_doc:meta])* $number:ident: $Number:ty, )* }
    ) => {
        $crate::ops::define::operands! {
            $(#[$doc])+
            $Operands<T> {
                $( $(#[$tensor_doc])* $tensor: $kind, )*
                $($( $(#[$later_doc])* $later: Maybe, )+)?
            }
            numbers { $( $(#[$number_doc])* $number: $Number, )* }
        }
        $crate::ops::fused::declare::common! {
            [$(#[$op_doc])* $Op $name $title $kernel $saved [$($flag $value)*]]
            [$Operands<T>]
            [
                $( $tensor $kind $said [$($present)?] )*
                $($( $later Maybe $later_said [$later_present] )+)?
            ]
            []
            [$( $number $Number )*]
        }
        $crate::ops::fused::declare::constructors! {
            [$Operands<T>]
            [$( $tensor $kind )*]
            [$($( $later )+)?]
            []
            [$( $number $Number )*]
        }
        $crate::ops::fused::inputs::inputs! {
            [$( $Inputs $($D)? )?]
            $Operands<DispatchTensor>
            [$( [$($tensor_doc)*] $tensor $kind $($rank)?, )*]
            []
            [$( $number $Number )*]
        }
    };
    (
        $(#[$op_doc:meta])*
        $Op:ident {
            name: $name:literal,
            title: $title:literal,
            kernel: $kernel:literal,
            saved: $saved:literal
            $(, $flag:ident: $value:expr)* $(,)?
        }
        $( inputs $Inputs:ident $(<$D:ident>)? )?
        $(#[$doc:meta])+
        $Operands:ident<F, I>
        floats {
            $(
                $(#[$tensor_doc:meta])*
                $tensor:ident: $kind:ident $(<$rank:tt>)? $said:literal $(if $present:expr)?,
            )*
        }
        ints { $( $(#[$int_doc:meta])* $int:ident $(: <$int_rank:tt>)?, )* }
        numbers { $( $(#[$number_doc:meta])* $number:ident: $Number:ty, )* }
    ) => {
        $crate::ops::define::operands! {
            $(#[$doc])+
            $Operands<F, I>
            floats { $( $(#[$tensor_doc])* $tensor: $kind, )* }
            ints { $( $(#[$int_doc])* $int, )* }
            numbers { $( $(#[$number_doc])* $number: $Number, )* }
        }
        $crate::ops::fused::declare::common! {
            [$(#[$op_doc])* $Op $name $title $kernel $saved [$($flag $value)*]]
            [$Operands<F, I>]
            [$( $tensor $kind $said [$($present)?] )*]
            [$( $int I )*]
            [$( $number $Number )*]
        }
        $crate::ops::fused::declare::constructors! {
            [$Operands<F, I>]
            [$( $tensor $kind )*]
            []
            [$( $int I )*]
            [$( $number $Number )*]
        }
        $crate::ops::fused::inputs::inputs! {
            [$( $Inputs $($D)? )?]
            $Operands<DispatchTensor, DispatchTensor>
            [$( [$($tensor_doc)*] $tensor $kind $($rank)?, )*]
            [$( [$($int_doc)*] $int $($int_rank)?, )*]
            [$( $number $Number )*]
        }
    };
}
pub(crate) use operation;

/// The code that both forms of a declaration expand to.
macro_rules! common {
    (
        [$(#[$op_doc:meta])* $Op:ident $name:literal $title:literal $kernel:literal $saved:literal
            [$($flag:ident $value:expr)*]]
        [$Operands:ident<$First:ident $(, $Second:ident)?>]
        [$( $tensor:ident $kind:ident $said:literal [$($present:expr)?] )*]
        [$( $int:ident $Int:ident )*]
        [$( $number:ident $Number:ty )*]
    ) => {
        $(#[$op_doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $Op;

        $( $crate::ops::fused::flags::known! { $flag } )*
        $crate::ops::fused::declare::launch! { [$($flag $value)*] $Op }

        /// Adds a server's handlers of the operation.
        #[cfg(feature = "remote")]
        pub(crate) mod remote {
            use crate::ops::fused::{FusedKernel, remote};

            pub(crate) fn handlers<B: burn::backend::ir::BackendIr + FusedKernel<super::$Op>>(
                kernels: crate::remote::Kernels<B>,
            ) -> crate::remote::Kernels<B> {
                remote::handlers::<super::$Op, B>(kernels)
            }
        }

        /// A value for each float tensor.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Each<T> {
            $(
                #[doc = concat!("That of ", $said, ".")]
                pub $tensor: $crate::ops::fused::kinds::each::$kind<T>,
            )*
        }

        impl<$First: $crate::ops::Described $(, $Second: $crate::ops::Described)?>
            $Operands<$First $(, $Second)?>
        {
            /// Checks that each tensor is there exactly if the semantics have it, and that all go together.
            fn check_all(&self) -> Result<(), $crate::ops::Mismatch> {
                $($(
                    let present: fn(&Self) -> bool = $present;
                    $crate::ops::fused::declare::there(
                        ($title, $said),
                        (self.$tensor.is_some(), present(self)),
                        &self.key,
                    )?;
                )?)*
                self.check()
            }

            /// Returns the common dtype of all float tensors.
            ///
            /// # Errors
            /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
            #[allow(unused_mut)] // Operations have tensors of several kinds, or not.
            pub fn dtype(&self) -> Result<burn::tensor::DType, $crate::ops::Mismatch> {
                let named = std::iter::empty();
                $(
                    let named = named.chain(
                        $crate::ops::define::tensors!(iter $kind (&self.$tensor))
                            .map(|tensor| ($said, tensor)),
                    );
                )*
                $crate::ops::fused::flags::dtype!([$($flag $value)*] self $title named)
            }
        }

        impl $crate::ops::fused::FusedOp for $Op {
            const NAME: &'static str = $name;
            const FORWARD: &'static str = concat!("burn-kernels/", $name);
            const BACKWARD: &'static str = concat!("burn-kernels/", $name, "_backward");
            const TITLE: &'static str = $title;
            const KERNEL: &'static str = $kernel;
            const KINDS: &'static [$crate::ops::fused::Kind] =
                &[$( $crate::ops::fused::Kind::$kind ),*];
            const TENSORS: &'static [&'static str] = &[$( stringify!($tensor) ),*];
            const INTS: usize = <[&str]>::len(&[$( stringify!($int) ),*]);
            const SAVED: usize = $saved;
            const OTHERS: usize = $crate::ops::fused::flags::others!([$($flag $value)*]);
            const DIFFERENTIABLE: bool =
                $crate::ops::fused::flags::flag!(differentiable [$($flag $value)*]);
            const RECOMPUTED: bool =
                $crate::ops::fused::flags::flag!(recomputed [$($flag $value)*]);
            const ADDS: bool = $crate::ops::fused::flags::flag!(adds [$($flag $value)*]);
            const HAS_GRADIENT: bool =
                !$crate::ops::fused::flags::flag!(no_gradient [$($flag $value)*]);

            type Operands<F, I> = $crate::ops::fused::declare::operands_of!(
                $Operands<$First $(, $Second)?> F I
            );
            type Each<T>
                = Each<T>
            where
                T: Clone;
            type Numbers = ($( $Number, )*);

            fn into_parts<F, I>(
                operands: Self::Operands<F, I>,
            ) -> $crate::ops::fused::Parts<F, I, Self::Numbers> {
                $crate::ops::fused::Parts {
                    lengths: Self::lengths::<F, I>(&operands),
                    floats: {
                        let all = std::iter::empty();
                        $( let all = all.chain(
                            $crate::ops::define::tensors!(iter $kind (operands.$tensor))
                        ); )*
                        all.collect()
                    },
                    ints: smallvec::smallvec![$( operands.$int ),*],
                    numbers: ($( operands.$number, )*),
                }
            }

            #[allow(unused_mut, unused_variables)] // Operations may have no integer tensors.
            fn from_parts<F, I>(
                parts: $crate::ops::fused::Parts<F, I, Self::Numbers>,
                _: $crate::ops::fused::Internal,
            ) -> Self::Operands<F, I> {
                let mut floats = $crate::ops::fused::Cursor::new(parts.floats, &parts.lengths);
                let mut ints = parts.ints.into_iter();
                let ($( $number, )*) = parts.numbers;
                $Operands {
                    $( $tensor: $crate::ops::fused::kinds::kind!(read $kind floats), )*
                    $( $int: ints.next().expect("an integer tensor for each operand"), )*
                    $( $number, )*
                }
            }

            fn floats<F, I>(operands: &Self::Operands<F, I>) -> smallvec::SmallVec<[&F; 5]> {
                let all = std::iter::empty();
                $( let all = all.chain(
                    $crate::ops::define::tensors!(iter $kind (&operands.$tensor))
                ); )*
                all.collect()
            }

            #[allow(unused_variables, unused_mut)] // Most operations have single tensors alone.
            fn lengths<F, I>(operands: &Self::Operands<F, I>) -> smallvec::SmallVec<[usize; 4]> {
                let mut lengths = smallvec::SmallVec::new();
                $( $crate::ops::fused::kinds::kind!(length $kind (&operands.$tensor) lengths); )*
                lengths
            }

            fn check<F: $crate::ops::Described, I: $crate::ops::Described>(
                operands: &Self::Operands<F, I>,
            ) -> Result<(), $crate::ops::Mismatch> {
                operands.check_all()
            }

            fn dtype<F: $crate::ops::Described, I: $crate::ops::Described>(
                operands: &Self::Operands<F, I>,
            ) -> Result<burn::tensor::DType, $crate::ops::Mismatch> {
                operands.dtype()
            }

            fn results<F: $crate::ops::Described, I: $crate::ops::Described>(
                operands: &Self::Operands<F, I>,
            ) -> smallvec::SmallVec<[$crate::ops::fused::Like; 2]> {
                operands.results().into_iter().collect()
            }

            fn saved<F: $crate::ops::Described, I: $crate::ops::Described>(
                operands: &Self::Operands<F, I>,
            ) -> smallvec::SmallVec<[$crate::ops::fused::Saved; 2]> {
                let saved: [$crate::ops::fused::Saved; $saved] = operands.saved();
                saved.into_iter().collect()
            }

            fn room<F: $crate::ops::Described, I: $crate::ops::Described>(
                operands: &Self::Operands<F, I>,
            ) -> usize {
                $crate::ops::fused::flags::room!([$($flag $value)*] operands)
            }

            fn room_backward<F: $crate::ops::Described, I: $crate::ops::Described>(
                operands: &Self::Operands<F, I>,
                wanted: &Each<bool>,
            ) -> usize {
                $crate::ops::fused::flags::room_backward!(
                    [$($flag $value)*] operands wanted
                )
            }

            fn keeps(place: usize, wanted: &Each<bool>) -> bool {
                $crate::ops::fused::flags::keeps!([$($flag $value)*] place wanted)
            }

            fn each<T: Clone + Default>(
                values: impl IntoIterator<Item = T>,
                lengths: &[usize],
            ) -> Each<T> {
                let mut values = $crate::ops::fused::Cursor::new(values, lengths);
                Each {
                    $( $tensor: $crate::ops::fused::kinds::kind!(value $kind values), )*
                }
            }

            #[allow(unused_mut, unused_variables)] // As in `lengths`.
            fn values<T: Clone>(each: Each<T>, lengths: &[usize]) -> smallvec::SmallVec<[T; 5]> {
                let mut lengths = lengths.iter();
                let mut values = smallvec::SmallVec::new();
                $( $crate::ops::fused::kinds::kind!(
                    values $kind (each.$tensor) lengths values
                ); )*
                values
            }
        }
    };
}
pub(crate) use common;

/// Defines the constructors of operands, which check them.
macro_rules! constructors {
    (
        [$Operands:ident<$First:ident $(, $Second:ident)?>]
        [$( $tensor:ident $kind:ident )*]
        [$( $later:ident )*]
        [$( $int:ident $Int:ident )*]
        [$( $number:ident $Number:ty )*]
    ) => {
        impl<$First: $crate::ops::Described $(, $Second: $crate::ops::Described)?>
            $Operands<$First $(, $Second)?>
        {
            /// Makes the operands.
            ///
            /// # Errors
            /// Returns an error if the operands don't match the semantics, or if the shapes don't fit together.
            #[allow(clippy::too_many_arguments)] // They are what the operation has.
            pub fn new(
                $( $tensor: $crate::ops::define::$kind<$First>, )*
                $( $int: $Int, )*
                $( $number: $Number, )*
            ) -> Result<Self, $crate::ops::Mismatch> {
                let operands = Self {
                    $( $tensor, )*
                    $( $later: None, )*
                    $( $int, )*
                    $( $number, )*
                };
                operands.check_all()?;
                Ok(operands)
            }
        }

        $crate::ops::fused::declare::with_later! {
            [$Operands $First] [$( $tensor $kind )*] [$( $later )*] [$( $number $Number )*]
        }
    };
}
pub(crate) use constructors;

/// Defines the constructor that also takes the tensors that most calls don't have.
macro_rules! with_later {
    ($operands:tt $tensors:tt [] $numbers:tt) => {};
    (
        [$Operands:ident $First:ident]
        [$( $tensor:ident $kind:ident )*]
        [$( $later:ident )+]
        [$( $number:ident $Number:ty )*]
    ) => {
        impl<$First: $crate::ops::Described> $Operands<$First> {
            /// Makes the operands, with all tensors that they may have.
            ///
            /// # Errors
            /// Returns an error as [`new`](Self::new) does.
            pub fn with_later(
                $( $tensor: $crate::ops::define::$kind<$First>, )*
                $( $later: Option<$First>, )+
                $( $number: $Number, )*
            ) -> Result<Self, $crate::ops::Mismatch> {
                let operands = Self {
                    $( $tensor, )*
                    $( $later, )+
                    $( $number, )*
                };
                operands.check_all()?;
                Ok(operands)
            }
        }
    };
}
pub(crate) use with_later;

/// Defines how an operation is run: by an implementation of the registry, or, if it is `part: true` of other operations, by
/// the kernel of the backend that its tensors are on. One that is `inner: true` is run by the launch of another operation.
macro_rules! launch {
    ([] $Op:ident) => {
        /// The function that runs the kernel on a backend.
        #[derive(Clone, Copy, Debug)]
        pub struct Launch(pub $crate::ops::fused::OpLaunch);

        impl $Op {
            /// Runs an implementation that dispatch chose for these tensors.
            pub(crate) fn run(
                operands: $crate::ops::fused::OfDispatch<Self>,
                implementation: &$crate::registry::Implementation,
            ) -> $crate::ops::fused::Made<burn::backend::DispatchTensor> {
                let Launch(launch) = implementation.launch();
                launch.run::<Self>(operands).expect("the launch of this operation")
            }
        }
    };
    ([inner $is_inner:tt $($rest:tt)*] $Op:ident) => {};
    ([part $is_part:tt $($rest:tt)*] $Op:ident) => {
        impl $Op {
            /// Runs the kernel of the backend that the tensors are on.
            ///
            /// # Panics
            /// Panics if it has none, or if kernels don't take the tensors together.
            #[allow(unreachable_code)] // A build without backends has none to run it on.
            pub fn run(
                operands: $crate::ops::fused::OfDispatch<Self>,
            ) -> $crate::ops::fused::Made<burn::backend::DispatchTensor> {
                $crate::ops::fused::run_there!($Op operands)
            }
        }
    };
    ([$flag:ident $value:tt $($rest:tt)*] $Op:ident) => {
        $crate::ops::fused::declare::launch! { [$($rest)*] $Op }
    };
}
pub(crate) use launch;

/// The operands with these types of tensors.
macro_rules! operands_of {
    ($Operands:ident<$First:ident> $F:ident $I:ident) => { $Operands<$F> };
    ($Operands:ident<$First:ident, $Second:ident> $F:ident $I:ident) => { $Operands<$F, $I> };
}
pub(crate) use operands_of;

/// Checks that a tensor is there exactly if the semantics have it.
pub(crate) fn there(
    (title, name): (&str, &str),
    (is_there, is_expected): (bool, bool),
    key: &dyn std::fmt::Display,
) -> Result<(), crate::ops::Mismatch> {
    crate::ops::operands::require!(
        is_there == is_expected,
        "{title}: {} is {}, but the semantics are {key}",
        name.replacen("the ", "a ", 1),
        if is_there { "given" } else { "missing" }
    );
    Ok(())
}
