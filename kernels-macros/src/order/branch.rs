//! Branches, of which the program takes one, and loops.

use syn::Expr;

use super::body::Walk;
use super::value::Value;

impl Walk<'_> {
    pub(super) fn branching(&mut self, expr: &Expr) -> Value {
        let outer = self.names.len();
        let value = match expr {
            Expr::If(branch) => {
                let condition = self.expr(&branch.cond);
                self.use_value(&condition);
                let then = self.apart(|walk| walk.block(&branch.then_branch));
                // Names that the condition binds are not seen in `else`, which can't name them either.
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

    /// A loop is walked once: it is taken to run, and uses its operands first in its first round.
    pub(super) fn looping(&mut self, expr: &Expr) -> Value {
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

    pub(super) fn leave(&mut self, with: Option<&Expr>) -> Value {
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
}
