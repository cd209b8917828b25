//! Checks a function's signature, apart from its operands.

use syn::{FnArg, Receiver, ReturnType, Signature, Type};

use crate::contract::Returns;
use crate::errors::Errors;

/// Reports what no dispatched call can take over from the signature.
pub(super) fn check_signature(signature: &Signature, errors: &mut Errors) {
    check_qualifiers(signature, errors);
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
        check_receiver(receiver, errors);
    }
}

/// The body moves into a plain function that is called from a closure.
fn check_qualifiers(signature: &Signature, errors: &mut Errors) {
    if let Some(token) = &signature.constness {
        errors.at(token, "a kernel cannot run in a constant; remove `const`");
    }
    if let Some(token) = &signature.asyncness {
        errors.at(
            token,
            "kernels are launched without waiting; remove `async`",
        );
    }
    if let Some(token) = &signature.unsafety {
        errors.at(
            token,
            "the kernel is safe to call; remove `unsafe` and use an unsafe block in the body",
        );
    }
    if let Some(token) = &signature.abi {
        errors.at(
            token,
            "a function over tensors has Rust's own ABI; remove `extern`",
        );
    }
}

/// The reference and the projections borrow the layer at the same time.
fn check_receiver(receiver: &Receiver, errors: &mut Errors) {
    let shared = receiver.mutability.is_none()
        && match &receiver.reference {
            Some(_) => true,
            None => matches!(receiver.ty.as_ref(), Type::Reference(ty) if ty.mutability.is_none()),
        };
    if !shared {
        errors.at(receiver, "the kernel reads the layer; take `&self`");
    }
}

/// Reports a result that is not the kernel's.
pub(super) fn check_return(signature: &Signature, returns: Returns, errors: &mut Errors) {
    let ReturnType::Type(_, written) = &signature.output else {
        let expected = match returns {
            Returns::Tensor | Returns::PairWith { .. } => "Tensor<D>",
            Returns::Pair { written, .. } => written,
            Returns::WithLogits => "(Tensor<D>, Tensor<2>)",
            Returns::Loss => "Tensor<1>",
        };
        errors.at(
            &signature.ident,
            format!("the kernel returns a value; write `-> {expected}`"),
        );
        return;
    };
    let fields = match written.as_ref() {
        Type::Tuple(tuple) => Some(tuple.elems.len()),
        written if is_named_tensor(written) => None,
        // An alias or a type parameter: rustc compares it with what the runtime returns.
        _ => return,
    };
    match (returns, fields) {
        (Returns::Pair { .. } | Returns::WithLogits, Some(2))
        | (Returns::Tensor | Returns::PairWith { .. } | Returns::Loss, None) => {}
        (
            Returns::Pair {
                does,
                written: both,
            },
            _,
        ) => errors.at(written, format!("the kernel {does}; return both, `{both}`")),
        (Returns::WithLogits, _) => errors.at(
            written,
            "the router's logits are always returned, for the load balancing loss: \
             `(Tensor<D>, Tensor<2>)`",
        ),
        (Returns::Tensor | Returns::PairWith { .. }, Some(_)) => {
            errors.at(written, "the kernel returns one tensor, `Tensor<D>`")
        }
        (Returns::Loss, Some(_)) => errors.at(written, "the kernel returns the loss, `Tensor<1>`"),
    }
}

/// `true` for a result that is written `Tensor<..>`.
pub(super) fn returns_one(signature: &Signature) -> bool {
    matches!(&signature.output, ReturnType::Type(_, written) if is_named_tensor(written))
}

fn is_named_tensor(written: &Type) -> bool {
    let Type::Path(path) = written else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == "Tensor")
}
