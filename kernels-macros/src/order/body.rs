//! Walks a body in Rust's order of evaluation.
//!
//! A method is called after its receiver and its arguments were evaluated, so an operand is used at
//! the call and not where it is written: `self.down.forward(self.gate.forward(x))` uses the gate
//! first. What the walk can't follow makes the order uncertain, never wrong: a helper that takes
//! `self`, branches that use different operands, a macro of somebody's.

use proc_macro2::{Group, Ident};
use syn::ext::IdentExt;
use syn::{Block, Expr, ExprCall, ExprClosure, ExprMethodCall, Member, Stmt};

use super::value::{Reach, Value};
use super::{field_among, known};
use crate::contract::{Binding, Place, Role};
use crate::scan::fields_read;

/// The finding of a walk: the numbers of the operands in the order of their first uses.
pub(super) struct Found {
    pub(super) uses: Vec<usize>,
    /// True if the program can't have another order of these.
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
        Place::Field(_) | Place::OfElement(_) | Place::Constant(_) => None,
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

#[derive(Clone)]
pub(super) struct Walk<'a> {
    operands: &'a [&'a Binding],
    /// The variables that lead to operands; the last of a name counts.
    pub(super) names: Vec<(String, Value)>,
    pub(super) uses: Vec<usize>,
    pub(super) is_certain: bool,
    pub(super) is_opaque: bool,
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
            Expr::Unary(inner) => self.unary(inner),
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
                let value = Value::holding(values);
                self.convert(&value);
                value
            }
            Expr::Repeat(repeat) => self.expr(&repeat.expr),
            Expr::Range(range) => {
                let ends = [&range.start, &range.end].into_iter().flatten();
                Value::holding(self.all(ends.map(AsRef::as_ref)))
            }
            Expr::Binary(binary) => self.binary(binary),
            Expr::Assign(assign) => {
                let new = self.expr(&assign.right);
                let old = self.expr(&assign.left);
                self.forget(&new);
                self.forget(&old);
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
    pub(super) fn member(&mut self, base: Value, member: &Member) -> Value {
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
        let mut values =
            self.operands_of_call([call.receiver.as_ref()].into_iter().chain(&call.args));
        if known::hands_on(&call.method) {
            return Value::holding(values);
        }
        let receiver = values.remove(0);
        let is_sure = known::uses(&call.method) || self.is_tensor(&receiver);
        self.hand_over(&values, is_sure);
        values.insert(0, receiver);
        self.use_value(&Value::holding(values));
        Value::Plain
    }

    /// Receiver and arguments. A parameter may become a tensor as soon as it is written, so it should
    /// not stand before what uses another operand.
    fn operands_of_call<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<Value> {
        let mut values = Vec::new();
        for expr in exprs {
            let before = self.uses.len();
            let value = self.expr(expr);
            if self.uses.len() > before {
                self.convert(&Value::holding(values.clone()));
            }
            values.push(value);
        }
        values
    }

    /// A parameter may become a tensor here, which uses it, or not.
    pub(super) fn convert(&mut self, value: &Value) {
        let reach = value.reach();
        let is_used = |operand: &usize| self.uses.contains(operand);
        let converts = |operand: &usize| !is_used(operand) && self.is_parameter(*operand);
        if !reach.is_closure && reach.operands.iter().any(converts) {
            self.is_certain = false;
        }
    }

    /// The tensor of a parameter is there when it is written.
    fn unary(&mut self, unary: &syn::ExprUnary) -> Value {
        let value = self.expr(&unary.expr);
        let is_deref = matches!(unary.op, syn::UnOp::Deref(_));
        if is_deref && value != Value::This && self.is_tensor(&value) {
            self.use_value(&value);
            return Value::Plain;
        }
        value
    }

    /// Returns true if it leads to a parameter, or to no operand. Every method of a tensor uses it.
    fn is_tensor(&self, value: &Value) -> bool {
        let mut operands = value.reach().operands.into_iter();
        operands.all(|operand| self.is_parameter(operand))
    }

    fn is_parameter(&self, operand: usize) -> bool {
        matches!(
            self.operands[operand].operand.role,
            Role::Stacked { .. } | Role::Matrix | Role::Weight
        )
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
        let mut values = self.operands_of_call(&call.args);
        if called == Value::Plain && known::keeps(&call.func) {
            return Value::holding(values);
        }
        let leads = values.iter().any(|value| *value != Value::Plain);
        self.hand_over(&values, !(leads && known::makes(&call.func)));
        values.push(called);
        self.use_value(&Value::holding(values));
        Value::Plain
    }

    /// A closure's operands are used where it is called.
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
            syn::BinOp::And(_) if matches!(*binary.right, Expr::Let(_)) => {
                self.lose_sight();
                self.expr(&binary.right)
            }
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
    pub(super) fn forget(&mut self, value: &Value) {
        if *value != Value::Plain {
            self.lose_sight();
        }
    }

    /// Makes the order of the unused operands uncertain, unless only one is left.
    pub(super) fn doubt(&mut self) {
        if self.operands.len() - self.uses.len() > 1 {
            self.is_certain = false;
        }
    }

    /// Returns true if a field of this name is an operand.
    pub(super) fn is_operand(&self, name: &Ident) -> bool {
        field_among(self.operands, name).is_some()
    }
}
