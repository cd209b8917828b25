//! Operands of a struct: its fields.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::{Error, Result};

use super::{
    Wanted, about, ambiguous, constant, of_element, or_constant, refuse_shared, unread, wrapped,
};
use crate::attr::Argument;
use crate::check::types::complaint;
use crate::contract::{Binding, Operand, Place, Role};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::target::Struct;

/// Binds the layer's operands to the fields of a struct. The tensors that flow through become
/// parameters of the generated method, under the contract's names or those of the attribute.
pub(crate) fn bind(wanted: &Wanted<'_>, target: &Struct, errors: &mut Errors) -> Vec<Binding> {
    let before = errors.count();
    let explained = refuse_foreign(wanted, target, errors);
    let mut bindings = Vec::new();
    if wrapped::refuse_burns_layer(wanted, target, errors) {
        return bindings;
    }
    for operand in wanted.operands() {
        let argument = wanted.attribute.get(operand.name);
        let is_broken = argument.is_some_and(|argument| argument.is_broken());
        if is_broken || argument.is_none() && explained.contains(&operand.name) {
            continue;
        }
        let place = match operand.role {
            Role::OfElement => errors.keep(of_element(wanted, operand)),
            role if role.flows() => errors.keep(parameter(wanted, operand)),
            _ if let Some(value) = argument.and_then(|argument| constant(operand, argument)) => {
                Some(Place::Constant(value))
            }
            _ => errors
                .keep(find(wanted, operand, target))
                .flatten()
                .map(|name| {
                    check_types(operand, &name, target, errors);
                    check_conditions(operand, &name, target, errors);
                    wrapped::refuse_any_module(operand, &name, target, errors);
                    Place::Field(name)
                }),
        };
        bindings.extend(place.map(|place| Binding { operand, place }));
    }
    refuse_shared(&bindings, errors);
    // A field may be an operand whose name is wrong, which is reported already.
    let is_clear = errors.count() == before && wanted.key.is_complete();
    if is_clear && !wanted.attribute.arguments.iter().any(Argument::is_broken) {
        unread::refuse(wanted, target, &bindings, errors);
    }
    bindings
}

/// A parameter that the macro writes.
fn parameter(wanted: &Wanted<'_>, operand: &Operand) -> Result<Place> {
    let name = match wanted.attribute.get(operand.name) {
        Some(argument) => argument.as_name()?,
        None => Ident::new(operand.name, Span::call_site()),
    };
    Ok(Place::Parameter {
        name,
        by_reference: false,
    })
}

fn names(target: &Struct) -> impl Iterator<Item = &Ident> {
    let fields = target.item.fields.iter();
    fields.filter_map(|field| field.ident.as_ref())
}

/// Finds the field of an operand. Returns `None` for an optional operand that the struct doesn't have.
fn find(wanted: &Wanted<'_>, operand: &Operand, target: &Struct) -> Result<Option<Ident>> {
    let (id, what) = (wanted.contract.id, operand.name);
    if let Some(argument) = wanted.attribute.get(what) {
        let name = argument.as_name()?;
        let found = given(&name, target).map_err(|error| {
            let other = of_another_variant(wanted, what, &name);
            let hint = or_constant(operand, &name);
            let message = other.unwrap_or_else(|| format!("{error}{hint}"));
            Error::new(name.span(), message)
        });
        return found.map(Some);
    }
    let mut found: Vec<Ident> = Vec::new();
    for name in names(target) {
        let plain = name.unraw();
        if operand.usual.iter().any(|usual| plain == usual) && !found.contains(name) {
            found.push(name.clone());
        }
    }
    match found.as_slice() {
        [only] => Ok(Some(only.clone())),
        [] if operand.when.is_optional() => Ok(None),
        [] => {
            let usual = list(operand.usual, "or");
            let (expected, because) = (operand.role.expected(), wanted.because(operand));
            let message = format!(
                "`{id}` finds no field for `{what}`{because} ({expected}) under a usual name: \
                 {usual}\nsay which one it is: `{what} = my_field`"
            );
            Err(Error::new(target.item.ident.span(), message))
        }
        several => Err(ambiguous(what, several)),
    }
}

/// Returns the error of a name that selects another variant of the kernel instead of naming a field.
fn of_another_variant(wanted: &Wanted<'_>, what: &str, name: &Ident) -> Option<String> {
    let is_said = |(other, value): &(&str, &str)| *other == what && name == value;
    let mut variants = wanted.contract.variants();
    let other = variants.find(|other| other.variant.iter().any(is_said))?;
    let (needed, this) = (other.unlike(wanted.contract), wanted.contract.unlike(other));
    Some(format!(
        "`{what} = {name}` belongs to {needed}, and this is {this}; give the experts a struct of \
         their own"
    ))
}

/// The field that the attribute names.
fn given(name: &Ident, target: &Struct) -> Result<Ident> {
    let found = names(target).find(|field| field.unraw() == name.unraw());
    found.cloned().ok_or_else(|| {
        let all: Vec<String> = names(target).map(ToString::to_string).collect();
        let near = did_you_mean(&name.to_string(), all.iter().map(String::as_str));
        let has = list(&all, "and");
        let message = format!("unknown field `{name}`{near}\nthe struct has {has}");
        Error::new(name.span(), message)
    })
}

/// One field may stand in the struct several times, under different `cfg`.
fn check_types(operand: &Operand, name: &Ident, target: &Struct, errors: &mut Errors) {
    let fields = target.item.fields.iter();
    for field in fields.filter(|field| field.ident.as_ref() == Some(name)) {
        if let Some(message) = complaint(operand.role, &field.ty) {
            errors.at(&field.ty, about(operand, name, &message));
        }
    }
}

/// The kernel reads its operands always. A field under a `cfg` is there always only if it stands in the struct again,
/// under another one.
fn check_conditions(operand: &Operand, name: &Ident, target: &Struct, errors: &mut Errors) {
    let fields = target.item.fields.iter();
    let mut fields = fields.filter(|field| field.ident.as_ref() == Some(name));
    let (Some(only), None) = (fields.next(), fields.next()) else {
        return;
    };
    if let Some(condition) = only.attrs.iter().find(|one| one.path().is_ident("cfg")) {
        let message = "the kernel reads the field always; write a struct for each case, each under its own `cfg`";
        errors.at(condition, about(operand, name, message));
    }
}

/// Reports fields that show another computation; the operands that they explain.
fn refuse_foreign(wanted: &Wanted<'_>, target: &Struct, errors: &mut Errors) -> Vec<&'static str> {
    let mut explained = Vec::new();
    let mut seen: Vec<&Ident> = Vec::new();
    for name in names(target) {
        let is_given = |argument: &Argument| {
            argument
                .as_name()
                .is_ok_and(|given| given.unraw() == name.unraw())
        };
        let operands = wanted.shape.operands.iter();
        let mut given = operands.filter_map(|operand| wanted.attribute.get(operand.name));
        let is_said = unread::is_said(wanted, name);
        if given.any(is_given) || is_said || seen.contains(&name) {
            continue;
        }
        seen.push(name);
        if let Some(foreign) = wanted.foreign(&name.unraw()) {
            let (id, advice) = (wanted.contract.id, foreign.advice);
            let message = format!("`{id}` would ignore the field `{name}`: {advice}");
            errors.at(name, message);
            explained.extend(foreign.instead_of);
        }
    }
    explained
}
