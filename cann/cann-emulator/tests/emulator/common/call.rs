//! Calls of operators.

use std::ffi::{CStr, c_char};
use std::fmt::Debug;

use super::{Ints, List, Scalar, Tensor, aclIntArray, aclScalar, aclTensor, aclTensorList};

/// Runs an operator on the default stream and waits: `call!(aclnnAdd: x, y, alpha, out)`. Tensors, scalars, arrays and
/// texts stand for their handles, and `None` for NULL.
macro_rules! call {
    ($operator:ident: $($argument:expr),* $(,)?) => {
        $crate::common::run(
            // SAFETY: handles are checked, texts and arrays are valid for as long as they say, the places are variables.
            |size, executor| unsafe {
                (<$operator as cann_emulator::abi::operator::Operator>::ONE)(
                    $($crate::common::Argument::argument(&$argument),)*
                    size,
                    executor,
                )
            },
            <$operator as cann_emulator::abi::operator::Operator>::TWO,
        )
    };
}
pub(crate) use call;

/// Makes a table of operators with one signature. A row has the name, the call and what the operator's line adds:
/// `operators! { OfTwo (x, rhs, out): aclnnAdd, 3; aclnnMul, 2; }`. With two signatures, a line has two operators.
macro_rules! operators {
    ($type:ident $parameters:tt: $($operator:ident $(, $more:expr)*;)+) => {
        [$((stringify!($operator), $crate::common::operators!(@ $type $parameters $operator) $(, $more)*)),+]
    };
    ($type:ident $parameters:tt, $place:ident $places:tt: $($operator:ident, $in_place:ident;)+) => {
        [$((
            stringify!($operator),
            $crate::common::operators!(@ $type $parameters $operator),
            $crate::common::operators!(@ $place $places $in_place),
        )),+]
    };
    (@ $type:ident ($($parameter:ident),+) $operator:ident) => {
        (|$($parameter),+| $crate::common::call!($operator: $($parameter),+)) as $type
    };
}
pub(crate) use operators;

/// Calls a check with each row of a table: `each! { refused: status, "why"; … }`.
macro_rules! each {
    ($check:ident: $($($argument:expr),+);+ $(;)?) => { $($check($($argument),+);)+ };
}
pub(crate) use each;

/// As `assert_eq!`, for the rows of a table.
#[track_caller]
pub fn assert_same<T: PartialEq<U> + Debug, U: Debug>(found: T, expected: U) {
    assert_eq!(found, expected);
}

/// A value that converts to an argument of the type `T`.
pub trait Argument<T> {
    fn argument(&self) -> T;
}

impl<T, A: Argument<T> + ?Sized> Argument<T> for &A {
    fn argument(&self) -> T {
        (**self).argument()
    }
}

macro_rules! own {
    ($($type:ty)*) => {$(
        impl Argument<$type> for $type {
            fn argument(&self) -> $type {
                *self
            }
        }
    )*};
}

own! { bool i8 i32 i64 u64 f32 f64 cann_sys::meta::aclDataType }

impl<T> Argument<*const T> for *const T {
    fn argument(&self) -> *const T {
        *self
    }
}

impl<T> Argument<*const T> for *mut T {
    fn argument(&self) -> *const T {
        *self
    }
}

impl<T> Argument<*mut T> for *mut T {
    fn argument(&self) -> *mut T {
        *self
    }
}

/// Lets objects, and those that may be missing, stand for their handles.
macro_rules! handles {
    ($($object:ty, $handle:ty: |$own:ident| $get:expr;)*) => {$(
        impl Argument<*const $handle> for $object {
            fn argument(&self) -> *const $handle {
                let $own = self;
                $get
            }
        }

        impl Argument<*mut $handle> for $object {
            fn argument(&self) -> *mut $handle {
                let $own = self;
                $get.cast_mut()
            }
        }

        impl Argument<*const $handle> for Option<&$object> {
            fn argument(&self) -> *const $handle {
                self.map_or(std::ptr::null(), |object| object.argument())
            }
        }

        impl Argument<*mut $handle> for Option<&$object> {
            fn argument(&self) -> *mut $handle {
                self.map_or(std::ptr::null_mut(), |object| object.argument())
            }
        }
    )*};
}

handles! {
    Tensor, aclTensor: |tensor| tensor.handle.cast_const();
    Scalar, aclScalar: |scalar| scalar.0.cast_const();
    Ints, aclIntArray: |array| array.0.cast_const();
    List, aclTensorList: |list| list.0.cast_const();
    CStr, c_char: |text| text.as_ptr();
}
