//! A call of an operator of tensors, written as its signature.

/// Calls an operator and gives `$output`.
///
/// `tensors` are those of the signature in order, inputs before outputs, variables of type `&Tensor`;
/// `constants` are parameters behind a handle, each with the method that gives it
/// ([`ConstantHandles`](crate::call)); `attributes` are the others. `call` is the argument list of phase one,
/// in which the names of tensors and constants stand for their handles. `once` in front keeps no executor, for
/// attributes that hardly come again.
macro_rules! aclnn {
    (once $($rest:tt)*) => {
        super::aclnn::aclnn!(@prepare_once $($rest)*)
    };
    (
        @$prepare:ident $stream:expr, $area:ident.$one:ident, $two:ident,
        tensors [$($tensor:ident),+ $(,)?],
        constants [$($constant:ident: $kind:ident = $value:expr),* $(,)?],
        attributes [$($attribute:expr),* $(,)?],
        call($($argument:expr),+ $(,)?),
        $output:expr $(,)?
    ) => {{
        let device = $stream.device();
        let area = &device.cann().sys().$area;
        let phase_one = area.$one.get()?;
        let request = crate::call::Request {
            stream: $stream,
            operator: stringify!($two),
            operands: vec![$($tensor.into()),+],
            attributes: vec![$(crate::call::Attribute::from($attribute)),*],
            phase_two: area.$two.get()?,
        };
        let constants: &[crate::call::Constant] = &[$($value),*];
        request.$prepare($output, constants, |operands, answer| {
            let [$($tensor),+] = operands.tensors();
            let mut _places = 0..;
            $(let $constant = operands.constants().$kind(_places.next().unwrap_or_default());)*
            let (workspace, executor) = (&mut answer.workspace, &mut answer.executor);
            // SAFETY: operands live as long as the plan, and there are places for the answers.
            unsafe { phase_one($($argument,)+ workspace, executor) }
        })?.launch()
    }};
    ($($rest:tt)*) => {
        super::aclnn::aclnn!(@prepare_with $($rest)*)
    };
}
pub(super) use aclnn;
