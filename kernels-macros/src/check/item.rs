//! Checks an item as a whole, one function per form.

use proc_macro2::{Ident, Span};
use syn::{Error, Fields, Result};

use super::arguments::Arguments;
use super::function::check_signature;
use super::{Block, Form, Site, bind, reference_name, site};
use crate::attr::Attribute;
use crate::contract::{Contract, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::target::{Function, Impl, Member, Struct, methods};

const FORWARD: &str = "forward";

/// The macro writes the method.
pub(super) fn check_struct(
    contract: &'static Contract,
    attribute: &Attribute,
    target: Struct,
) -> Result<(Site, Form)> {
    let mut errors = Errors::default();
    let shape = &contract.layer;
    let arguments = Arguments::read(attribute, contract, shape, &mut errors);
    let method = errors.keep(arguments.method()).flatten();
    let method = method.unwrap_or_else(|| Ident::new(FORWARD, Span::call_site()));
    let bindings = match &target.item.fields {
        Fields::Named(_) => errors.keep(bind::to_fields(contract, &arguments, &target)),
        _ => {
            let message = "the kernel finds its operands by the names of the fields; give the \
                           fields names, or annotate an impl block";
            errors.at(&target.item.ident, message);
            None
        }
    };
    let site = site(contract, shape, &arguments, bindings, method, &mut errors);
    errors.finish(site.map(|site| (site, Form::Struct(target))))
}

/// The attribute stands on a block; one of its methods is dispatched.
pub(super) fn check_impl(
    contract: &'static Contract,
    attribute: &Attribute,
    target: Impl,
) -> Result<(Site, Form)> {
    if let Some(of_trait) = &target.of_trait {
        let message = "the reference becomes a method of its own, which an impl of a trait cannot \
                       hold; annotate the method in an inherent impl block, and call it from here";
        return Err(Error::new_spanned(of_trait, message));
    }
    let block = cut_at_method(attribute, target)?;

    let mut errors = Errors::default();
    let reference = reference_name(&block.method.signature.ident);
    for other in methods(&block.before).chain(methods(&block.after)) {
        if other.signature.ident == reference {
            let message = format!("the plain body gets the name `{reference}`; rename this method");
            errors.at(&other.signature.ident, message);
        }
    }
    let shape = shape_of(contract, &block.method);
    let arguments = Arguments::read(attribute, contract, shape, &mut errors);
    let site = function_site(contract, shape, &arguments, &block.method, &mut errors);
    errors.finish(site.map(|site| (site, Form::Impl(Box::new(block)))))
}

/// The attribute stands on a function: a method, or a free one.
pub(super) fn check_function(
    contract: &'static Contract,
    attribute: &Attribute,
    target: Function,
) -> Result<(Site, Form)> {
    let mut errors = Errors::default();
    let shape = shape_of(contract, &target);
    let arguments = Arguments::read(attribute, contract, shape, &mut errors);
    arguments.no_method(&mut errors);
    let site = function_site(contract, shape, &arguments, &target, &mut errors);
    let form = match target.is_associated() {
        true => Form::Method(target),
        false => Form::Function(target),
    };
    errors.finish(site.map(|site| (site, form)))
}

fn function_site(
    contract: &'static Contract,
    shape: &'static Shape,
    arguments: &Arguments<'_>,
    function: &Function,
    errors: &mut Errors,
) -> Option<Site> {
    check_signature(&function.signature, shape.returns, errors);
    let bindings = errors.keep(bind::to_function(contract, shape, arguments, function));
    site(
        contract,
        shape,
        arguments,
        bindings,
        function.signature.ident.clone(),
        errors,
    )
}

fn shape_of(contract: &'static Contract, function: &Function) -> &'static Shape {
    match function.has_receiver() {
        true => &contract.layer,
        false => &contract.function,
    }
}

fn cut_at_method(attribute: &Attribute, mut target: Impl) -> Result<Block> {
    let wanted = attribute
        .arguments
        .iter()
        .find(|argument| argument.name == "method");
    let wanted = match wanted {
        Some(argument) => argument.as_name()?,
        None => Ident::new(FORWARD, Span::call_site()),
    };
    let mut before = std::mem::take(&mut target.members);
    let is_wanted = |member: &Member| matches!(member, Member::Method(method) if method.signature.ident == wanted);
    let mut after = before.split_off(before.iter().position(is_wanted).unwrap_or(before.len()));
    match (!after.is_empty()).then(|| after.remove(0)) {
        Some(Member::Method(method)) => Ok(Block {
            block: target,
            before,
            method: *method,
            after,
        }),
        _ => Err(no_such_method(&wanted, attribute, &target, &before)),
    }
}

fn no_such_method(
    wanted: &Ident,
    attribute: &Attribute,
    target: &Impl,
    members: &[Member],
) -> Error {
    let names: Vec<String> = methods(members)
        .map(|method| method.signature.ident.to_string())
        .collect();
    let near = did_you_mean(&wanted.to_string(), names.iter().map(String::as_str));
    let all = list(&names, "and");
    let named = attribute
        .arguments
        .iter()
        .any(|argument| argument.name == "method");
    let message = match named {
        true => format!("the block has no method `{wanted}`{near}\nit has {all}"),
        false => format!(
            "the block has no method `{wanted}`{near}\nit has {all}; say which one is the kernel's: \
             `method = my_method`"
        ),
    };
    match named {
        true => Error::new(wanted.span(), message),
        false => Error::new_spanned(&target.self_type, message),
    }
}
