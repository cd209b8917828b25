//! A call of an operator, written as its signature.

/// Calls an operator and gives `$output`.
///
/// `tensors` are those of the signature in order, inputs before outputs: variables of whatever becomes an
/// [`Operand`](crate::call::Operand), a list of tensors with `: list` behind its name. An `Option` that is `None`
/// becomes NULL, which the signature must allow. `constants` are parameters behind a handle, each with the method
/// that gives it ([`ConstantHandles`](crate::call)); `attributes` are the others. `call` is the argument list of
/// phase one, in which the names of tensors and constants stand for their handles.
///
/// The functions are an area's, by their names, or the pair of phases that is at hand: `(one, two) as name`. In
/// front, `prepare` stops before the launch and `once` keeps no executor, for attributes that hardly come again.
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
            // SAFETY: operands live as long as the plan, callers leave out only what may be NULL, and there are
            // places for the answers.
            unsafe { phase_one($($argument,)+ workspace, executor) }
        })
    }};
    ($($rest:tt)*) => {
        $crate::ops::aclnn::aclnn!(@prepare $($rest)*)?.launch()
    };
}
pub(in crate::ops) use aclnn;
