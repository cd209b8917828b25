//! The definition of an operator: the names of its phases and of its parameters, and what phase one does.
//!
//! The prototype is said once, in `cann-sys`. [`Prototype`] lists its parameters, and `operator!` takes their types
//! from there.

use cann_sys::meta::{aclDataType, aclOpExecutor, aclTensor};
use cann_sys::types::{aclnnStatus, aclrtStream};

use crate::error::Outcome;
use crate::executor::Operands;
use crate::tensor::Tensor;

/// Phase two of any operator.
pub type PhaseTwo = unsafe extern "C" fn(
    *mut std::ffi::c_void,
    u64,
    *mut aclOpExecutor,
    aclrtStream,
) -> aclnnStatus;

/// The phases of an operator, for callers in Rust. The type has the name of phase two.
pub trait Operator {
    /// The prototype of phase one.
    type One;
    const ONE: Self::One;
    const TWO: PhaseTwo;
}

/// The types of the parameters of a prototype: pairs of the first and all others.
pub trait Prototype {
    type Parameters;
}

/// A first parameter and those behind it.
pub trait Parameters {
    type First;
    type Rest;
}

impl<First, Rest> Parameters for (First, Rest) {
    type First = First;
    type Rest = Rest;
}

macro_rules! pairs {
    () => { () };
    ($first:ident $($rest:ident)*) => { ($first, pairs!($($rest)*)) };
}

macro_rules! prototypes {
    () => {};
    ($first:ident $($rest:ident)*) => {
        impl<$first, $($rest),*> Prototype for unsafe extern "C" fn($first, $($rest),*) -> aclnnStatus {
            type Parameters = pairs!($first $($rest)*);
        }
        prototypes!($($rest)*);
    };
}

// As many as the longest prototype has.
prototypes! {
    A B C D E F G H I J K L M N O P Q R S T U V W X Y Z
    A1 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 L1 M1 N1 O1 P1 Q1 R1 S1 T1 U1 V1 W1 X1 Y1 Z1
}

/// Exports both phases of an operator of an area of `cann-sys`. The body is phase one: it takes and checks the
/// operands and returns the work. The last two parameters, those for the size of the workspace and for the executor,
/// are implied.
macro_rules! operator {
    ($area:ident: $one:ident, $two:ident($($parameter:ident),* $(,)?) |$operands:ident| $($body:tt)*) => {
        $crate::abi::operator::operator! {
            @phase_one [] [<cann_sys::$area::$one as $crate::abi::operator::Prototype>::Parameters]
            [$($parameter)*] $one, $two |$operands| { $($body)* }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $two(
            workspace: *mut std::ffi::c_void,
            workspace_size: u64,
            executor: *mut cann_sys::meta::aclOpExecutor,
            stream: cann_sys::types::aclrtStream,
        ) -> cann_sys::types::aclnnStatus {
            $crate::executor::phase_two(stringify!($two), workspace, workspace_size, executor, stream)
        }
        $crate::abi::exports!($area: $one, $two);

        pub enum $two {}

        impl $crate::abi::operator::Operator for $two {
            type One = cann_sys::$area::$one;
            const ONE: Self::One = $one;
            const TWO: $crate::abi::operator::PhaseTwo = $two;
        }
    };
    // Gives each parameter the first of the types that are left.
    (@phase_one [$($typed:tt)*] [$types:ty] [$parameter:ident $($rest:ident)*] $($tail:tt)*) => {
        $crate::abi::operator::operator! {
            @phase_one [$($typed)* $parameter: <$types as $crate::abi::operator::Parameters>::First,]
            [<$types as $crate::abi::operator::Parameters>::Rest] [$($rest)*] $($tail)*
        }
    };
    (@phase_one [$($typed:tt)*] [$types:ty] [] $one:ident, $two:ident |$operands:ident| $body:tt) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            $($typed)*
            workspace_size: *mut u64,
            executor: *mut *mut cann_sys::meta::aclOpExecutor,
        ) -> cann_sys::types::aclnnStatus {
            $crate::executor::phase_one(stringify!($two), workspace_size, executor, |$operands| $body)
        }
    };
}
pub(crate) use operator;

/// The place of a result.
#[derive(Clone, Copy)]
pub(crate) enum To {
    Output(*const aclTensor),
    /// The first operand.
    Itself,
}

impl To {
    /// Takes the first operand.
    pub(crate) fn input(
        self,
        operands: &mut Operands,
        input: *const aclTensor,
        dtypes: &[aclDataType],
    ) -> Outcome<Tensor> {
        match self {
            Self::Output(_) => operands.view("self", input, dtypes),
            Self::Itself => operands.target("selfRef", input, dtypes),
        }
    }

    /// Takes the output of a result that is like the first operand.
    pub(crate) fn like(self, operands: &mut Operands, input: &Tensor) -> Outcome<()> {
        match self {
            Self::Output(output) => {
                operands.result("out", output, input.dtype, &input.shape)?;
            }
            Self::Itself => {}
        }
        Ok(())
    }
}

/// Exports an operator, whose output is its last parameter, and its form in place, if it has one. The body is that of
/// both.
macro_rules! with_place {
    ($area:ident: $one:ident, $two:ident ($($parameter:ident),+) |$operands:ident, $to:ident| $($body:tt)*) => {
        $crate::abi::operator::operator! { $area: $one, $two($($parameter,)+ output) |$operands|
            let $to = $crate::abi::operator::To::Output(output);
            $($body)*
        }
    };
    ($area:ident: $one:ident, $two:ident; $place_one:ident, $place_two:ident
        ($input:ident $(, $parameter:ident)*) |$operands:ident, $to:ident| $($body:tt)*) => {
        $crate::abi::operator::with_place! {
            $area: $one, $two ($input $(, $parameter)*) |$operands, $to| $($body)*
        }
        $crate::abi::operator::operator! { $area: $place_one, $place_two($input $(, $parameter)*) |$operands|
            let ($input, $to) = ($input as *const _, $crate::abi::operator::To::Itself);
            $($body)*
        }
    };
}
pub(crate) use with_place;
