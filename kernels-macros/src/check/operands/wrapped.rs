//! Fields that hold whole layers where the kernel looks for their parts.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::{Field, GenericParam, Generics, Type, TypeParamBound, WherePredicate};

use super::Wanted;
use crate::contract::{Operand, Role};
use crate::errors::Errors;
use crate::target::Struct;

/// Burn's own layers that compute what a kernel computes, and have a counterpart of the same name in
/// `burn_kernels::nn`, with how to make that.
const LAYERS: &[(&str, &str, &str)] = &[
    ("npu_fused_rmsnorm", "RmsNorm", INTO),
    // Burn's layer keeps its epsilon to itself.
    (
        "npu_fused_layernorm",
        "LayerNorm",
        "`LayerNorm::init` makes one of Burn's configuration",
    ),
    ("npu_fused_linear", "Linear", INTO),
    ("npu_fused_swiglu", "SwiGlu", INTO),
    ("npu_fused_rope", "RotaryEncoding", INTO),
];

const INTO: &str = "`.into()` makes one of Burn's";

/// Traits that say nothing of a `forward`.
const WITHOUT_FORWARD: &[&str] = &[
    "Module",
    "ModuleDisplay",
    "ModuleDisplayDefault",
    "AutodiffModule",
    "Debug",
    "Display",
    "Clone",
    "Copy",
    "Default",
    "Send",
    "Sync",
    "Sized",
    "PartialEq",
    "Eq",
];

/// Refuses a struct around Burn's own layer, whose parts are out of sight: one error in place of one for each part.
/// Returns `true` if it did.
pub(super) fn refuse_burns_layer(
    wanted: &Wanted<'_>,
    target: &Struct,
    errors: &mut Errors,
) -> bool {
    let Some((_, layer, how)) = LAYERS.iter().find(|(id, ..)| *id == wanted.contract.id) else {
        return false;
    };
    let is_absent = |operand: &Operand| {
        !operand.role.flows()
            && !operand.when.is_optional()
            && wanted.attribute.get(operand.name).is_none()
            && !fields(target).any(|(name, _)| operand.usual.iter().any(|usual| name == usual))
    };
    let mut wrapping = fields(target).filter(|(_, field)| is_named(&field.ty, layer));
    match wrapping.next() {
        Some((name, _)) if wanted.operands().any(is_absent) => {
            let id = wanted.contract.id;
            errors.at(
                name.clone(),
                format!(
                    "`{id}` reads the parts of a layer, and `{name}` holds them inside Burn's `{layer}`\n\
                     write `{name}: burn_kernels::nn::{layer}`, which runs this kernel ({how}), and remove \
                     the attribute"
                ),
            );
            true
        }
        _ => false,
    }
}

/// Refuses a layer whose type is a parameter that no bound gives a `forward`.
pub(super) fn refuse_any_module(
    operand: &Operand,
    name: &Ident,
    target: &Struct,
    errors: &mut Errors,
) {
    if operand.role != Role::Layer {
        return;
    }
    let generics = &target.item.generics;
    let field = fields(target).find(|(field, _)| field == name);
    let Some(parameter) = field.and_then(|(_, field)| as_parameter(&field.ty, generics)) else {
        return;
    };
    let is_of_it = |field: &Field| as_parameter(&field.ty, generics) == Some(parameter);
    // One error, however many layers are of this type.
    let is_first = fields(target)
        .find(|(_, field)| is_of_it(field))
        .is_some_and(|(first, _)| first == *name);
    if is_first && bounds(parameter, generics).all(is_without_forward) {
        errors.at(
            parameter,
            format!(
                "the kernel calls `{name}.forward(x)`, and the bounds of `{parameter}` give it no `forward`\n\
                 bound `{parameter}` by a trait of yours with `fn forward<const D: usize>(&self, x: Tensor<D>) -> \
                 Tensor<D>`, or annotate an impl block with your own `forward`"
            ),
        );
    }
}

fn fields(target: &Struct) -> impl Iterator<Item = (Ident, &Field)> {
    let fields = target.item.fields.iter();
    fields.filter_map(|field| Some((field.ident.as_ref()?.unraw(), field)))
}

fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

/// The name of the type parameter that a type is.
fn as_parameter<'a>(ty: &Type, generics: &'a Generics) -> Option<&'a Ident> {
    let Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?;
    let mut parameters = generics.type_params();
    parameters
        .find(|parameter| parameter.ident == *name)
        .map(|parameter| &parameter.ident)
}

/// The bounds of a type parameter, where it is declared and in the `where` clause.
fn bounds<'a>(
    parameter: &'a Ident,
    generics: &'a Generics,
) -> impl Iterator<Item = &'a TypeParamBound> {
    let declared = generics.params.iter().flat_map(move |other| match other {
        GenericParam::Type(other) if other.ident == *parameter => Some(&other.bounds),
        _ => None,
    });
    let clauses = generics
        .where_clause
        .iter()
        .flat_map(|clause| &clause.predicates);
    let clauses = clauses.filter_map(move |predicate| match predicate {
        WherePredicate::Type(predicate)
            if as_parameter(&predicate.bounded_ty, generics) == Some(parameter) =>
        {
            Some(&predicate.bounds)
        }
        _ => None,
    });
    declared.chain(clauses).flatten()
}

fn is_without_forward(bound: &TypeParamBound) -> bool {
    match bound {
        TypeParamBound::Trait(bound) => {
            let last = bound.path.segments.last();
            last.is_some_and(|last| WITHOUT_FORWARD.iter().any(|name| last.ident == name))
        }
        _ => true,
    }
}
