//! Conclusions from the syntax of a type.
//!
//! Only what is surely wrong is refused here. A type that the macro does not know (an alias, a
//! wrapper of the user's) passes, and the traits of the runtime decide.

use quote::ToTokens;
use syn::{GenericArgument, Generics, PathArguments, PathSegment, Type};

use crate::contract::Role;

/// The kind of a type, as far as its name shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Looks {
    Float,
    Usize,
    /// `i64` or `i32`.
    Signed,
    /// `[usize; 3]`, `[usize]` or `Vec<usize>`.
    Lengths,
    /// A list of something else that is not a primitive.
    List,
    /// Any other primitive, list or text.
    Plain,
    Tensor(Tensor),
    /// Something that may hold none.
    Option,
    /// A tensor in a `Box`, an `Rc` or an `Arc`.
    BoxedTensor,
    Reference,
    Unknown,
}

/// The arguments of `Tensor<D, K>`, if they are plain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tensor {
    rank: Option<usize>,
    param: bool,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Float,
    IntOrBool,
    /// `Tensor<B, D>`: the backend parameter of Burn before 0.22.
    Backend,
}

/// Says what is wrong with the type of a function's parameter for a role, if it surely is. A tensor that flows through
/// is handed over as it is, so that no conversion of the user's is called.
pub(super) fn complaint_of_parameter(
    role: Role,
    written: &Type,
    generics: &Generics,
) -> Option<String> {
    let is_type_parameter = || {
        let Type::Path(path) = written else {
            return false;
        };
        let mut parameters = generics.type_params();
        parameters.any(|parameter| path.path.is_ident(&parameter.ident))
    };
    if role.flows() && (matches!(written, Type::ImplTrait(_)) || is_type_parameter()) {
        return Some(unlike(role, written));
    }
    complaint(role, written)
}

/// Says what is wrong with a type for a role, if it surely is.
pub(super) fn complaint(role: Role, written: &Type) -> Option<String> {
    let looks = match look(written) {
        Looks::Reference if !role.flows() => look(behind_reference(written)),
        looks => looks,
    };
    if let Looks::Tensor(Tensor {
        kind: Kind::Backend,
        ..
    }) = looks
    {
        return Some(
            "since Burn 0.22 a tensor has no backend parameter: write `Tensor<D>`".to_owned(),
        );
    }
    if fits(role, looks) {
        return None;
    }
    Some(unlike(role, written))
}

fn unlike(role: Role, written: &Type) -> String {
    format!("expected {}, found `{}`", role.expected(), text(written))
}

fn fits(role: Role, looks: Looks) -> bool {
    let Looks::Tensor(tensor) = looks else {
        return match looks {
            Looks::Unknown => true,
            Looks::Float => matches!(role, Role::Epsilon | Role::Number),
            Looks::Usize => role == Role::Count,
            Looks::Signed => role == Role::Integer,
            Looks::BoxedTensor => !role.flows(),
            Looks::Lengths => matches!(role, Role::Sections | Role::Lengths),
            Looks::List => matches!(role, Role::List | Role::Sections | Role::Lengths),
            _ => false,
        };
    };
    let rank_in = |ranks: &[usize]| tensor.rank.is_none_or(|rank| ranks.contains(&rank));
    let fits = match role {
        Role::Stream | Role::Tensor { rank: None } => !tensor.param,
        Role::Tensor { rank: Some(rank) } => !tensor.param && rank_in(&[rank]),
        Role::Weight => rank_in(&[1]),
        Role::Matrix => rank_in(&[2]),
        Role::Table => rank_in(&[2, 3, 4]),
        Role::SectionTable => rank_in(&[4]),
        Role::Stacked { rank } => rank_in(&[rank]),
        Role::Indices => {
            return !tensor.param && rank_in(&[2]) && tensor.kind == Kind::IntOrBool;
        }
        Role::Targets => {
            return !tensor.param && rank_in(&[1]) && tensor.kind == Kind::IntOrBool;
        }
        Role::Epsilon
        | Role::Number
        | Role::Count
        | Role::Integer
        | Role::Sections
        | Role::Lengths
        | Role::Layer
        | Role::Experts
        | Role::Rotation
        | Role::List
        | Role::OfElement => false,
    };
    fits && tensor.kind == Kind::Float
}

/// `true` for what is surely a tensor, or a reference to one.
pub(super) fn is_tensor(written: &Type) -> bool {
    matches!(look(behind_reference(written)), Looks::Tensor(_))
}

