//! Checks a function's signature, apart from its operands.

use syn::{FnArg, PatType, Receiver, ReturnType, Signature, Type};

use crate::contract::Returns;
use crate::errors::Errors;

/// Reports what no dispatched call can take over from the signature.
pub(super) fn check_signature(signature: &Signature, errors: &mut Errors) {
    check_qualifiers(signature, errors);
    check_parameters(signature, errors);
    check_result(&signature.output, errors);
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

/// The kernel and the reference read the same parameters.
fn check_parameters(signature: &Signature, errors: &mut Errors) {
    for input in &signature.inputs {
        if let FnArg::Typed(typed) = input
            && let Type::Reference(reference) = typed.ty.as_ref()
            && reference.mutability.is_some()
        {
            let message = "a kernel changes nothing that it is lent, and verification runs the body again; take `&`";
            errors.at(&typed.ty, message);
        }
        let (FnArg::Receiver(Receiver { attrs, .. }) | FnArg::Typed(PatType { attrs, .. })) = input;
        if let Some(condition) = attrs.iter().find(|one| one.path().is_ident("cfg")) {
            errors.at(
                condition,
                "the kernel and the body take this parameter always; write a function for each case, each under its \
                 own `cfg`",
            );
        }
    }
}

/// The kernel and the reference, which is a function of its own, return one type.
fn check_result(output: &ReturnType, errors: &mut Errors) {
    if let ReturnType::Type(_, written) = output
        && let Type::ImplTrait(_) = written.as_ref()
    {
        errors.at(
            written,
            "`impl` hides the type that the kernel and the body return; write the type, as in `-> Tensor<D>`",
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
    let expected = match returns {
        Returns::Tensor | Returns::PairWith { .. } => "Tensor<D>",
        Returns::Pair { written, .. } => written,
        Returns::WithLogits => "(Tensor<D>, Tensor<2>)",
        Returns::Loss => "Tensor<1>",
    };
    let ReturnType::Type(_, written) = &signature.output else {
        errors.at(
            &signature.ident,
            format!("the kernel returns a value; write `-> {expected}`"),
        );
        return;
    };
    let fields = match written.as_ref() {
        Type::Tuple(tuple) => Some(tuple.elems.len()),
        written if is_named(written, &["Tensor"]) => None,
        written if is_named(written, &["Result", "Option"]) => {
            let message = format!(
                "the kernel always returns a value; write `-> {expected}`, and check what may fail before the call"
            );
            errors.at(written, message);
            return;
        }
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
    matches!(&signature.output, ReturnType::Type(_, written) if is_named(written, &["Tensor"]))
}

fn is_named(written: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = written else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}
