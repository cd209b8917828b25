//! Finds the operands: in a struct's fields, or in a function's parameters and the fields that its
//! body reads.

use proc_macro2::Ident;
use syn::{Error, Field, Pat, PatType, Result, Type};

use super::arguments::Arguments;
use super::types::complaint;
use crate::contract::{Binding, Contract, Operand, Place, Role, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::target::{Function, Struct, fields_read};

/// Binds the layer's operands to the fields of a struct. The tensors that flow through become
/// parameters of the generated method, under the contract's names.
pub(super) fn to_fields(
    contract: &'static Contract,
    arguments: &Arguments<'_>,
    target: &Struct,
) -> Result<Vec<Binding>> {
    let mut errors = Errors::default();
    let fields = &target.item.fields;
    refuse_foreign(contract, fields.iter(), &mut errors);

    let mut bindings = Vec::new();
    for operand in contract.layer.operands {
        if operand.role.flows() {
            let name = Ident::new(operand.name, proc_macro2::Span::call_site());
            bindings.push(Binding {
                operand,
                place: Place::Parameter {
                    name,
                    by_reference: false,
                },
            });
        } else if let Some(name) = errors.keep(find_field(contract, operand, arguments, target)) {
            // One field may stand here several times under different `cfg`.
            for field in fields
                .iter()
                .filter(|field| field.ident.as_ref() == Some(&name))
            {
                if let Some(message) = complaint(operand.role, &field.ty) {
                    errors.at(&field.ty, about(operand, &name, &message));
                }
            }
            bindings.push(Binding {
                operand,
                place: Place::Field(name),
            });
        }
    }
    refuse_shared(&bindings, &mut errors);
    errors.finish(Some(bindings))
}

/// Binds the operands of a function to its parameters and, for a method, to fields of `self`.
pub(super) fn to_function(
    contract: &'static Contract,
    shape: &'static Shape,
    arguments: &Arguments<'_>,
    function: &Function,
) -> Result<Vec<Binding>> {
    let mut errors = Errors::default();
    let mut parameters = Vec::new();
    for parameter in function.parameters() {
        parameters.extend(errors.keep(Parameter::read(parameter)));
    }

    let mut bindings = Vec::new();
    for operand in named(shape) {
        let found = find_value(operand, arguments, function, &parameters);
        bindings.extend(errors.keep(found).map(|place| Binding { operand, place }));
    }
    refuse_shared(&bindings, &mut errors);
    // What is left over is known only once everything else has its place.
    let is_complete = bindings.len() == named(shape).count();
    if is_complete {
        bindings.extend(bind_rest(
            contract,
            shape,
            function,
            &parameters,
            &bindings,
            &mut errors,
        ));
    }

    if is_complete && function.has_receiver() {
        refuse_unread_fields(contract, shape, function, &bindings, &mut errors);
    }

    for binding in &bindings {
        let parameter = parameters
            .iter()
            .find(|parameter| is_place(parameter, &binding.place));
        let Some(parameter) = parameter else { continue };
        if let Some(message) = complaint(binding.operand.role, parameter.ty) {
            errors.at(
                parameter.ty,
                about(binding.operand, parameter.name, &message),
            );
        }
    }
    errors.finish(Some(bindings))
}

/// Binds the tensor that may have any name to the parameter that is left, and refuses more.
fn bind_rest(
    contract: &Contract,
    shape: &'static Shape,
    function: &Function,
    parameters: &[Parameter<'_>],
    bindings: &[Binding],
    errors: &mut Errors,
) -> Option<Binding> {
    let mut free = parameters
        .iter()
        .filter(|parameter| !is_bound(parameter, bindings));
    let stream = shape
        .operands
        .iter()
        .find(|operand| operand.role == Role::Stream);
    let found = stream.and_then(|operand| match free.next() {
        Some(first) => Some(Binding {
            operand,
            place: first.place(),
        }),
        None => {
            errors.at(&function.signature.ident, missing_stream(function));
            None
        }
    });
    for Parameter { name, written, .. } in free {
        let (id, takes) = (contract.id, takes(shape, function));
        let message = format!(
            "`{id}` would ignore `{name}`: {takes}\nuse `{name}` before or after this function"
        );
        errors.at(written, message);
    }
    found
}

/// The operands that are found by name.
fn named(shape: &'static Shape) -> impl Iterator<Item = &'static Operand> {
    shape
        .operands
        .iter()
        .filter(|operand| operand.role != Role::Stream)
}

/// A parameter with a plain name.
struct Parameter<'a> {
    name: &'a Ident,
    ty: &'a Type,
    written: &'a PatType,
}

impl<'a> Parameter<'a> {
    fn read(written: &'a PatType) -> Result<Self> {
        match written.pat.as_ref() {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
                Ok(Self {
                    name: &pattern.ident,
                    ty: &written.ty,
                    written,
                })
            }
            pattern => Err(Error::new_spanned(
                pattern,
                "the kernel needs the value under a name; write `name: Type` and take it apart in \
                 the body",
            )),
        }
    }

    fn place(&self) -> Place {
        let by_reference = matches!(self.ty, Type::Reference(_));
        Place::Parameter {
            name: self.name.clone(),
            by_reference,
        }
    }
}

fn find_field(
    contract: &Contract,
    operand: &Operand,
    arguments: &Arguments<'_>,
    target: &Struct,
) -> Result<Ident> {
    let names = || {
        target
            .item
            .fields
            .iter()
            .filter_map(|field| field.ident.as_ref())
    };
    let (id, what) = (contract.id, operand.name);

    if let Some(argument) = arguments.get(what) {
        let wanted = argument.as_name()?;
        return names()
            .find(|name| **name == wanted)
            .cloned()
            .ok_or_else(|| {
                let all: Vec<String> = names().map(ToString::to_string).collect();
                let near = did_you_mean(&wanted.to_string(), all.iter().map(String::as_str));
                let has = list(&all, "and");
                let message = format!("there is no field `{wanted}`{near}\nthe struct has {has}");
                Error::new(wanted.span(), message)
            });
    }
    let mut found: Vec<&Ident> = Vec::new();
    for name in names() {
        if operand.usual.iter().any(|usual| name == usual) && !found.contains(&name) {
            found.push(name);
        }
    }
    match found.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            let usual = list(operand.usual, "or");
            let expected = operand.role.expected();
            let message = format!(
                "`{id}` finds no field for `{what}` ({expected}) under a usual name: {usual}\n\
                 say which one it is: `{what} = my_field`"
            );
            Err(Error::new(target.item.ident.span(), message))
        }
        [_, second, ..] => {
            let all = list(found.iter().map(ToString::to_string), "and");
            let message = format!(
                "{all} could all be `{what}` of `{id}`\nsay which one it is: `{what} = {second}`"
            );
            Err(Error::new(second.span(), message))
        }
    }
}

