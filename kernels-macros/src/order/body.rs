//! Walks a body in Rust's order of evaluation.
//!
//! A method is called after its receiver and its arguments were evaluated, so an operand is used at
//! the call and not where it is written: `self.down.forward(self.gate.forward(x))` uses the gate
//! first. What the walk can't follow makes the order uncertain, never wrong: a helper that takes
//! `self`, branches that use different operands, a macro of somebody's.

use proc_macro2::{Group, Ident};
use syn::ext::IdentExt;
use syn::{Block, Expr, ExprCall, ExprClosure, ExprMethodCall, Member, Pat, Stmt};

use super::field_among;
use super::value::{Reach, Value};
use crate::contract::{Binding, Place, Role};
use crate::scan::fields_read;

/// What a walk found: the numbers of the operands in the order of their first uses.
pub(super) struct Found {
    pub(super) uses: Vec<usize>,
    /// Whether the program can't have another order of these.
    pub(super) is_certain: bool,
}

/// Walks the body. One that does not parse yet has the order of its text, which is not certain.
pub(super) fn walk(operands: &[&Binding], body: &Group) -> Found {
    let Ok(block) = syn::parse2::<Block>(quote::quote!(#body)) else {
        let fields = fields_read(body.stream());
        let found = fields
            .iter()
            .filter_map(|field| field_among(operands, field));
        return Found {
            uses: found.collect(),
            is_certain: false,
        };
    };
    let all = operands.iter().enumerate();
    let names = all.filter_map(|(operand, binding)| match &binding.place {
        Place::Parameter { name, .. } => Some((name.unraw().to_string(), Value::operand(operand))),
        Place::Field(_) | Place::OfElement(_) => None,
    });
    let mut walk = Walk {
        operands,
        names: names.collect(),
        uses: Vec::new(),
        is_certain: true,
        is_opaque: false,
    };
    let result = walk.block(&block);
    walk.use_value(&result);
    Found {
        uses: walk.uses,
        is_certain: walk.is_certain,
    }
}

/// Methods that hand on what they are called on, and use nothing of it.
const HANDS_ON: &[&str] = &[
    "as_deref",
    "as_ref",
    "as_slice",
    "borrow",
    "clone",
    "cloned",
    "copied",
    "enumerate",
    "expect",
    "first",
    "get",
    "into_iter",
    "is_empty",
    "is_none",
    "is_some",
    "iter",
    "last",
    "len",
    "rev",
    "unwrap",
    "zip",
];

/// Methods that use a layer then and there. Another one may give something that uses it later.
const USE: &[&str] = &["forward", "val"];

/// Functions that hand on their arguments, by their last two names.
const KEEPS: &[[&str; 2]] = &[
    ["Arc", "new"],
    ["Box", "new"],
    ["Clone", "clone"],
    ["Rc", "new"],
];

#[derive(Clone)]
pub(super) struct Walk<'a> {
    operands: &'a [&'a Binding],
    /// The variables that lead to operands; the last of a name counts.
    names: Vec<(String, Value)>,
    uses: Vec<usize>,
    is_certain: bool,
    is_opaque: bool,
}

