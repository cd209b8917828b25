//! The optional flags of a declaration, and their defaults.

/// Accepts the names of flags. Another name, such as a misspelt one, matches no rule.
macro_rules! known {
    (recomputed) => {};
    (adds) => {};
    (no_gradient) => {};
    (others) => {};
    (differentiable) => {};
    (keeps) => {};
    (room) => {};
    (room_backward) => {};
    (dtypes) => {};
    (part) => {};
    (inner) => {};
}
pub(crate) use known;

/// The value of an optional flag of a declaration.
macro_rules! flag {
    ($name:ident []) => { false };
    (recomputed [recomputed $value:tt $($rest:tt)*]) => { $value };
    (adds [adds $value:tt $($rest:tt)*]) => { $value };
    (no_gradient [no_gradient $value:tt $($rest:tt)*]) => { $value };
    (differentiable [differentiable $value:tt $($rest:tt)*]) => { $value };
    ($name:ident [$other:ident $value:tt $($rest:tt)*]) => {
        $crate::ops::fused::flags::flag!($name [$($rest)*])
    };
}
pub(crate) use flag;

/// The number of float results besides the first.
macro_rules! others {
    ([]) => { 0 };
    ([others $value:tt $($rest:tt)*]) => { $value };
    ([$other:ident $value:tt $($rest:tt)*]) => {
        $crate::ops::fused::flags::others!([$($rest)*])
    };
}
pub(crate) use others;

/// The tensors that the backward pass reads: all, or what `keeps` says of a place and the wanted gradients.
macro_rules! keeps {
    ([] $place:ident $wanted:ident) => {{
        let _ = ($place, $wanted);
        true
    }};
    ([keeps $value:tt $($rest:tt)*] $place:ident $wanted:ident) => {{
        let keeps: fn(usize, &Each<bool>) -> bool = $value;
        keeps($place, $wanted)
    }};
    ([$other:ident $value:tt $($rest:tt)*] $place:ident $wanted:ident) => {
        $crate::ops::fused::flags::keeps!([$($rest)*] $place $wanted)
    };
}
pub(crate) use keeps;

/// The bytes that kernels need besides: none, or what the function returns that `room` is set to.
macro_rules! room {
    ([] $operands:ident) => {{
        let _ = $operands;
        0
    }};
    ([room $room:tt $($rest:tt)*] $operands:ident) => { $room($operands) };
    ([$other:ident $value:tt $($rest:tt)*] $operands:ident) => {
        $crate::ops::fused::flags::room!([$($rest)*] $operands)
    };
}
pub(crate) use room;

/// As [`room`] for the backward pass, by a function of the operands and the wanted gradients.
macro_rules! room_backward {
    ([] $operands:ident $wanted:ident) => {{
        let _ = ($operands, $wanted);
        0
    }};
    ([room_backward $room:tt $($rest:tt)*] $operands:ident $wanted:ident) => {
        $room($operands, $wanted)
    };
    ([$other:ident $value:tt $($rest:tt)*] $operands:ident $wanted:ident) => {
        $crate::ops::fused::flags::room_backward!([$($rest)*] $operands $wanted)
    };
}
pub(crate) use room_backward;

/// The dtype of the float tensors: the common one, or what the function returns that `dtypes` is set to.
macro_rules! dtype {
    ([] $operands:ident $title:literal $named:ident) => {
        $crate::ops::operands::one_dtype($title, $named)
    };
    ([dtypes $dtypes:tt $($rest:tt)*] $operands:ident $title:literal $named:ident) => {{
        drop($named);
        $dtypes($operands)
    }};
    ([$other:ident $value:tt $($rest:tt)*] $operands:ident $title:literal $named:ident) => {
        $crate::ops::fused::flags::dtype!([$($rest)*] $operands $title $named)
    };
}
pub(crate) use dtype;
