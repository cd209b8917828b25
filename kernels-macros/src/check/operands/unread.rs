//! Fields of a struct that the kernel does not read.
//!
//! The struct form has no body that shows what a field is for. A dropout, an activation or a bias beside the operands
//! may have a part in the `forward` that the kernel stands in for, so such a field does not compile unless the user
//! says that it has none.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Field, Token};

use super::Wanted;
use crate::check::arguments::IGNORE;
use crate::check::types::is_plain_data;
use crate::contract::Binding;
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::scan::{fields_read, mentions};
use crate::target::Struct;

/// Refuses fields that may hold parameters or layers and that neither the kernel nor the condition reads.
pub(super) fn refuse(
    wanted: &Wanted<'_>,
    target: &Struct,
    bindings: &[Binding],
    errors: &mut Errors,
) {
    let Some(ignored) = ignored(wanted, errors) else {
        return;
    };
    let read_by_condition = fields_read(wanted.when.cloned().unwrap_or_default());
    let is_operand = |name: &Ident| {
        let mut fields = bindings.iter().filter_map(|binding| binding.place.field());
        fields.any(|field| field.unraw() == name.unraw())
    };
    for name in &ignored {
        if is_operand(name) {
            errors.at(
                name,
                format!("`{name}` is an operand of the kernel, which reads it"),
            );
        } else if !fields(target).any(|(field, _)| field.unraw() == name.unraw()) {
            let all: Vec<String> = fields(target).map(|(field, _)| field.to_string()).collect();
            let near = did_you_mean(&name.to_string(), all.iter().map(String::as_str));
            let has = list(&all, "and");
            errors.at(
                name,
                format!("unknown field `{name}`{near}\nthe struct has {has}"),
            );
        }
    }
    let id = wanted.contract.id;
    for (name, field) in fields(target) {
        let is_accounted = is_operand(name)
            || ignored
                .iter()
                .any(|ignored| ignored.unraw() == name.unraw())
            || read_by_condition.contains(name)
            || is_skipped(field)
            || is_plain_data(&field.ty);
        if !is_accounted {
            let plain = name.unraw();
            errors.at(
                name,
                format!(
                    "`{id}` would ignore the field `{name}`, which may have a part in `forward`\n\
                     annotate an impl block with your own `forward`, which the kernel is compared with; or, if the \
                     field has no part in it, write `ignore({plain})`"
                ),
            );
        }
    }
}

/// `true` if the condition reads the field, or the attribute says that it has no part in `forward`.
pub(super) fn is_said(wanted: &Wanted<'_>, name: &Ident) -> bool {
    let is_read = fields_read(wanted.when.cloned().unwrap_or_default()).contains(name);
    let ignored = wanted.attribute.get(IGNORE);
    is_read
        || ignored
            .is_some_and(|argument| mentions(argument.value.clone(), &name.unraw().to_string()))
}

fn fields(target: &Struct) -> impl Iterator<Item = (&Ident, &Field)> {
    let fields = target.item.fields.iter();
    fields.filter_map(|field| Some((field.ident.as_ref()?, field)))
}

/// The names in `ignore(..)`; nothing if they don't parse.
fn ignored(wanted: &Wanted<'_>, errors: &mut Errors) -> Option<Vec<Ident>> {
    let Some(argument) = wanted.attribute.get(IGNORE) else {
        return Some(Vec::new());
    };
    let names = Punctuated::<Ident, Token![,]>::parse_terminated_with;
    let names = (|input: syn::parse::ParseStream<'_>| names(input, Ident::parse_any))
        .parse2(argument.value.clone());
    match names {
        Ok(names) => Some(names.into_iter().collect()),
        Err(_) if argument.is_broken() => None,
        Err(error) => {
            let message =
                format!("`ignore` takes names of fields, as in `ignore(dropout)`: {error}");
            errors.at(&argument.value, message);
            None
        }
    }
}

/// `true` for `#[module(skip)]`: Burn keeps no parameter of the field, so it holds none.
fn is_skipped(field: &Field) -> bool {
    field.attrs.iter().any(|attribute| {
        let mut skips = false;
        let is_module = attribute.path().is_ident("module");
        is_module
            && attribute
                .parse_nested_meta(|meta| {
                    skips |= meta.path.is_ident("skip");
                    Ok(())
                })
                .is_ok()
            && skips
    })
}
