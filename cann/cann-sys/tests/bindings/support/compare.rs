//! Reads declarations from bindings and compares two sets of them.
//!
//! Names of parameters and tags don't matter, and typedefs are resolved. The comparison covers everything that a call
//! depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use quote::ToTokens;
use syn::{ForeignItem, Item, ReturnType, Type};

/// Functions, structs, enums and constants as comparable texts.
#[derive(Debug, Default)]
pub struct Declarations {
    pub functions: BTreeMap<String, String>,
    pub records: BTreeMap<String, String>,
    pub constants: BTreeMap<String, String>,
}

/// A difference between one of our declarations and another set.
#[derive(Debug, PartialEq, Eq)]
pub enum Difference {
    Missing(String),
    Differs {
        name: String,
        ours: String,
        theirs: String,
    },
    /// A harmless difference: another version may declare it so, and no call depends on it.
    Note {
        name: String,
        why: &'static str,
        ours: String,
        theirs: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(out, "{name}: not declared"),
            Self::Differs { name, ours, theirs } => {
                write!(out, "{name}:\n    ours   {ours}\n    theirs {theirs}")
            }
            Self::Note {
                name,
                why,
                ours,
                theirs,
            } => {
                write!(
                    out,
                    "{name}: {why}:\n    ours   {ours}\n    theirs {theirs}"
                )
            }
        }
    }
}

impl Declarations {
    /// Reads the output of `bindgen`. `names` are the type names that both sides use. A type that also has a tag on
    /// one side goes by its name in `names`.
    pub fn read(bindings: &str, names: &BTreeSet<String>) -> Self {
        let file = syn::parse_file(bindings).expect("bindgen writes Rust");
        let scope = Scope::of(&file, names);
        let mut found = Self::default();
        for item in &file.items {
            match item {
                Item::ForeignMod(block) => found.read_functions(block, &scope),
                Item::Struct(record) => {
                    found
                        .records
                        .insert(scope.name(&record.ident), scope.fields(&record.fields));
                }
                Item::Union(record) => {
                    let fields = syn::Fields::Named(record.fields.clone());
                    let text = format!("union {}", scope.fields(&fields));
                    found.records.insert(scope.name(&record.ident), text);
                }
                Item::Const(constant) => {
                    let value = value(&constant.expr);
                    found.constants.insert(constant.ident.to_string(), value);
                }
                _ => {}
            }
        }
        found
    }

    fn read_functions(&mut self, block: &syn::ItemForeignMod, scope: &Scope) {
        for item in &block.items {
            let ForeignItem::Fn(function) = item else {
                continue;
            };
            let inputs = function.sig.inputs.iter().map(|input| match input {
                syn::FnArg::Typed(input) => scope.text(&input.ty),
                syn::FnArg::Receiver(_) => panic!("a C function has no receiver"),
            });
            let inputs: Vec<_> = inputs.collect();
            let text = format!(
                "({}){}",
                inputs.join(", "),
                scope.output(&function.sig.output)
            );
            self.functions.insert(symbol(function), text);
        }
    }

    /// Returns `true` if there is a declaration of `name`.
    #[cfg(feature = "toolkit-headers")]
    pub fn declares(&self, name: &str) -> bool {
        self.functions.contains_key(name)
            || self.constants.contains_key(name)
            || self.records.contains_key(name)
    }

    /// Adds the declarations of another header. A definition replaces an opaque struct.
    #[cfg(feature = "toolkit-headers")]
    pub fn merge(&mut self, other: Self) {
        self.functions.extend(other.functions);
        self.constants.extend(other.constants);
        for (name, text) in other.records {
            let known = self.records.entry(name).or_insert_with(|| text.clone());
            if *known == OPAQUE {
                *known = text;
            }
        }
    }

    /// Returns our declarations that `theirs` lacks or declares differently, by name. A type that is opaque here
    /// agrees with every type.
    pub fn differences(&self, theirs: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        compare(&self.functions, &theirs.functions, &mut found);
        compare(&self.constants, &theirs.constants, &mut found);
        let open = self.records.iter().filter(|(_, fields)| *fields != OPAQUE);
        let open = open
            .map(|(name, fields)| (name.clone(), fields.clone()))
            .collect();
        compare(&open, &theirs.records, &mut found);
        found
    }
}

