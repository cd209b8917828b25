//! A call of an operator, written as its signature.

/// Calls an operator and returns `$output`.
///
/// * `tensors` are the operands in the order of the signature, inputs before outputs. Each is a variable that converts
///   to an [`Operand`](crate::call::Operand); a list of tensors has `: list` after its name. An `Option` that is
///   `None` becomes NULL, which the signature must allow.
/// * `constants` are the parameters that need a handle, each with the method that returns it
///   ([`ConstantHandles`](crate::call)).
/// * `attributes` are all other parameters.
/// * `call` is the argument list of phase one. In it, the names of tensors and constants stand for their handles.
///
/// The functions are given by the name of their area and their own names, or as a pair of phases:
/// `(one, two) as name`. With `prepare` in front, the call stops before the launch. With `once`, no executor is kept,
/// for attributes that hardly come again.
macro_rules! aclnn {
    (prepare $($rest:tt)*) => {
        $crate::ops::aclnn::aclnn!(@prepare $($rest)*)
    };
    (once $($rest:tt)*) => {
        $crate::ops::aclnn::aclnn!(@prepare_once $($rest)*)?.launch()
    };
    (@handle $operands:ident, $place:expr) => {
        $operands.tensor($place)
    };
    (@handle $operands:ident, $place:expr, list) => {
        $operands.list($place)
    };
    (@$prepare:ident $stream:expr, $area:ident.$one:ident, $two:ident, $($rest:tt)*) => {{
        let device = $stream.device();
        let area = &device.cann().sys().$area;
        let phases = (area.$one.get()?, area.$two.get()?);
        $crate::ops::aclnn::aclnn!(@$prepare $stream, phases as $two, $($rest)*)
    }};
    (
        @$prepare:ident $stream:expr, $phases:tt as $operator:ident,
        tensors [$($tensor:ident $(: $list:ident)?),+ $(,)?],
        constants [$($constant:ident: $kind:ident = $value:expr),* $(,)?],
        attributes [$($attribute:expr),* $(,)?],
        call($($argument:expr),+ $(,)?),
        $output:expr $(,)?
    ) => {{
        let (phase_one, phase_two) = $phases;
        let request = $crate::call::Request {
            stream: $stream,
            operator: stringify!($operator),
            operands: vec![$($tensor.into()),+],
            attributes: vec![$($crate::call::Attribute::from($attribute)),*],
            phase_two,
        };
        let constants: &[$crate::call::Constant] = &[$($value),*];
        request.$prepare($output, constants, |operands, answer| {
            let mut places = 0..;
            let mut next = || places.next().unwrap_or_default();
            $(let $tensor = $crate::ops::aclnn::aclnn!(@handle operands, next() $(, $list)?);)+
            let mut _places = 0..;
            $(let $constant = operands.constants().$kind(_places.next().unwrap_or_default());)*
            let (workspace, executor) = (&mut answer.workspace, &mut answer.executor);
            // SAFETY: operands live as long as the plan, callers leave out only operands that may be NULL, and there
            // are places for the answers.
            unsafe { phase_one($($argument,)+ workspace, executor) }
        })
    }};
    ($($rest:tt)*) => {
        $crate::ops::aclnn::aclnn!(@prepare $($rest)*)?.launch()
    };
}
pub(in crate::ops) use aclnn;
