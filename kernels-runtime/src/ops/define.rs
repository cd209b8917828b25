//! Macros that define the unchecked parts of operands: accessors, `map` to other tensors, and Burn's trait for
//! arguments of backend extensions.

use super::operands::Described;
use burn::backend::{DispatchAutodiffContext, DispatchTensor};

/// Defines operands: the struct, accessors, an iterator over the tensors in order, and `map` to other tensors. `new`
/// is written by hand beside it, since it checks.
///
/// A field is [`One`] tensor, [`Maybe`] one, a [`List`] or [`Lists`] of them. Operands with integer tensors have two
/// type parameters: `F` for float tensors and `I` for integer tensors. Operands without float tensors name a
/// `PhantomData` field for `F`.
macro_rules! operands {
    (
        $(#[$doc:meta])*
        $Name:ident<T> {
            $( $(#[$tensor_doc:meta])* $tensor:ident: $kind:ident, )*
        }
        numbers { $( $(#[$number_doc:meta])* $number:ident: $Number:ty, )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $Name<T> {
            $( $tensor: $crate::ops::define::$kind<T>, )*
            $( $number: $Number, )*
        }

        #[allow(dead_code)] // Not every operation uses each.
        impl<T> $Name<T> {
            $crate::ops::define::access! {
                T { $( $(#[$tensor_doc])* $tensor: $kind, )* }
                numbers { $( $(#[$number_doc])* $number: $Number, )* }
            }

            /// Returns the tensors, in the order of their accessors here.
            pub fn tensors(&self) -> impl Iterator<Item = &T> {
                let all = std::iter::empty();
                $( let all = all.chain($crate::ops::define::tensors!(iter $kind (&self.$tensor))); )*
                all
            }

            /// Collects the tensors for dispatch.
            pub(crate) fn all(&self) -> smallvec::SmallVec<[&T; 4]> {
                self.tensors().collect()
            }

            /// Returns the owned tensors, in the same order.
            pub(crate) fn into_tensors(self) -> impl Iterator<Item = T> {
                let all = std::iter::empty();
                $( let all = all.chain($crate::ops::define::tensors!(iter $kind (self.$tensor))); )*
                all
            }

            /// Replaces each tensor by another one of the same shape.
            pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> $Name<U> {
                $Name {
                    $( $tensor: $crate::ops::define::tensors!(map $kind (self.$tensor) each), )*
                    $( $number: self.$number, )*
                }
            }

            /// Works like `map`, for callers that also map integer tensors. These operands have none.
            fn map_floats<U, I, J>(
                self,
                float: impl FnMut(T) -> U,
                _: impl FnMut(I) -> J,
            ) -> $Name<U> {
                self.map(float)
            }

            fn no_ints(&self) -> impl Iterator<Item = &T> {
                std::iter::empty()
            }

            pub(crate) fn as_ref(&self) -> $Name<&T> {
                $Name {
                    $( $tensor: $crate::ops::define::tensors!(ref $kind (&self.$tensor)), )*
                    $( $number: self.$number.clone(), )*
                }
            }
        }

        $crate::ops::define::extension_type!($Name<FloatTensor>, map_floats tensors no_ints);
    };
    (
        $(#[$doc:meta])*
        $Name:ident<F, I>
        floats { $( $(#[$float_doc:meta])* $float:ident: $kind:ident, )* }
        ints { $( $(#[$int_doc:meta])* $int:ident, )* }
        numbers { $( $(#[$number_doc:meta])* $number:ident: $Number:ty, )* }
        $( without floats: $kind_of_floats:ident )?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $Name<F, I> {
            $( $float: $crate::ops::define::$kind<F>, )*
            $( $int: I, )*
            $( $number: $Number, )*
            $( $kind_of_floats: std::marker::PhantomData<F>, )?
        }

        impl<F, I> $Name<F, I> {
            $crate::ops::define::access! {
                F { $( $(#[$float_doc])* $float: $kind, )* }
                numbers { $( $(#[$number_doc])* $number: $Number, )* }
            }
            $crate::ops::define::access! { I { $( $(#[$int_doc])* $int: One, )* } numbers {} }

            /// Returns the float tensors, in the order of their accessors here.
            pub fn floats(&self) -> impl Iterator<Item = &F> {
                let all = std::iter::empty();
                $( let all = all.chain($crate::ops::define::tensors!(iter $kind (&self.$float))); )*
                all
            }

            /// Collects the float tensors for dispatch. Integer tensors don't affect which kernel can run.
            #[allow(dead_code)] // Not every operation is run by sites.
            pub(crate) fn all(&self) -> smallvec::SmallVec<[&F; 4]> {
                self.floats().collect()
            }

            /// Returns the integer tensors.
            pub fn ints(&self) -> impl Iterator<Item = &I> {
                let ints: [&I; _] = [$(&self.$int),*];
                ints.into_iter()
            }

            /// Replaces each tensor by another one of the same shape.
            #[allow(unused_mut, unused_variables)] // Operands may have no float tensors.
            pub(crate) fn map<G, J>(
                self,
                mut float: impl FnMut(F) -> G,
                mut int: impl FnMut(I) -> J,
            ) -> $Name<G, J> {
                $Name {
                    $( $float: $crate::ops::define::tensors!(map $kind (self.$float) float), )*
                    $( $int: int(self.$int), )*
                    $( $number: self.$number, )*
                    $( $kind_of_floats: std::marker::PhantomData, )?
                }
            }
        }

        $crate::ops::define::extension_type!($Name<FloatTensor, IntTensor>, map floats ints);
    };
}
pub(crate) use operands;

/// Defines how a site runs an operation: the function type, which implementations of other crates share, the method
/// that runs an implementation, and the function that runs this crate's kernel.
macro_rules! launched {
    ($Operands:ty => $Output:ty, $kernel:expr) => {
        /// The function that runs the operation's kernel.
        pub type Launch = fn($Operands) -> $Output;

        impl $Operands {
            /// Runs an implementation that dispatch chose for these tensors.
            pub(crate) fn run(self, implementation: &$crate::registry::Implementation) -> $Output {
                implementation.launch::<Launch>()(self)
            }
        }

        /// Runs the kernel. Dispatch has already found one for these tensors.
        pub(crate) fn launch(operands: $Operands) -> $Output {
            let kernel: Launch = $kernel;
            kernel(operands)
        }
    };
}
pub(crate) use launched;

/// Defines the operands of a backward pass: the operands of the forward pass, further tensors, and the numbers and
/// flags that state which gradients are wanted. The function that constructs them checks them.
macro_rules! backward {
    (
        $(#[$doc:meta])*
        $Name:ident<$($T:ident),+> of $Operands:ty {
            $( $(#[$tensor_doc:meta])* $tensor:ident: $Tensor:ident, )+
        }
        $( flag { $(#[$flag_doc:meta])* $flag:ident } )?
        $( wanted { $(#[$wanted_doc:meta])* $wanted:ident: $Wanted:ty } )?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $Name<$($T),+> {
            operands: $Operands,
            $( $tensor: $Tensor, )+
            $( $flag: bool, )?
            $( $wanted: $Wanted, )?
        }

        impl<$($T),+> $Name<$($T),+> {
            /// The operands of the forward pass.
            pub fn operands(&self) -> &$Operands {
                &self.operands
            }
            $(
                $(#[$tensor_doc])*
                pub fn $tensor(&self) -> &$Tensor {
                    &self.$tensor
                }
            )+
            $(
                $(#[$flag_doc])*
                pub fn $flag(&self) -> bool {
                    self.$flag
                }
            )?
            $(
                $(#[$wanted_doc])*
                pub fn $wanted(&self) -> &$Wanted {
                    &self.$wanted
                }
            )?

            /// The operands of the forward pass, the other tensors, and the wanted gradients.
            pub fn into_parts(self) -> ($Operands, $($Tensor,)+ $($Wanted)?) {
                (self.operands, $(self.$tensor,)+ $(self.$wanted)?)
            }
        }

        #[cfg(any(feature = "gpu", feature = "npu"))]
        $crate::ops::define::map_backward! { $Name<$($T),+> { $($tensor)+ } { $($flag)? $($wanted)? } }
    };
}
pub(crate) use backward;

/// Defines `map` for the operands of a backward pass.
#[cfg(any(feature = "gpu", feature = "npu"))]
macro_rules! map_backward {
    ($Name:ident<T> { $($tensor:ident)+ } { $($other:ident)* }) => {
        impl<T> $Name<T> {
            /// Replaces each tensor by another one of the same shape.
            #[allow(dead_code)] // Compositions of other operations don't use it.
            pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> $Name<U> {
                $Name {
                    $( $tensor: each(self.$tensor), )+
                    $( $other: self.$other, )*
                    operands: self.operands.map(each),
                }
            }
        }
    };
    ($Name:ident<F, I> { $($tensor:ident)+ } { $($other:ident)* }) => {
        impl<F, I> $Name<F, I> {
            /// Replaces each tensor by another one of the same shape.
            #[allow(dead_code)] // Not every operation has a kernel for NPUs.
            pub(crate) fn map<G, J>(
                self,
                mut float: impl FnMut(F) -> G,
                int: impl FnMut(I) -> J,
            ) -> $Name<G, J> {
                $Name {
                    $( $tensor: float(self.$tensor), )+
                    $( $other: self.$other, )*
                    operands: self.operands.map(float, int),
                }
            }
        }
    };
}
#[cfg(any(feature = "gpu", feature = "npu"))]
pub(crate) use map_backward;

/// One tensor.
pub(crate) type One<T> = T;
/// An optional tensor.
pub(crate) type Maybe<T> = Option<T>;
/// Several tensors.
pub(crate) type List<T> = Vec<T>;
/// Several groups of tensors.
pub(crate) type Lists<T> = Vec<Vec<T>>;

/// Defines the accessors of tensors, which return references, and of numbers.
macro_rules! access {
    (
        $T:ident { $( $(#[$tensor_doc:meta])* $tensor:ident: $kind:ident, )* }
        numbers { $( $(#[$number_doc:meta])* $number:ident: $Number:ty, )* }
    ) => {
        $(
            $(#[$tensor_doc])*
            pub fn $tensor(&self) -> $crate::ops::define::tensors!(type_of_ref $kind $T) {
                $crate::ops::define::tensors!(get $kind (&self.$tensor))
            }
        )*
        $(
            $(#[$number_doc])*
            pub fn $number(&self) -> $Number {
                // Most are `Copy`, for which the method's name would be a warning.
                Clone::clone(&self.$number)
            }
        )*
    };
}
pub(crate) use access;

/// Expands to the code for a field of one of the four kinds.
macro_rules! tensors {
    (dispatched $Tensor:ident) => { ::burn::backend::DispatchTensor };
    (type_of_ref One $T:ident) => { &$T };
    (type_of_ref Maybe $T:ident) => { Option<&$T> };
    (type_of_ref List $T:ident) => { &[$T] };
    (type_of_ref Lists $T:ident) => { &[Vec<$T>] };
    (get Maybe $of:tt) => { $of.as_ref() };
    (get $kind:ident $of:tt) => { $of };
    (iter One $of:tt) => { std::iter::once($of) };
    (iter Lists $of:tt) => { $of.into_iter().flatten() };
    (iter $kind:ident $of:tt) => { $of.into_iter() };
    (map One $of:tt $each:ident) => { $each($of) };
    (map Maybe $of:tt $each:ident) => { $of.map(&mut $each) };
    (map List $of:tt $each:ident) => { $of.into_iter().map(&mut $each).collect() };
    (map Lists $of:tt $each:ident) => {
        $of.into_iter()
            .map(|list| list.into_iter().map(&mut $each).collect())
            .collect()
    };
    (ref Maybe $of:tt) => { $of.as_ref() };
    (ref List $of:tt) => { $of.iter().collect() };
    (ref One $of:tt) => { $of };
}
pub(crate) use tensors;

/// Makes operands arguments of Burn's backend extensions. The type has a method `$map`, which takes one function for
/// float tensors and one for integer tensors, and the methods `$floats` and `$ints`, which together return all tensors.
macro_rules! extension_type {
    ($Operands:ident<$($Tensor:ident),+>, $map:ident $floats:ident $ints:ident) => {
        impl<B: ::burn::backend::Backend> ::burn::backend::ExtensionType<B>
            for $Operands<$(::burn::backend::tensor::$Tensor<B>),+>
        {
            type Target = $Operands<$($crate::ops::define::tensors!(dispatched $Tensor)),+>;

            fn map_to_dispatch<F>(
                self,
                map_kind: F,
                autodiff: ::burn::backend::DispatchAutodiffContext,
            ) -> Self::Target
            where
                F: Fn(::burn::backend::BackendTensor<B>) -> ::burn::backend::DispatchTensorKind,
            {
                use ::burn::backend::{BackendTensor, DispatchTensor};
                use $crate::ops::define::exchanged;
                let wrap = |tensor| DispatchTensor {
                    kind: map_kind(tensor),
                    autodiff,
                };
                self.$map(
                    |tensor| exchanged(tensor, |tensor| wrap(BackendTensor::Float(tensor))),
                    |tensor| exchanged(tensor, |tensor| wrap(BackendTensor::Int(tensor))),
                )
            }

            fn map_from_dispatch<F>(target: Self::Target, unwrap_kind: F) -> Self
            where
                F: Fn(::burn::backend::DispatchTensor) -> ::burn::backend::BackendTensor<B>,
            {
                use $crate::ops::define::exchanged;
                target.$map(
                    |tensor| exchanged(tensor, |tensor| unwrap_kind(tensor).float()),
                    |tensor| exchanged(tensor, |tensor| unwrap_kind(tensor).int()),
                )
            }

            fn routing_tensor(target: &Self::Target) -> Option<&::burn::backend::DispatchTensor> {
                target.$floats().next().or_else(|| target.$ints().next())
            }

            fn routing_float_tensor(
                target: &Self::Target,
            ) -> Option<&::burn::backend::DispatchTensor> {
                target.$floats().next()
            }

            fn autodiff_context(target: &Self::Target) -> ::burn::backend::DispatchAutodiffContext {
                $crate::ops::define::autodiff_context(target.$floats().chain(target.$ints()))
            }
        }
    };
}
pub(crate) use extension_type;

/// Exchanges a checked operand for the same tensor of another backend. Panics if the shape or dtype changes: Burn's
/// traits are public, so `exchange` may come from outside, and a tensor of another shape or dtype would be an
/// unchecked operand.
pub(crate) fn exchanged<T: Described, U: Described>(tensor: T, exchange: impl FnOnce(T) -> U) -> U {
    let (shape, dtype) = (tensor.shape(), tensor.dtype());
    let other = exchange(tensor);
    assert!(
        other.shape() == shape && other.dtype() == dtype,
        "an operand, {:?} of {dtype:?}, was exchanged for {:?} of {:?}",
        shape.as_slice(),
        other.shape().as_slice(),
        other.dtype()
    );
    other
}

/// Returns the context in which an operation on all these tensors runs.
pub(crate) fn autodiff_context<'a>(
    tensors: impl Iterator<Item = &'a DispatchTensor>,
) -> DispatchAutodiffContext {
    tensors.fold(DispatchAutodiffContext::Disabled, |context, tensor| {
        context.merge(tensor.autodiff)
    })
}