/// A parameter of the function, else a field of `self`: as the attribute says, else the only one
/// with a usual name.
fn find_value(
    operand: &Operand,
    arguments: &Arguments<'_>,
    function: &Function,
    parameters: &[Parameter<'_>],
) -> Result<Place> {
    let what = operand.name;
    let parameters = || {
        parameters
            .iter()
            .filter(|_| operand.role.may_be_parameter())
    };
    let fields_allowed = operand.role.may_be_field() && function.has_receiver();

    if let Some(argument) = arguments.get(what) {
        let wanted = argument.as_name()?;
        if let Some(parameter) = parameters().find(|parameter| *parameter.name == wanted) {
            return Ok(parameter.place());
        }
        if fields_allowed {
            // The macro cannot see the struct; rustc checks the field's name.
            return Ok(Place::Field(wanted));
        }
        let all: Vec<String> = parameters()
            .map(|parameter| parameter.name.to_string())
            .collect();
        let near = did_you_mean(&wanted.to_string(), all.iter().map(String::as_str));
        let message = format!(
            "there is no parameter `{wanted}`{near}\nthere are {}",
            list(&all, "and")
        );
        return Err(Error::new(wanted.span(), message));
    }

    let is_usual = |name: &Ident| operand.usual.iter().any(|usual| name == usual);
    let mut found: Vec<(Ident, Place)> = parameters()
        .filter(|parameter| is_usual(parameter.name))
        .map(|parameter| (parameter.name.clone(), parameter.place()))
        .collect();
    if found.is_empty() && fields_allowed {
        let fields = fields_read(function.body.stream())
            .into_iter()
            .filter(is_usual);
        found.extend(fields.map(|field| (field.clone(), Place::Field(field))));
    }

    if found.len() > 1 {
        let all = list(found.iter().map(|(name, _)| name.to_string()), "and");
        let message = format!(
            "{all} could all be `{what}`\nsay which one it is: `{what} = {}`",
            found[1].0
        );
        return Err(Error::new(found[1].0.span(), message));
    }
    found.pop().map(|(_, place)| place).ok_or_else(|| {
        let usual = list(operand.usual, "or");
        let expected = operand.role.expected();
        let (from, example) = match (operand.role.may_be_parameter(), fields_allowed) {
            (true, true) => ("no parameter and no field that the body reads is", "name"),
            (false, _) => ("no field that the body reads is", "field"),
            (true, false) => ("no parameter is", "parameter"),
        };
        let message = format!(
            "{from} `{what}` ({expected}) under a usual name: {usual}\n\
             say which one it is: `{what} = my_{example}`"
        );
        Error::new(function.signature.ident.span(), message)
    })
}

/// The body is what the kernel stands for: a field that it reads and the kernel does not, such as
/// a dropout after the projection, would be lost.
fn refuse_unread_fields(
    contract: &Contract,
    shape: &'static Shape,
    function: &Function,
    bindings: &[Binding],
    errors: &mut Errors,
) {
    let is_bound = |field: &Ident| bindings.iter().any(|b| name_of(&b.place) == field);
    for field in fields_read(function.body.stream()) {
        if !is_bound(&field) {
            let (id, takes) = (contract.id, takes(shape, function));
            let message = format!(
                "the body reads `self.{field}`, which `{id}` would ignore: {takes}\n\
                 use it before or after this method"
            );
            errors.at(&field, message);
        }
    }
}

fn refuse_foreign<'a>(
    contract: &Contract,
    fields: impl Iterator<Item = &'a Field>,
    errors: &mut Errors,
) {
    for name in fields.filter_map(|field| field.ident.as_ref()) {
        let foreign = contract
            .foreign_fields
            .iter()
            .find(|foreign| foreign.names.iter().any(|n| name == n));
        if let Some(foreign) = foreign {
            errors.at(
                name,
                format!(
                    "`{}` cannot stand for this struct: {}",
                    contract.id, foreign.why
                ),
            );
        }
    }
}