fn compare(
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
    found: &mut Vec<Difference>,
) {
    for (name, ours) in ours {
        match theirs.get(name) {
            None => found.push(Difference::Missing(name.clone())),
            Some(theirs) if theirs == ours => {}
            Some(theirs) => found.push(difference(name, ours, theirs)),
        }
    }
}

fn difference(name: &str, ours: &str, theirs: &str) -> Difference {
    let (name, ours, theirs) = (name.to_owned(), ours.to_owned(), theirs.to_owned());
    let why = if name.ends_with("_RESERVED") {
        "the end of an enum, which moves as it grows"
    } else if has_grown(&ours, &theirs) {
        "a union with more members, of the same size"
    } else {
        return Difference::Differs { name, ours, theirs };
    };
    Difference::Note {
        name,
        why,
        ours,
        theirs,
    }
}

/// Returns `true` if `theirs` is the union `ours` with more members, and with the same size and alignment.
fn has_grown(ours: &str, theirs: &str) -> bool {
    let (Some(ours), Some(theirs)) = (members(ours), members(theirs)) else {
        return false;
    };
    let extent = |members: &[&str]| -> Option<(usize, usize)> {
        let extents: Option<Vec<_>> = members.iter().map(|member| extent(member)).collect();
        let extents = extents?;
        let size = extents.iter().map(|(size, _)| *size).max()?;
        let alignment = extents.iter().map(|(_, alignment)| *alignment).max()?;
        Some((size.next_multiple_of(alignment), alignment))
    };
    let same = extent(&ours).is_some() && extent(&ours) == extent(&theirs);
    same && ours.iter().all(|member| theirs.contains(member))
}

/// Returns the members of a union, as `name: type`.
fn members(text: &str) -> Option<Vec<&str>> {
    let inner = text.strip_prefix("union {")?.strip_suffix('}')?;
    Some(inner.split(", ").collect())
}

/// Returns the size and alignment of a member, if its type is a number, a pointer, or an array of them.
fn extent(member: &str) -> Option<(usize, usize)> {
    fn of(ty: &str) -> Option<(usize, usize)> {
        if let Some(array) = ty.strip_prefix('[') {
            let (element, length) = array.strip_suffix(']')?.split_once("; ")?;
            let (size, alignment) = of(element)?;
            return Some((size * length.trim().parse::<usize>().ok()?, alignment));
        }
        let size = match ty {
            "u8" | "i8" | "bool" | "c_char" => 1,
            "u16" | "i16" => 2,
            "u32" | "i32" | "f32" => 4,
            "u64" | "i64" | "f64" => 8,
            pointer if pointer.starts_with('*') => 8,
            _ => return None,
        };
        Some((size, size))
    }
    of(member.split_once(": ")?.1)
}

const OPAQUE: &str = "{_unused: [u8; 0]}";

/// The possible names of a struct: names that both sides use, of structs that exist.
struct Names<'a> {
    public: &'a BTreeSet<String>,
    records: &'a BTreeSet<String>,
}

fn record(item: &Item) -> Option<String> {
    match item {
        Item::Struct(record) => Some(record.ident.to_string()),
        Item::Union(record) => Some(record.ident.to_string()),
        _ => None,
    }
}

/// The typedefs, and the names by which structs go.
struct Scope {
    typedefs: BTreeMap<String, Type>,
    public: BTreeMap<String, String>,
}

