//! Checks an item as a whole, one function per form.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::Fields;
use syn::ext::IdentExt;

use super::arguments::{self, METHOD, read_common, refuse_ignore, refuse_method, refuse_unknown};
use super::function::{check_return, check_signature, returns_one};
use super::operands::{self, Wanted};
use super::{BuiltIn, Form, Kernel, Named, Part, Reference, Site, custom, key, reference_name};
use super::{stacked, tells};
use crate::attr::Attribute;
use crate::contract::{Contract, Returns, Shape};
use crate::errors::Errors;
use crate::near::{did_you_mean, list};
use crate::order::FirstUse;
use crate::target::{Function, Impl, Member, Struct};

/// The method that is meant if none is named.
pub(crate) fn forward() -> Ident {
    Ident::new("forward", Span::call_site())
}

/// The macro writes the method.
pub(super) fn check_struct(
    named: Named<'_>,
    attribute: &Attribute,
    target: Struct,
    errors: &mut Errors,
) -> Option<Form> {
    let contract = match named {
        Named::BuiltIn(contract) => contract,
        Named::Custom(path) => {
            let near = did_you_mean(&path.to_token_stream().to_string(), Contract::ids());
            let message = format!(
                "only the kernels of burn-kernels, which are named in quotes, can write \
                 `forward`{near}\nfor another crate's, annotate an impl block: its body is the \
                 reference that the kernel is verified against"
            );
            errors.at(path, message);
            return None;
        }
    };
    let method = arguments::method(attribute, forward(), errors);
    if let Some(method) = &method {
        stacked::refuse_same_method(&target.item.attrs, method, errors);
    }
    let common = read_common(attribute, true, errors);
    let key = key::read(contract, attribute, errors);
    let shape = &contract.layer;
    refuse_unknown(contract, shape, &key, attribute, errors);
    tells::refuse_item(contract, &key, [&target.item.ident], errors);
    let wanted = Wanted {
        contract,
        shape,
        key: &key,
        attribute,
        when: common.when.as_ref(),
    };
    let bindings = match &target.item.fields {
        Fields::Named(_) => operands::to_fields(&wanted, &target, errors),
        _ => {
            let message = "the kernel finds its operands by the names of the fields; give the \
                           fields names, or annotate an impl block";
            errors.at(&target.item.ident, message);
            return None;
        }
    };
    let method = method?;
    let first_use = FirstUse::of_fields(&target.item, &bindings, contract.flow);
    let site = Site {
        kernel: Kernel::BuiltIn(BuiltIn {
            contract,
            shape,
            key,
            bindings,
            first_use,
        }),
        runtime: common.runtime,
        layer: common.layer,
        when: common.when,
        this: Ident::new("self", Span::call_site()),
        reference: Reference::Beside(reference_name(&method)),
        method,
        // The expansion writes the body.
        is_generic: false,
    };
    Some(Form::Struct(site, target))
}

/// The attribute stands on a block; one of its methods is dispatched. The method may stand there
/// several times, under different `cfg`.
pub(super) fn check_impl(
    named: Named<'_>,
    attribute: &Attribute,
    mut target: Impl,
    errors: &mut Errors,
) -> Option<Form> {
    let wanted = arguments::method(attribute, forward(), errors)?;
    let is_wanted = |function: &Function| function.signature.ident.unraw() == wanted.unraw();
    if !target.methods().any(is_wanted) {
        refuse_absent_method(&wanted, attribute, &target, errors);
        return None;
    }
    stacked::refuse_same_method(&target.attributes, &wanted, errors);
    if target.of_trait.is_none() {
        refuse_taken_name(&wanted, &target, errors);
    }

    let type_name = target.type_name().cloned();
    let mut parts = Vec::new();
    for member in std::mem::take(&mut target.members) {
        parts.extend(match member {
            Member::Method(method) if is_wanted(&method) => {
                stacked::refuse_second(&method, errors);
                let reference = match target.of_trait {
                    Some(_) => Reference::Inside,
                    None => Reference::Beside(reference_name(&method.signature.ident)),
                };
                let of = type_name.as_ref();
                let site = function_site(named, attribute, &method, of, reference, errors);
                site.map(|mut site| {
                    site.is_generic |= has_parameters(&target.generics);
                    Part::Dispatched(Box::new((site, *method)))
                })
            }
            other => Some(Part::Plain(other)),
        });
    }
    Some(Form::Impl(target, parts))
}

/// The attribute stands on a function: a method, or a free one.
pub(super) fn check_function(
    named: Named<'_>,
    attribute: &Attribute,
    target: Function,
    errors: &mut Errors,
) -> Option<Form> {
    refuse_method(attribute, errors);
    stacked::refuse_second(&target, errors);
    let reference = Reference::Beside(reference_name(&target.signature.ident));
    let mut site = function_site(named, attribute, &target, None, reference, errors)?;
    // The block around a method is out of sight.
    site.is_generic |= target.is_associated();
    Some(match target.is_associated() {
        true => Form::Method(site, target),
        false => Form::Function(site, target),
    })
}