/// Two operands cannot be the same value.
fn refuse_shared(bindings: &[Binding], errors: &mut Errors) {
    for (i, binding) in bindings.iter().enumerate() {
        let name = name_of(&binding.place);
        let earlier = bindings[..i]
            .iter()
            .find(|earlier| name_of(&earlier.place) == name);
        if let Some(earlier) = earlier {
            let (a, b) = (earlier.operand.name, binding.operand.name);
            errors.at(name, format!("`{name}` is bound to both `{a}` and `{b}`"));
        }
    }
}

fn is_bound(parameter: &Parameter<'_>, bindings: &[Binding]) -> bool {
    bindings
        .iter()
        .any(|binding| is_place(parameter, &binding.place))
}

fn is_place(parameter: &Parameter<'_>, place: &Place) -> bool {
    matches!(place, Place::Parameter { name, .. } if name == parameter.name)
}

fn name_of(place: &Place) -> &Ident {
    match place {
        Place::Field(name) | Place::Parameter { name, .. } => name,
    }
}

fn about(operand: &Operand, name: &Ident, message: &str) -> String {
    match name == operand.name {
        true => format!("`{name}`: {message}"),
        false => format!("`{name}`, the kernel's `{}`: {message}", operand.name),
    }
}

fn missing_stream(function: &Function) -> &'static str {
    match function.has_receiver() {
        true => {
            "the kernel's input is missing: take exactly one tensor beside `self`, `x: Tensor<D>`"
        }
        false => "the kernel's input is missing: take the tensor as a parameter, `x: Tensor<D>`",
    }
}

/// "it takes `self`, one tensor, `weight` and `eps`" for messages.
fn takes(shape: &Shape, function: &Function) -> String {
    let receiver = function.has_receiver().then_some("self");
    let operands = shape
        .operands
        .iter()
        .filter(|operand| operand.role.may_be_parameter());
    let words = receiver
        .into_iter()
        .chain(operands.map(|operand| operand.name));
    format!("the kernel takes {}", list(words, "and"))
}