/// `true` for numbers, truth values, text and `PhantomData`, and for tuples, arrays, lists and options of them: they
/// hold neither parameters nor layers.
pub(super) fn is_plain_data(written: &Type) -> bool {
    let all = |arguments: &PathArguments| match arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().all(|argument| match argument {
                GenericArgument::Type(ty) => is_plain_data(ty),
                _ => true,
            })
        }
        _ => false,
    };
    match written {
        Type::Reference(reference) => is_plain_data(&reference.elem),
        Type::Tuple(tuple) => tuple.elems.iter().all(is_plain_data),
        Type::Array(array) => is_plain_data(&array.elem),
        Type::Slice(slice) => is_plain_data(&slice.elem),
        Type::Paren(inner) => is_plain_data(&inner.elem),
        Type::Group(inner) => is_plain_data(&inner.elem),
        Type::Path(path) => {
            path.path
                .segments
                .last()
                .is_some_and(|last| match last.ident.to_string().as_str() {
                    "bool" | "char" | "str" | "String" | "f32" | "f64" | "u8" | "u16" | "u32"
                    | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
                    | "isize" | "PhantomData" => true,
                    "Vec" | "Option" | "Box" => all(&last.arguments),
                    _ => false,
                })
        }
        _ => false,
    }
}

fn look(written: &Type) -> Looks {
    let segment = match written {
        Type::Reference(_) => return Looks::Reference,
        Type::Tuple(_) => return Looks::Plain,
        Type::Array(array) => {
            let is_three = text(&array.len).parse().map_or(true, |len: usize| len == 3);
            return match lengths(&array.elem) {
                Looks::Lengths if !is_three => Looks::Plain,
                looks => looks,
            };
        }
        Type::Slice(slice) => return lengths(&slice.elem),
        Type::Paren(inner) => return look(&inner.elem),
        Type::Group(inner) => return look(&inner.elem),
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    let Some(segment) = segment else {
        return Looks::Unknown;
    };
    match segment.ident.to_string().as_str() {
        "f32" | "f64" => Looks::Float,
        "usize" => Looks::Usize,
        "i64" | "i32" => Looks::Signed,
        "bool" | "char" | "str" | "String" | "u8" | "u16" | "u32" | "u64" | "u128" | "i8"
        | "i16" | "i128" | "isize" => Looks::Plain,
        "Vec" => first_argument(segment).map_or(Looks::Unknown, lengths),
        "Option" => Looks::Option,
        "Box" | "Rc" | "Arc" => match first_argument(segment).map(look) {
            Some(Looks::Tensor(_)) => Looks::BoxedTensor,
            _ => Looks::Unknown,
        },
        "Tensor" => Looks::Tensor(tensor(segment)),
        "Param" => match first_argument(segment).map(look) {
            Some(Looks::Tensor(tensor)) => Looks::Tensor(Tensor {
                param: true,
                ..tensor
            }),
            _ => Looks::Unknown,
        },
        _ => Looks::Unknown,
    }
}

/// A list of this element.
fn lengths(element: &Type) -> Looks {
    match look(element) {
        Looks::Usize => Looks::Lengths,
        Looks::Unknown => Looks::List,
        _ => Looks::Plain,
    }
}

fn tensor(segment: &PathSegment) -> Tensor {
    let arguments: Vec<String> = match &segment.arguments {
        PathArguments::AngleBracketed(list) => list.args.iter().map(text).collect(),
        _ => Vec::new(),
    };
    let kind = match arguments
        .get(1)
        .map(|kind| kind.rsplit("::").next().unwrap_or(kind))
    {
        Some("Int" | "Bool") => Kind::IntOrBool,
        Some(second) if second.parse::<usize>().is_ok() => Kind::Backend,
        _ => Kind::Float,
    };
    let rank = arguments.first().and_then(|rank| rank.parse().ok());
    Tensor {
        rank,
        param: false,
        kind,
    }
}

fn first_argument(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(list) = &segment.arguments else {
        return None;
    };
    match list.args.first() {
        Some(GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

fn behind_reference(written: &Type) -> &Type {
    match written {
        Type::Reference(reference) => behind_reference(&reference.elem),
        other => other,
    }
}

/// A type as a user writes it: no blank but after a comma.
fn text(tokens: &impl ToTokens) -> String {
    let spaced = tokens.to_token_stream().to_string();
    let mut text = spaced;
    for (from, to) in [
        (" :: ", "::"),
        (" < ", "<"),
        (" >", ">"),
        ("< ", "<"),
        (" ,", ","),
        ("& ", "&"),
    ] {
        text = text.replace(from, to);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn known_wrong_types_are_refused() {
        let cases: [(Role, Type, &str); 25] = [
            (Role::Weight, parse_quote!(f64), "`Param<Tensor<1>>`"),
            (
                Role::Weight,
                parse_quote!(Param<Tensor<2>>),
                "found `Param<Tensor<2>>`",
            ),
            (
                Role::Weight,
                parse_quote!(Option<Param<Tensor<1>>>),
                "`Param<Tensor<1>>`",
            ),
            (Role::Epsilon, parse_quote!(usize), "`f64` or `f32`"),
            (Role::Epsilon, parse_quote!(Tensor<1>), "`f64` or `f32`"),
            (Role::Layer, parse_quote!(Option<Linear>), "a layer"),
            (Role::Layer, parse_quote!(Param<Tensor<2>>), "a layer"),
            (Role::Stream, parse_quote!(&Tensor<D>), "by value"),
            (
                Role::Stream,
                parse_quote!(burn::Tensor<2, Int>),
                "float tensor",
            ),
            (
                Role::Stream,
                parse_quote!(Tensor<B, 3>),
                "no backend parameter",
            ),
            (
                Role::Tensor { rank: Some(4) },
                parse_quote!(Tensor<3>),
                "`Tensor<4>`",
            ),
            (Role::Table, parse_quote!(Tensor<1>), "`Tensor<2>`"),
            (Role::Number, parse_quote!(u32), "a number, `f64`"),
            (Role::Count, parse_quote!(f64), "`usize`"),
            (Role::Count, parse_quote!(Option<usize>), "`usize`"),
            (Role::SectionTable, parse_quote!(&Tensor<3>), "`Tensor<4>`"),
            (Role::Sections, parse_quote!([usize; 2]), "`[usize; 3]`"),
            (Role::Sections, parse_quote!(Vec<f32>), "`Vec<usize>`"),
            (Role::Sections, parse_quote!(usize), "`Vec<usize>`"),
            (Role::Lengths, parse_quote!(Tensor<1, Int>), "`&[usize]`"),
            (Role::Layer, parse_quote!(Vec<usize>), "a layer"),
            (Role::Integer, parse_quote!(usize), "`i64` or `i32`"),
            (Role::Number, parse_quote!(i64), "a number, `f64`"),
            (
                Role::Targets,
                parse_quote!(Tensor<2, Int>),
                "`Tensor<1, Int>`",
            ),
            (Role::Stream, parse_quote!(Box<Tensor<2>>), "by value"),
        ];
        for (role, written, expected) in cases {
            let message = complaint(role, &written).unwrap_or_else(|| panic!("{}", text(&written)));
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_tensor_that_flows_is_no_type_parameter() {
        let generics: Generics = parse_quote!(<T: Into<Tensor<2>>, const D: usize>);
        let found = |role, written: Type| complaint_of_parameter(role, &written, &generics);
        for written in [parse_quote!(T), parse_quote!(impl Into<Tensor<2>>)] {
            let message = found(Role::Stream, written).expect("it is refused");
            assert!(message.contains("by value"), "{message}");
        }
        assert_eq!(found(Role::Stream, parse_quote!(Tensor<D>)), None);
        assert_eq!(found(Role::Stream, parse_quote!(Hidden)), None);
        assert_eq!(found(Role::Epsilon, parse_quote!(T)), None);
    }

    #[test]
    fn unknown_and_right_types_pass() {
        let cases: [(Role, Type); 21] = [
            (Role::Weight, parse_quote!(Param<Tensor<1>>)),
            (Role::Weight, parse_quote!(&burn::Tensor<1>)),
            (Role::Weight, parse_quote!(MyScale)),
            (Role::Epsilon, parse_quote!(f32)),
            (Role::Epsilon, parse_quote!(T)),
            (Role::Layer, parse_quote!(Lora<Linear>)),
            (Role::Stream, parse_quote!(Tensor<D>)),
            (Role::Stream, parse_quote!(Tensor<3, Float>)),
            (Role::Tensor { rank: Some(4) }, parse_quote!(Tensor<4>)),
            (Role::Table, parse_quote!(&Tensor<3>)),
            (Role::Number, parse_quote!(&f64)),
            (Role::Count, parse_quote!(usize)),
            (Role::Integer, parse_quote!(&i64)),
            (Role::Targets, parse_quote!(Tensor<1, Int>)),
            (Role::SectionTable, parse_quote!(Param<Tensor<4>>)),
            (Role::Sections, parse_quote!([usize; 3])),
            (Role::Sections, parse_quote!([usize; N])),
            (Role::Sections, parse_quote!(&[usize])),
            (Role::Sections, parse_quote!(Vec<usize>)),
            (Role::Lengths, parse_quote!(&[usize])),
            (Role::Lengths, parse_quote!(Vec<usize>)),
        ];
        for (role, written) in cases {
            assert_eq!(complaint(role, &written), None, "{}", text(&written));
        }
    }
}