impl Scope {
    fn of(file: &syn::File, names: &BTreeSet<String>) -> Self {
        let mut scope = Self {
            typedefs: BTreeMap::new(),
            public: BTreeMap::new(),
        };
        let records: BTreeSet<_> = file.items.iter().filter_map(record).collect();
        let names = &Names {
            public: names,
            records: &records,
        };
        for item in &file.items {
            match item {
                Item::Type(alias) => {
                    scope.alias(alias.ident.to_string(), (*alias.ty).clone(), names)
                }
                // `pub use self::tag as name;` is a typedef of an enum.
                Item::Use(item) => {
                    if let syn::UseTree::Path(path) = &item.tree
                        && let syn::UseTree::Rename(rename) = &*path.tree
                    {
                        let target = &rename.ident;
                        scope.alias(rename.rename.to_string(), syn::parse_quote!(#target), names);
                    }
                }
                _ => {}
            }
        }
        scope
    }

    fn alias(&mut self, name: String, target: Type, names: &Names<'_>) {
        if let Type::Path(path) = &target
            && let Some(tag) = path.path.get_ident()
            && names.records.contains(&tag.to_string())
            && names.public.contains(&name)
        {
            self.public.insert(tag.to_string(), name.clone());
        }
        self.typedefs.insert(name, target);
    }

    fn name(&self, tag: &syn::Ident) -> String {
        let tag = tag.to_string();
        self.public.get(&tag).cloned().unwrap_or(tag)
    }

    fn output(&self, output: &ReturnType) -> String {
        match output {
            ReturnType::Default => String::new(),
            ReturnType::Type(_, ty) => format!(" -> {}", self.text(ty)),
        }
    }

    fn fields(&self, fields: &syn::Fields) -> String {
        let fields = fields.iter().map(|field| match &field.ident {
            Some(name) => format!("{name}: {}", self.text(&field.ty)),
            None => self.text(&field.ty),
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
    }

    fn text(&self, ty: &Type) -> String {
        match ty {
            Type::Ptr(pointer) => {
                let kind = if pointer.mutability.is_some() {
                    "mut"
                } else {
                    "const"
                };
                format!("*{kind} {}", self.text(&pointer.elem))
            }
            Type::Array(array) => {
                let length = array.len.to_token_stream().to_string().replace("usize", "");
                format!("[{}; {length}]", self.text(&array.elem))
            }
            Type::BareFn(function) => {
                let inputs = function.inputs.iter().map(|input| self.text(&input.ty));
                let inputs: Vec<_> = inputs.collect();
                format!("fn({}){}", inputs.join(", "), self.output(&function.output))
            }
            Type::Path(path) => self.path(&path.path),
            other => other.to_token_stream().to_string(),
        }
    }

    fn path(&self, path: &syn::Path) -> String {
        let last = path.segments.last().expect("a path has a name");
        // `Option<fn>` is a function pointer.
        if let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
            && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
        {
            return self.text(inner);
        }
        let name = last.ident.to_string();
        if let Some(target) = self.typedefs.get(&name) {
            return self.text(target);
        }
        if let Some(name) = self.public.get(&name) {
            return name.clone();
        }
        let plain = match name.as_str() {
            "c_int" => "i32",
            "c_uint" => "u32",
            "c_long" | "c_longlong" => "i64",
            "c_ulong" | "c_ulonglong" => "u64",
            "c_short" => "i16",
            "c_ushort" => "u16",
            "c_schar" => "i8",
            "c_uchar" => "u8",
            "usize" => "u64",
            "isize" => "i64",
            other => other,
        };
        plain.to_owned()
    }
}

/// Returns the symbol of a function, which distinguishes a C function from C++ overloads of its name.
fn symbol(function: &syn::ForeignItemFn) -> String {
    let linked = function.attrs.iter().find_map(|attribute| {
        let syn::Meta::NameValue(meta) = &attribute.meta else {
            return None;
        };
        let syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(name),
            ..
        }) = &meta.value
        else {
            return None;
        };
        meta.path
            .is_ident("link_name")
            .then(|| name.value().trim_start_matches('\u{1}').to_owned())
    });
    linked.unwrap_or_else(|| function.sig.ident.to_string())
}

/// Returns the number of a constant, whatever its type.
fn value(expression: &syn::Expr) -> String {
    match expression {
        syn::Expr::Call(call) => call.args.first().map(value).unwrap_or_default(),
        other => other.to_token_stream().to_string().replace(' ', ""),
    }
}
