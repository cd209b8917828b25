//! Operands of a function: its parameters, and for a method the fields that its body reads.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::{Error, Pat, PatType, Result, Type};

use super::{Wanted, about, ambiguous, constant, left, of_element, or_constant, refuse_shared};
use crate::attr::Argument;
use crate::check::types::complaint_of_parameter;
use crate::contract::{Binding, Operand, Place, Role, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::scan::fields_read;
use crate::target::Function;

/// A parameter with a plain name.
pub(crate) struct Parameter<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) written: &'a PatType,
}

/// The parameters that have a plain name. The kernel needs every value under one.
pub(crate) fn parameters<'a>(function: &'a Function, errors: &mut Errors) -> Vec<Parameter<'a>> {
    let parameters = function.parameters();
    parameters
        .filter_map(|parameter| errors.keep(Parameter::read(parameter)))
        .collect()
}

/// Binds the operands of a function, in the contract's order.
pub(crate) fn bind(
    wanted: &Wanted<'_>,
    function: &Function,
    parameters: &[Parameter<'_>],
    errors: &mut Errors,
) -> Vec<Binding> {
    let before = errors.count();
    let explained = explained(wanted, function, parameters);
    let (mut bindings, mut absent) = (Vec::new(), Vec::new());
    // What is left over is known only once everything else has its place.
    let all_have_names = parameters.len() == function.parameters().count();
    let mut is_complete = wanted.key.is_complete() && all_have_names;
    for operand in wanted.operands().filter(|o| o.role != Role::Stream) {
        let argument = wanted.attribute.get(operand.name);
        if argument.is_some_and(Argument::is_broken) {
            is_complete = false;
            continue;
        }
        match find(wanted, operand, function, parameters) {
            Ok(place) => bindings.extend(place.map(|place| Binding { operand, place })),
            Err(error) if argument.is_none() && explained.contains(&operand.name) => {
                absent.push(error);
            }
            // It may be a parameter without a name, which is reported already.
            Err(_) if argument.is_none() && !all_have_names => {}
            Err(error) => {
                is_complete = false;
                errors.push(error);
            }
        }
    }
    refuse_shared(&bindings, errors);

    if is_complete {
        left::bind_and_refuse(wanted, function, parameters, &mut bindings, errors);
    }
    check_types(&bindings, function, parameters, errors);
    if errors.count() == before {
        // What explains them is accounted for after all.
        absent.into_iter().for_each(|error| errors.push(error));
    }

    let position = |binding: &Binding| {
        let mut operands = wanted.shape.operands.iter();
        operands.position(|operand| std::ptr::eq(operand, binding.operand))
    };
    bindings.sort_by_key(position);
    bindings
}

/// The operands whose absence a foreign parameter or field explains.
fn explained(
    wanted: &Wanted<'_>,
    function: &Function,
    parameters: &[Parameter<'_>],
) -> Vec<&'static str> {
    let read = fields_read(function.body.stream());
    let names = parameters.iter().map(|parameter| parameter.name);
    let foreign = names
        .chain(&read)
        .filter_map(|name| wanted.foreign(&name.unraw()));
    foreign
        .flat_map(|foreign| foreign.instead_of)
        .copied()
        .collect()
}

/// `true` if every tensor that flows through this shape is a parameter, by its name.
pub(crate) fn has_parameters_for(
    wanted: &Wanted<'_>,
    shape: &'static Shape,
    function: &Function,
) -> bool {
    let mut flowing = shape
        .operands_of(wanted.key)
        .filter(|operand| operand.role.flows());
    flowing.all(|operand| {
        let given = wanted.attribute.get(operand.name);
        let given = given.and_then(|argument| argument.as_name().ok());
        function
            .parameters()
            .any(|parameter| match parameter.pat.as_ref() {
                Pat::Ident(pattern) => match &given {
                    Some(given) => pattern.ident.unraw() == given.unraw(),
                    None => is_usual(operand, &pattern.ident),
                },
                _ => false,
            })
    })
}

/// `true` if fewer parameters are left for the tensors that flow through than there are such tensors: the others have
/// the names of other operands.
pub(crate) fn takes_too_few_tensors(wanted: &Wanted<'_>, function: &Function) -> bool {
    let (flowing, others): (Vec<_>, Vec<_>) =
        wanted.operands().partition(|operand| operand.role.flows());
    let is_other = |parameter: &&PatType| match parameter.pat.as_ref() {
        Pat::Ident(pattern) => others.iter().any(|other| is_usual(other, &pattern.ident)),
        _ => false,
    };
    let left = function
        .parameters()
        .filter(|parameter| !is_other(parameter));
    left.count() < flowing.len()
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

    /// Returns the place of the parameter's value.
    pub(crate) fn place(&self) -> Place {
        Place::Parameter {
            name: self.name.clone(),
            by_reference: self.is_reference(),
        }
    }

    /// `true` for `name: &T`.
    pub(crate) fn is_reference(&self) -> bool {
        matches!(self.ty, Type::Reference(_))
    }
}

/// A parameter of the function, else a field of `self`: as the attribute says, else the only one
/// with a usual name. Nothing for one that may be left out and is.
fn find(
    wanted: &Wanted<'_>,
    operand: &Operand,
    function: &Function,
    parameters: &[Parameter<'_>],
) -> Result<Option<Place>> {
    if operand.role == Role::OfElement {
        return of_element(wanted, operand).map(Some);
    }
    let allowed = match operand.role.may_be_parameter() {
        true => parameters,
        false => &[],
    };
    let fields_allowed = operand.role.may_be_field() && function.has_receiver();
    if let Some(argument) = wanted.attribute.get(operand.name) {
        if let Some(value) = constant(operand, argument) {
            return Ok(Some(Place::Constant(value)));
        }
        let name = argument.as_name()?;
        return given(&name, allowed, fields_allowed)
            .map(Some)
            .map_err(|error| {
                let hint = or_constant(operand, &name);
                Error::new(name.span(), format!("{error}{hint}"))
            });
    }

    let mut found: Vec<(Ident, Place)> = allowed
        .iter()
        .filter(|parameter| is_usual(operand, parameter.name))
        .map(|parameter| (parameter.name.clone(), parameter.place()))
        .collect();
    if found.is_empty() && fields_allowed {
        let fields = fields_read(function.body.stream()).into_iter();
        let fields = fields.filter(|field| is_usual(operand, field));
        found.extend(fields.map(|field| (field.clone(), Place::Field(field))));
    }
    if found.len() > 1 {
        let names: Vec<Ident> = found.into_iter().map(|(name, _)| name).collect();
        return Err(ambiguous(operand.name, &names));
    }
    match found.pop() {
        None if !operand.when.is_optional() => {
            Err(missing(wanted, operand, function, fields_allowed))
        }
        found => Ok(found.map(|(_, place)| place)),
    }
}

/// The parameter or field that the attribute names.
pub(crate) fn given(
    name: &Ident,
    parameters: &[Parameter<'_>],
    fields_allowed: bool,
) -> Result<Place> {
    let found = parameters
        .iter()
        .find(|parameter| parameter.name.unraw() == name.unraw());
    if let Some(parameter) = found {
        return Ok(parameter.place());
    }
    if fields_allowed {
        // The macro cannot see the struct; rustc checks the field's name.
        return Ok(Place::Field(name.clone()));
    }
    let names = parameters
        .iter()
        .map(|parameter| parameter.name.to_string());
    let names: Vec<String> = names.collect();
    let near = did_you_mean(&name.to_string(), names.iter().map(String::as_str));
    let all = list(&names, "and");
    let message = format!("unknown parameter `{name}`{near}\nthe parameters are {all}");
    Err(Error::new(name.span(), message))
}

fn missing(
    wanted: &Wanted<'_>,
    operand: &Operand,
    function: &Function,
    fields_allowed: bool,
) -> Error {
    let what = operand.name;
    let usual = list(operand.usual, "or");
    let (expected, because) = (operand.role.expected(), wanted.because(operand));
    let (from, example) = match (operand.role.may_be_parameter(), fields_allowed) {
        (true, true) => ("no parameter and no field that the body reads is", "name"),
        (false, _) => ("no field that the body reads is", "field"),
        (true, false) => ("no parameter is", "parameter"),
    };
    let message = format!(
        "{from} `{what}`{because} ({expected}) under a usual name: {usual}\n\
         say which one it is: `{what} = my_{example}`"
    );
    Error::new(function.signature.ident.span(), message)
}

fn check_types(
    bindings: &[Binding],
    function: &Function,
    parameters: &[Parameter<'_>],
    errors: &mut Errors,
) {
    let generics = &function.signature.generics;
    for Binding { operand, place } in bindings {
        let parameter = parameters.iter().find(|p| is_place(p, place));
        let Some(Parameter { name, ty, .. }) = parameter else {
            continue;
        };
        if let Some(message) = complaint_of_parameter(operand.role, ty, generics) {
            errors.at(ty, about(operand, name, &message));
        } else if operand.role == Role::List && !matches!(ty, Type::Reference(_)) {
            let message = "the kernel and the reference read the list: take it by reference, \
                           `&[Mlp]`";
            errors.at(ty, about(operand, name, message));
        }
    }
}

fn is_usual(operand: &Operand, name: &Ident) -> bool {
    let name = name.unraw();
    operand.usual.iter().any(|usual| name == usual)
}

pub(super) fn is_place(parameter: &Parameter<'_>, place: &Place) -> bool {
    matches!(place, Place::Parameter { name, .. } if name == parameter.name)
}