fn function_site(
    named: Named<'_>,
    attribute: &Attribute,
    function: &Function,
    of_type: Option<&Ident>,
    reference: Reference,
    errors: &mut Errors,
) -> Option<Site> {
    let common = read_common(attribute, function.has_receiver(), errors);
    refuse_ignore(attribute, errors);
    check_signature(&function.signature, errors);
    let when = common.when.as_ref();
    let kernel = match named {
        Named::Custom(path) => {
            let operands = custom::bind(path, attribute, function, when, errors);
            Kernel::Custom(custom::Custom {
                path: path.clone(),
                operands,
            })
        }
        Named::BuiltIn(contract) => {
            if let (false, Err(message)) = (function.has_receiver(), &contract.function) {
                errors.at(&function.signature.ident, *message);
                return None;
            }
            let key = key::read(contract, attribute, errors);
            let mut wanted = Wanted {
                contract,
                shape: &contract.layer,
                key: &key,
                attribute,
                when,
            };
            wanted.shape = shape_of(&wanted, function);
            let shape = wanted.shape;
            if let Some(message) = half_of_a_pair(&wanted, function) {
                errors.at(&function.signature.ident, message);
                return None;
            }
            refuse_unknown(contract, shape, &key, attribute, errors);
            let names = [&function.signature.ident].into_iter().chain(of_type);
            tells::refuse_item(contract, &key, names, errors);
            tells::refuse_body(contract, &key, function, errors);
            check_return(&function.signature, shape.returns(&key), errors);
            let parameters = operands::parameters(function, errors);
            let bindings = operands::to_function(&wanted, function, &parameters, errors);
            let first_use = FirstUse::of_body(&function.body, &bindings, contract.flow);
            Kernel::BuiltIn(BuiltIn {
                contract,
                shape,
                key,
                bindings,
                first_use,
            })
        }
    };
    Some(Site {
        kernel,
        runtime: common.runtime,
        layer: common.layer,
        when: common.when,
        this: function.this(),
        method: function.signature.ident.clone(),
        reference,
        is_generic: has_parameters(&function.signature.generics),
    })
}

/// Returns `true` if there are parameters that are types or constants.
fn has_parameters(generics: &syn::Generics) -> bool {
    let is_lifetime = |one: &syn::GenericParam| matches!(one, syn::GenericParam::Lifetime(_));
    !generics.params.iter().all(is_lifetime)
}

/// A method is a layer, unless it takes all tensors that the function form takes.
fn shape_of(wanted: &Wanted<'_>, function: &Function) -> &'static Shape {
    match &wanted.contract.function {
        Ok(tensors)
            if !function.has_receiver()
                || operands::has_parameters_for(wanted, tensors, function) =>
        {
            tensors
        }
        _ => &wanted.contract.layer,
    }
}

/// The error of a function of one tensor where the kernel takes and returns two, such as a rotation of queries alone.
/// One error replaces those of each absent tensor and of the result.
fn half_of_a_pair(wanted: &Wanted<'_>, function: &Function) -> Option<String> {
    let Returns::Pair { does, written } = wanted.shape.returns(wanted.key) else {
        return None;
    };
    let is_half =
        returns_one(&function.signature) && operands::takes_too_few_tensors(wanted, function);
    is_half.then(|| {
        let takes = wanted.takes(function.has_receiver().then_some("self"));
        format!("the kernel {does}: take {takes}, and return both, `{written}`")
    })
}

/// The plain body needs a name of its own.
fn refuse_taken_name(method: &Ident, target: &Impl, errors: &mut Errors) {
    let reference = reference_name(method);
    for other in target.methods() {
        if other.signature.ident == reference {
            let message = format!("the plain body gets the name `{reference}`; rename this method");
            errors.at(&other.signature.ident, message);
        }
    }
}

fn refuse_absent_method(wanted: &Ident, attribute: &Attribute, target: &Impl, errors: &mut Errors) {
    let names: Vec<String> = target
        .methods()
        .map(|method| method.signature.ident.to_string())
        .collect();
    let near = did_you_mean(&wanted.to_string(), names.iter().map(String::as_str));
    let all = list(&names, "and");
    let message = format!("the block has no method `{wanted}`{near}\nit has {all}");
    match attribute.get(METHOD) {
        Some(_) => errors.at(wanted, message),
        None => errors.at(
            &target.self_type,
            format!("{message}; say which one is the kernel's: `method = my_method`"),
        ),
    }
}
