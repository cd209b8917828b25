//! The parameters of a function that are not operands by name: the tensor that may have any
//! name, and those that the kernel would ignore.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::Type;
use syn::ext::IdentExt;

use super::Wanted;
use super::values::{Parameter, is_place};
use crate::check::types::{complaint, is_tensor};
use crate::contract::{Binding, Role};
use crate::errors::Errors;
use crate::scan::{fields_read, mentions};
use crate::target::Function;

/// Binds the tensor that may have any name; reports what the kernel would ignore.
pub(super) fn bind_and_refuse(
    wanted: &Wanted<'_>,
    function: &Function,
    parameters: &[Parameter<'_>],
    bindings: &mut Vec<Binding>,
    errors: &mut Errors,
) {
    let left = Left::over(parameters, bindings, wanted);
    bindings.extend(bind_stream(wanted, function, &left, errors));
    refuse_left_over(wanted, function, &left, bindings, errors);
    refuse_unread_fields(wanted, function, bindings, errors);
}

/// Parameters that no operand is bound to.
struct Left<'a> {
    /// The parameters that the condition doesn't mention.
    unmentioned: Vec<&'a Parameter<'a>>,
    mentioned: Vec<&'a Parameter<'a>>,
}

impl<'a> Left<'a> {
    fn over(parameters: &'a [Parameter<'a>], bindings: &[Binding], wanted: &Wanted<'_>) -> Self {
        let is_mentioned = |parameter: &&Parameter<'_>| {
            let name = parameter.name.to_string();
            wanted
                .when
                .is_some_and(|when| mentions(when.clone(), &name))
        };
        let is_free = |parameter: &&Parameter<'_>| {
            let places = bindings.iter().map(|binding| &binding.place);
            !places.into_iter().any(|place| is_place(parameter, place))
        };
        let (mentioned, unmentioned) = parameters
            .iter()
            .filter(is_free)
            .partition(|parameter| is_mentioned(parameter));
        Self {
            unmentioned,
            mentioned,
        }
    }
}

/// Binds the tensor that may have any name to the parameter that is left. A condition may mention
/// it, but parameters that it does not mention come first.
fn bind_stream(
    wanted: &Wanted<'_>,
    function: &Function,
    left: &Left<'_>,
    errors: &mut Errors,
) -> Option<Binding> {
    let operand = wanted.operands().find(|o| o.role == Role::Stream)?;
    let may_be = |parameter: &&&Parameter<'_>| complaint(operand.role, parameter.ty).is_none();
    let found = left
        .unmentioned
        .first()
        .or_else(|| left.mentioned.iter().find(may_be))
        .or_else(|| left.mentioned.first());
    if found.is_none() {
        errors.at(&function.signature.ident, missing_stream(function));
    }
    found.map(|parameter| Binding {
        operand,
        place: parameter.place(),
    })
}

/// A parameter that is neither an operand nor a part of the condition would be lost. So would a
/// tensor that the condition only looks at.
fn refuse_left_over(
    wanted: &Wanted<'_>,
    function: &Function,
    left: &Left<'_>,
    bindings: &[Binding],
    errors: &mut Errors,
) {
    let text = |ty: &Type| ty.to_token_stream().to_string();
    let stream = bindings.iter().find(|b| b.operand.role == Role::Stream);
    let is_stream = |parameter: &&&Parameter<'_>| {
        stream.is_some_and(|stream| is_place(parameter, &stream.place))
    };
    let all = || left.unmentioned.iter().chain(&left.mentioned);
    let stream_type = all().find(is_stream).map(|stream| text(stream.ty));
    let looked_at = left
        .mentioned
        .iter()
        .filter(|parameter| is_tensor(parameter.ty) || Some(text(parameter.ty)) == stream_type);
    for parameter in left.unmentioned.iter().chain(looked_at) {
        if !is_stream(&parameter) {
            let Parameter { name, written, .. } = parameter;
            errors.at(
                written,
                would_ignore(wanted, function, name, &name.to_string()),
            );
        }
    }
}

/// The body is what the kernel stands for: a field that it reads and the kernel does not, such as
/// a dropout after the projection, would be lost. What the condition reads only chooses.
fn refuse_unread_fields(
    wanted: &Wanted<'_>,
    function: &Function,
    bindings: &[Binding],
    errors: &mut Errors,
) {
    if !function.has_receiver() {
        return;
    }
    let condition = wanted.when.cloned().unwrap_or_default();
    let mut accounted = fields_read(condition);
    let fields = bindings.iter().filter_map(|binding| binding.place.field());
    accounted.extend(fields.cloned());
    for field in fields_read(function.body.stream()) {
        if !accounted.contains(&field) {
            let written = format!("self.{field}");
            errors.at(&field, would_ignore(wanted, function, &field, &written));
        }
    }
}

fn would_ignore(wanted: &Wanted<'_>, function: &Function, name: &Ident, written: &str) -> String {
    let id = wanted.contract.id;
    if let Some(foreign) = wanted.foreign(&name.unraw()) {
        return format!("`{id}` would ignore `{written}`: {}", foreign.advice);
    }
    let receiver = function.has_receiver().then_some("self");
    let takes = wanted.takes(receiver);
    format!(
        "`{id}` would ignore `{written}`: the kernel takes {takes}\n\
         use it before or after this function, or in `when = ..` if it only chooses"
    )
}

fn missing_stream(function: &Function) -> &'static str {
    match function.has_receiver() {
        true => {
            "the kernel's input is missing: take exactly one tensor beside `self`, `x: Tensor<D>`"
        }
        false => "the kernel's input is missing: take the tensor as a parameter, `x: Tensor<D>`",
    }
}