impl Walk<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Path(path) => path
                .path
                .get_ident()
                .map_or_else(Value::default, |name| self.variable(name)),
            Expr::Field(field) => {
                let base = self.expr(&field.base);
                self.member(base, &field.member)
            }
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Call(call) => self.call(call),
            Expr::Closure(closure) => self.closure(closure),
            Expr::Macro(call) => self.macro_call(&call.mac),
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Reference(inner) => self.expr(&inner.expr),
            Expr::Unary(inner) => self.expr(&inner.expr),
            Expr::Cast(inner) => self.expr(&inner.expr),
            Expr::Try(inner) => self.expr(&inner.expr),
            Expr::Index(index) => {
                let base = self.expr(&index.expr);
                let at = self.expr(&index.index);
                self.use_value(&at);
                base
            }
            Expr::Tuple(tuple) => Value::tuple(self.all(&tuple.elems)),
            Expr::Array(array) => Value::holding(self.all(&array.elems)),
            Expr::Struct(literal) => {
                let fields = literal.fields.iter().map(|field| &field.expr);
                let values = self.all(fields.chain(literal.rest.as_deref()));
                Value::holding(values)
            }
            Expr::Repeat(repeat) => self.expr(&repeat.expr),
            Expr::Range(range) => {
                let ends = [&range.start, &range.end].into_iter().flatten();
                Value::holding(self.all(ends.map(AsRef::as_ref)))
            }
            Expr::Binary(binary) => self.binary(binary),
            Expr::Assign(assign) => {
                let value = self.expr(&assign.right);
                self.expr(&assign.left);
                self.forget(&value);
                Value::Plain
            }
            Expr::Let(condition) => {
                let value = self.expr(&condition.expr);
                self.bind(&condition.pat, &value);
                Value::Plain
            }
            Expr::Block(block) => self.block(&block.block),
            Expr::Unsafe(block) => self.block(&block.block),
            Expr::If(_) | Expr::Match(_) => self.branching(expr),
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => self.looping(expr),
            Expr::Return(inner) => self.leave(inner.expr.as_deref()),
            Expr::Break(inner) => self.leave(inner.expr.as_deref()),
            Expr::Continue(_) | Expr::Lit(_) | Expr::Infer(_) => Value::Plain,
            _ => {
                self.lose_sight();
                Value::Plain
            }
        }
    }

    fn all<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<Value> {
        exprs.into_iter().map(|expr| self.expr(expr)).collect()
    }

    pub(super) fn variable(&self, name: &Ident) -> Value {
        if name == "self" {
            return Value::This;
        }
        let name = name.unraw().to_string();
        let mut names = self.names.iter().rev();
        let found = names.find(|(known, _)| *known == name);
        found.map_or_else(Value::default, |(_, value)| value.clone())
    }

    /// The parameters of one layer may be used apart, among those of another.
    fn member(&mut self, base: Value, member: &Member) -> Value {
        match (base, member) {
            (Value::Leads(reach), _) if !self.is_tensor(&Value::Leads(reach.clone())) => {
                self.is_certain = false;
                Value::Leads(reach)
            }
            (Value::This, Member::Named(name)) => self.field(name),
            (Value::Tuple(values), Member::Unnamed(index)) => {
                let value = values.into_iter().nth(index.index as usize);
                value.unwrap_or_default()
            }
            (base, _) => base,
        }
    }

    fn field(&self, name: &Ident) -> Value {
        field_among(self.operands, name).map_or_else(Value::default, Value::operand)
    }

    fn method_call(&mut self, call: &ExprMethodCall) -> Value {
        let receiver = self.expr(&call.receiver);
        let mut values = self.all(&call.args);
        if HANDS_ON.iter().any(|name| call.method == name) {
            values.insert(0, receiver);
            return Value::holding(values);
        }
        let is_sure = USE.iter().any(|name| call.method == name) || self.is_tensor(&receiver);
        self.hand_over(&values, is_sure);
        values.insert(0, receiver);
        self.use_value(&Value::holding(values));
        Value::Plain
    }

    /// Whether it leads to a parameter, or to no operand. Every method of a tensor uses it.
    fn is_tensor(&self, value: &Value) -> bool {
        let is_parameter = |operand: &usize| {
            matches!(
                self.operands[*operand].operand.role,
                Role::Stacked { .. } | Role::Weight
            )
        };
        value.reach().operands.iter().all(is_parameter)
    }

    /// Arguments of a call. Whether a closure among them is called, and when, is out of sight.
    fn hand_over(&mut self, arguments: &[Value], is_sure: bool) {
        let is_closure = |value: &Value| value.reach().is_closure;
        if !is_sure || arguments.iter().any(is_closure) {
            self.doubt();
        }
    }

    fn call(&mut self, call: &ExprCall) -> Value {
        let called = self.expr(&call.func);
        let mut values = self.all(&call.args);
        if called == Value::Plain && keeps(&call.func) {
            return Value::holding(values);
        }
        let leads = values.iter().any(|value| *value != Value::Plain);
        self.hand_over(&values, !(leads && makes(&call.func)));
        values.push(called);
        self.use_value(&Value::holding(values));
        Value::Plain
    }

    /// What the closure uses is used where it is called.
    fn closure(&mut self, closure: &ExprClosure) -> Value {
        let mut inside = Self {
            uses: Vec::new(),
            is_certain: true,
            is_opaque: false,
            ..self.clone()
        };
        for input in &closure.inputs {
            inside.bind(input, &Value::Plain);
        }
        let result = inside.expr(&closure.body);
        inside.use_value(&result);
        let reach = Reach {
            operands: inside.uses,
            is_ordered: inside.is_certain,
            is_opaque: inside.is_opaque,
            is_closure: true,
        };
        match reach.operands.is_empty() && !reach.is_opaque {
            true => Value::Plain,
            false => Value::Leads(reach),
        }
    }

    /// `&&` and `||` may leave their right side out. Of other operators the left side comes first.
    fn binary(&mut self, binary: &syn::ExprBinary) -> Value {
        let left = self.expr(&binary.left);
        let value = match binary.op {
            syn::BinOp::And(_) | syn::BinOp::Or(_) => {
                let right = self.apart(|walk| walk.expr(&binary.right));
                let without = self.apart(|_| Value::Plain);
                self.join([right, without])
            }
            _ => self.expr(&binary.right),
        };
        self.use_value(&Value::holding(vec![left, value]));
        Value::Plain
    }

    pub(super) fn block(&mut self, block: &Block) -> Value {
        let outer = self.names.len();
        let mut last = Value::Plain;
        for statement in &block.stmts {
            last = Value::Plain;
            match statement {
                Stmt::Local(local) => self.local(local),
                Stmt::Expr(expr, None) => last = self.expr(expr),
                Stmt::Expr(expr, Some(_)) => {
                    self.expr(expr);
                }
                Stmt::Macro(call) => {
                    let value = self.macro_call(&call.mac);
                    if call.semi_token.is_none() {
                        last = value;
                    }
                }
                Stmt::Item(_) => {}
            }
        }
        self.names.truncate(outer);
        last
    }

    fn local(&mut self, local: &syn::Local) {
        let Some(init) = &local.init else {
            return;
        };
        let value = self.expr(&init.expr);
        if let Some((_, otherwise)) = &init.diverge {
            let diverges = self.apart(|walk| walk.expr(otherwise));
            let goes_on = self.apart(|_| Value::Plain);
            self.join([goes_on, diverges]);
        }
        self.bind(&local.pat, &value);
    }

    /// Names of a pattern: the fields of `self`, the parts of a tuple, else all of the value.
    pub(super) fn bind(&mut self, pattern: &Pat, value: &Value) {
        match (pattern, value) {
            (Pat::Ident(name), _) => {
                self.names
                    .push((name.ident.unraw().to_string(), value.clone()));
                if let Some((_, inner)) = &name.subpat {
                    self.bind(inner, value);
                }
            }
            (Pat::Type(typed), _) => self.bind(&typed.pat, value),
            (Pat::Paren(inner), _) => self.bind(&inner.pat, value),
            (Pat::Reference(inner), _) => self.bind(&inner.pat, value),
            (Pat::Struct(pattern), _) => {
                for field in &pattern.fields {
                    let value = self.member(value.clone(), &field.member);
                    self.bind(&field.pat, &value);
                }
            }
            (Pat::Tuple(pattern), Value::Tuple(values)) if !has_rest(&pattern.elems) => {
                for (pattern, value) in pattern.elems.iter().zip(values) {
                    self.bind(pattern, value);
                }
            }
            (Pat::Tuple(pattern), _) => self.bind_each(&pattern.elems, value),
            (Pat::TupleStruct(pattern), _) => self.bind_each(&pattern.elems, value),
            (Pat::Slice(pattern), _) => self.bind_each(&pattern.elems, value),
            (Pat::Or(pattern), _) => self.bind_each(&pattern.cases, value),
            (Pat::Wild(_) | Pat::Lit(_) | Pat::Path(_) | Pat::Range(_) | Pat::Rest(_), _) => {}
            _ => self.forget(value),
        }
    }

    fn bind_each<'p>(&mut self, patterns: impl IntoIterator<Item = &'p Pat>, value: &Value) {
        for pattern in patterns {
            self.bind(pattern, value);
        }
    }

    fn branching(&mut self, expr: &Expr) -> Value {
        let outer = self.names.len();
        let value = match expr {
            Expr::If(branch) => {
                let condition = self.expr(&branch.cond);
                self.use_value(&condition);
                let then = self.apart(|walk| walk.block(&branch.then_branch));
                // What the condition binds is not seen in `else`, which can't name it either.
                let otherwise = self.apart(|walk| match &branch.else_branch {
                    Some((_, otherwise)) => walk.expr(otherwise),
                    None => Value::Plain,
                });
                self.join([then, otherwise])
            }
            Expr::Match(branch) => {
                let value = self.expr(&branch.expr);
                let arms = branch.arms.iter().map(|arm| {
                    self.apart(|walk| {
                        walk.bind(&arm.pat, &value);
                        if let Some((_, guard)) = &arm.guard {
                            walk.expr(guard);
                        }
                        walk.expr(&arm.body)
                    })
                });
                let arms: Vec<_> = arms.collect();
                self.join(arms)
            }
            _ => Value::Plain,
        };
        self.names.truncate(outer);
        value
    }

    /// A loop is walked once: it uses its operands first in its first round.
    fn looping(&mut self, expr: &Expr) -> Value {
        let outer = self.names.len();
        match expr {
            Expr::ForLoop(each) => {
                let over = self.expr(&each.expr);
                self.bind(&each.pat, &over);
                self.block(&each.body);
            }
            Expr::While(each) => {
                let condition = self.expr(&each.cond);
                self.use_value(&condition);
                self.block(&each.body);
            }
            Expr::Loop(each) => {
                self.block(&each.body);
            }
            _ => {}
        }
        self.names.truncate(outer);
        Value::Plain
    }

    fn leave(&mut self, with: Option<&Expr>) -> Value {
        if let Some(expr) = with {
            let value = self.expr(expr);
            self.use_value(&value);
        }
        Value::Plain
    }

    /// The same walk, going on in a branch.
    pub(super) fn apart(&self, branch: impl FnOnce(&mut Self) -> Value) -> (Self, Value) {
        let mut walk = self.clone();
        let value = branch(&mut walk);
        (walk, value)
    }

    /// Goes on behind branches, of which the program takes one.
    pub(super) fn join(&mut self, branches: impl IntoIterator<Item = (Self, Value)>) -> Value {
        let (mut first, mut values): (Option<Vec<usize>>, _) = (None, Vec::new());
        let mut found = self.uses.clone();
        let mut agree = true;
        for (walk, value) in branches {
            self.is_certain &= walk.is_certain;
            self.is_opaque |= walk.is_opaque;
            agree &= first.as_ref().is_none_or(|first| *first == walk.uses);
            for &operand in &walk.uses {
                if !found.contains(&operand) {
                    found.push(operand);
                }
            }
            first.get_or_insert(walk.uses);
            values.push(value);
        }
        if !agree {
            self.doubt();
        }
        self.uses = found;
        Value::holding(values)
    }

    /// Everything that the value leads to is used now.
    pub(super) fn use_value(&mut self, value: &Value) {
        let reach = value.reach();
        let is_new = |operand: &usize| !self.uses.contains(operand);
        let new: Vec<usize> = reach.operands.into_iter().filter(is_new).collect();
        if new.len() > 1 && !reach.is_ordered {
            self.is_certain = false;
        }
        self.uses.extend(new);
        if reach.is_opaque {
            self.lose_sight();
        }
    }

    /// Something happens out of sight, which may use any operand.
    pub(super) fn lose_sight(&mut self) {
        self.is_opaque = true;
        self.doubt();
    }

    /// A value goes where the walk does not follow it.
    fn forget(&mut self, value: &Value) {
        if *value != Value::Plain {
            self.lose_sight();
        }
    }

    /// The order of what was not used yet is no longer certain. Of a single operand it is.
    fn doubt(&mut self) {
        if self.operands.len() - self.uses.len() > 1 {
            self.is_certain = false;
        }
    }

    /// Whether a field of this name is an operand.
    pub(super) fn is_operand(&self, name: &Ident) -> bool {
        field_among(self.operands, name).is_some()
    }
}

fn has_rest<'p>(patterns: impl IntoIterator<Item = &'p Pat>) -> bool {
    let mut patterns = patterns.into_iter();
    patterns.any(|pattern| matches!(pattern, Pat::Rest(_)))
}

/// `Some(..)` and other constructors, and functions that only hand on.
fn keeps(function: &Expr) -> bool {
    let [of, last] = last_names(function);
    last.starts_with(char::is_uppercase) || KEEPS.iter().any(|known| *known == [&of, &last])
}

/// A function of a type, such as `Adapter::new`: what it makes may use its arguments later.
fn makes(function: &Expr) -> bool {
    let [of, last] = last_names(function);
    of.starts_with(char::is_uppercase) && !USE.contains(&last.as_str())
}

/// The last two names of a path, of which the first may be empty.
fn last_names(function: &Expr) -> [String; 2] {
    let Expr::Path(path) = function else {
        return Default::default();
    };
    let mut names = path.path.segments.iter().rev();
    let mut next = || names.next().map(|part| part.ident.unraw().to_string());
    let last = next().unwrap_or_default();
    [next().unwrap_or_default(), last]
}
